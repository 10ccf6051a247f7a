"""Weighted quantile sketch: ranks of a column that need not fit in memory.

Glossary
--------
key       the int64 that stands for a value (:mod:`hedgerow.kernels.tables.keys`): float32,
          float64, int64 and dates are one kind of number here
rank      sum of the weights of the smaller values, ``r-(y)``; with the value's own
          weight it is ``r+(y) = r-(y) + w(y)``
summary   a few of the values; for each a lower bound of ``r-``, an upper bound of
          ``r+`` and a lower bound of ``w``
error     ``epsilon``: no value at all, kept or not, has a rank that is less certain than
          ``epsilon`` times the total weight

::

    kept value       x0             x1                  x2
    r- at least      0              l1                  l2
    r+ at most       h0             h1                  h2
    value y between x1 and x2:   l1 + w1  <=  r-(y) = r+(y)  <=  h2 - w2

*Merging* adds the bounds of two summaries at every value that either of them keeps; the
error of the result is the larger of the two.  *Pruning* to ``size`` keeps the values
nearest to the ranks ``0, 1/size, 2/size, ... 1`` of the total and adds at most ``1/size``.
Both are those of appendix A of "XGBoost: A Scalable Tree Boosting System" (KDD 2016).

Numbers are float64.  Sums of whole weights up to 2**53 are exact.  Other sums are rounded
outwards, lower bounds down and upper bounds up, so that the bounds hold for the real
numbers too, and ``error`` counts the rounding in.  Everything is additions in a fixed
order: the same input gives the same bytes on any machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.data.binning.summary import (
    MOST_WEIGHT,
    Summary,
    check,
    checked_size,
    pack,
    present,
    read_column,
    summarize,
    unpack,
)
from hedgerow.errors import DataError, DataTypeError, ModelFormatError, ParameterError
from hedgerow.kernels.tables.sketch import add_down, add_up, fit_weights, nearest

_BLOCK_ROWS: Final = 8  # rows of a block for each value kept: fewer merges and prunings
_SMALLEST_BLOCK: Final = 1024


@dataclass(frozen=True, eq=False)
class QuantileSketch:
    """Bounds of the ranks of all values of a weighted column, from a few of them.

    Made by :meth:`of`, :class:`SketchBuilder` or :meth:`from_bytes`.  It never changes:
    :meth:`merge` and :meth:`prune` give new sketches, and the arrays are read-only
    copies.  Two sketches are equal if they hold the same numbers.

    Attributes
    ----------
    value : int64, shape (n_values,)
        Ascending keys of the values kept, the smallest and the largest of the column
        among them; ``hedgerow.kernels.tables.keys.floats_of_keys`` turns those of a float
        column into numbers.
    rank_low : float64, shape (n_values,)
        At most the weight of all smaller values.
    rank_high : float64, shape (n_values,)
        At least the weight of all smaller and equal values.
    weight : float64, shape (n_values,)
        At most the weight of the values equal to this one.

    Raises
    ------
    DataError
        If the arrays are not a summary: not ascending, not of one length, or bounds
        that contradict each other.

    Notes
    -----
    A sketch of an int64 column and one of a float column cannot be told apart: merge
    only sketches of the same column.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.data.binning.sketch import QuantileSketch
    >>> from hedgerow.kernels.tables.keys import floats_of_keys
    >>> sketch = QuantileSketch.of(np.array([0.5, 2.0, 2.0, np.nan]), [1.0, 2.0, 1.0, 5.0])
    >>> floats_of_keys(sketch.value), sketch.rank_low, sketch.total, sketch.error
    (array([0.5, 2. ]), array([0., 1.]), 4.0, 0.0)
    >>> halves = QuantileSketch.of(np.arange(100)).merge(QuantileSketch.of(np.arange(100, 200)))
    >>> halves.query([100.0]), halves.prune(4).value, halves.prune(4).error <= 1 / 4
    (array([100]), array([  0,  50, 100, 150, 199]), True)
    """

    value: IntArray
    rank_low: FloatArray
    rank_high: FloatArray
    weight: FloatArray

    def __post_init__(self) -> None:
        for field in fields(self):
            dtype = np.int64 if field.name == "value" else np.float64
            array = np.asarray(getattr(self, field.name)).astype(dtype, order="C", casting="safe")
            array.setflags(write=False)
            object.__setattr__(self, field.name, array)
        check(self._summary)

    @classmethod
    def of(cls, values: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> QuantileSketch:
        """Make the summary of a column that keeps every different value.

        Parameters
        ----------
        values : array of float32, float64 or int64, shape (n,)
            Floats in any order; NaN is missing.  Integers are keys, and
            ``MISSING_KEY`` is missing.  Missing values are left out.
        weights : array of numbers, shape (n,), optional
            From 0 to ``MOST_WEIGHT``; all 1 without it.  A value of weight 0 counts
            as absent.

        Returns
        -------
        QuantileSketch
            ``error`` is 0 if all sums are exact, and about 1e-16 otherwise.

        Raises
        ------
        DataError
            A weight is negative, infinite, NaN or too large, or the shapes differ.
        DataTypeError
            Another type of values or weights.
        """
        values, weights = read_column(values, weights)
        return cls(*summarize(*present(values, weights)))

    def __len__(self) -> int:
        return len(self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QuantileSketch):
            return NotImplemented
        return self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __reduce__(self) -> tuple[Callable[[bytes], QuantileSketch], tuple[bytes]]:
        return QuantileSketch.from_bytes, (self.to_bytes(),)

    @property
    def total(self) -> float:
        """Weight of the whole column, rounded up where its sum is not exact."""
        return float(self.rank_high[-1]) if len(self) else 0.0

    @property
    def min(self) -> int:
        """Key of the smallest value; ``DataError`` if there is none."""
        self._require_values("min")
        return int(self.value[0])

    @property
    def max(self) -> int:
        """Key of the largest value; ``DataError`` if there is none."""
        self._require_values("max")
        return int(self.value[-1])

    @cached_property
    def error(self) -> float:
        """The bound ``epsilon``, from 0 to 1, relative to the total weight.

        Found from the bounds themselves, so it is often better than the sum of the
        ``1/size`` of all prunings.
        """
        if not len(self):
            return 0.0
        own = add_up(add_up(self.rank_high, -self.rank_low), -self.weight)
        between = add_up(self.rank_high[1:], -self.rank_low[:-1])
        between = add_up(add_up(between, -self.weight[1:]), -self.weight[:-1])
        gap = max(float(own.max()), float(between.max(initial=0.0)))
        total = self._total_low()
        if gap >= total:
            return 1.0
        error = gap / total
        if Fraction(error) * Fraction(total) < Fraction(gap):
            error = float(np.nextafter(error, np.inf))
        return error

    def bounds(self, keys: npt.ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bound the ranks of any values, kept or not.

        Parameters
        ----------
        keys : int64, any shape

        Returns
        -------
        rank_low, rank_high, weight : float64, shape of ``keys``
            For each value a lower bound of ``r-``, an upper bound of ``r+`` and a lower
            bound of its weight; ``rank_high - rank_low - weight`` is at most
            ``error * total`` (beside rounding).

        Examples
        --------
        >>> from hedgerow.data.binning.sketch import QuantileSketch
        >>> QuantileSketch.of([10, 20, 20, 40]).bounds([5, 20, 30])
        (array([0., 1., 3.]), array([0., 3., 3.]), array([0., 2., 0.]))
        """
        keys = np.asarray(keys, dtype=np.int64)
        if not len(self):
            return np.zeros(keys.shape), np.zeros(keys.shape), np.zeros(keys.shape)
        at = np.searchsorted(self.value, keys)  # first kept value that is not smaller
        here = np.minimum(at, len(self) - 1)
        kept = self.value[here] == keys
        low_after = np.append(0.0, add_down(self.rank_low, self.weight))
        high_before = np.append(add_up(self.rank_high, -self.weight), self.total)
        high_before[0] = 0.0
        low = np.where(kept, self.rank_low[here], low_after[at])
        high = np.where(kept, self.rank_high[here], high_before[at])
        return low, high, np.where(kept, self.weight[here], 0.0)

    def merge(self, other: QuantileSketch) -> QuantileSketch:
        """Make the summary of both columns together.

        It keeps every value that one of them keeps; its ``error`` is at most the larger
        of the two (and one rounding, where sums are not exact).  The *bound* does not
        depend on the order of several merges; the values kept after prunings in between
        do.
        ``DataError`` if the total is beyond 1e300.
        """
        if not len(self) or not len(other):
            return other if len(other) else self
        keys = np.concatenate([self.value, other.value])
        keys.sort()
        keys = keys[np.append(True, keys[1:] != keys[:-1])]
        low, high, weight = self.bounds(keys)
        other_low, other_high, other_weight = other.bounds(keys)
        low, high = add_down(low, other_low), add_up(high, other_high)
        weight = fit_weights(low, high, add_down(weight, other_weight))
        return QuantileSketch(keys, low, high, weight)

    def prune(self, size: int) -> QuantileSketch:
        """Keep at most ``size + 1`` values; adds at most ``1 / size`` to ``error``.

        The smallest and the largest value are kept.  A sketch that is small enough is
        returned as it is.

        Parameters
        ----------
        size : int, from 1 to 2**24
            ``ParameterError`` if it is something else.
        """
        size = checked_size(size)
        if len(self) <= size + 1:
            return self
        # Relative to a power of two near the total: tiny totals would lose bits.
        _, exponent = np.frexp(self.total)
        low, high, weight = (np.ldexp(array, -int(exponent)) for array in self._summary[1:])
        ranks = high[-1] * (np.arange(1, size) / size)
        kept = np.zeros(len(self), dtype=bool)
        kept[nearest(low, high, weight, ranks)] = True
        kept[[0, -1]] = True
        value, low, high, weight = self._summary
        return QuantileSketch(value[kept], low[kept], high[kept], weight[kept])

    def query(self, rank: npt.ArrayLike) -> IntArray:
        """Find the kept values nearest to the given ranks.

        Parameters
        ----------
        rank : float64, any shape
            From 0 to ``total``.

        Returns
        -------
        int64, shape of ``rank``
            Keys ``x`` with ``r-(x) - t <= rank <= r+(x) + t``, ``t = error * total / 2``.

        Raises
        ------
        DataError
            If no value was seen.
        ParameterError
            If a rank is out of range.

        Examples
        --------
        >>> from hedgerow.data.binning.sketch import QuantileSketch
        >>> QuantileSketch.of(range(11)).query([0.0, 5.5, 11.0])
        array([ 0,  5, 10])
        """
        self._require_values("query")
        ranks = np.asarray(rank, dtype=np.float64)
        inside = (ranks >= 0) & (ranks <= self.total)
        if not inside.all():
            raise ParameterError(
                f"rank must lie from 0 to the total weight {self.total!r}, "
                f"got {float(ranks[~inside][0])!r}; multiply a quantile by .total."
            )
        return self.value[nearest(self.rank_low, self.rank_high, self.weight, ranks)]

    def cuts(self, eps: float) -> IntArray:
        """Propose candidates for splits whose ranks lie less than ``eps`` apart.

        With ``r(z)`` the weight of the values below ``z`` relative to the total, every
        two neighbours have ``r(s[j + 1]) - r(s[j]) < eps``, unless ``s[j]`` alone weighs
        ``eps - error`` or more; such a value is followed at once by the next value kept.

        Parameters
        ----------
        eps : float
            Above ``error``, at most 1; otherwise ``ParameterError``.

        Returns
        -------
        int64
            Ascending keys, the first is ``min`` and the last ``max``; none if no value
            was seen.  As few as the bounds allow: at most about ``2 / (eps - error)``.

        Examples
        --------
        >>> from hedgerow.data.binning.sketch import QuantileSketch
        >>> QuantileSketch.of(range(100)).cuts(0.25)
        array([ 0, 24, 48, 72, 96, 99])
        """
        if isinstance(eps, bool) or not self.error < eps <= 1:
            raise ParameterError(
                f"eps must lie above the error of the sketch, {self.error!r}, and be at most 1, "
                f"got {eps!r}; a sketch of larger size has a smaller error."
            )
        if not len(self):
            return self.value
        rank_before = add_up(self.rank_high, -self.weight)  # at least r-
        width = float(np.nextafter(float(eps) * self._total_low(), 0.0))
        reach = np.searchsorted(rank_before, add_down(self.rank_low, np.full(len(self), width))) - 1
        after = np.maximum(reach, np.arange(1, len(self) + 1)).tolist()
        chosen, last = [0], len(self) - 1
        while chosen[-1] < last:
            chosen.append(after[chosen[-1]])
        return self.value[chosen]

    def to_bytes(self) -> bytes:
        """Write the sketch, 24 bytes and 32 for each value, the same on every machine.

        Little-endian: the magic ``HRSKETCH``, version (uint32), CRC-32 of all that follows
        (uint32), number of values (uint64), and the arrays ``value``, ``rank_low``,
        ``rank_high``, ``weight``.
        """
        return pack(self._summary)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> QuantileSketch:
        """Read what :meth:`to_bytes` wrote.

        Any bytes give a valid sketch or ``ModelFormatError``; no code is run and no more
        memory used than a few times the length of ``data``.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise DataTypeError(f"a sketch is read from bytes, got {type(data).__name__}.")
        try:
            return QuantileSketch(*unpack(bytes(data)))
        except DataError as error:
            raise ModelFormatError(str(error)) from error

    @property
    def _summary(self) -> Summary:
        return self.value, self.rank_low, self.rank_high, self.weight

    def _total_low(self) -> float:
        """Compute the total weight, rounded down."""
        return float(add_down(self.rank_low[-1:], self.weight[-1:])[0])

    def _require_values(self, wanted: str) -> None:
        if not len(self):
            raise DataError(
                f"{wanted} of an empty sketch: every value was missing or had weight 0."
            )


class SketchBuilder:
    """Sketch a column that arrives in chunks, in little memory.

    ::

        rows --> block of 8 * size rows --of--> summary --prune--> level 0
                                      two of level k --merge, prune--> one of level k + 1

    Holds one block of rows and at most one pruned summary for each level: ``n`` rows
    need about ``8 * size + (size + 1) * log2(n / (8 * size))`` entries.  The result
    depends on the rows and their order, not on how they were cut into chunks.

    Parameters
    ----------
    size : int, at least 1
        The sketch keeps at most ``size + 1`` values.  Its error is at most
        ``(1 + number of levels) / size``, about ``(log2(n / size) - 1) / size``;
        0 (beside rounding) while there are no more than ``size + 1`` different values.

    Raises
    ------
    ParameterError
        If ``size`` is not an integer from 1 to 2**24.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.data.binning.sketch import SketchBuilder
    >>> builder = SketchBuilder(size=64)
    >>> for start in range(0, 10_000, 1_000):
    ...     builder.add(np.arange(start, start + 1_000))
    >>> sketch = builder.finish()
    >>> len(sketch) <= 65, sketch.total, sketch.min, sketch.max, sketch.error < 0.1
    (True, 10000.0, 0, 9999, True)
    """

    def __init__(self, size: int) -> None:
        self._size = checked_size(size)
        n_rows = max(_SMALLEST_BLOCK, _BLOCK_ROWS * self._size)
        self._keys = np.empty(n_rows, dtype=np.int64)
        self._weights = np.empty(n_rows, dtype=np.float64)
        self._n_waiting = 0
        self._levels: list[QuantileSketch | None] = []

    @property
    def size(self) -> int:
        """The ``size`` that was asked for."""
        return self._size

    @property
    def n_held(self) -> int:
        """Rows and kept values that are held in memory now."""
        return self._n_waiting + sum(len(level) for level in self._levels if level is not None)

    def add(self, values: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> None:
        """Take a chunk of any length, as :meth:`QuantileSketch.of` does.

        A chunk that is refused leaves the builder as it was.
        """
        values, weights = read_column(values, weights)
        start = 0
        while start < len(values):
            # Each part fits even if nothing in it is missing.
            part = slice(start, start + len(self._keys) - self._n_waiting)
            keys, some = present(values[part], None if weights is None else weights[part])
            end = self._n_waiting + len(keys)
            self._keys[self._n_waiting : end] = keys
            self._weights[self._n_waiting : end] = some
            self._n_waiting = end
            if end == len(self._keys):
                self._carry(self._block().prune(self._size))
                self._n_waiting = 0
            start = part.stop

    def finish(self) -> QuantileSketch:
        """Make the sketch of all rows so far; more may be added afterwards."""
        sketch = self._block()
        for level in self._levels:
            if level is not None:
                sketch = level.merge(sketch)
        return sketch.prune(self._size)

    def _block(self) -> QuantileSketch:
        rows = slice(0, self._n_waiting)
        return QuantileSketch(*summarize(self._keys[rows], self._weights[rows]))

    def _carry(self, summary: QuantileSketch) -> None:
        """Add one to a binary counter whose digits are summaries."""
        for place, level in enumerate(self._levels):
            if level is None:
                self._levels[place] = summary
                return
            self._levels[place] = None
            summary = level.merge(summary).prune(self._size)
        self._levels.append(summary)


__all__ = ["MOST_WEIGHT", "QuantileSketch", "SketchBuilder"]
