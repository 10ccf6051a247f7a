"""Allowed targets: checks that several objectives share."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import DataError
from hedgerow.params import Interval

LARGEST_SPREAD = 1e140
"""Largest difference of targets: beyond it gains, squares of sums of gradients, overflow."""

LARGEST = 1e100
"""Limit on targets of objectives that multiply or divide by them."""

POSITIVE = Interval(1.0 / LARGEST, LARGEST)

LOWEST_MEAN = 1e-300
"""Replaces the mean if all targets are 0, because 0 has no logarithm."""


def check_interval(target: FloatArray, name: str, allowed: Interval, first_row: int = 0) -> None:
    """Raise ``DataError`` if a target is outside; the first target is row ``first_row``."""
    inside = target > allowed.low if allowed.low_open else target >= allowed.low
    inside &= target < allowed.high if allowed.high_open else target <= allowed.high
    if not inside.all():
        row = int(np.argmin(inside))
        raise DataError(
            f"objective {name!r} needs targets in {_brackets(allowed)}; row {first_row + row} "
            f"holds {float(target[row])!r}: leave the row out, or use another objective."
        ).at(first_row + row)


def _brackets(allowed: Interval) -> str:
    left, right = "(" if allowed.low_open else "[", ")" if allowed.high_open else "]"
    return f"{left}{allowed.low:g}, {allowed.high:g}{right}"


def check_two_classes(target: FloatArray, name: str, first_row: int = 0) -> None:
    """Raise ``DataError`` if a target is neither 0 nor 1; the first target is row ``first_row``."""
    outside = (target != 0.0) & (target != 1.0)
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(
            f"objective {name!r} needs targets 0 or 1; row {first_row + row} holds "
            f"{float(target[row])!r}."
        ).at(first_row + row)


def check_classes(target: FloatArray, name: str, n_classes: int, first_row: int = 0) -> None:
    """Raise ``DataError`` if a target is no class; the first target is row ``first_row``."""
    outside = (target < 0) | (target >= n_classes) | (target != np.floor(target))
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(
            f"objective {name!r} needs targets 0, 1, ... {n_classes - 1}; "
            f"row {first_row + row} holds {float(target[row])!r}."
        ).at(first_row + row)


def check_spread(
    target: FloatArray, name: str, first_row: int = 0, origin: float | None = None
) -> None:
    """Raise ``DataError`` if a target differs from row 0 by more than ``LARGEST_SPREAD``.

    ``target`` starts at row ``first_row``; ``origin`` is the target of row 0
    if ``target`` does not contain it.
    """
    origin = float(target[0]) if origin is None else origin
    with np.errstate(over="ignore"):
        outside = ~(np.abs(target - origin) <= LARGEST_SPREAD)
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(
            f"objective {name!r} needs targets within {LARGEST_SPREAD:g} of each other; row "
            f"{first_row + row} holds {float(target[row])!r}, another {origin!r}: rescale them."
        ).at(first_row + row)
