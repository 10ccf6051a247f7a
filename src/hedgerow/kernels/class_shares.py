"""Steps of the softmax of raw scores (n_classes, n_rows), between calls of ``exp`` and ``log``.

Classes are summed in order, so that a row has the same bits beside any others.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.compile import kernel


@kernel
def subtract_top(raw: FloatArray, top: FloatArray, below: FloatArray) -> None:
    """Write the largest score of each row to ``top``, and all scores less this to ``below``."""
    n_classes, n_rows = np.uint64(raw.shape[0]), np.uint64(raw.shape[1])
    for i in range(n_rows):
        top[i] = raw[0, i]
    for k in range(np.uint64(1), n_classes):
        for i in range(n_rows):
            top[i] = max(top[i], raw[k, i])
    for k in range(n_classes):
        for i in range(n_rows):
            below[k, i] = raw[k, i] - top[i]


@kernel
def sum_classes(values: FloatArray, total: FloatArray) -> None:
    """Write the sum of each row."""
    n_rows = np.uint64(values.shape[1])
    for i in range(n_rows):
        total[i] = values[0, i]
    for k in range(np.uint64(1), np.uint64(values.shape[0])):
        for i in range(n_rows):
            total[i] += values[k, i]


@kernel
def add_distances(raw: FloatArray, target: FloatArray, top: FloatArray, losses: FloatArray) -> None:
    """Add to each row the distance from the score of its class to the largest score."""
    for i in range(np.uint64(len(target))):
        losses[i] = (top[i] + losses[i]) - raw[np.uint64(target[i]), i]
