"""The view of a booster in a notebook: a short table in HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping

import numpy as np

from hedgerow.arrays import FloatArray

MOST_COLUMNS = 5
"""The view names this many columns; :meth:`plot_importance` shows all."""


def html_table(title: str, facts: Mapping[str, object]) -> str:
    """Return a table of two columns.  Names come from users' tables, so all text is escaped.

    Parameters
    ----------
    title : str
    facts : mapping of str to object
        The lines: a name, and what ``str`` makes of the value.

    Examples
    --------
    >>> html_table("A model", {"columns": "a < b"})
    '<table><caption>A model</caption><tr><th>columns</th><td>a &lt; b</td></tr></table>'
    """
    lines = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table><caption>{html.escape(title)}</caption>{lines}</table>"


def most_used(names: Iterable[str], splits: FloatArray) -> str:
    """The columns with most splits, and their numbers.

    Examples
    --------
    >>> most_used(["a", "b", "c"], np.array([2.0, 7.0, 0.0]))
    'b (7 splits), a (2 splits)'
    """
    listed = list(names)
    order = np.argsort(-splits, kind="stable")[:MOST_COLUMNS]
    return ", ".join(f"{listed[k]} ({splits[k]:.0f} splits)" for k in order if splits[k] > 0)
