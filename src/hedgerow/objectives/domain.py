"""Allowed targets: checks that several objectives share."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import numpy as np

from hedgerow.arrays import BoolArray, FloatArray
from hedgerow.errors import DataError
from hedgerow.params import Interval

LARGEST_SPREAD = 1e140
"""Largest difference of targets: beyond it gains, squares of sums of gradients, overflow."""

LARGEST = 1e100
"""Limit on targets of objectives that multiply or divide by them."""

POSITIVE = Interval(1.0 / LARGEST, LARGEST)

LOWEST_MEAN = 1e-300
"""Replaces the mean if all targets are 0, because 0 has no logarithm."""


TWO_CLASSES: Final = "two classes"
CLASSES: Final = "classes"

Domain: TypeAlias = Interval | Literal["two classes", "classes"] | None
"""Allowed targets: an interval, classes, or numbers that are not too far apart (None)."""


def refuse_first(outside: BoolArray, target: FloatArray, first_row: int, text: str) -> None:
    """Raise ``DataError`` for the first row outside; ``text`` has its ``{row}`` and ``{value}``."""
    if outside.any():
        row = int(np.argmax(outside))
        values = {"row": first_row + row, "value": repr(float(target[row]))}
        raise DataError(text.format(**values)).at(first_row + row)


def check_spread(
    target: FloatArray, name: str, first_row: int = 0, origin: FloatArray | None = None
) -> None:
    """Raise ``DataError`` if a target differs from row 0 by more than ``LARGEST_SPREAD``."""
    # ``origin`` holds the target of row 0 if ``target`` does not contain it.
    first = float(target[0] if origin is None else origin[0])
    with np.errstate(over="ignore"):
        outside = ~(np.abs(target - first) <= LARGEST_SPREAD)
    refuse_first(
        outside, target, first_row,
        f"objective {name!r} needs targets within {LARGEST_SPREAD:g} of each other; row "
        f"{{row}} holds {{value}}, another {first!r}: rescale them.",
    )  # fmt: skip
