"""Views of results: a line as ``repr``, and in notebooks a short table in HTML.

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

_BAR = "display:inline-block;height:0.7em;background:currentColor;opacity:0.45"
_MOST_BARS = 10

_TABLE = '<table class="tex2jax_ignore mathjax_ignore">'
_CELL = '<td style="text-align:left">'


class Viewed:
    """A result with a view; a data class of it is declared with ``repr=False``."""

    __slots__ = ()

    def _facts(self) -> Mapping[str, object]:
        """Return what is known at once, by name."""
        raise NotImplementedError

    def _more(self) -> Sequence[tuple[str, object]]:
        """Return what only the table shows; floats, of at least 0, have bars."""
        return ()

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self._facts().items())
        return f"<{type(self).__name__}: {facts}>"

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, self._facts(), self._more())


def html_table(
    title: str, facts: Mapping[str, object], rows: Sequence[tuple[str, object]] = ()
) -> str:
    """Return a table with two columns: facts, then rows, of which numbers have bars."""
    longest = max((value for _, value in rows if isinstance(value, float)), default=0.0) or 1.0
    lines = []
    for name, value in (*facts.items(), *rows):
        cell = _text(value)
        if isinstance(value, float):
            width = f"{value / longest * _BAR_WIDTH:.0f}px"
            cell = f'<span aria-hidden="true" style="width:{width};{_BAR}"></span> {value:.3g}'
        lines.append(f"<tr><th>{_text(name)}</th>{_CELL}{cell}</td></tr>")
    return f"{_TABLE}<caption>{_text(title)}</caption>{''.join(lines)}</table>"


def _text(value: object) -> str:
    return html.escape(str(value))


def largest(names: Iterable[str], sizes: FloatArray) -> list[tuple[str, float]]:
    """Return the names of the ten largest numbers above 0, for bars."""
    known = sorted(zip(names, sizes.tolist(), strict=True), key=lambda bar: -bar[1])[:_MOST_BARS]
    return [(shown_name(name), size) for name, size in known if size > 0.0]


def most_used(names: Iterable[str], splits: FloatArray) -> str:
    """Return the names of the columns with most splits, with their numbers of splits."""
    listed = list(names)
    order = np.argsort(-splits, kind="stable")[:MOST_COLUMNS]
    used = [k for k in order if splits[k] > 0]
    return ", ".join(f"{shown_name(listed[k])} ({splits[k]:.0f} splits)" for k in used)


def some_of(names: Sequence[str]) -> str:
    """Join names; list the first five names and count the others."""
    more = f" and {len(names) - MOST_COLUMNS:,} more" if len(names) > MOST_COLUMNS else ""
    return ", ".join(map(shown_name, names[:MOST_COLUMNS])) + more
