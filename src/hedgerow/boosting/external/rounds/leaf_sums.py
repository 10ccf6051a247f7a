"""Leaf values from sums over the rows of leaves, for rows in chunks and on ranks.

A line search finds the step of each leaf by sums of derivatives
(:class:`hedgerow.objectives.line_search.RootRule`), with a pass over the rows for each step of
the search, or by a formula of a few sums (:class:`~hedgerow.objectives.line_search.SumsRule`), in
one pass.  The sums have the bits of those in memory (:mod:`hedgerow.objectives.ordered_sum`), so
the search takes the same steps.  What is searched of a few rows in chunks is gathered once: a
search takes up to 100 steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.external.rounds.leaves import weights_in_tree
from hedgerow.boosting.loop.leaf_steps import with_steps
from hedgerow.comm.base import Communicator, gather_numbers
from hedgerow.data.external.row_store import Chunk, RowStore, Uses
from hedgerow.data.schema import Schema
from hedgerow.growing.chunks.grower import ChunkGrower
from hedgerow.growing.core.tree import NO_ROWS, GrownTree, add_tree, columns_of_lines
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from hedgerow.objectives import Objective
from hedgerow.objectives.line_search import (
    LONGEST_STEP,
    LeafRows,
    RootRule,
    Slopes,
    SumsRule,
    roots_of_sums,
)
from hedgerow.objectives.ordered_sum import FIELDS, OrderedSum
from hedgerow.objectives.targets import SeveralTargets, leaf_rule_of
from hedgerow.params import BoostParams

_ROWS_AT_ONCE = 1 << 16
"""Most rows whose derivatives are computed at once, which takes some 100 bytes each."""

_NUMBERS_TOGETHER = 6
"""Numbers of a row with four outputs: target, weight and scores.  If the rows of all chunks have at
most ``_ROWS_AT_ONCE`` times as many numbers, they are searched together."""

_ROWS_ONLY = Uses(by_row=False, columns=(), reads=("rows",), writes=())

Values = Callable[[FloatArray, FloatArray, FloatArray], Sequence[FloatArray]]
"""A function of targets, raw scores and steps of some rows; returns the unweighted summands."""


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Some rows of the leaves, leaf by leaf; ``sizes`` are their numbers in each leaf."""

    target: FloatArray
    raw: FloatArray
    weight: FloatArray
    sizes: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class _Counts:
    """Rows of each leaf on all ranks, and on lower ranks."""

    all: IntArray
    before: IntArray


