"""Choice of held-out validation rows in one pass over the rows.

Of each class, the share of rows with the smallest hashes of their row numbers is held out;
for rankings, complete queries are held out.  The largest held-out hash is a quantile of all
hashes of a class; only the hashes near its expected position must be kept::

    hashes of a class, as shares of 1        fraction
    0 .......................................[....|....]...................... 1
      counted                                 kept        dropped

Hashes are uniform, so after ``n`` rows the share of hashes below the fraction
deviates from it by a few standard deviations of ``sqrt(fraction (1 - fraction) / n)``.
A few times ``sqrt(n)`` hashes are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray, distinct
from hedgerow.boosting.validation.stopping import VALIDATION_STREAM, hash_rows
from hedgerow.comm.base import Alone, Communicator, count_rows, gather_numbers
from hedgerow.errors import DataError

_DEVIATIONS = 12.0
_ROWS = 100.0
"""Half of the width that is kept: this many standard deviations plus this many rows.  The
probability that the quantile is outside is below 1e-30."""

_ALL = 2.0**64


@dataclass(slots=True, eq=False)
class _Class:
    """Counts and kept hashes of a class."""

    n_rows: int = 0
    n_below: int = 0
    low: int = 0
    high: int = 2**64
    kept: AnyArray = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))

    def add(self, hashes: AnyArray, fraction: float) -> None:
        self.n_rows += len(hashes)
        spread = math.sqrt(fraction * (1.0 - fraction) / self.n_rows)
        width = _DEVIATIONS * spread + _ROWS / self.n_rows
        self.kept = np.concatenate((self.kept, hashes))
        self.narrow(int(max(0.0, fraction - width) * _ALL), int(min(1.0, fraction + width) * _ALL))

    def narrow(self, low: int, high: int) -> None:
        """Keep only hashes from ``low`` on and below ``high``."""
        self.low, self.high = max(self.low, low), min(self.high, high)
        below = self.kept < np.uint64(self.low)
        self.n_below += int(below.sum())
        inside = ~below
        if self.high < 2**64:
            inside &= self.kept < np.uint64(self.high)
        self.kept = self.kept[inside]


class HoldOut:
    """Sees all rows once, and then knows which rows to hold out.

    Parameters
    ----------
    fraction : float in (0, 1)
    stratify : bool
        Hold out this share of each class; at least one row of a class stays in training.
    seed : int
    first_row : int, default=0
        Number of counted rows on the ranks before this one.

    Examples
    --------
    >>> hold_out = HoldOut(0.2, stratify=False, seed=0)
    >>> hold_out.add(np.zeros(6))
    >>> hold_out.add(np.zeros(4))
    >>> chosen = hold_out.finish()
    >>> chosen(0, np.zeros(6)).tolist(), chosen(6, np.zeros(4)).tolist()
    ([True, False, False, False, False, False], [True, False, False, False])
    """

    def __init__(self, fraction: float, stratify: bool, seed: int, first_row: int = 0) -> None:
        self._fraction, self._stratify, self._seed = fraction, stratify, seed
        self._next_row = first_row
        self._classes: dict[float, _Class] = {}

    def add(self, target: FloatArray) -> None:
        """Add the next rows."""
        hashes = hash_rows(self._seed, VALIDATION_STREAM, len(target), self._next_row)
        self._next_row += len(target)
        for value in distinct(target).tolist() if self._stratify else [0.0][: len(target)]:
            chosen = hashes[target == value] if self._stratify else hashes
            self._classes.setdefault(value, _Class()).add(chosen, self._fraction)

    def finish(self, communicator: Communicator | None = None) -> Chosen:
        """Return the held-out rows, from the rows of all ranks.

        Raise ``DataError`` if no row can be held out.
        """
        communicator = Alone() if communicator is None else communicator
        values = self._values_of_all(communicator)
        classes = [self._classes.get(value, _Class()) for value in values]
        n_rows = communicator.allreduce(np.array([c.n_rows for c in classes], dtype=np.int64))
        counts = [min(round(self._fraction * n), n - 1) for n in n_rows.tolist()]
        if sum(counts) == 0:
            largest = int(np.argmax(n_rows)) if len(n_rows) else -1
            if largest < 0 or n_rows[largest] < 2:
                raise DataError(
                    f"early stopping holds out rows, but there are only {int(n_rows.sum())} "
                    "rows: give validation rows (X_val, y_val) or use early_stopping=False."
                )
            counts[largest] = 1
        limits = [_limit(c, k, communicator) for c, k in zip(classes, counts, strict=True)]
        return Chosen(
            np.array(values),
            np.array(limits, dtype=np.uint64),
            np.array(counts, dtype=np.int64),
            self._stratify,
            self._seed,
        )

    def _values_of_all(self, communicator: Communicator) -> list[float]:
        own = np.array(sorted(self._classes), dtype=np.float64)
        return distinct(gather_numbers(own, communicator)).tolist()


def _limit(known: _Class, count: int, communicator: Communicator) -> int:
    """Return the ``count``-th smallest hash of a class, or 0 for a count of 0."""
    # Limits as int64 without the lowest of the 64 bits: allreduce takes only int64.
    lows = communicator.allreduce(np.array([known.low >> 1, -(known.high >> 1)]), "max")
    known.narrow(2 * int(lows[0]) + 2, -2 * int(lows[1]))
    n_below = int(communicator.allreduce(np.array([known.n_below], dtype=np.int64))[0])
    kept = np.sort(gather_numbers(known.kept, communicator))
    if count == 0:
        return 0
    place = count - n_below - 1
    if not 0 <= place < len(kept):
        raise DataError(
            "early stopping: the rows to hold out could not be found, because the hashes of their "
            "numbers are uneven: use another random_state, or give validation rows."
        )
    return int(kept[place])


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Function that selects the held-out rows; see :class:`HoldOut`.

    Attributes
    ----------
    values : float64 (n_classes,)
        Targets, ascending; unused without ``stratify``.
    limits : uint64 (n_classes,)
        Largest held-out hash.
    counts : int64 (n_classes,)
        Number of held-out rows.
    """

    values: FloatArray
    limits: AnyArray
    counts: IntArray
    stratify: bool
    seed: int

    def __call__(self, first_row: int, target: FloatArray) -> npt.NDArray[np.bool_]:
        """Return which of the rows, numbered from ``first_row``, are held out."""
        hashes = hash_rows(self.seed, VALIDATION_STREAM, len(target), first_row)
        if not self.stratify:
            return np.asarray(hashes <= self.limits[0])
        place = np.searchsorted(self.values, target)
        return np.asarray((hashes <= self.limits[place]) & (self.counts[place] > 0))


