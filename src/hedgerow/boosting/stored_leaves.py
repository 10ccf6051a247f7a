"""Leaf values that are quantiles of residuals, of rows in chunks and on ranks.

The values are those of :meth:`hedgerow.objectives.line_search.LeafRows.quantiles`, found
without an order of the rows: of all leaves at once, digit by digit of the residuals' keys
(:mod:`hedgerow.kernels.keys`), as in :mod:`hedgerow.objectives.whole`::

    pass 1    weight of the rows of each leaf for each first digit; in each leaf the
              digit in which the level is reached is chosen
    pass 2    the same for the second digit of rows with the chosen first one ...

Weights are counted in whole units, whose sums do not depend on an order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.rounds import with_steps
from hedgerow.boosting.stored_rounds import StoredGrower
from hedgerow.data.row_store import RowStore, Uses
from hedgerow.data.schema import Schema
from hedgerow.growing.tree import GrownTree
from hedgerow.kernels.exact_sum import ExactSum, weighted_sums
from hedgerow.kernels.keys import floats_of_keys, keys_of_floats
from hedgerow.objectives import Objective
from hedgerow.objectives.line_search import around, masses_of, unit_of
from hedgerow.objectives.whole import AllRows, merged
from hedgerow.params import BoostParams

_SIGN = np.uint64(1 << 63)
_MOST_BITS = 16
_LEAST_BITS = 4
_MOST_CELLS = 1 << 22
"""Cells of a histogram of digits (32 MB), all leaves together."""

_RESIDUALS = Uses(by_row=False, columns=(), reads=("raw", "rows"), writes=())

_HALF = 23
"""Weights are added up in two parts, each of which float64 holds exactly."""


class LeafQuantiles:
    """Searches the leaves of one fit.

    Parameters
    ----------
    store : RowStore
        Of the training rows.
    grower : StoredGrower
        Has grown the last tree on them, and added no tree since.
    objective : Objective
        ``quantile`` or ``absolute_error``.
    params : BoostParams
        Resolved.
    schema : Schema
    rows : AllRows
        Training rows.
    """

    def __init__(
        self,
        store: RowStore,
        grower: StoredGrower,
        objective: Objective,
        params: BoostParams,
        schema: Schema,
        rows: AllRows,
    ) -> None:
        self._store, self._grower, self._objective = store, grower, objective
        self._params, self._schema = params, schema
        self._communicator = rows.communicator
        total, self._n_rows = ExactSum(), 0
        for target, weight in rows.batches():
            total = total + weighted_sums(target * 0.0, weight)[1]
            self._n_rows += len(target)
        (total,) = merged([total], self._communicator)
        counts = self._communicator.allreduce(np.array([self._n_rows], dtype=np.int64))
        self._n_rows = int(counts[0])
        self._unit = unit_of(total)

    def search(self, tree: GrownTree) -> GrownTree:
        """The tree that was grown last, with the quantiles of its leaves' residuals."""
        leaves = np.flatnonzero(tree.feature < 0)
        place = np.full(len(tree.left), -1, dtype=np.int64)
        place[leaves] = np.arange(len(leaves))
        steps = self._quantiles(place, len(leaves))
        if steps is None:  # a small sample may be empty
            return tree
        return with_steps(tree, leaves, steps, self._params, self._schema)

    def _quantiles(self, place: IntArray, n_leaves: int) -> FloatArray | None:
        """Quantile of each leaf; ``place`` is a leaf's number among them."""
        bits = _bits_of(n_leaves, self._n_rows)
        prefix = np.zeros(n_leaves, dtype=np.uint64)
        below = np.zeros(n_leaves, dtype=np.int64)
        least: FloatArray = np.zeros(0)
        most: FloatArray = np.zeros(0)
        each = np.arange(n_leaves)
        left = 64
        while left > 0:
            step = min(bits, left)
            so_far = self._digits(place, prefix, left, step) + below[:, None]
            if left == 64:
                if not so_far[:, -1].any():
                    return None
                least, most = around(so_far[:, -1].astype(np.float64), self._objective.level)
            chosen = (so_far.astype(np.float64) >= least[:, None]).argmax(axis=1)
            reached = so_far[each, chosen]
            below = np.where(chosen > 0, so_far[each, np.maximum(chosen, 1) - 1], below)
            prefix = (prefix << np.uint64(step)) | chosen.astype(np.uint64)
            left -= step
        keys: IntArray = (prefix ^ _SIGN).view(np.int64)
        found = floats_of_keys(keys)
        midway = reached.astype(np.float64) <= most
        if midway.any():
            following, exists = self._keys_above(place, keys)
            middle = 0.5 * (found + floats_of_keys(np.where(exists, following, keys)))
            found = np.where(midway & exists, middle, found)
        return found + 0.0

    def _digits(self, place: IntArray, prefix: AnyArray, left: int, step: int) -> IntArray:
        """Weight up to each value of the next digit, of each leaf's rows with its prefix.

        ``left`` bits of the keys are still unknown, of which ``step`` are the digit.
        """
        n_cells = len(prefix) << step
        high, low = np.zeros(n_cells), np.zeros(n_cells)
        shift, mask = np.uint64(left - step), np.uint64((1 << step) - 1)

        for leaf, keys, masses in self._residuals(place):
            ordered = keys.view(np.uint64) ^ _SIGN
            if left < 64:
                same = ordered >> np.uint64(left) == prefix[leaf]
                leaf, ordered, masses = leaf[same], ordered[same], masses[same]
            cell = (leaf << step) + ((ordered >> shift) & mask).astype(np.int64)
            high += np.bincount(cell, masses >> _HALF, n_cells)
            low += np.bincount(cell, masses & ((1 << _HALF) - 1), n_cells)
        sums = (high.astype(np.int64) << _HALF) + low.astype(np.int64)
        sums = self._communicator.allreduce(sums).reshape(len(prefix), -1)
        return np.cumsum(sums, axis=1)

    def _keys_above(self, place: IntArray, keys: IntArray) -> tuple[IntArray, AnyArray]:
        """The smallest key of each leaf above the given one, and whether there is one."""
        lowest = np.iinfo(np.int64).min
        found = np.full(len(keys), lowest, dtype=np.int64)  # complements: the order is turned

        for leaf, own, _ in self._residuals(place):
            above = own > keys[leaf]
            np.maximum.at(found, leaf[above], ~own[above])
        together = self._communicator.allreduce(found, "max")
        return ~together, together != lowest

    def _residuals(self, place: IntArray) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Leaf, key of the residual and weight in units of the rows of each chunk that has any."""
        for chunk in self._store.chunks(uses=_RESIDUALS):
            rows, leaves, starts = self._grower.leaf_segments(chunk)
            if len(rows) == 0:
                continue
            leaf = np.repeat(place[leaves], np.diff(starts))
            residual = chunk.target[rows] - chunk.work.raw[0][rows]
            weight = np.ones(len(rows)) if chunk.weight is None else chunk.weight[rows]
            yield leaf, keys_of_floats(residual), masses_of(weight, self._unit)


def _bits_of(n_leaves: int, n_rows: int) -> int:
    """Bits of a digit: more make fewer passes; a histogram is no larger than the rows."""
    most = min(_MOST_CELLS, max(1 << 10, n_rows)) // max(1, n_leaves)
    return min(_MOST_BITS, max(_LEAST_BITS, most.bit_length() - 1))