class LeafSums:
    """Finds the leaf values of the trees of one fit.

    Parameters
    ----------
    store : RowStore
        Store of the training rows.
    grower : ChunkGrower
        The grower of the last tree, which has added no tree since.
    objective : Objective
        With a rule of sums, see :func:`hedgerow.objectives.targets.leaf_rule_of`.
    schema : Schema
    ranks : Communicator
        The ranks that have other rows.
    n_threads : int
    factor : float or None
        Trees of a round join the scores together: the search of an output then adds the trees of
        the outputs before, times ``factor``.  None: they have joined.
    """

    def __init__(
        self,
        store: RowStore,
        grower: ChunkGrower,
        objective: Objective,
        schema: Schema,
        ranks: Communicator,
        n_threads: int,
        factor: float | None,
    ) -> None:
        self._store, self._grower, self._objective = store, grower, objective
        self._schema, self._ranks = schema, ranks
        self._n_threads, self._factor = n_threads, factor
        self._before: list[tuple[GrownTree, int]] = []

    def search(self, tree: GrownTree, output: int, params: BoostParams) -> GrownTree:
        """Return the last tree, grown for ``output``, with the values of least loss.

        ``params`` are the resolved parameters of the round.
        """
        if output == 0:
            self._before = []
        leaves = np.flatnonzero(tree.feature < 0)
        counts = self._count(len(leaves))
        if not counts.all.any():  # a small sample may be empty
            return tree
        steps = self._steps(output, counts)
        found = with_steps(tree, leaves, steps, params, self._schema)
        if self._factor is not None and tree.vectors is None:
            self._before.append((found.scaled(self._factor), output))
        return found

    def _steps(self, output: int, counts: _Counts) -> FloatArray:
        rule = leaf_rule_of(self._objective, output)
        assert isinstance(rule, SumsRule | RootRule)
        if self._are_few(counts):
            return self._together(output).steps_by(rule, output)
        if isinstance(rule, SumsRule):
            values = rule.values
            return rule.step(
                *self._sums(output, counts, lambda target, raw, step: values(target, raw))
            )
        slopes, n_leaves = rule.slopes, len(counts.all)
        low, high = np.full(n_leaves, -LONGEST_STEP), np.full(n_leaves, LONGEST_STEP)
        if rule.reach is not None:
            low, high = self._extent(output, n_leaves, rule.reach)

        def at(step: FloatArray) -> Slopes:
            of_rows: Values = lambda target, raw, own: slopes(target, raw)(own)  # noqa: E731
            first, second = self._sums(output, counts, of_rows, step)
            return first, second

        return roots_of_sums(at, low, high)

    def _are_few(self, counts: _Counts) -> bool:
        """Return whether the rows of all leaves are searched as rows in memory are."""
        n_rows = int(counts.all.sum())
        n_numbers = n_rows * (2 + self._objective.n_outputs)
        alone = self._ranks.size == 1 and bool(counts.all.all())
        return alone and n_rows > 1 and n_numbers <= _NUMBERS_TOGETHER * _ROWS_AT_ONCE

    def _together(self, output: int) -> LeafRows:
        """Return the rows of all chunks, leaf by leaf."""
        parts = list(self._parts(output))
        sizes = np.stack([part.sizes for part in parts])
        leaf = np.concatenate([np.repeat(np.arange(len(part.sizes)), part.sizes) for part in parts])
        order = np.argsort(leaf, kind="stable")
        return LeafRows(
            np.concatenate([part.target for part in parts])[order],
            np.concatenate([part.raw for part in parts], axis=1)[:, order],
            np.concatenate([part.weight for part in parts])[order],
            np.concatenate([[0], np.cumsum(sizes.sum(axis=0))]),
        )

    def _count(self, n_leaves: int) -> _Counts:
        """Count the rows of the leaves."""
        own = np.zeros(n_leaves, dtype=np.int64)
        for chunk in self._store.chunks(uses=_ROWS_ONLY):
            own += np.diff(self._grower.leaf_segments(chunk)[2])
        by_rank = gather_numbers(own, self._ranks).reshape(self._ranks.size, n_leaves)
        return _Counts(by_rank.sum(axis=0), by_rank[: self._ranks.rank].sum(axis=0))

    def _extent(
        self, output: int, n_leaves: int, reach: Callable[[FloatArray, FloatArray], FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and the largest ``reach`` of the rows of each leaf."""
        most = np.full((2, n_leaves), keys_of_floats(np.array([-np.inf]))[0])
        for part in self._parts(output):
            keys = keys_of_floats(reach(part.target, part.raw))
            present = np.flatnonzero(part.sizes)
            starts = (np.cumsum(part.sizes) - part.sizes)[present]
            # The complement of a key has the reverse order.
            for row, values in zip(most, (~keys, keys), strict=True):
                row[present] = np.maximum(row[present], np.maximum.reduceat(values, starts))
        most = self._ranks.allreduce(most.reshape(-1), "max").reshape(most.shape)
        return floats_of_keys(~most[0]), floats_of_keys(most[1])

    def _sums(
        self, output: int, counts: _Counts, values: Values, step: FloatArray | None = None
    ) -> list[FloatArray]:
        """Return the weighted sums of ``values`` of the rows of each leaf at its ``step``."""
        steps = np.zeros(len(counts.all)) if step is None else step
        sums: list[list[OrderedSum]] = []
        place = counts.before.copy()
        for part in self._parts(output):
            found = _values_of(part, np.repeat(steps, part.sizes), values)
            sums = sums or [[OrderedSum(n) for n in counts.all.tolist()] for _ in found]
            ends = np.cumsum(part.sizes).tolist()
            for row, of_value in zip(sums, found, strict=True):
                weighted = of_value * part.weight
                for leaf in np.flatnonzero(part.sizes).tolist():
                    start = ends[leaf] - int(part.sizes[leaf])
                    row[leaf].add(weighted[start : ends[leaf]], int(place[leaf]))
            place += part.sizes
        return self._totals(sums, counts)

    def _totals(self, sums: list[list[OrderedSum]], counts: _Counts) -> list[FloatArray]:
        """Return the sums of all ranks."""
        if self._ranks.size > 1:
            sums = self._merged(sums, counts)
        return [np.array([total.total() for total in row]) for row in sums]

    def _merged(self, sums: list[list[OrderedSum]], counts: _Counts) -> list[list[OrderedSum]]:
        n_leaves = len(counts.all)
        parts = [total.to_array() for row in sums for total in row]
        numbers = np.repeat(np.arange(len(parts)), list(map(len, parts)))
        empty = np.zeros((0, FIELDS), dtype=np.int64)
        message = np.column_stack([numbers, np.concatenate([empty, *parts])])
        gathered = gather_numbers(message.astype(np.int64).reshape(-1), self._ranks)
        entries = gathered.reshape(-1, 1 + FIELDS)
        n_sums = int(entries[:, 0].max()) + 1
        merged = [OrderedSum(n) for n in counts.all.tolist() * (n_sums // n_leaves)]
        order = np.argsort(entries[:, 0], kind="stable")
        ends = np.cumsum(np.bincount(entries[:, 0], minlength=n_sums))
        for number, own in enumerate(np.split(entries[order, 1:], ends[:-1])):
            merged[number].merge(own)
        return [merged[start : start + n_leaves] for start in range(0, n_sums, n_leaves)]

    def _parts(self, output: int) -> Iterator[_Part]:
        """Yield the rows of the leaves, chunk by chunk, there leaf by leaf and ascending."""
        trees = [tree for tree, _ in self._before]
        uses = Uses(
            by_row=len(trees) > 0,
            columns=(),
            reads=("raw", "rows", "weights"),
            writes=(),
            numbers=columns_of_lines(trees),
        )
        for chunk in self._store.chunks(uses=uses):
            rows, _, starts = self._grower.leaf_segments(chunk)
            raw, target = self._scores(chunk, output), chunk.target
            if isinstance(self._objective, SeveralTargets):
                target = chunk.target_of(output)
            for first in range(0, len(rows), _ROWS_AT_ONCE):
                some = rows[first : first + _ROWS_AT_ONCE]
                ends = np.clip(starts, first, first + len(some))
                sizes = ends[1:] - ends[:-1]
                weight = weights_in_tree(self._grower, chunk, some)
                yield _Part(target[some], raw[:, some], weight, sizes)

    def _scores(self, chunk: Chunk, output: int) -> FloatArray:
        """Return the raw scores of a chunk at which the leaves of an output are searched."""
        raw = chunk.work.raw
        if isinstance(self._objective, SeveralTargets):  # its losses do not see other scores
            return raw[output : output + 1]
        if not self._before:
            return raw
        moved = raw.copy()
        for tree, earlier in self._before:
            rows = chunk.matrix, chunk.numbers
            add_tree(tree, rows, NO_ROWS, moved, earlier, self._n_threads)
        return moved


def _values_of(part: _Part, step: FloatArray, values: Values) -> Sequence[FloatArray]:
    """Return the values of the rows of a part.

    NumPy adds up the scores of a single row in another order than those of several.
    """
    if len(part.target) > 1:
        return values(part.target, part.raw, step)
    twice = np.repeat(part.target, 2, axis=0), np.repeat(part.raw, 2, axis=1), np.repeat(step, 2)
    return [of_value[:1] for of_value in values(*twice)]
