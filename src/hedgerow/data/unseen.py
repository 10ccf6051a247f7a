"""Counts of categories that no training row had."""

from __future__ import annotations

import threading
from collections.abc import Mapping


class UnseenCounts:
    """Rows by column, added up from any number of threads."""

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
        """Copy of the counts so far."""
        with self._lock:
            return dict(self._counts)

    def reset(self) -> None:
        """Count from 0 again."""
        with self._lock:
            self._counts.clear()
