"""Count the rows with unknown categories."""

from __future__ import annotations

import threading
from collections.abc import Mapping


class UnseenCounts:
    """Thread-safe counts of rows with an unknown category, by column."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, unseen: Mapping[str, int]) -> None:
        """Add the counts of one table."""
        if unseen:
            with self._lock:
                for name, count in unseen.items():
                    self._counts[name] = self._counts.get(name, 0) + count

    def totals(self) -> dict[str, int]:
        """Return a copy of the counts."""
        with self._lock:
            return dict(self._counts)

    def reset(self) -> None:
        """Set all counts to 0."""
        with self._lock:
            self._counts.clear()
