"""Call the internals of the engine, for all tests.

The functions translate between the kernels and the terms of the tests: tables, integer gradients
per row, and sums per feature and bin.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import aligned_zeros, unused
from hedgerow.boosting.loop import rounds as loop
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.setup.resolved import resolved
from hedgerow.data import Table, bin_table, fit_bins, read_table
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.grower import TreeGrower, _bins, _tile_cells
from hedgerow.growing.core.setup import Fit, list_columns
from hedgerow.growing.core.stages.branches import make_constraints
from hedgerow.growing.core.stages.gradients import SMALL_FIT, choose_packing, pack_block
from hedgerow.kernels.histograms.histogram import (
    HistogramSums,
    Packing,
    RowLists,
    build_histogram,
    filled_cells,
)
from hedgerow.kernels.histograms.pairs import SPACING
from hedgerow.kernels.simd.lanes import WIDTH
from hedgerow.kernels.splits.category_search import find_set
from hedgerow.kernels.splits.category_split import (
    CATEGORY_SCRATCH,
    SCRATCH_SIZE,
    CategoryRules,
    SetColumn,
    complete_set,
)
from hedgerow.kernels.splits.constraints import own_score, searched_node
from hedgerow.kernels.splits.search import ColumnLanes, search_columns
from hedgerow.kernels.splits.split import (
    NO_SPLIT,
    ROUNDING,
    NodeHistogram,
    NodeSums,
    SplitRules,
    Units,
    Within,
    accepted_gain,
    complete_split,
)
from hedgerow.model.predict import Predictor
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams

PAD = 64


def binned(X, max_bins=255, weight=None):
    """Return bins of a table, in both layouts."""
    table = read_table(X)
    return bin_table(table, fit_bins(table, max_bins, weight))


def columns_of(matrix):
    """Return bins as (n_features, n_rows)."""
    return matrix.by_column[:, : matrix.n_rows]


# -- packing and histograms -------------------------------------------------------


@dataclass(frozen=True)
class Packed:
    """Packed gradients of all rows, and their layout in an int64."""

    numbers: np.ndarray
    packing: Packing
    dropped: int

    def g_and_h(self, n_rows):
        """Return the integers that histograms sum for each row; a constant hessian is 1."""
        p = self.packing
        last = len(self.numbers) // 2 if p.g_apart else 0
        rest = self.numbers[last : last + n_rows] >> p.count_bits
        h = rest & ((1 << int(p.hessian_bits)) - 1)
        g = self.numbers[:n_rows].copy() if p.g_apart else rest >> p.hessian_bits
        if p.hessian_bits == 0:
            h[:] = 1
        return g, h


def _counts(n_rows, mean_g, mean_h):
    counts = np.zeros((1, layout.COUNTS), dtype=np.int64)
    counts[0, layout.COUNT_G_MOST] = counts[0, layout.COUNT_H_MOST] = np.float64(1.0).view(np.int64)
    counts[0, layout.COUNT_G_SUM] = mean_g * n_rows
    counts[0, layout.COUNT_H_SUM] = mean_h * n_rows
    return counts


def packing_for(n_rows, mean_g=2**29, mean_h=2**29, constant=False):
    """Return ``(count_bits, hessian_bits, g_apart)`` and dropped bits for these means.

    The means are those of |fixed g| and fixed h, which are at most ``2**30``.
    """
    scalars = np.zeros(layout.N_SCALARS, dtype=np.int64)
    choose_packing(_counts(n_rows, mean_g, mean_h), scalars, int(constant), n_rows)
    cells = (layout.IS_COUNT_BITS, layout.IS_HESSIAN_BITS, layout.IS_G_APART)
    return Packing(*(scalars[cell] for cell in cells)), int(scalars[layout.IS_DROPPED_BITS])


def pack(g, h, mode, seed=0, tree=0):
    """Pack integer gradients as mode ``"constant"``, ``"narrow"`` or ``"apart"`` does."""
    n_rows = len(g)
    packing, dropped = packing_for(
        SMALL_FIT + 1 if mode == "narrow" else 1, constant=mode == "constant"
    )
    scalars = np.zeros(layout.N_SCALARS, dtype=np.int64)
    scalars[layout.IS_COUNT_BITS] = packing.count_bits
    scalars[layout.IS_HESSIAN_BITS] = packing.hessian_bits
    scalars[layout.IS_G_APART] = packing.g_apart
    scalars[layout.IS_DROPPED_BITS] = dropped
    scalars[layout.IS_TREE] = tree
    quantized = np.column_stack([g, h]).astype(np.int32).reshape(-1)
    numbers = aligned_zeros(2 * n_rows, np.int64)
    empty = np.zeros(PAD, dtype=np.uint32)
    rows = layout.Rows(empty, empty, quantized, numbers)
    pack_block(scalars, int(mode == "constant"), np.uint64(seed), rows, 0, n_rows)
    return Packed(numbers, packing, dropped)


def padded(rows):
    """Return row ids with the padding that prefetching needs."""
    rows = np.asarray(rows, dtype=np.uint32)
    return np.concatenate([rows, np.zeros(PAD, np.uint32)])


def build(matrix, packed, rows, columns=None, part=None, start=0, stop=None):
    """Return g, h, n of shape (n_features, stride) of some rows; -7 marks cells without a sum."""
    bins = _bins(matrix)
    features = np.arange(matrix.n_features) if columns is None else np.asarray(columns)
    features = features.astype(np.int32)
    chosen = list_columns(matrix, features)
    stride = matrix.spec.stride
    cells = aligned_zeros(_tile_cells(matrix), np.int64)
    size = matrix.n_features * stride
    slot = 3  # not at the start of the array
    wide = HistogramSums(
        *(np.full(size + slot, -7, dtype) for dtype in (np.int64, np.int64, np.int32))
    )
    build_histogram(
        bins,
        packed.packing,
        packed.numbers,
        chosen,
        (0, len(features)) if part is None else part,
        padded(rows),
        start,
        len(rows) if stop is None else stop,
        cells,
        wide,
        slot,
        unused(RowLists),
    )
    in_bytes = matrix.bytes_per_tile * SPACING
    assert not cells[:in_bytes].any(), "scratch cells must be left empty"
    assert all((sums[:slot] == -7).all() for sums in wide)
    found = tuple(sums[slot:].reshape(matrix.n_features, stride) for sums in wide)
    for feature in features[slice(*((None,) if part is None else part))]:
        filled = filled_cells(bins, feature, False)
        for sums in found:  # cells that no row can be in are not written: 0 in a fit
            between = sums[feature, filled : stride - 1]
            assert (between == -7).all()
            between[:] = 0
    return found


# -- split search -------------------------------------------------------------------


def split_rules(rules):
    """Return the engine's rules for :class:`naive.Rules`."""
    return SplitRules(
        np.int64(rules.min_samples_leaf),
        float(rules.min_child_weight),
        float(rules.reg_lambda),
        float(rules.reg_alpha),
        float(rules.gamma),
        float(rules.max_delta_step) or math.inf,
    )


