"""Targets that losses allow: checks that several of them share."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import DataError

LARGEST_SPREAD = 1e140
"""Beyond it a gain, the square of a sum of gradients, is not finite."""


def check_two_classes(target: FloatArray, name: str) -> None:
    """Raise ``DataError`` if a target is neither 0 nor 1."""
    outside = (target != 0.0) & (target != 1.0)
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(
            f"objective {name!r} needs targets 0 or 1; row {row} holds {float(target[row])!r}."
        )


def check_spread(target: FloatArray, name: str) -> None:
    """Raise ``DataError`` if targets lie farther apart than ``LARGEST_SPREAD``."""
    with np.errstate(over="ignore"):
        outside = ~(np.abs(target - target[0]) <= LARGEST_SPREAD)
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(
            f"objective {name!r} needs targets within {LARGEST_SPREAD:g} of each other; rows 0 and "
            f"{row} hold {float(target[0])!r} and {float(target[row])!r}: rescale them."
        )
