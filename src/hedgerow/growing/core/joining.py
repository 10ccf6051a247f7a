"""The work after each tree of a fit with few rows, in one call of compiled code.

::

    table of the grower                  -->  nodes of the tree, behind those of other trees
    rows of its leaves                   -->  slopes, if leaves are lines
    rows outside its sample              -->  raw scores with the tree
    validation rows                      -->  raw scores with the tree
    after the last tree of a round       -->  copy of the raw scores of the validation rows

Each step takes a few microseconds.  With Python between the steps, a default fit of 400 rows of
5 columns took 1.2 s, of which 0.3 s were spent in compiled code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.compile import entry_of, kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.slopes import (
    LeafSpace,
    SlopeFinder,
    choose_columns,
    empty_slopes,
    leaf_space,
    pack_terms,
)
from hedgerow.growing.core.stages.gradients import units_of
from hedgerow.growing.core.tree import GrownTree, Nodes, TreeOfTable, copy_nodes, empty_block
from hedgerow.growing.core.walked_rows import Lines, Walked, WalkedRows, add_lines, add_values
from hedgerow.kernels.prediction import slope_fit
from hedgerow.kernels.prediction.slopes import TERMS, Slopes
from hedgerow.kernels.prediction.traverse import walk_space

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
    turn: IntArray
    places: IntArray
    after: FloatArray


class LeafLines(NamedTuple):
    """The additional data of trees with linear leaves.

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

    usable: AnyArray
    leaves: LeafSpace
    terms: slope_fit.LeafTerms
    own: FloatArray
    system: FloatArray
    values: FloatArray
    space: FloatArray
    rules: tuple[float, float, tuple[float, float]]
    constant: int
    room: FloatArray
    slopes: Slopes
    outside: Lines
    unseen: Lines


@kernel(inner=True)
def find_lines(
    table: IntArray,
    numbers: FloatArray,
    scalars: IntArray,
    rows: s.Rows,
    lines: LeafLines,
    scores: FloatArray,
    slopes: Slopes,
) -> int:
    """Find the slopes of a tree, and add it to the scores of its sample; count the terms."""
    n_nodes, leaves, terms = scalars[s.IS_N_NODES], lines.leaves, lines.terms
    choose_columns(table, n_nodes, lines.usable, leaves, terms)
    for node in range(np.uint64(n_nodes)):
        lines.values[node] = numbers[node, s.NUMBER_VALUE]
    units = units_of(scalars, lines.constant, 0)
    data = slope_fit.LeafRows(
        rows.rows, leaves.start, leaves.count, rows.quantized, units.g, units.h,
        lines.outside.numbers, lines.space,
    )  # fmt: skip
    penalty, rate, longest = lines.rules
    rules = slope_fit.SlopeRules(penalty, rate, longest, lines.values[:n_nodes], lines.room)
    slope_fit.fit_terms(data, terms, rules, 0, n_nodes, lines.own, lines.system, scores)
    return pack_terms(terms, n_nodes, slopes)


@kernel(inner=True)
def add_leaf_values(
    scalars: IntArray, rows: s.Rows, rest: tuple[Walked, Walked], space: AnyArray, batch: Batch
) -> None:
    """Add the tree to the scores of rows outside its sample, and of validation rows."""
    outside, unseen = rest
    first, n_nodes = batch.places[NEXT_NODE, batch.turn[0]], scalars[s.IS_N_NODES]
    output = scalars[s.IS_OUTPUT]
    n_sample, n_rows, n_unseen = scalars[s.IS_N_ROWS], outside.raw.shape[1], unseen.raw.shape[1]
    part = (batch.nodes, first, n_nodes)
    if n_sample < n_rows:
        add_values(*part, outside, output, rows.rows, n_sample, n_rows, space)
    if n_unseen > 0:
        add_values(*part, unseen, output, rows.rows[:0], 0, n_unseen, space)


