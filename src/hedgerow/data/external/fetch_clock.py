"""Whether chunks come from a disk or from the file cache, by the time that fetching them takes."""

from __future__ import annotations


class FetchClock:
    """Timer that tells whether chunks come from a disk (slow) or the file cache (fast)."""

    _FAST = 4e9  # bytes per second: disks are slower, mapping of cached pages is faster
    _CALL = 1e-4  # seconds allowed for a chunk of any size

    def __init__(self) -> None:
        self._seconds, self._allowed = 1.0, 0.0  # the first pass reads from a disk

    def restart(self) -> None:
        self._seconds, self._allowed = 0.0, 0.0

    def note(self, n_bytes: int, seconds: float) -> None:
        """Record the time in which a chunk was fetched."""
        self._allowed += self._CALL + n_bytes / self._FAST
        self._seconds += seconds

    @property
    def is_slow(self) -> bool:
        """Whether prefetching would have been worthwhile in the last pass."""
        return self._seconds > self._allowed
