"""Means, shares and quantiles over all rows of a fit, in batches and on ranks.

Rows may come in batches (chunks of a table larger than memory) and be spread over ranks.  No
result depends on the division of the rows: sums are exact
(:mod:`hedgerow.kernels.primitives.exact_sum`), and a quantile is found by counting::

    key of a value, 64 bits     0x3FF0 | 0000 | 0000 | 0000
    pass 1                      weight of the rows for each of 65536 first digits; the digit
                                at which the cumulative weight reaches the level is chosen
    passes 2, 3, 4              weight for each next digit, of the rows that have the digits
                                chosen so far
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

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
from hedgerow.kernels.tables.keys import float_of_key, keys_of_floats

Batch: TypeAlias = "tuple[FloatArray, FloatArray | None]"
"""Targets and weights (None: all 1) of some rows."""

_DIGIT = 16
_PASSES = 64 // _DIGIT
_LAST = np.uint64(2**_DIGIT - 1)
_SIGN = np.uint64(1 << 63)
_LOWEST = np.iinfo(np.int64).min
_PLAY = Fraction(1, 10**12)
"""Tolerance in comparisons with a level, because float64 cannot represent decimal fractions."""


@dataclass(frozen=True, slots=True, eq=False)
class AllRows:
    """The rows of a fit.

    Attributes
    ----------
    batches : callable
        Returns an iterator over the rows of this rank, in order, at each call.
    communicator : Communicator
    """

    batches: Callable[[], Iterable[Batch]]
    communicator: Communicator

    @staticmethod
    def of(target: FloatArray, weight: FloatArray | None) -> AllRows:
        """Make an object for rows in memory."""
        return AllRows(lambda: [(target, weight)], Alone())

    def of_target(self, column: int) -> AllRows:
        """Return the rows with one of several targets."""

        def batches() -> Iterable[Batch]:
            for target, weight in self.batches():
                yield np.ascontiguousarray(target[:, column]), weight

        return AllRows(batches, self.communicator)

    def gathered(self) -> Batch:
        """Return the targets and weights of the rows of all ranks."""
        targets, weights = [], [np.zeros(0)]
        for target, weight in self.batches():  # the next batch may take over the arrays
            targets.append(target.copy())
            if weight is not None:
                weights.append(weight.copy())
        weight = gather_numbers(np.concatenate(weights), self.communicator)
        return gather_targets(targets, self.communicator), weight if len(weight) > 0 else None

    def mean(self, values: Callable[[FloatArray], FloatArray] | None = None) -> float:
        """Return the weighted mean of ``values(target)``, by default of the targets."""
        above, below = ExactSum(), ExactSum()
        for target, weight in self.batches():
            chosen = target if values is None else values(target)
            more_above, more_below = weighted_sums(chosen, weight)
            above, below = above + more_above, below + more_below
        above, below = merged([above, below], self.communicator)
        return above.over(below)

    def total(self, values: Callable[[FloatArray], FloatArray]) -> float:
        """Return the weighted sum of ``values(target)``."""
        total, one = ExactSum(), weighted_sums(np.ones(1), None)[0]
        for target, weight in self.batches():
            total = total + weighted_sums(values(target), weight)[0]
        return merged([total], self.communicator)[0].over(one)

    def total_weight(self) -> float:
        """Return the total weight; without weights the number of rows."""
        return self.total(lambda target: np.ones(len(target)))

    def center(self) -> float:
        """Return the weighted mean of the targets; exact if all targets are equal."""
        first, weighted = ExactSum(), False
        n_rows = ExactSum()
        for target, weight in self.batches():
            above, below = weighted_sums(target, None)
            first, n_rows, weighted = first + above, n_rows + below, weighted or weight is not None
        first, n_rows = merged([first, n_rows], self.communicator)
        weighted = bool(self.communicator.allreduce(np.array([weighted], np.int64), "max")[0])
        middle = first.over(n_rows)
        # Products with weights are rounded; products of differences have smaller errors.
        return middle + self.mean(lambda target: target - middle) if weighted else middle

    def shares(self, n_classes: int) -> FloatArray:
        """Return the share of each of the classes 0, 1, ... in the total weight."""
        digits, limbs = self._sums(lambda target: (None, target.astype(np.int64)), n_classes)
        masses = [total_of(digits[:, k], limbs) for k in range(n_classes)]
        total = sum(masses, ExactSum())
        return np.array([mass.over(total) for mass in masses])

    def quantile(self, level: float) -> float:
        """Return the smallest target at which the cumulative weight reaches ``level`` of the total.

        If the cumulative weight equals the level, it is the midpoint to the next target.  The
        result is never -0.0.
        """
        prefix, below, goal, limit = 0, 0, Fraction(0), Fraction(0)
        for number in range(_PASSES):
            shift = np.uint64(64 - _DIGIT * (number + 1))

            def chosen(
                target: FloatArray, shift: np.uint64 = shift, prefix: int = prefix
            ) -> tuple[IntArray | None, IntArray]:
                keys = keys_of_floats(target).view(np.uint64) ^ _SIGN
                digits = (keys >> shift) & _LAST
                if shift == 64 - _DIGIT:
                    return None, digits.astype(np.int64)
                rows = np.flatnonzero(keys >> (shift + np.uint64(_DIGIT)) == prefix)
                return rows, digits[rows].astype(np.int64)

            digits, limbs = self._sums(chosen, 2**_DIGIT)
            so_far = np.cumsum(digits, axis=1)
            if number == 0:
                whole = total_of(so_far[:, -1], limbs).units
                goal = (Fraction(level) - _PLAY) * whole
                limit = (Fraction(level) + _PLAY) * whole
            place = _first_at_least(so_far, limbs, goal - below)
            if number == _PASSES - 1:
                break
            if place > 0:
                below += total_of(so_far[:, place - 1], limbs).units
            prefix = (prefix << _DIGIT) | place
        key = _signed((prefix << _DIGIT) | place)
        found = float_of_key(key)
        if below + total_of(so_far[:, place], limbs).units <= limit:
            following = self._key_above(key)
            if following is not None:
                return 0.5 * found + 0.5 * float_of_key(following) + 0.0
        return found + 0.0

    def _key_above(self, key: int) -> int | None:
        """Return the smallest key above ``key``; None if there is none."""
        smallest = _LOWEST  # the complement of a key has the reverse order
        for target, _ in self.batches():
            keys = keys_of_floats(target)
            above = keys[keys > key]
            if len(above) > 0:
                smallest = max(smallest, ~int(above.min()))
        found = int(self.communicator.allreduce(np.array([smallest], np.int64), "max")[0])
        return None if found == _LOWEST else ~found

    def _sums(
        self,
        groups: Callable[[FloatArray], tuple[IntArray | None, IntArray]],
        n_groups: int,
    ) -> tuple[IntArray, tuple[int, ...]]:
        """Return the weight of each group as digits and limbs, see ``total_of``."""
        counts = np.zeros(n_groups, dtype=np.int64)
        sums, weighted = GroupSums(n_groups), False
        for target, weight in self.batches():
            rows, chosen = groups(target)
            if weight is None:
                counts += np.bincount(chosen, minlength=n_groups)
            else:
                weighted = True
                sums.add(weight if rows is None else weight[rows], chosen)
        communicator = self.communicator
        present = np.zeros(MOST_LIMBS + 1, dtype=np.int64)
        present[list(sums.limbs)] = 1
        present[MOST_LIMBS] = weighted
        present = communicator.allreduce(present, "max")
        if not present[MOST_LIMBS]:
            return communicator.allreduce(counts)[None], (0,)
        limbs = tuple(np.flatnonzero(present[:MOST_LIMBS]).tolist())
        return communicator.allreduce(sums.to_array(limbs).reshape(-1)).reshape(-1, n_groups), limbs


def gather_targets(parts: Sequence[FloatArray], communicator: Communicator) -> FloatArray:
    """Concatenate the targets of all ranks: (n_rows,), or (n_rows, n_targets) in Fortran order."""
    # A rank without parts does not know the number of targets.
    n_targets = max((part.shape[1] for part in parts if part.ndim == 2), default=0)
    n_targets = int(communicator.allreduce(np.array([n_targets], np.int64), "max")[0])
    empty = np.zeros((0, n_targets)) if n_targets > 0 else np.zeros(0)
    own = np.ascontiguousarray(np.concatenate([empty, *parts]))
    found = gather_numbers(own.reshape(-1), communicator)
    return np.asfortranarray(found.reshape(-1, n_targets)) if n_targets > 0 else found


def merged(sums: Sequence[ExactSum], communicator: Communicator) -> list[ExactSum]:
    """Return the sums over all ranks."""
    if communicator.size == 1:
        return list(sums)
    arrays = np.stack([total.to_array() for total in sums])
    together = communicator.allreduce(arrays.reshape(-1)).reshape(arrays.shape)
    return [ExactSum.from_array(array) for array in together]


def _first_at_least(so_far: IntArray, limbs: tuple[int, ...], goal: Fraction) -> int:
    """Return the first position whose cumulative sum is ``goal`` or more."""
    low, high = 0, so_far.shape[1] - 1
    while low < high:
        middle = (low + high) // 2
        if total_of(so_far[:, middle], limbs).units >= goal:
            high = middle
        else:
            low = middle + 1
    return low


def _signed(key: int) -> int:
    """Return the signed key of 64 unsigned bits whose first bit is flipped."""
    return key - (1 << 63)
