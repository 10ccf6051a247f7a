"""Choice of the rows that are held out for early stopping.

Of each class, the share of rows with the smallest hashes of their row numbers is held out; for
rankings, complete queries are held out.  Ranks number the rows of all of them, in their order, so
the choice does not depend on how the rows are divided.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import BoolArray, FloatArray, IntArray, distinct
from hedgerow.boosting.validation.stopping import VALIDATION_STREAM, hash_rows
from hedgerow.comm.base import Alone, Communicator, count_rows, gather_numbers
from hedgerow.errors import DataError


def rows_aside(
    target: FloatArray,
    fraction: float,
    stratify: bool,
    seed: int,
    others: Communicator | None = None,
) -> BoolArray:
    """Return which rows of this rank are held out; at least one row of a class stays in training.

    With ``stratify`` this share of each class is held out.
    """
    others = others or Alone()
    hashes = hash_rows(seed, VALIDATION_STREAM, len(target), count_rows(len(target), others)[0])
    label: IntArray = np.zeros(len(target), dtype=np.int64)
    n_classes = 1
    if stratify:
        values = distinct(gather_numbers(distinct(target), others))
        label, n_classes = np.searchsorted(values, target), len(values)
    n_rows = others.allreduce(np.bincount(label, minlength=n_classes).astype(np.int64))
    counts = np.array([min(round(fraction * n), n - 1) for n in n_rows.tolist()], dtype=np.int64)
    if counts.sum() <= 0:
        if n_rows.max(initial=0) < 2:
            raise DataError(
                f"early stopping holds out rows, but there are only {int(n_rows.sum())} "
                "rows: give validation rows (X_val, y_val) or use early_stopping=False."
            )
        counts[np.argmax(n_rows)] = 1
    parts = [np.sort(hashes[label == k]) for k in range(n_classes)]
    return np.asarray((hashes <= _smallest(parts, counts, others)[label]) & (counts > 0)[label])


def _smallest(
    parts: Sequence[npt.NDArray[np.uint64]], counts: IntArray, others: Communicator
) -> npt.NDArray[np.uint64]:
    """Return the number of each class that has this place among the sorted ones of all ranks."""
    found = np.zeros(len(counts), dtype=np.uint64)
    for bit in reversed(range(64)):  # fewer numbers than the place are below what is found
        tried = found | np.uint64(1 << bit)
        below = [np.searchsorted(part, limit) for part, limit in zip(parts, tried, strict=True)]
        n_below = others.allreduce(np.array(below, dtype=np.int64))
        found = np.where(n_below < counts, tried, found)
    return found


def queries_aside(query: IntArray, fraction: float, seed: int, others: Communicator) -> BoolArray:
    """Return which rows of this rank are held out for early stopping: complete queries.

    Queries are chosen by a hash of the seed and their index in order of first occurrence: at
    least one, at most all but one.
    """
    # Numbers ascend in order of first occurrence; queries whose rows have weight 0 are missing.
    there = distinct(gather_numbers(distinct(query), others))
    before, _ = count_rows(len(query), others)
    own, first = np.unique(query, return_index=True)
    found = np.full(len(there), -(2**62), dtype=np.int64)  # minus the first row of each query
    found[np.searchsorted(there, own)] = -(before + first)
    found = others.allreduce(found, "max")
    place = np.empty(len(there), dtype=np.int64)
    place[np.argsort(-found, kind="stable")] = np.arange(len(there))
    if len(there) < 2:
        raise DataError(
            "early stopping holds out queries, but there is only one: give validation rows "
            "(X_val, y_val, qid_val) or use early_stopping=False."
        )
    count = min(max(1, round(fraction * len(there))), len(there) - 1)
    order = np.argsort(hash_rows(seed, VALIDATION_STREAM, len(there)), kind="stable")
    return np.isin(place[np.searchsorted(there, query)], order[:count])
