"""Table of all splits of a node that were possible, with their gains.

For each feature, each cut and each side of missing values, the table has the sums of both
sides and the gain of the split, which tree growth computes and discards
(Chen and Guestrin 2016, equation 7)::

    gain = 1/2 [score(L) + score(R) - score(node)] - gamma

Gradients are computed at the scores at which the tree was grown, so the table needs
the training rows of the model.  Trees grown on histograms could use only the cuts between
bins: these are computed again from the rows.  For other trees the table has every cut
midway between two neighbouring values of the node.  For category columns it has the
sets of :mod:`hedgerow.boosting.inspect.category_table`.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray
from hedgerow.boosting.inspect.category_table import category_splits, shown, side_score, sum_levels
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.row_data.class_weights import uncorrected, weights_of, with_class_weights
from hedgerow.boosting.row_data.queries import with_queries
from hedgerow.data import AnyTable, Column, SparseTable, fit_bins, numbers_of
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.growing.core.stages.branches import is_constrained
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from hedgerow.model.forest import Forest
from hedgerow.model.model import AVERAGED, Model
from hedgerow.model.predict import Predictor
from hedgerow.objectives import Objective
from hedgerow.objectives.precomputed import gradients_at, starts_with_round
from hedgerow.params import FIRST_ORDER, BoostParams, boost_params

SplitTable = dict[str, list[Any]]
"""Columns by name, all of the same length."""

COLUMNS = (
    "feature", "threshold", "missing", "n_left", "n_right", "g_left", "g_right",
    "h_left", "h_right", "gain", "allowed",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """The rows of a node: their keys by column, with gradients g and hessians h.

    g and h have a row for each output of a leaf.
    """

    keys: IntArray
    g: FloatArray
    h: FloatArray


def split_table(
    model: Model, objective: Objective, sample: Sample, tree: int, node: int
) -> SplitTable:
    """Return all candidate splits of one node.

    Raise ``ParameterError`` if there is no such tree or node, if the trees were rescaled
    (DART), or if constraints affected their splits. Raise ``DataError`` if no row reaches
    the node.

    Parameters
    ----------
    model : Model
        Trained with ``boosting="gbdt"`` or ``"rf"``.
    sample : Sample
        The training rows, read with the schema of the model.
    tree, node : int
        Indices in the model; the node may be a leaf.

    Returns
    -------
    dict of lists
        ``feature`` (name), ``threshold`` (a row goes left if its value is at
        most this; infinity separates missing values), ``missing`` ("left",
        "right", or None if the node has no missing value of the feature),
        ``n_left``, ``n_right``, sums of gradients and hessians ``g_left``,
        ``g_right``, ``h_left``, ``h_right`` (with vector leaves, lists of the sums of each
        output), ``gain``, which is the sum over the outputs of a leaf, and ``allowed``: False
        if ``min_samples_leaf`` or ``min_child_weight`` forbid the split, or
        ``min_data_per_group`` forbids a split by categories.  If the model has category
        columns, also ``left_levels``, the list of the levels that go left; it
        is None for numeric columns, while ``threshold`` is None for category
        columns, whose sets are in the order of the search.
    """
    forest, params = model.forest, _params_of(model)
    if model.inputs is not None:
        raise ParameterError(
            "split_table shows cuts between values of columns, but this model splits values "
            "computed from columns: train it with target_statistics=False and "
            "feature_crosses=None to see its cuts."
        )
    sample = sample.without_zero_weights()
    objective.check_target(sample.target)
    sample, model = with_class_weights(sample, weights_of(model)), uncorrected(model)
    rows = _rows_of(forest, sample.table, model, tree, node)
    g, h = _gradients(model, objective, sample, params, tree)
    at = _Node(_keys(sample.table.take(np.flatnonzero(rows))), g[:, rows], h[:, rows])
    cuts = _bin_cuts(sample, params) if params.tree_method == "hist" else None
    has_categories = model.schema.has_categories
    columns: SplitTable = {name: [] for name in _names(has_categories)}
    for feature, column in enumerate(model.schema.columns):
        if column.kind == "category":
            blocks = [_category_block(at, feature, column, forest, params)]
        else:
            chosen = None if cuts is None else cuts[feature]
            ways = ("right", "left")
            blocks = [_splits(at, feature, chosen, way, column.kind, params) for way in ways]
        for block in blocks:
            n_splits = len(block["threshold"])
            block = {"feature": [column.name] * n_splits, "left_levels": [None] * n_splits, **block}
            for name in columns:
                columns[name] += block[name]
    return columns


def _names(has_categories: bool) -> tuple[str, ...]:
    """Return the columns of the table; ``left_levels`` only with category columns."""
    return (*COLUMNS[:2], "left_levels", *COLUMNS[2:]) if has_categories else COLUMNS


def _category_block(
    node: _Node, feature: int, column: Column, forest: Forest, params: BoostParams
) -> SplitTable:
    """Return the sets of a category column, by the bins of its levels in training."""
    assert forest.categories is not None
    codes = codes_of(node.keys[:, feature], len(column.levels))
    bins = forest.categories.bins_of(feature)
    return category_splits(sum_levels(column.levels, bins, codes, node.g, node.h), params)


def _params_of(model: Model) -> BoostParams:
    params = boost_params(model.training.get("parameters", {}))
    if AVERAGED in model.training:
        raise ParameterError(
            "this model is the mean of several models, and its leaf values were divided: use "
            "split_table with the model of a fold."
        )
    if params.boosting == "dart":
        raise ParameterError(
            "the trees of a model with boosting='dart' were rescaled later, so the scores at which "
            "they were grown are not known: train it with boosting='gbdt'."
        )
    if is_constrained(params):
        raise ParameterError(
            "the model was trained with monotone_constraints, interaction_constraints, "
            "feature_penalties, extra_trees, path_smooth or forced_splits, which affect splits in "
            "addition to the gains of this table."
        )
    return params


def _rows_of(forest: Forest, table: AnyTable, model: Model, tree: int, node: int) -> AnyArray:
    """Return which rows reach the node."""
    if not isinstance(tree, numbers.Integral) or not 0 <= tree < forest.n_trees:
        raise ParameterError(f"tree must be from 0 to {forest.n_trees - 1}; got {brief(tree)}.")
    chosen = forest.tree(tree)
    n_nodes = len(chosen.feature)
    if not isinstance(node, numbers.Integral) or not 0 <= node < n_nodes:
        raise ParameterError(f"node must be from 0 to {n_nodes - 1}; got {brief(node)}.")
    below = np.zeros(n_nodes, dtype=bool)
    below[node] = True
    for parent in np.flatnonzero(chosen.feature >= 0):  # parents come before children
        below[chosen.left[parent]] |= below[parent]
        below[chosen.right[parent]] |= below[parent]
    rows = below[Predictor(chosen, model.schema.kinds).leaves(numbers_of(table))[:, 0]]
    if not rows.any():
        raise DataError(
            f"none of the {table.n_rows} rows reaches node {node} of tree {tree}: give the rows "
            "that the model was trained on."
        )
    return rows


def _gradients(
    model: Model, objective: Objective, sample: Sample, params: BoostParams, tree: int
) -> tuple[FloatArray, FloatArray]:
    """Return gradients and hessians of every row at the scores at which the tree was grown.

    Both have a row for each output of a leaf.
    """
    if "position_bias" in model.training:
        raise ParameterError(
            "this model was trained with positions, whose biases before each round are not stored: "
            "the candidate splits of its nodes cannot be computed again."
        )
    forest = model.forest
    number = tree // forest.trees_per_round
    n_before = number * forest.trees_per_round
    if params.boosting == "rf":
        n_before = 0
    elif forest.n_parallel == 1 and not starts_with_round(objective):
        n_before = tree  # scores include the trees of earlier outputs in the same round
    predictor = Predictor(forest, model.schema.kinds)
    raw = predictor.raw_scores(numbers_of(sample.table), 1, 0, n_before)
    if sample.offset is not None:
        raw = raw + sample.offset
    objective = with_queries(objective, sample, params.seed, 1)
    of_all = range(forest.n_outputs)
    outputs = of_all if forest.vectors is not None else (tree % forest.n_outputs,)
    pairs = [
        gradients_at(objective, sample.target, sample.weight, raw, output, number)
        for output in outputs
    ]
    g, h = (np.array(parts) for parts in zip(*pairs, strict=True))
    if params.leaf_estimation in FIRST_ORDER:
        h = np.broadcast_to(1.0 if sample.weight is None else sample.weight, g.shape)
    return g, h


def _keys(table: AnyTable) -> IntArray:
    values = table.dense() if isinstance(table, SparseTable) else table.values
    return values if values.dtype == np.int64 else keys_of_floats(values.astype(np.float64))


def _bin_cuts(sample: Sample, params: BoostParams) -> list[IntArray]:
    """Return the cuts between bins of each feature, as the training computed them."""
    most_bins, forced = params.max_bins_by_feature or params.max_bins, params.forced_bins
    spec = fit_bins(sample.table, most_bins, sample.weight, params.seed, forced=forced)
    return [spec.cut_keys[a:b] for a, b in zip(spec.cut_start, spec.cut_start[1:], strict=False)]


def _splits(
    node: _Node,
    feature: int,
    cuts: IntArray | None,
    missing: str,
    kind: str,
    params: BoostParams,
) -> SplitTable:
    """Return the cuts of one feature with missing values on one side."""
    keys = node.keys[:, feature]
    absent = keys == MISSING_KEY
    if missing == "left" and not absent.any():
        return {name: [] for name in COLUMNS if name != "feature"}
    order = np.argsort(keys[~absent], kind="stable")
    present = keys[~absent][order]
    thresholds, places = _thresholds(present, cuts, kind, apart=bool(absent.any()))

    def sums(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums of the left sides, and those of the right sides."""
        running = np.concatenate([[0.0], np.cumsum(values[~absent][order])])
        left = running[places] + (values[absent].sum() if missing == "left" else 0.0)
        return left, values.sum() - left

    n_left, n_right = sums(np.ones(len(keys)))
    (g_left, g_right), (h_left, h_right) = (
        map(np.array, zip(*map(sums, values), strict=True)) for values in (node.g, node.h)
    )
    parent = [side_score(g.sum(), h.sum(), params) for g, h in zip(node.g, node.h, strict=True)]
    children = side_score(g_left, h_left, params) + side_score(g_right, h_right, params)
    gain = 0.5 * (children - np.array(parent)[:, None]).sum(axis=0)
    least = params.min_samples_leaf
    allowed = (n_left >= least) & (n_right >= least)
    allowed &= np.minimum(h_left.mean(axis=0), h_right.mean(axis=0)) >= params.min_child_weight
    kept = (places > 0) & (n_right > 0)  # the others leave one side empty
    if missing == "left":
        kept &= places < len(present)  # otherwise it mirrors the split "right" of missing values
    return {
        "threshold": [t for t, keep in zip(thresholds, kept, strict=True) if keep],
        "missing": [missing if absent.any() else None] * int(kept.sum()),
        "n_left": n_left[kept].astype(int).tolist(),
        "n_right": n_right[kept].astype(int).tolist(),
        "g_left": [shown(one) for one in g_left[:, kept].T],
        "g_right": [shown(one) for one in g_right[:, kept].T],
        "h_left": [shown(one) for one in h_left[:, kept].T],
        "h_right": [shown(one) for one in h_right[:, kept].T],
        "gain": (gain - len(node.g) * params.gamma)[kept].tolist(),
        "allowed": allowed[kept].tolist(),
    }


def _thresholds(
    present: IntArray, cuts: IntArray | None, kind: str, apart: bool
) -> tuple[list[Any], IntArray]:
    """Return thresholds, ascending, and the number of sorted present values below each."""
    if cuts is None:
        last = np.flatnonzero(present[1:] > present[:-1])
        places = last + 1
        shown = _midpoints(present[last], present[places], kind)
    else:
        places = np.searchsorted(present, cuts, side="right")
        # Cuts without a node value between them give the same split: keep the first.
        first = np.concatenate([[True], places[1:] > places[:-1]]) if len(places) else places > 0
        places = places[first]
        shown = cuts[first].tolist() if kind == "int" else floats_of_keys(cuts[first]).tolist()
    if apart:
        shown, places = [*shown, math.inf], np.append(places, len(present))
    return shown, places


def _midpoints(low: IntArray, high: IntArray, kind: str) -> list[Any]:
    if kind == "int":
        return [int(a) + (int(b) - int(a)) // 2 for a, b in zip(low, high, strict=True)]
    a, b = floats_of_keys(low), floats_of_keys(high)
    middle: list[Any] = np.where(np.isfinite(a) & np.isfinite(b), 0.5 * a + 0.5 * b, a).tolist()
    return middle
