"""How many examples properties try."""

from __future__ import annotations

from hypothesis import settings

# Examples of a property in the two kinds of runs, where its test asks for no number.
FAST, THOROUGH = 10, 75


def examples(thorough: int) -> int:
    """Return the number of examples in the current run, of a property that needs ``thorough`` of them.

    The fast run tries a sixth, but at least two: the thorough run follows in ``.ci/run``.
    """
    if settings.default is not None and settings.default.max_examples >= THOROUGH:
        return thorough
    return max(min(thorough, 2), thorough // 6)
