"""Numbers of examples of property tests."""

from __future__ import annotations

from hypothesis import settings

# Default numbers of examples in the two kinds of runs.
FAST, THOROUGH = 10, 50


def examples(thorough: int) -> int:
    """Return the number of examples of a property; thorough runs take ``thorough``.

    The fast run tries a sixth, but at least two: the thorough run follows in ``.ci/run``.
    """
    if settings.default is not None and settings.default.max_examples >= THOROUGH:
        return thorough
    return max(min(thorough, 2), thorough // 6)