def split_rows(
    target: FloatArray, fraction: float, stratify: bool, seed: int
) -> tuple[IntArray, IntArray]:
    """Choose validation rows of a table in memory.

    Raise ``DataError`` if no row can be held out.
    """
    hold_out = HoldOut(fraction, stratify, seed)
    hold_out.add(target)
    chosen = hold_out.finish()(0, target)
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def queries_aside(
    query: IntArray, fraction: float, seed: int, others: Communicator
) -> npt.NDArray[np.bool_]:
    """Return which rows of this rank are held out for early stopping: complete queries.

    Queries are chosen by a hash of the seed and their index in order of first occurrence: at
    least one, at most all but one.

    Raise ``DataError`` if there is only one query.
    """
    # Numbers ascend in order of first occurrence; queries whose rows have weight 0 are missing.
    there = distinct(gather_numbers(distinct(query), others))
    first = _first_rows(query, there, others)
    place = np.empty(len(there), dtype=np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(len(there))
    if len(there) < 2:
        raise DataError(
            "early stopping holds out queries, but there is only one: give validation rows "
            "(X_val, y_val, qid_val) or use early_stopping=False."
        )
    count = min(max(1, round(fraction * len(there))), len(there) - 1)
    order = np.argsort(hash_rows(seed, VALIDATION_STREAM, len(there)), kind="stable")
    return np.isin(place[np.searchsorted(there, query)], order[:count])


def _first_rows(query: IntArray, there: IntArray, others: Communicator) -> IntArray:
    """Return the number of the first row of each query, among the rows of all ranks."""
    before, _ = count_rows(len(query), others)
    found = np.full(len(there), -(2**62), dtype=np.int64)
    own, first = np.unique(query, return_index=True)
    found[np.searchsorted(there, own)] = -(before + first)
    return -others.allreduce(found, "max")
