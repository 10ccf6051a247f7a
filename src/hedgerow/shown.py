"""Short texts of results; names come from users' tables, so that they are made safe to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hedgerow.errors import shown_name

MOST_COLUMNS = 5
"""Largest number of columns in a list of names."""


class Viewed:
    """A result whose ``repr`` is a line; a data class of it is declared with ``repr=False``."""

    __slots__ = ()

    def _facts(self) -> Mapping[str, object]:
        """Return what the line tells, by name."""
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self._facts().items())
        return f"<{type(self).__name__}: {facts}>"


def some_of(names: Sequence[str]) -> str:
    """Join names; list the first five names and count the others."""
    more = f" and {len(names) - MOST_COLUMNS:,} more" if len(names) > MOST_COLUMNS else ""
    return ", ".join(map(shown_name, names[:MOST_COLUMNS])) + more
