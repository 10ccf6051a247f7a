"""Means, shares, quantiles and roots over all rows of a fit, which may be spread over ranks.

No result depends on the division of the rows: sums are exact
(:mod:`hedgerow.kernels.primitives.exact_sum`), and a quantile is found by counting::

    key of a value, 64 bits     0x3FF0 | 0000 | 0000 | 0000
    pass 1                      weight of the rows for each of 65536 first digits; the digit
                                at which the cumulative weight reaches the level is chosen
    passes 2, 3, 4              weight for each next digit, of the rows that have the digits
                                chosen so far
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.comm.base import Alone, Communicator, gather_numbers
from hedgerow.kernels.primitives.exact_sum import (
    MOST_LIMBS,
    ExactSum,
    GroupSums,
    total_of,
    weighted_sums,
)
from hedgerow.kernels.tables.keys import float_of_key, floats_of_keys, keys_of_floats

_DIGIT = 16
_PASSES = 64 // _DIGIT
_LAST = np.uint64(2**_DIGIT - 1)
_SIGN = np.uint64(1 << 63)
_LOWEST = np.iinfo(np.int64).min
_ROOT_STEPS = 200
_CLOSE = 1e-15
_FARTHEST_START = 2.0**40
_PLAY = Fraction(1, 10**12)
"""Tolerance in comparisons with a level, because float64 cannot represent decimal fractions."""


@dataclass(frozen=True, slots=True, eq=False)
class AllRows:
    """The rows of a fit: the arrays of this rank, and the ranks that have other rows."""

    target: FloatArray  # (n_rows,), or (n_rows, n_targets)
    weight: FloatArray | None = None  # None: every weight is 1
    offset: FloatArray | None = None  # (n_outputs, n_rows); None: no row of any rank has one
    communicator: Communicator = field(default_factory=Alone)

    def of_target(self, column: int) -> AllRows:
        """Return the rows with one of several targets, and its offsets."""
        own = self.target  # of one axis on a rank without rows, which does not know their number
        own = np.ascontiguousarray(own[:, column]) if own.ndim == 2 else own
        offset = None if self.offset is None else self.offset[column : column + 1]
        return replace(self, target=own, offset=offset)

    def gathered(self) -> tuple[FloatArray, FloatArray | None]:
        """Return the targets, several in Fortran order, and weights of the rows of all ranks."""
        own = np.zeros(0) if self.weight is None else self.weight
        weight = gather_numbers(own, self.communicator)
        own = self.target  # of one axis on a rank without rows, which does not know their number
        n_targets = own.shape[1] if own.ndim == 2 and len(own) > 0 else 0
        n_targets = int(self.communicator.allreduce(np.array([n_targets], np.int64), "max")[0])
        target = gather_numbers(np.ascontiguousarray(own).reshape(-1), self.communicator)
        if n_targets > 0:
            target = np.asfortranarray(target.reshape(-1, n_targets))
        return target, weight if len(weight) > 0 else None

    def means(self, arrays: Sequence[FloatArray]) -> list[float]:
        """Return the weighted mean of each array, which has a number for each row."""
        sums = [part for array in arrays for part in weighted_sums(array, self.weight)]
        sums = merged(sums, self.communicator)
        return [above.over(below) for above, below in zip(sums[::2], sums[1::2], strict=True)]

    def mean(self, values: Callable[[FloatArray], FloatArray] | None = None) -> float:
        """Return the weighted mean of ``values(target)``, by default of the targets."""
        return self.means([self.target if values is None else values(self.target)])[0]

    def total(self, values: FloatArray) -> float:
        """Return the weighted sum of ``values``, one for each row."""
        total, one = weighted_sums(values, self.weight)[0], weighted_sums(np.ones(1), None)[0]
        return merged([total], self.communicator)[0].over(one)

    def center(self) -> float:
        """Return the weighted mean of the targets; exact if all targets are equal."""
        weighted = np.array([self.weight is not None], np.int64)
        middle = replace(self, weight=None).mean()
        if not self.communicator.allreduce(weighted, "max")[0]:
            return middle
        # Products with weights are rounded; products of differences have smaller errors.
        return middle + self.mean(lambda target: target - middle)

    def extent(self) -> tuple[float, float]:
        """Return the smallest and largest target."""
        own = self.target
        ends = [-float(own.min()), float(own.max())] if len(own) > 0 else [-np.inf, -np.inf]
        low, high = largest_of_ranks(np.array(ends), self.communicator).tolist()
        return -low, high

    def shares(self, n_classes: int) -> FloatArray:
        """Return the share of each of the classes 0, 1, ... in the total weight."""
        digits, limbs = self._sums(None, self.target.astype(np.int64), n_classes)
        masses = [total_of(digits[:, k], limbs) for k in range(n_classes)]
        total = sum(masses, ExactSum())
        return np.array([mass.over(total) for mass in masses])

    def quantile(self, level: float) -> float:
        """Return the smallest target whose cumulative weight reaches ``level`` of the total."""
        # At equality it is the midpoint to the next target.  The result is never -0.0.
        keys = keys_of_floats(self.target)
        unsigned, rows = keys.view(np.uint64) ^ _SIGN, None
        prefix, below, goal, limit = 0, 0, Fraction(0), Fraction(0)
        for number in range(_PASSES):
            shift = np.uint64(64 - _DIGIT * (number + 1))
            chosen = (unsigned >> shift) & _LAST
            if number > 0:
                rows = np.flatnonzero(unsigned >> (shift + np.uint64(_DIGIT)) == prefix)
                chosen = chosen[rows]
            digits, limbs = self._sums(rows, chosen.astype(np.int64), 2**_DIGIT)
            so_far = np.cumsum(digits, axis=1)
            if number == 0:
                whole = total_of(so_far[:, -1], limbs).units
                goal = (Fraction(level) - _PLAY) * whole
                limit = (Fraction(level) + _PLAY) * whole
            place = bisect_left(
                range(so_far.shape[1] - 1),
                goal - below,
                key=lambda at: Fraction(total_of(so_far[:, at], limbs).units),
            )
            prefix = (prefix << _DIGIT) | place
            if place > 0 and number < _PASSES - 1:
                below += total_of(so_far[:, place - 1], limbs).units
        key = prefix - (1 << 63)
        found = float_of_key(key)
        if below + total_of(so_far[:, place], limbs).units <= limit:
            # The complement of a key has the reverse order, so the smallest is a maximum.
            smallest = int((~keys[keys > key]).max(initial=_LOWEST))
            above = int(self.communicator.allreduce(np.array([smallest], np.int64), "max")[0])
            if above != _LOWEST:
                return 0.5 * found + 0.5 * float_of_key(~above) + 0.0
        return found + 0.0

    def _sums(
        self, rows: IntArray | None, groups: IntArray, n_groups: int
    ) -> tuple[IntArray, tuple[int, ...]]:
        """Return the weight of each group as digits and limbs, see ``total_of``."""
        sums, communicator = GroupSums(n_groups), self.communicator
        if self.weight is not None:
            sums.add(self.weight if rows is None else self.weight[rows], groups)
        present = np.zeros(MOST_LIMBS + 1, dtype=np.int64)
        present[list(sums.limbs)] = 1
        present[MOST_LIMBS] = self.weight is not None
        present = communicator.allreduce(present, "max")
        if not present[MOST_LIMBS]:
            return communicator.allreduce(np.bincount(groups, minlength=n_groups))[None], (0,)
        limbs = tuple(np.flatnonzero(present[:MOST_LIMBS]).tolist())
        return communicator.allreduce(sums.to_array(limbs).reshape(-1)).reshape(-1, n_groups), limbs


def merged(sums: Sequence[ExactSum], communicator: Communicator) -> list[ExactSum]:
    """Return the sums over all ranks."""
    if communicator.size == 1:
        return list(sums)
    arrays = np.stack([total.to_array() for total in sums])
    together = communicator.allreduce(arrays.reshape(-1)).reshape(arrays.shape)
    return [ExactSum.from_array(array) for array in together]


def largest_of_ranks(values: FloatArray, communicator: Communicator) -> FloatArray:
    """Return the maximum over the ranks of each of ``values``."""
    return floats_of_keys(communicator.allreduce(keys_of_floats(values), "max"))


def root_of_mean(
    rows: AllRows,
    slopes: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]],
    start: float,
    within: tuple[float, float] | None = None,
) -> float:
    """Return the constant raw score at which the mean first derivative is zero."""

    def mean(part: int, at: float) -> float:
        return rows.mean(lambda target: slopes(target, np.full(len(target), at))[part])

    return root_of(mean, start, within)


def root_of(
    mean: Callable[[int, float], float], start: float, within: tuple[float, float] | None = None
) -> float:
    """Return the root of ``mean(0, at)``, not decreasing, with derivative ``mean(1, at)``."""
    # Without an interval it is searched from ``start`` outwards: ``start`` if there is none.
    low, high = _bracket_of(lambda at: mean(0, at), start) if within is None else within
    at = min(max(start, low), high)
    for _ in range(_ROOT_STEPS):
        slope = mean(0, at)
        if slope == 0.0 or not low < high:
            break
        low, high = (low, at) if slope > 0.0 else (at, high)
        curvature = mean(1, at)
        following = at - slope / curvature if curvature > 0.0 else np.inf
        # A step that rounds to nothing ends at the root, which is an end of the interval by now.
        at_root = abs(following - at) <= _CLOSE * abs(at) and low <= following <= high
        if not (low < following < high or at_root):
            following = 0.5 * low + 0.5 * high
        moved, at = abs(following - at), following
        if moved <= _CLOSE * abs(at):
            break
    return float(at) + 0.0


def _bracket_of(slope: Callable[[float], float], start: float) -> tuple[float, float]:
    """Return an interval from ``start`` up to 2**40 at whose ends a derivative has two signs."""
    first = slope(start)
    near, far = 0.0, -math.copysign(1.0, first)
    while first != 0.0 and not math.isnan(first) and abs(far) <= _FARTHEST_START:
        at_far = slope(start + far)
        if not math.isfinite(at_far):
            break
        if at_far * first <= 0.0:
            return start + min(near, far), start + max(near, far)
        near, far = far, 2.0 * far
    return start, start
