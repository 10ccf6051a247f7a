"""Sums of float64 without rounding: the same for every order and every division of the rows.

A float64 is an integer number of units of 2**-1074, so a sum of float64 is one, too.  The sum
is kept in digits of 32 bits, and each value is added at the position of its 53 bits::

    digit of the sum       ... | k + 2 | k + 1 |   k   | ...    units of 2**(32 k - 1074)
    bits of a value                 1101 0111000 11

A digit is an int64, so carries can wait: 2**28 values cannot make it overflow.  The sum is
rounded once, at the very end (as by ``math.fsum``).

Ranks exchange the digits, which may be added element by element
(:meth:`hedgerow.comm.base.Communicator.allreduce`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.intrinsics import bits_of_float

_MOST = 1 << 28
"""Values that are added before digits are carried."""

_UNIT = -1074

_LIMB_BITS = 32
_LIMBS = 69
"""Digits of 32 bits for 2**1024 / 2**-1074, times 2**63 values; the last one has the sign."""

ARRAY_SIZE = _LIMBS + 3
"""Length of :meth:`ExactSum.to_array`."""

_N_NAN, _N_POSITIVE, _N_NEGATIVE = range(_LIMBS, ARRAY_SIZE)
_LOW_BITS = (1 << _LIMB_BITS) - 1
_FRACTION_BITS = 52
_FRACTION = (1 << _FRACTION_BITS) - 1
_NOT_FINITE = 2047


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
        """Return the nearest float64."""
        return self.over(1)

    def over(self, divisor: ExactSum | int) -> float:
        """Return the float64 nearest to the quotient; 1 / 0 and 0 / 0 are as in IEEE 754."""
        if isinstance(divisor, int):
            if divisor != 0 and self.is_finite:
                return _quotient(self.units, divisor << -_UNIT)
            divisor = ExactSum(divisor << -_UNIT)
        if not (self.is_finite and divisor.is_finite and divisor.units != 0):
            with np.errstate(all="ignore"):
                return float(np.float64(self._rounded()) / divisor._rounded())
        return _quotient(self.units, divisor.units)

    @property
    def is_finite(self) -> bool:
        """Whether all values are finite."""
        return self.n_nan == self.n_positive == self.n_negative == 0

    def to_array(self) -> IntArray:
        """Return the sum as int64, shape ``(ARRAY_SIZE,)``; arrays of several sums may be added."""
        digits = self.units.to_bytes(_LIMBS * 4, "little", signed=True)
        array = np.empty(ARRAY_SIZE, dtype=np.int64)
        array[:_LIMBS] = np.frombuffer(digits, dtype="<u4")
        array[_LIMBS - 1] = np.frombuffer(digits, dtype="<i4")[-1]
        array[_LIMBS:] = self.n_nan, self.n_positive, self.n_negative
        return array

    @staticmethod
    def from_array(array: IntArray) -> ExactSum:
        """Invert :meth:`to_array`, also for a sum of such arrays."""
        return ExactSum(_units_of(array[:_LIMBS].tolist()), *array[_LIMBS:].tolist())

    def _rounded(self) -> float:
        if self.n_nan or (self.n_positive and self.n_negative):
            return math.nan
        if self.n_positive or self.n_negative:
            return math.inf if self.n_positive else -math.inf
        return self.over(1)


def _quotient(units: int, divisor: int) -> float:
    """Return the float64 nearest to the quotient of two sums."""
    try:
        return units / divisor  # the quotient of two int is rounded once
    except OverflowError:
        return math.inf if (units > 0) == (divisor > 0) else -math.inf


@kernel
def add_digits(values: kt.Float64_2D, digits: kt.Int64_2D, spans: kt.Int64_2D) -> None:
    """Add each row of ``values`` to the digits of one sum; write which digits may have changed."""
    # A row of ``spans`` becomes the first of these digits and the one behind the last; both are 0
    # if there is none.
    for j in range(np.uint64(len(values))):
        row, own = values[j], digits[j]
        lowest, highest = np.int64(_LIMBS), np.int64(-3)
        for i in range(np.uint64(len(row))):
            bits = bits_of_float(row[i])
            sign = bits >> 63  # -1 where negative: (x ^ sign) - sign is then -x
            exponent, whole = (bits >> _FRACTION_BITS) & 2047, bits & _FRACTION
            if exponent == _NOT_FINITE:
                infinite = _N_NEGATIVE if sign < 0 else _N_POSITIVE
                own[_N_NAN if whole != 0 else infinite] += 1
                continue
            whole |= np.int64(exponent > 0) << _FRACTION_BITS
            place = max(exponent - 1, np.int64(0))  # the value is whole * 2**place units
            limb, offset = place >> 5, place & 31
            low = (whole & _LOW_BITS) << offset
            high = (whole >> _LIMB_BITS) << offset
            at = np.uint64(limb)
            own[at] += ((low & _LOW_BITS) ^ sign) - sign
            own[at + np.uint64(1)] += (((low >> 32) + (high & _LOW_BITS)) ^ sign) - sign
            own[at + np.uint64(2)] += ((high >> 32) ^ sign) - sign
            lowest, highest = min(lowest, limb), max(highest, limb)
        spans[j, 0], spans[j, 1] = min(lowest, highest + 3), highest + 3


def exact_sum(values: FloatArray) -> ExactSum:
    """Return the exact sum of ``values``, shape (n,)."""
    if len(values) > _MOST:
        return exact_sum(values[:_MOST]) + exact_sum(values[_MOST:])
    return exact_sums(values[None])[0]


def exact_sums(values: FloatArray) -> list[ExactSum]:
    """Return the exact sum of each row of ``values``, whose rows have up to 2**28 numbers."""
    if not (values.flags.carray and values.dtype == np.float64):  # what the kernel is compiled for
        values = np.array(values, dtype=np.float64, order="C")
    digits = np.zeros((len(values), ARRAY_SIZE), dtype=np.int64)
    spans = np.empty((len(values), 2), dtype=np.int64)
    add_digits(values, digits, spans)
    return [
        ExactSum(_units_of(own[first:stop]) << (_LIMB_BITS * first), *own[_LIMBS:])
        for (first, stop), own in zip(spans.tolist(), digits.tolist(), strict=True)
    ]


def _units_of(digits: list[int]) -> int:
    """Return the integer with these digits, the lowest first."""
    units = 0
    for digit in reversed(digits):
        units = (units << _LIMB_BITS) + digit
    return units


def weighted_mean(values: FloatArray, weight: FloatArray | None = None) -> float:
    """Divide the exact sum of the rounded ``weight * values`` by the exact sum of weights."""
    if weight is None:
        return exact_sum(values).over(len(values))
    above, below = weighted_sums(values, weight)
    return above.over(below)


def weighted_means(values: FloatArray, weight: FloatArray | None = None) -> list[float]:
    """Return :func:`weighted_mean` of each row of ``values``."""
    if weight is None:
        return [total.over(values.shape[1]) for total in exact_sums(values)]
    below = exact_sum(weight)
    return [total.over(below) for total in exact_sums(values * weight)]


def weighted_sums(values: FloatArray, weight: FloatArray | None) -> tuple[ExactSum, ExactSum]:
    """Return numerator and denominator of :func:`weighted_mean`."""
    if weight is None:
        return exact_sum(values), ExactSum(len(values) << -_UNIT)
    return exact_sum(values * weight), exact_sum(weight)


_GROUPED_BITS = 53 - _LIMB_BITS
"""Sums of 32-bit slices over 2**(_GROUPED_BITS - 1) rows are exact in float64."""


_MOST_GROUPED = 2.0**900


class GroupSums:
    """Exact sums of float64, one for each group.

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
            block, own = values[start : start + step].copy(), groups[start : start + step]
            largest = float(np.abs(block).max())
            if not largest < _MOST_GROUPED:  # the loop below would have no end
                raise ValueError(f"sums of groups hold numbers below 2**900, got {largest!r}.")
            limb = max(0, (math.frexp(largest)[1] - _UNIT - 1) // _LIMB_BITS)
            while block.any():
                grid = limb * _LIMB_BITS + _UNIT
                magnet = math.ldexp(1.5, grid + 52)
                near = (block + magnet) - magnet
                block -= near
                sums = np.bincount(own, np.ldexp(near, -grid), self._n_groups)
                known = self._limbs.setdefault(limb, np.zeros(self._n_groups, dtype=np.int64))
                known += sums.astype(np.int64)
                limb -= 1

    @property
    def limbs(self) -> tuple[int, ...]:
        """Positions, ascending, of the 32-bit digits that the sums use."""
        return tuple(sorted(self._limbs))

    def to_array(self, limbs: tuple[int, ...]) -> IntArray:
        """Return these digits of the sums, shape (n_limbs, n_groups); arrays may be added."""
        array = np.zeros((len(limbs), self._n_groups), dtype=np.int64)
        for row, limb in enumerate(limbs):
            if limb in self._limbs:
                array[row] = self._limbs[limb]
        return array

    def total(self, group: int) -> ExactSum:
        """Return the sum of a group."""
        limbs = self.limbs
        return total_of(self.to_array(limbs)[:, group], limbs)


def total_of(digits: IntArray, limbs: tuple[int, ...]) -> ExactSum:
    """Return the sum with ``digits`` at the positions ``limbs``; see :class:`GroupSums`."""
    pairs = zip(digits.tolist(), limbs, strict=True)
    return ExactSum(sum(digit << (_LIMB_BITS * limb) for digit, limb in pairs))


MOST_LIMBS = _LIMBS
"""Positions of digits are below this."""
