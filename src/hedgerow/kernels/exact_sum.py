"""Sums of float64 without rounding: the same for every order and every cutting of the rows.

A float64 is a whole number of units of 2**-1074, so a sum of them is one, too.
Blocks of values are cut into slices of some 40 bits by rounding to a grid::

    value                 110010111 010011010 1101
    nearest on grid 1     110010111                    sums of these are exact in
    nearest on grid 2               010011010          float64, as long as a sum
    nearest on grid 3                         1101     has at most 53 bits

and what the slices add up to is kept as one long integer.  It is rounded once,
at the very end (as by ``math.fsum``).  A block of losses takes three or four
slices: a few nanoseconds a value, nothing to compile.

Ranks hand each other the integer as an array of small ones, which may be added
up element by element (:meth:`hedgerow.comm.base.Communicator.allreduce`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import FloatArray, IntArray

_BLOCK = 1 << 13
"""Values that are cut together; BLAS multiplies longer vectors with threads of its own."""
_ONES = np.ones(_BLOCK)

_UNIT = -1074
_LARGE = 2.0**900
"""From here on a value is made smaller first: the rounding would overflow."""
_SHIFT = 200
_SMALL = 2.0**-400

_LIMB_BITS = 32
_LIMBS = 69
"""2**1024 / 2**-1074, times 2**63 values, in 32 bits each; the last has the sign."""

ARRAY_SIZE = _LIMBS + 3
"""Length of :meth:`ExactSum.to_array`."""


@dataclass(frozen=True, slots=True)
class ExactSum:
    """A sum of float64.

    Attributes
    ----------
    units : int
        The sum of the finite values in units of 2**-1074.
    n_nan, n_positive, n_negative : int
        Values that are NaN, infinity and minus infinity.

    Examples
    --------
    >>> total = exact_sum(np.array([1e100, 1.0])) + exact_sum(np.array([-1e100]))
    >>> float(total)
    1.0
    """

    units: int = 0
    n_nan: int = 0
    n_positive: int = 0
    n_negative: int = 0

    def __add__(self, other: ExactSum) -> ExactSum:
        return ExactSum(
            self.units + other.units,
            self.n_nan + other.n_nan,
            self.n_positive + other.n_positive,
            self.n_negative + other.n_negative,
        )

    def __float__(self) -> float:
        """The nearest float64."""
        return self.over(1)

    def over(self, divisor: ExactSum | int) -> float:
        """The float64 nearest to the quotient; IEEE 754 says what 1 / 0 and 0 / 0 are."""
        if isinstance(divisor, int):
            divisor = ExactSum(divisor << -_UNIT)
        if not (self.is_finite and divisor.is_finite and divisor.units != 0):
            with np.errstate(all="ignore"):
                return float(np.float64(self._rounded()) / divisor._rounded())
        try:
            return self.units / divisor.units  # the quotient of two int is rounded once
        except OverflowError:
            return math.inf if (self.units > 0) == (divisor.units > 0) else -math.inf

    @property
    def is_finite(self) -> bool:
        """Whether all values are."""
        return self.n_nan == self.n_positive == self.n_negative == 0

    def to_array(self) -> IntArray:
        """As int64, shape ``(ARRAY_SIZE,)``: arrays of several sums may be added up."""
        digits = self.units.to_bytes(_LIMBS * 4, "little", signed=True)
        array = np.empty(ARRAY_SIZE, dtype=np.int64)
        array[:_LIMBS] = np.frombuffer(digits, dtype="<u4")
        array[_LIMBS - 1] = np.frombuffer(digits, dtype="<i4")[-1]
        array[_LIMBS:] = self.n_nan, self.n_positive, self.n_negative
        return array

    @staticmethod
    def from_array(array: IntArray) -> ExactSum:
        """Inverse of :meth:`to_array`, and of a sum of such arrays."""
        units = 0
        for limb in reversed(array[:_LIMBS].tolist()):
            units = (units << _LIMB_BITS) + limb
        return ExactSum(units, *array[_LIMBS:].tolist())

    def _rounded(self) -> float:
        if self.n_nan or (self.n_positive and self.n_negative):
            return math.nan
        if self.n_positive or self.n_negative:
            return math.inf if self.n_positive else -math.inf
        return self.over(1)


def exact_sum(values: FloatArray) -> ExactSum:
    """The sum of ``values``, shape (n,).

    Examples
    --------
    >>> float(exact_sum(np.array([0.1] * 10)))
    1.0
    """
    units, n_nan, n_positive, n_negative = 0, 0, 0, 0
    for start in range(0, len(values), _BLOCK):
        block = np.array(values[start : start + _BLOCK], dtype=np.float64)  # is written to
        with np.errstate(all="ignore"):
            largest = math.sqrt(block.dot(block))  # no value is above it
        if not _SMALL < largest < _LARGE:  # squares may have overflowed, or vanished
            largest = max(float(block.max()), -float(block.min()))
        if not largest < _LARGE:  # or NaN
            n_nan += int(np.count_nonzero(np.isnan(block)))
            n_positive += int(np.count_nonzero(block == np.inf))
            n_negative += int(np.count_nonzero(block == -np.inf))
            huge = np.abs(block) >= _LARGE
            some = block[huge & np.isfinite(block)]
            units += _units_of(np.ldexp(some, -_SHIFT), 2.0**824) << _SHIFT
            block = block[np.abs(block) < _LARGE]
            largest = _LARGE
        units += _units_of(block, largest)
    return ExactSum(units, n_nan, n_positive, n_negative)


def _units_of(block: FloatArray, largest: float) -> int:
    """Sum of at most ``_BLOCK`` values within ``largest`` of 0, in units; leaves zeros."""
    units, near, ones = 0, np.empty_like(block), _ONES[: len(block)]
    # So many bits that the sum has 53, and that the magnet stays between powers of two.
    slice_ = min(53 - len(block).bit_length(), 51)
    top = math.frexp(largest)[1]  # all values are below 2**top
    while np.count_nonzero(block):
        grid = max(top - slice_, _UNIT)
        # Added to a number this large, a value is rounded to a multiple of 2**grid.
        magnet = math.ldexp(1.5, grid + 52)
        np.add(block, magnet, out=near)
        np.subtract(near, magnet, out=near)
        np.subtract(block, near, out=block)
        # A product of vectors is the fastest sum; any order of exact additions will do.
        units += int(math.ldexp(float(near.dot(ones)), -grid)) << (grid - _UNIT)
        top = grid
    return units


def weighted_mean(values: FloatArray, weight: FloatArray | None = None) -> float:
    """Sum of the products ``weight * values`` (each rounded) over the sum of the weights.

    Both sums are exact, and so is the quotient but for one rounding.
    """
    above, below = weighted_sums(values, weight)
    return above.over(below)


def weighted_sums(values: FloatArray, weight: FloatArray | None) -> tuple[ExactSum, ExactSum]:
    """Numerator and denominator of :func:`weighted_mean`."""
    if weight is None:
        return exact_sum(values), ExactSum(len(values) << -_UNIT)
    return exact_sum(values * weight), exact_sum(weight)


_GROUPED_BITS = 53 - _LIMB_BITS
"""Slices of 32 bits of half as many rows as 2**_GROUPED_BITS sum up exactly in float64."""


_MOST_GROUPED = 2.0**900


class GroupSums:
    """An exact sum of float64 for each of some groups.

    Parameters
    ----------
    n_groups : int

    Examples
    --------
    >>> sums = GroupSums(2)
    >>> sums.add(np.array([0.1, 5.0, 0.2]), np.array([0, 1, 0]))
    >>> float(sums.total(0)), float(sums.total(1))
    (0.30000000000000004, 5.0)
    """

    def __init__(self, n_groups: int) -> None:
        self._n_groups = n_groups
        self._limbs: dict[int, IntArray] = {}

    def add(self, values: FloatArray, groups: IntArray) -> None:
        """Add each of ``values``, which lie within 2**900 of 0, to the sum of its group."""
        step = 1 << (_GROUPED_BITS - 1)
        for start in range(0, len(values), step):
            self._add_block(values[start : start + step].copy(), groups[start : start + step])

    def _add_block(self, block: FloatArray, groups: IntArray) -> None:
        largest = float(np.abs(block).max())
        if not largest < _MOST_GROUPED:  # the loop below would have no end
            raise ValueError(f"sums of groups hold numbers below 2**900, got {largest!r}.")
        limb = max(0, (math.frexp(largest)[1] - _UNIT - 1) // _LIMB_BITS)
        while block.any():
            grid = limb * _LIMB_BITS + _UNIT
            magnet = math.ldexp(1.5, grid + 52)
            near = (block + magnet) - magnet
            block -= near
            sums = np.bincount(groups, np.ldexp(near, -grid), self._n_groups)
            known = self._limbs.setdefault(limb, np.zeros(self._n_groups, dtype=np.int64))
            known += sums.astype(np.int64)
            limb -= 1

    @property
    def limbs(self) -> tuple[int, ...]:
        """Places, ascending, of the 32-bit digits that sums have."""
        return tuple(sorted(self._limbs))

    def to_array(self, limbs: tuple[int, ...]) -> IntArray:
        """These digits of the sums, shape (n_limbs, n_groups); arrays may be added up."""
        array = np.zeros((len(limbs), self._n_groups), dtype=np.int64)
        for row, limb in enumerate(limbs):
            if limb in self._limbs:
                array[row] = self._limbs[limb]
        return array

    def total(self, group: int) -> ExactSum:
        """The sum of a group."""
        limbs = self.limbs
        return total_of(self.to_array(limbs)[:, group], limbs)


def total_of(digits: IntArray, limbs: tuple[int, ...]) -> ExactSum:
    """The sum that has ``digits``, those at the places ``limbs``; see :class:`GroupSums`."""
    pairs = zip(digits.tolist(), limbs, strict=True)
    return ExactSum(sum(digit << (_LIMB_BITS * limb) for digit, limb in pairs))


MOST_LIMBS = _LIMBS
"""Places of digits are below this."""
