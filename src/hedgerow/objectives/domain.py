"""Targets that losses allow: checks that several of them share."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import DataError

LARGEST_SPREAD = 1e140
"""Beyond it a gain, the square of a sum of gradients, is not finite."""


def check_two_classes(target: FloatArray, name: str, first_row: int = 0) -> None:
    """Raise ``DataError`` if a target is neither 0 nor 1; rows are numbered from ``first_row``."""
    outside = (target != 0.0) & (target != 1.0)
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(
            f"objective {name!r} needs targets 0 or 1; row {first_row + row} holds "
            f"{float(target[row])!r}."
        )


def check_spread(
    target: FloatArray, name: str, first_row: int = 0, origin: float | None = None
) -> None:
    """Raise ``DataError`` if targets lie farther than ``LARGEST_SPREAD`` from that of row 0.

    ``target`` are those of row ``first_row`` and the following; ``origin`` is that of row 0
    if this is not among them.
    """
    origin = float(target[0]) if origin is None else origin
    with np.errstate(over="ignore"):
        outside = ~(np.abs(target - origin) <= LARGEST_SPREAD)
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(
            f"objective {name!r} needs targets within {LARGEST_SPREAD:g} of each other; rows 0 and "
            f"{first_row + row} hold {origin!r} and {float(target[row])!r}: rescale them."
        )