def search(g, h, n, n_bins, node, rules, units=(1.0, 1.0)):
    """Return the best split of a node with these histograms, and its gain (-1: none)."""
    stride = len(g[0])
    wide = HistogramSums(
        np.array(g, np.int64).reshape(-1),
        np.array(h, np.int64).reshape(-1),
        np.array(n, np.int32).reshape(-1),
    )
    sums, unit, engine_rules = NodeSums(*map(np.int64, node)), Units(*units), split_rules(rules)
    constraints = make_constraints(BoostParams(), len(n_bins), 1, None)
    histogram = NodeHistogram(wide, np.int64(0), np.int64(stride), np.asarray(n_bins, np.int32))
    searched = searched_node(constraints, np.int64(0), sums, unit, engine_rules)
    best, last = NO_SPLIT, len(n_bins) - 1
    for first in range(0, last + 1, WIDTH):
        features = np.minimum(np.arange(first, first + WIDTH), last)
        lanes = ColumnLanes(features, features * histogram.stride)
        best = search_columns(histogram, lanes, searched, constraints, best)
    found, own = complete_split(histogram, sums, unit, best), own_score(searched)
    return found, accepted_gain(found.score, own, ROUNDING * own, engine_rules.gamma, 1.0)


class FoundSet(NamedTuple):
    """Sums of the left side, whether missing values are there, and the bins as bits."""

    g: int
    h: int
    n: int
    missing_left: int
    words: np.ndarray


def search_categories(g, h, n, node, rules, category, units=(1.0, 1.0), bounds=None):
    """Return the score of the best set of a category column with this histogram, and the set.

    ``bounds`` are those of leaf values.  The set is None, and the score -1, if there is none.
    """
    wide = HistogramSums(np.array(g, np.int64), np.array(h, np.int64), np.array(n, np.int32))
    places = np.zeros((CATEGORY_SCRATCH, SCRATCH_SIZE), np.int64)
    sums = NodeSums(*map(np.int64, node))
    chosen = CategoryRules(
        np.int64(category.most_one_hot),
        np.int64(category.most),
        float(category.smooth),
        float(category.penalty),
        np.int64(category.min_group),
    )
    stride, used = len(n), np.flatnonzero(n[:-1])
    # The smallest number, so that later cells are not read.
    filled = stride if len(used) == 0 else int(used[-1]) + 1
    filled = stride if filled >= stride - 1 else filled
    free = make_constraints(BoostParams(), 1, 1, None)
    searched = searched_node(free, np.int64(0), sums, Units(*units), split_rules(rules))
    if bounds is not None:
        searched = searched._replace(leaves=Within(*map(float, bounds), 0.0, 0.0))
    column = SetColumn(np.int64(0), np.int64(filled), np.int64(stride))
    score, first, last = find_set(wide, column, chosen, places, -1, searched, None)
    if first == last:
        return -1.0, None
    words = np.zeros(4, np.int64)
    left, missing_left = complete_set(column, sums.n, places, (first, last), words, 0)
    return score, FoundSet(*left, missing_left, words)


# -- trees and fits ---------------------------------------------------------------------


