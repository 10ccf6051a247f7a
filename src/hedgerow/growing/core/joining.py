"""The work after each tree of a fit with few rows, in one call of compiled code.

::

    table of the grower                  -->  nodes of the tree, behind those of other trees
    rows of its leaves                   -->  slopes, if leaves are lines
    rows outside its sample              -->  raw scores with the tree
    validation rows                      -->  raw scores with the tree
    after the last tree of a round       -->  copy of the raw scores of the validation rows

Each step takes a few microseconds.  With Python between the steps, a default fit of 400 rows of
5 columns took 1.2 s, of which 0.3 s were spent in compiled code.

The rows that a tree is added to are validation rows, and rows outside its sample
(:class:`WalkedRows`).  :mod:`hedgerow.growing.core.tree` adds any tree to any rows.  Here the same
walk reads the nodes where the grower keeps them, and what does not change from tree to tree is
looked up once: for the few rows of a small table, preparing the walk took longer than walking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import AnyArray, FloatArray, RowArray
from hedgerow.compile import entry_of, kernel
from hedgerow.data import BinnedMatrix
from hedgerow.growing.core import state as s
from hedgerow.growing.core.slopes import (
    LeafSpace,
    SlopeFinder,
    choose_columns,
    leaf_space,
    pack_terms,
)
from hedgerow.growing.core.stages.gradients import units_of
from hedgerow.growing.core.state import NUMBER_VALUE
from hedgerow.growing.core.tree import (
    NO_SLOPES,
    ROWS_PER_WALK,
    GrownTree,
    Lines,
    Nodes,
    TreeOfTable,
    Walked,
    add_to_scores,
    copy_nodes,
    empty_block,
)
from hedgerow.kernels.prediction import slope_fit
from hedgerow.kernels.prediction.slopes import TERMS, Slopes, empty_slopes
from hedgerow.kernels.prediction.traverse import walk_space
from hedgerow.threads import run_blocks

# Rows of ``Batch.places``.
NEXT_NODE, NEXT_START, NEXT_TERM, PLACES = range(4)


class Batch(NamedTuple):
    """The trees of a batch of rounds.

    nodes   the nodes of all trees, one tree behind the other
    turn    int64 (1,): trees so far
    places  int64 (PLACES, n_trees + 1): where the nodes, the starts and the terms of each tree
            begin, and where those of the last one end
    after   float64 (n_outputs, n_rounds, n_unseen): raw scores of the validation rows after each
            round
    """

    nodes: Nodes
    turn: kt.Int64_1D
    places: kt.Int64_2D
    after: kt.Float64_3D


class LeafLines(NamedTuple):
    """The additional data of trees with linear leaves.

    used      0: leaves are numbers, and all else is empty
    usable    uint8 (n_features,): columns of numbers
    leaves, terms, own, system, values  scratch space
    space     float64 (2 + TERMS, n_rows): scratch
    rules     penalty, rate and longest line, as in ``SlopeRules``
    constant  1: every hessian is 1
    room      float64 (2, 0): no node has bounds
    slopes    the terms of all trees of the batch
    outside   numbers of the training rows, and scratch
    unseen    numbers of the validation rows, and scratch
    """

    used: int
    usable: kt.UInt8_1D
    leaves: LeafSpace
    terms: slope_fit.LeafTerms
    own: kt.Float64_1D
    system: kt.Float64_2D
    values: kt.Float64_1D
    space: kt.Float64_2D
    rules: tuple[float, float, tuple[float, float]]
    constant: int
    room: kt.Float64_2D
    slopes: Slopes
    outside: Lines
    unseen: Lines


@kernel
def join_tree(
    table: kt.Int64_2D,
    numbers: kt.Float64_2D,
    scalars: kt.Int64_1D,
    rows: s.Rows,
    rest: tuple[Walked, Walked],
    space: kt.UInt64_1D,
    lines: LeafLines,
    batch: Batch,
) -> None:
    """Take the tree that has grown into the batch, and add it to scores that lack it."""
    (outside, unseen), slopes, places = rest, lines.slopes, batch.places
    turn, one, n_terms = np.uint64(batch.turn[0]), np.uint64(1), np.int64(0)
    n_nodes, output = scalars[s.IS_N_NODES], scalars[s.IS_OUTPUT]
    first, start, term = places[NEXT_NODE, turn], places[NEXT_START, turn], places[NEXT_TERM, turn]
    copy_nodes(table, numbers, n_nodes, batch.nodes, first)
    if lines.used == 1:
        last = first + n_nodes
        slopes = Slopes(
            slopes.start[start : start + n_nodes + 1], slopes.column[term:], slopes.slope[term:],
            slopes.center[term:], slopes.low[first:last], slopes.high[first:last],
        )  # fmt: skip
        # Find the slopes of the tree, and add it to the scores of its sample.
        leaves, terms, values = lines.leaves, lines.terms, lines.values
        choose_columns(table, n_nodes, lines.usable, leaves, terms)
        for node in range(np.uint64(n_nodes)):
            values[node] = numbers[node, NUMBER_VALUE]
        units = units_of(scalars, lines.constant, 0)
        data = slope_fit.LeafRows(
            rows.rows, leaves.start, leaves.count, rows.quantized, units.g, units.h,
            lines.outside.numbers, lines.space,
        )  # fmt: skip
        penalty, rate, longest = lines.rules
        rules = slope_fit.SlopeRules(penalty, rate, longest, values[:n_nodes], lines.room)
        scores = outside.raw[output]
        slope_fit.fit_terms(data, terms, rules, 0, n_nodes, lines.own, lines.system, scores)
        n_terms = pack_terms(terms, n_nodes, slopes)
    n_sample, n_rows, n_unseen = scalars[s.IS_N_ROWS], outside.raw.shape[1], unseen.raw.shape[1]
    part = (batch.nodes, first, n_nodes, slopes)
    if n_sample < n_rows:
        add_to_scores(*part, lines.outside, outside, output, rows.rows, n_sample, n_rows, space)
    if n_unseen > 0:
        add_to_scores(*part, lines.unseen, unseen, output, rows.rows[:0], 0, n_unseen, space)
    # Where the next tree begins; after a round, the scores of the validation rows.
    places[NEXT_NODE, turn + one] = first + n_nodes
    places[NEXT_START, turn + one] = start + n_nodes + 1
    places[NEXT_TERM, turn + one] = term + n_terms
    batch.turn[0] = turn + one
    n_outputs = np.uint64(unseen.raw.shape[0])
    if np.uint64(output) + one == n_outputs:
        for k in range(n_outputs):
            for row in range(np.uint64(n_unseen)):
                batch.after[k, turn // n_outputs, row] = unseen.raw[k, row]


class TreeJoiner:
    """Joins the trees of a grower to the fit, batch by batch.

    state     State: of a grower that has one thread; of its parts only histograms may change
    finish    callable: see :class:`~hedgerow.growing.core.tree.TreeOfTable`
    n_rounds  int: most rounds of a batch
    outside   WalkedRows: the training rows
    unseen    WalkedRows, optional: validation rows
    slopes    SlopeFinder, optional: if leaves are lines
    """

    def __init__(
        self,
        state: s.State,
        finish: Callable[[Nodes], GrownTree],
        n_rounds: int,
        outside: WalkedRows,
        unseen: WalkedRows | None,
        slopes: SlopeFinder | None,
    ) -> None:
        self._finish, self._n_outputs = finish, len(state.loss_data.raw)
        most_nodes, n_trees = len(state.tree.table), n_rounds * self._n_outputs
        none = Walked(np.zeros((1, 0, 1), dtype=np.uint8), 1, np.zeros((self._n_outputs, 0)))
        rows = none if unseen is None else unseen.walked
        self._lines = _leaf_lines(state, slopes, n_trees, outside, unseen)
        self._given = (
            state.tree.table, state.tree.numbers, state.scalars, state.rows,
            (outside.walked, rows), walk_space(most_nodes), self._lines,
        )  # fmt: skip
        self._batch = Batch(
            empty_block(n_trees * most_nodes),
            np.zeros(1, dtype=np.int64),
            np.zeros((PLACES, n_trees + 1), dtype=np.int64),
            np.empty((self._n_outputs, 0, rows.raw.shape[1])),
        )
        self._join: Callable[..., Any] = entry_of(join_tree, *self._given, self._batch)

    def begin(self, n_rounds: int) -> Callable[[], Any]:
        """Begin a batch of ``n_rounds`` rounds; return what takes each tree that has grown."""
        n_outputs, _, n_unseen = self._batch.after.shape
        self._batch.turn[0] = 0
        self._batch = self._batch._replace(after=np.empty((n_outputs, n_rounds, n_unseen)))
        return partial(self._join, *self._given, self._batch)

    @property
    def after(self) -> FloatArray:
        """Raw scores of the validation rows (n_outputs, n_rounds, n_unseen) after each round."""
        return self._batch.after

    def trees(self) -> list[GrownTree]:
        """Return the trees of the batch."""
        nodes, turn, places, _ = self._batch
        n_trees = int(turn[0])
        first, start, term = places[:, : n_trees + 1].tolist()
        # Arrays of the size of these trees: the space is that of the largest trees.
        block = Nodes(*(np.array(part) for part in nodes.part(0, first[-1])))
        if self._lines.used == 0:
            return [
                TreeOfTable(block, first[t], first[t + 1], self._finish) for t in range(n_trees)
            ]
        sizes = (start[-1], term[-1], term[-1], term[-1], first[-1], first[-1])
        parts: Iterable[AnyArray] = self._lines.slopes
        whole = [part[:n].copy() for part, n in zip(parts, sizes, strict=True)]
        found: list[GrownTree] = []
        for t in range(n_trees):
            nodes_of, terms_of = slice(first[t], first[t + 1]), slice(term[t], term[t + 1])
            slopes = Slopes(
                whole[0][start[t] : start[t + 1]], whole[1][terms_of], whole[2][terms_of],
                whole[3][terms_of], whole[4][nodes_of], whole[5][nodes_of],
            )  # fmt: skip
            found.append(TreeOfTable(block, first[t], first[t + 1], self._finish, slopes=slopes))
        return found


def _leaf_lines(
    state: s.State,
    slopes: SlopeFinder | None,
    n_trees: int,
    outside: WalkedRows,
    unseen: WalkedRows | None,
) -> LeafLines:
    most_nodes, n_rows = len(state.tree.table), state.settings.n_rows
    usable, penalty, longest = (_NONE, 0.0, (0.0, 0.0)) if slopes is None else slopes.limits
    if slopes is None:
        most_nodes, n_rows, n_trees = 0, 0, 0
    n_nodes, (own, system) = n_trees * most_nodes, slope_fit.fit_space()
    seen = outside.lines(most_nodes)
    return LeafLines(
        used=int(slopes is not None),
        usable=usable,
        leaves=leaf_space(most_nodes),
        terms=slope_fit.empty_terms(most_nodes),
        own=own,
        system=system,
        values=np.empty(most_nodes),
        space=np.empty((2 + TERMS, n_rows)),
        rules=(penalty, float(state.settings.learning_rate), longest),
        constant=int(state.settings.constant_hessian),
        room=np.zeros((2, 0)),
        slopes=empty_slopes(n_nodes + n_trees, TERMS * n_nodes, n_nodes),
        outside=seen,
        unseen=seen if unseen is None else unseen.lines(most_nodes),
    )


_NONE = np.zeros(0, dtype=np.uint8)

_FEW_NODES = 32
"""Room at first; it grows with the trees."""


class WalkedRows:
    """Rows in memory; their scores are changed in place.

    matrix     BinnedMatrix: no byte of it holds two columns
    raw        float64 (n_outputs, n_rows)
    numbers    float64 (n_rows, n_features), column by column, optional: where leaves may have
               slopes
    n_threads  int

    Attributes
    ----------
    walked  Walked
    """

    def __init__(
        self, matrix: BinnedMatrix, raw: FloatArray, numbers: FloatArray | None, n_threads: int
    ) -> None:
        self.walked = Walked(matrix.by_row, matrix.bytes_per_tile, raw)
        self._numbers = np.zeros((0, 0)) if numbers is None else numbers
        self._n_rows, self._n_threads = matrix.n_rows, n_threads
        self._make_room(_FEW_NODES)
        self._add: Callable[..., Any] | None = None

    def add(self, tree: TreeOfTable, output: int, rows: RowArray) -> None:
        """Add the tree to the scores of ``rows``; of all if ``rows`` is empty."""
        n_rows = len(rows) or self._n_rows
        if tree.stop - tree.first > self._most_nodes:
            self._make_room(max(tree.stop - tree.first, 2 * self._most_nodes))
        if self._n_threads == 1 or n_rows < 2 * ROWS_PER_WALK:
            self._walk(tree, output, rows, 0, n_rows, self._space)
            return

        def walk(start: int, stop: int) -> None:
            self._walk(tree, output, rows, start, stop, walk_space(self._most_nodes))

        run_blocks(walk, n_rows, self._n_threads, ROWS_PER_WALK)

    def _make_room(self, n_nodes: int) -> None:
        """Allocate what a walk down a tree of up to ``n_nodes`` nodes needs."""
        self._most_nodes, self._space = n_nodes, walk_space(n_nodes)
        self._lines = self.lines(n_nodes)

    def lines(self, n_nodes: int) -> Lines:
        """Return what the rows need besides for trees of up to ``n_nodes`` nodes with slopes."""
        places = np.arange(n_nodes, dtype=np.float64)
        return Lines(self._numbers, np.empty(len(self._numbers)), places)

    def _walk(
        self, tree: TreeOfTable, output: int, rows: RowArray, start: int, stop: int, space: AnyArray
    ) -> None:
        block, first, n_nodes = tree.block, tree.first, tree.stop - tree.first
        slopes = NO_SLOPES if tree.slopes is None else tree.slopes
        given = (
            block, first, n_nodes, slopes, self._lines, self.walked, output, rows, start, stop,
            space,
        )  # fmt: skip
        if self._add is None:
            self._add = entry_of(add_to_scores, *given)
        self._add(*given)