@kernel(inner=True)
def add_leaf_lines(
    table: IntArray,
    numbers: FloatArray,
    scalars: IntArray,
    rows: s.Rows,
    rest: tuple[Walked, Walked],
    space: AnyArray,
    lines: LeafLines,
    batch: Batch,
) -> int:
    """Add a tree with linear leaves, and its sample; return its number of terms."""
    (outside, unseen), whole, turn = rest, lines.slopes, batch.turn[0]
    n_nodes, output = scalars[s.IS_N_NODES], scalars[s.IS_OUTPUT]
    first, start = batch.places[NEXT_NODE, turn], batch.places[NEXT_START, turn]
    term, last = batch.places[NEXT_TERM, turn], first + n_nodes
    slopes = Slopes(
        whole.start[start : start + n_nodes + 1], whole.column[term:], whole.slope[term:],
        whole.center[term:], whole.low[first:last], whole.high[first:last],
    )  # fmt: skip
    n_terms = find_lines(table, numbers, scalars, rows, lines, outside.raw[output], slopes)
    n_sample, n_rows, n_unseen = scalars[s.IS_N_ROWS], outside.raw.shape[1], unseen.raw.shape[1]
    part = (batch.nodes, first, n_nodes, slopes)
    if n_sample < n_rows:
        add_lines(*part, lines.outside, outside, output, rows.rows, n_sample, n_rows, space)
    if n_unseen > 0:
        add_lines(*part, lines.unseen, unseen, output, rows.rows[:0], 0, n_unseen, space)
    return n_terms


@kernel(inner=True)
def note_tree(n_nodes: int, n_terms: int, output: int, raw: FloatArray, batch: Batch) -> None:
    """Note where the next tree begins; after a round, copy the scores of the validation rows."""
    turn, places, one = np.uint64(batch.turn[0]), batch.places, np.uint64(1)
    places[NEXT_NODE, turn + one] = places[NEXT_NODE, turn] + n_nodes
    places[NEXT_START, turn + one] = places[NEXT_START, turn] + n_nodes + 1
    places[NEXT_TERM, turn + one] = places[NEXT_TERM, turn] + n_terms
    batch.turn[0] = turn + one
    n_outputs = np.uint64(raw.shape[0])
    if np.uint64(output) + one == n_outputs:
        for k in range(n_outputs):
            for row in range(np.uint64(raw.shape[1])):
                batch.after[k, turn // n_outputs, row] = raw[k, row]


@kernel
def join_tree(
    table: IntArray,
    numbers: FloatArray,
    scalars: IntArray,
    rows: s.Rows,
    rest: tuple[Walked, Walked],
    space: AnyArray,
    lines: LeafLines | None,
    batch: Batch,
) -> None:
    """Take the tree that has grown into the batch, and add it to scores that lack it."""
    n_nodes, n_terms = scalars[s.IS_N_NODES], np.int64(0)
    copy_nodes(table, numbers, n_nodes, batch.nodes, batch.places[NEXT_NODE, batch.turn[0]])
    if lines is None:
        add_leaf_values(scalars, rows, rest, space, batch)
    else:
        n_terms = add_leaf_lines(table, numbers, scalars, rows, rest, space, lines, batch)
    note_tree(n_nodes, n_terms, scalars[s.IS_OUTPUT], rest[1].raw, batch)


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
        self._lines: LeafLines | None = None
        if slopes is not None:
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
        self._join: Callable[..., Any] | None = None

    def begin(self, n_rounds: int) -> None:
        """Begin a batch of ``n_rounds`` rounds."""
        n_outputs, _, n_unseen = self._batch.after.shape
        self._batch.turn[0] = 0
        self._batch = self._batch._replace(after=np.empty((n_outputs, n_rounds, n_unseen)))

    def join(self) -> None:
        """Take the tree that has grown."""
        if self._join is None:
            self._join = entry_of(join_tree, *self._given, self._batch)
        self._join(*self._given, self._batch)

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
        if self._lines is None:
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
    slopes: SlopeFinder,
    n_trees: int,
    outside: WalkedRows,
    unseen: WalkedRows | None,
) -> LeafLines:
    most_nodes, n_rows = len(state.tree.table), state.settings.n_rows
    n_nodes, (own, system) = n_trees * most_nodes, slope_fit.fit_space()
    usable, penalty, longest = slopes.limits
    seen = outside.lines(most_nodes)
    return LeafLines(
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