@dataclass(frozen=True)
class Gradients:
    """The results of the gradient pass of a tree."""

    g: np.ndarray  # float64: fixed times unit
    h: np.ndarray
    quantized: np.ndarray  # int32 (n_rows, 2)
    packed: Packed
    exponents: tuple[int, int]
    constant: bool


def gradients(matrix, y, raw, objective, weight=None, n_threads=1, tree=0, output=0, seed=0):
    """Run the gradient pass of one tree (in a tree that cannot be split)."""
    params = BoostParams(min_samples_leaf=2**31 - 1, seed=seed)
    raw = np.array(raw, dtype=np.float64)
    grower = TreeGrower(matrix, Fit(y, weight, raw, objective, params, n_threads))
    with contextlib.closing(grower):
        for k in range(output + 1):
            grower.grow(tree, k)
        s = grower._state.scalars
        constant = bool(grower._state.settings.constant_hessian)
        quantized = grower._state.rows.quantized.reshape(-1, 2)[: matrix.n_rows].copy()
        packed = grower._state.rows.packed.copy()
    packing = Packing(s[layout.IS_COUNT_BITS], s[layout.IS_HESSIAN_BITS], s[layout.IS_G_APART])
    exponents = int(s[layout.IS_G_EXPONENT]), int(s[layout.IS_H_EXPONENT])
    g = np.ldexp(quantized[:, 0].astype(np.float64), exponents[0] - 30)
    h = np.ldexp(quantized[:, 1].astype(np.float64), 0 if constant else exponents[1] - 30)
    dropped = int(s[layout.IS_DROPPED_BITS])
    return Gradients(g, h, quantized, Packed(packed, packing, dropped), exponents, constant)


def grow(matrix, y, params, objective="squared_error", weight=None, n_threads=1, n_trees=1):
    """Grow trees on a matrix from the base score on; return the trees and the raw scores."""
    loss = make_objective(objective) if isinstance(objective, str) else objective
    y = np.asarray(y, dtype=np.float64)
    base = loss.initial_score(y, weight)
    raw = np.repeat(base[:, None], len(y), axis=1)
    grower = TreeGrower(matrix, Fit(y, weight, raw, loss, params, n_threads))
    with contextlib.closing(grower):
        numbers = range(n_trees * loss.n_outputs)
        trees = [grower.grow(number, number % loss.n_outputs) for number in numbers]
    return trees, raw, base


TREE_FIELDS = (
    "feature", "bin", "missing_left", "left", "right", "value", "gain", "cover", "count",
)  # fmt: skip


def tree_bytes(trees):
    """Return all arrays of some trees."""
    return b"".join(getattr(tree, name).tobytes() for tree in trees for name in TREE_FIELDS)


def rounds(data, objective, params, validation=None, n_threads=1, earlier=None):
    """Return the boosting loop of rows in memory."""
    unseen = () if validation is None else (validation,)
    params = resolved(params, objective, data.matrix.spec.schema)
    return loop.rounds(loop.BoostState(data, objective, params, unseen, n_threads), earlier)


@dataclass(frozen=True)
class Boosted:
    """A finished run of the boosting loop."""

    forest: object
    train_raw: np.ndarray
    validation_raw: np.ndarray | None
    kinds: tuple

    def predict_raw(self, X):
        values = read_table(X).values
        return Predictor(self.forest, self.kinds).raw_scores(values)


def boost(
    X,
    y,
    params,
    objective="squared_error",
    n_outputs=1,
    weight=None,
    n_threads=1,
    X_val=None,
    y_val=None,
):
    """Run all rounds; ``X`` may be a table that has been read."""
    table = X if isinstance(X, Table) else read_table(X)
    spec = fit_bins(table, params.max_bins, weight, params.seed)
    y = np.asarray(y, dtype=np.float64)
    data = TrainingData(bin_table(table, spec), y, weight)
    validation = None
    if X_val is not None:
        unseen = bin_table(read_table(X_val, table.schema), spec)
        validation = TrainingData(unseen, np.asarray(y_val, dtype=np.float64))
    loss = make_objective(objective, n_outputs)
    with contextlib.closing(rounds(data, loss, params, validation, n_threads)) as states:
        *_, last = states
        held_out = [scores.raw for scores in last.held_out]
        unseen = held_out[0] if held_out else None
        return Boosted(last.freeze(), last.train.raw, unseen, table.schema.kinds)


def leaf_rows(tree, matrix):
    """Return the number of rows of a matrix that reach each node of a grown tree."""
    bins, counts = columns_of(matrix), np.zeros(len(tree.feature), dtype=np.int64)
    stack = [(0, np.arange(matrix.n_rows))]
    while stack:
        node, rows = stack.pop()
        counts[node] = len(rows)
        if tree.feature[node] >= 0:
            column = bins[tree.feature[node]][rows]
            left = np.where(
                column == matrix.spec.missing_bin,
                tree.missing_left[node] == 1,
                column <= tree.bin[node],
            )
            stack += [(int(tree.left[node]), rows[left]), (int(tree.right[node]), rows[~left])]
    return counts
