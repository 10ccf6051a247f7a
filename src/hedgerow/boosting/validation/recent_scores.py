"""Raw scores of the test rows of a fold after its latest rounds."""

from __future__ import annotations

from collections import deque

from hedgerow.arrays import FloatArray

_RECENT_BYTES = 32_000_000
"""Largest memory for recent scores of a fold; with many test rows, scores of the best round may
have to be recomputed."""


class RecentScores:
    """Raw scores of the test rows after the latest rounds, starting with the best one.

    Folds continue for a while after their best round.  Recomputing its scores from the trees
    took a sixteenth of the time of the fits of small tables.
    """

    def __init__(self) -> None:
        self._first, self._raw = 1, deque[FloatArray]()

    def note(self, raw: FloatArray, best: int) -> None:
        """Keep the scores after the next round, which do not change; drop those before ``best``."""
        self._raw.append(raw)
        while self._first < best or len(self._raw) * raw.nbytes > _RECENT_BYTES:
            self._raw.popleft()
            self._first += 1

    def after(self, n_rounds: int) -> FloatArray | None:
        """Return the scores after ``n_rounds`` rounds, or None if they were dropped."""
        place = n_rounds - self._first
        return self._raw[place] if 0 <= place < len(self._raw) else None
