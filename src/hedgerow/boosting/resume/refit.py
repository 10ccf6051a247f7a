"""Refitting: new leaf values for the trees of a model, from other rows.

::

    for each tree, in order
        g, h of all rows at the current raw scores
        new value of a leaf   the step of the loss on its rows, times the learning rate
        slopes of a leaf      likewise (:mod:`hedgerow.boosting.resume.refit_slopes`)
        value                 decay * old + (1 - decay) * new
        raw scores            plus these values

Columns and cuts of splits do not change, nor do gains, covers and counts, which
describe the original training rows.  The base score is mixed in the same way with
the best constant of the new rows, because trees would correct another mean only slowly.
LightGBM's ``refit`` is the same except for two points: it has no separate base score (its
first tree contains it), and a leaf without rows is shrunk towards 0, while here it
keeps its value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.resolved import resolve
from hedgerow.boosting.resume.refit_slopes import RefittedSlopes
from hedgerow.boosting.row_data.classes import (
    corrected,
    uncorrected,
    weights_of,
    with_class_weights,
)
from hedgerow.boosting.row_data.queries import with_queries
from hedgerow.data import SparseTable, numbers_of
from hedgerow.data.reading.columns import floats_of
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.growing.core.setup import newton_limit
from hedgerow.kernels.prediction.slopes import Slopes
from hedgerow.kernels.primitives.exact_sum import exact_sum
from hedgerow.metrics import scored_as
from hedgerow.model.forest import Forest
from hedgerow.model.model import AVERAGED, Model
from hedgerow.model.predict import Predictor
from hedgerow.objectives import CUSTOM, Objective
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import LeafRows, unit_of
from hedgerow.objectives.precomputed import gradients_at
from hedgerow.params import FIRST_ORDER, BoostParams, Interval, boost_params

_DECAY = Interval(0.0, 1.0)


def refit(
    model: Model, objective: Objective, sample: Sample, decay: float, n_threads: int
) -> Model:
    """Return the model with leaf values moved towards the values for other rows.

    Raise ``ParameterError`` if the trees were not simply added up, or the loss is
    user-defined. Raise ``DataError`` if targets are outside the domain of the loss.
    """
    if decay not in _DECAY:
        raise ParameterError(f"decay must be {_DECAY}; got {brief(decay)}.")
    params = _params_of(model, objective)
    sample, weights = sample.without_zero_weights(), weights_of(model)
    with sample.row_names.reported():
        objective.check_target(sample.target)
    sample = with_class_weights(sample, weights)
    model = uncorrected(model)
    if scored_as(objective) == "ranking" and sample.query is None:
        raise DataError(f"objective {objective.name!r} needs the query of each row: give qid.")
    objective = with_queries(objective, sample, params.seed, n_threads)
    rows = AllRows(sample.target, sample.weight, sample.offset)
    objective = objective.limited_for(rows)
    start = objective.start(rows)
    base = decay * model.forest.base_score + (1.0 - decay) * start
    values, slopes, raw = _values(model, objective, sample, params, float(decay), base, n_threads)
    has_vectors = model.forest.vectors is not None
    new: dict[str, Any] = {"vectors": values} if has_vectors else {"value": values[:, 0]}
    forest = replace(model.forest, base_score=base, slopes=slopes, **new)
    record = {**model.training, "refit": {"n_rows": sample.n_rows, "decay": float(decay)}}
    for stale in ("history", "init_scores", "best_round", "out_of_bag"):  # from old leaf values
        record.pop(stale, None)
    describe: Any = getattr(objective, "fit_record", None)
    if describe is not None:
        record |= describe(sample.target, raw, sample.weight)
    return corrected(replace(model, forest=forest, training=record), weights)


def _params_of(model: Model, objective: Objective) -> BoostParams:
    if objective.name == CUSTOM:
        raise ParameterError(
            "the model was trained with a custom loss, whose code is not in the model: refit needs "
            "a loss of Hedgerow. Train a new model instead."
        )
    if AVERAGED in model.training:
        raise ParameterError(
            "the model is the mean of several fold models, whose trees are concatenated: refit the "
            "model of a fold, or that of cross_fit(model='refit')."
        )
    kept = dict(model.training.get("parameters", {}))
    kept["num_parallel_tree"] = model.forest.n_parallel
    if isinstance(kept.get("learning_rate"), list):
        kept |= _rates_of(model, kept["learning_rate"])
    params = resolve(boost_params(kept), objective)
    if params.boosting != "gbdt":
        raise ParameterError(
            f"the model was trained with boosting={params.boosting!r}, whose trees are rescaled: "
            "refit is for boosting='gbdt'. Train a new model instead."
        )
    if params.monotone_constraints is not None:
        raise ParameterError(
            "the model was trained with monotone_constraints, which new leaf values might break: "
            "train a new model instead."
        )
    if params.path_smooth > 0.0:
        raise ParameterError(
            "the model was trained with path_smooth, but refit does not smooth leaf values: train "
            "a new model instead."
        )
    return params


def _rates_of(model: Model, rates: list[float]) -> dict[str, Any]:
    """Return parameters with a learning rate for each round."""
    if len(rates) != model.forest.n_rounds:
        raise ParameterError(
            f"the model has {model.forest.n_rounds} rounds, but its record has learning rates of "
            f"{len(rates)}: refit needs those of all rounds. Train a new model instead."
        )
    return {"n_estimators": max(1, len(rates)), "learning_rate": rates or 1.0}


def _values(
    model: Model,
    objective: Objective,
    sample: Sample,
    params: BoostParams,
    decay: float,
    base: FloatArray,
    n_threads: int,
) -> tuple[FloatArray, Slopes | None, FloatArray]:
    """Return values and slopes of all nodes, and the resulting raw scores of the rows.

    Values have shape (n_nodes, 1), or (n_nodes, n_outputs) if leaves hold vectors.
    """
    forest, n_lines = model.forest, model.forest.lines_of_node
    value = (forest.value[:, None] if forest.vectors is None else forest.vectors).copy()
    raw = np.repeat(base[:, None], sample.n_rows, axis=1)
    if sample.offset is not None:
        raw += sample.offset
    values: AnyArray | SparseTable = numbers_of(sample.table)
    if model.inputs is not None:
        values = model.inputs.values(values, model.schema, n_threads)
    kinds = model.split_schema.kinds
    bound = objective.bound_to(sample.target, sample.weight)
    waits = forest.n_parallel > 1 or bound.coupled
    start = searched_at = raw
    refitted = None
    if forest.slopes is not None:
        dense = values.dense() if isinstance(values, SparseTable) else values
        numbers = np.asfortranarray(floats_of(dense, kinds))
        longest = objective.line_limit(params.reg_lambda, params.highest_rate)
        refitted = RefittedSlopes(forest.slopes, numbers, decay, longest)
    for number in range(forest.n_trees):
        round_, turn = divmod(number, forest.trees_per_round)
        first = turn % forest.outputs_in_turn
        outputs = range(first, first + n_lines)
        if turn == 0:
            start = raw.copy() if waits else raw
        if first == 0:
            searched_at = start.copy() if forest.n_parallel > 1 else raw
        tree = forest.tree(number)
        leaf = Predictor(tree, kinds).leaves(values, n_threads)[:, 0].astype(np.int64)
        nodes = slice(forest.tree_start[number], forest.tree_start[number + 1])
        now = params.of_trees_at(round_)
        gradients = [
            gradients_at(bound, sample.target, sample.weight, start, output, round_)
            for output in outputs
        ]
        # All outputs of a tree are refitted at the same scores.
        if params.leaf_estimation == "line_search":
            given = tree, leaf, objective, sample, searched_at
            found = [_searched(*given, output, now) for output in outputs]
        else:
            found = [_stepped(tree, leaf, both, objective, sample, now) for both in gradients]
        for k, (output, (new, reached)) in enumerate(zip(outputs, found, strict=True)):
            own = value[nodes, k]
            own[reached] = (decay * own + (1.0 - decay) * new)[reached]
            raw[output] += own[leaf]
            if searched_at is not raw:
                searched_at[output] += forest.n_parallel * own[leaf]
            if refitted is not None:
                g, h = gradients[k][0], _hessians(gradients[k][1], sample, now)
                lines = slice(n_lines * nodes.start, n_lines * nodes.stop)
                raw[output] += refitted.of_tree(lines, n_lines * leaf + k, g, h, now)
    return value, None if refitted is None else refitted.slopes, raw


def _stepped(
    tree: Forest,
    leaf: IntArray,
    gradients: tuple[FloatArray, FloatArray],
    objective: Objective,
    sample: Sample,
    params: BoostParams,
) -> tuple[FloatArray, AnyArray]:
    """Return learning rate times Newton (or gradient) step of every node, and which have rows."""
    g, h = gradients[0], _hessians(gradients[1], sample, params)
    sums = [_sums(tree, leaf, part) for part in (g, h, np.ones(len(g)))]
    top, below = sums[0], sums[1] + params.reg_lambda
    shrunk = np.sign(top) * np.maximum(np.abs(top) - params.reg_alpha, 0.0)
    step = np.divide(-shrunk, below, out=np.zeros(len(top)), where=below > 0.0)
    rate = params.learning_rate * params.num_parallel_tree
    longest = params.max_delta_step or newton_limit(params, objective, rate)
    if longest < np.inf:
        step = np.clip(step, -longest, longest)
    return params.learning_rate * step, sums[2] > 0.0


def _hessians(h: FloatArray, sample: Sample, params: BoostParams) -> FloatArray:
    """Return the hessians of the steps: the weights, for steps along the gradient."""
    if params.leaf_estimation not in FIRST_ORDER:
        return h
    return np.ones(len(h)) if sample.weight is None else sample.weight


def _sums(tree: Forest, leaf: IntArray, part: FloatArray) -> FloatArray:
    """Return the sum over the rows that pass through each node."""
    sums: FloatArray = np.bincount(leaf, part, len(tree.feature)).astype(np.float64)
    for node in np.flatnonzero(tree.feature >= 0)[::-1]:  # children come after their parents
        sums[node] += sums[tree.left[node]] + sums[tree.right[node]]
    return sums


def _searched(
    tree: Forest,
    leaf: IntArray,
    objective: Objective,
    sample: Sample,
    raw: FloatArray,
    output: int,
    params: BoostParams,
) -> tuple[FloatArray, AnyArray]:
    """Return learning rate times the best step of each leaf; inner nodes get means of leaves."""
    order = np.argsort(leaf, kind="stable")
    reached, starts = np.unique(leaf[order], return_index=True)
    mass = np.ones(sample.n_rows) if sample.weight is None else sample.weight
    unit = unit_of(exact_sum(sample.weight) if sample.weight is not None else sample.n_rows)
    rows = LeafRows(
        sample.target[order],
        np.ascontiguousarray(raw[:, order]),
        mass[order],
        np.append(starts, len(order)).astype(np.int64),
        unit,
    )
    steps = objective.leaf_steps(rows, output)
    longest = params.max_delta_step or np.inf
    value, cover = np.zeros(len(tree.feature)), np.zeros(len(tree.feature))
    value[reached] = params.learning_rate * np.clip(steps, -longest, longest)
    cover[reached] = np.add.reduceat(mass[order], starts)
    for node in np.flatnonzero(tree.feature >= 0)[::-1]:
        a, b = tree.left[node], tree.right[node]
        total = cover[a] + cover[b]
        share = cover[a] / total if total > 0.0 else 0.5
        value[node] += share * value[a] + (1.0 - share) * value[b]
        cover[node] += total
    return value, cover > 0.0
