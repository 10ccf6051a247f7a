"""Views of objects in notebooks: short tables in HTML.

Names come from users' tables, so all text is escaped, and dollar signs do not start formulas.
Bars have the text colour of the notebook (``currentColor``), light or dark.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import shown_name

MOST_COLUMNS = 5
"""Largest number of columns in a list of names."""

_BAR_WIDTH = 160
"""Width of the longest bar in pixels."""

_TABLE = '<table class="tex2jax_ignore mathjax_ignore">'
_CELL = '<td style="text-align:left">'


def html_table(
    title: str, facts: Mapping[str, object], bars: Sequence[tuple[str, float]] = ()
) -> str:
    """Return a table with two columns.

    Parameters
    ----------
    facts : mapping of str to object
        Name and value of each row; the value is shown as ``str(value)``.
    bars : sequence of (str, float), default=()
        Name and number of each row after the facts; the number is at least 0, and is shown as
        text and as a bar.

    Examples
    --------
    >>> html_table("A model", {"columns": "a < b"}).partition("</caption>")[2]
    '<tr><th>columns</th><td style="text-align:left">a &lt; b</td></tr></table>'
    """
    longest = max((value for _, value in bars), default=0.0)
    lines = [f"<tr><th>{_text(k)}</th>{_CELL}{_text(v)}</td></tr>" for k, v in facts.items()]
    for name, value in bars:
        share = value / longest if longest > 0 else 0.0
        cell = f"{_bar(share)} {html.escape(f'{value:.3g}')}"
        lines.append(f"<tr><th>{_text(name)}</th>{_CELL}{cell}</td></tr>")
    return f"{_TABLE}<caption>{_text(title)}</caption>{''.join(lines)}</table>"


def _text(value: object) -> str:
    return html.escape(str(value))


def _bar(share: float) -> str:
    style = (
        f"display:inline-block;width:{share * _BAR_WIDTH:.0f}px;height:0.7em;"
        "background:currentColor;opacity:0.45"
    )
    return f'<span aria-hidden="true" style="{style}"></span>'


def most_used(names: Iterable[str], splits: FloatArray) -> str:
    """Return the names of the columns with most splits, with their numbers of splits.

    Examples
    --------
    >>> most_used(["a", "b", "c"], np.array([2.0, 7.0, 0.0]))
    'b (7 splits), a (2 splits)'
    """
    listed = list(names)
    order = np.argsort(-splits, kind="stable")[:MOST_COLUMNS]
    used = [k for k in order if splits[k] > 0]
    return ", ".join(f"{shown_name(listed[k])} ({splits[k]:.0f} splits)" for k in used)


def some_of(names: Sequence[str]) -> str:
    """Join names; list the first five names and count the others.

    Examples
    --------
    >>> some_of([f"x{k}" for k in range(8)])
    'x0, x1, x2, x3, x4 and 3 more'
    """
    more = f" and {len(names) - MOST_COLUMNS:,} more" if len(names) > MOST_COLUMNS else ""
    return ", ".join(map(shown_name, names[:MOST_COLUMNS])) + more
