"""Refitting: new leaf values for the trees of a model, from other rows.

::

    for each tree, in order
        g, h of all rows at the current raw scores
        new value of a leaf   the step of the loss on its rows, times the learning rate
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
from functools import partial
from typing import Any, Self

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.inspect.evaluation import LabelledRows
from hedgerow.boosting.loop.rounds import means_of_leaves
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.resolved import resolve
from hedgerow.boosting.row_data.classes import (
    corrected,
    uncorrected,
    weights_of,
    with_class_weights,
)
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.offsets import offset_of_rows
from hedgerow.boosting.row_data.queries import queries_without_effect, with_queries
from hedgerow.data.inputs import numbers_for_trees
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.growing.core.setup import newton_limit
from hedgerow.kernels.primitives.exact_sum import exact_sum
from hedgerow.model.forest import Forest
from hedgerow.model.model import AVERAGED, BLEND, Model
from hedgerow.model.predict import Predictor
from hedgerow.objectives import CUSTOM, Objective
from hedgerow.objectives.catalogue import scored_as
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import LeafRows, unit_of
from hedgerow.objectives.precomputed import gradients_at
from hedgerow.params import FIRST_ORDER, BoostParams, Interval, boost_params

_DECAY = Interval(0.0, 1.0)


def refit(
    model: Model, objective: Objective, sample: Sample, decay: float, n_threads: int
) -> Model:
    """Return the model with leaf values moved towards the values for other rows."""
    if decay not in _DECAY:
        raise ParameterError(f"decay must be {_DECAY}; got {brief(decay)}.")
    params = _params_of(model, objective)
    sample, weights = sample.without_zero_weights(), weights_of(model)
    with sample.naming_rows():
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
    values, raw = _values(model, objective, sample, params, float(decay), base, n_threads)
    has_vectors = model.forest.vectors is not None
    new: dict[str, Any] = {"vectors": values} if has_vectors else {"value": values[:, 0]}
    forest = replace(model.forest, base_score=base, **new)
    record = {**model.training, "refit": {"n_rows": sample.n_rows, "decay": float(decay)}}
    for stale in ("history", "init_scores", "best_round", "out_of_bag"):  # from old leaf values
        record.pop(stale, None)
    describe: Any = getattr(objective, "fit_record", None)
    if describe is not None:
        record |= describe(sample.target, raw, sample.weight)
    return corrected(replace(model, forest=forest, training=record), weights)


def _params_of(model: Model, objective: Objective) -> BoostParams:
    """Return the parameters of a model; raise an error if its leaves cannot be refitted."""
    forest, kept = model.forest, dict(model.training.get("parameters", {}))
    mode = kept.get("boosting", "gbdt")
    obstacles = {
        "was trained with a custom loss, whose code is not in the model: refit needs a loss of "
        "Hedgerow. Train a new model instead": objective.name == CUSTOM,
        "is the mean of several fold models, whose trees are concatenated: refit the model of a "
        "fold, or that of cross_fit(model='refit')": AVERAGED in model.training,
        "has linear leaves, whose slopes refit would leave as they were: train it with "
        "linear_leaves=False, or train a new model instead": forest.slopes is not None,
        "is a blend of several kinds of trees, which refit would take for successive rounds: train "
        "it with blend=False": BLEND in model.training,
        f"was trained with boosting={mode!r}, whose trees are rescaled: refit is for "
        "boosting='gbdt'. Train a new model instead": mode != "gbdt",
        "was trained with monotone_constraints, which new leaf values might break: train a new "
        "model instead": kept.get("monotone_constraints") is not None,
        "was trained with path_smooth, but refit does not smooth leaf values: train a new model "
        "instead": kept.get("path_smooth", 0.0) > 0.0,
    }
    for obstacle, is_there in obstacles.items():
        if is_there:
            raise ParameterError(f"the model {obstacle}.")
    kept["num_parallel_tree"] = forest.n_parallel
    if isinstance(rates := kept.get("learning_rate"), list):  # of each round
        if len(rates) != forest.n_rounds:
            raise ParameterError(
                f"the model has {forest.n_rounds} rounds, but its record has learning rates of "
                f"{len(rates)}: refit needs those of all rounds. Train a new model instead."
            )
        kept |= {"n_estimators": max(1, len(rates)), "learning_rate": rates or 1.0}
    return resolve(boost_params(kept), objective)


def _values(
    model: Model,
    objective: Objective,
    sample: Sample,
    params: BoostParams,
    decay: float,
    base: FloatArray,
    n_threads: int,
) -> tuple[FloatArray, FloatArray]:
    """Return the values of all nodes, and the resulting raw scores of the rows."""
    forest = model.forest
    n_shared = 1 if forest.vectors is None else forest.n_outputs  # outputs of a tree
    value = (forest.value[:, None] if forest.vectors is None else forest.vectors).copy()
    raw = np.repeat(base[:, None], sample.n_rows, axis=1)
    if sample.offset is not None:
        raw += sample.offset
    values = numbers_for_trees(sample.table, model.inputs, n_threads)
    kinds = model.split_schema.kinds
    bound = objective.bound_to(sample.target, sample.weight)
    mass = np.ones(sample.n_rows) if sample.weight is None else sample.weight
    waits = forest.n_parallel > 1 or bound.coupled
    start = searched_at = raw
    for number in range(forest.n_trees):
        round_, turn = divmod(number, forest.trees_per_round)
        first = turn % forest.outputs_in_turn
        outputs = range(first, first + n_shared)
        if turn == 0:
            start = raw.copy() if waits else raw
        if first == 0:
            searched_at = start.copy() if forest.n_parallel > 1 else raw
        tree = forest.tree(number)
        leaf = Predictor(tree, kinds).leaves(values, n_threads)[:, 0].astype(np.int64)
        nodes = slice(forest.tree_start[number], forest.tree_start[number + 1])
        rate = params.rate_of_trees(round_)
        found = []
        for output in outputs:  # of a tree: all are refitted at the same scores
            if params.leaf_estimation == "line_search":
                rows = sample.target, searched_at, mass
                found.append(_searched(tree, leaf, objective, rows, output, params, rate))
                continue
            g, h = gradients_at(bound, sample.target, sample.weight, start, output, round_)
            if params.leaf_estimation in FIRST_ORDER:  # steps along the gradient
                h = mass
            found.append(_stepped(tree, leaf, g, h, objective, params, rate))
        for k, (output, (new, reached)) in enumerate(zip(outputs, found, strict=True)):
            own = value[nodes, k]
            own[reached] = (decay * own + (1.0 - decay) * new)[reached]
            raw[output] += own[leaf]
            if searched_at is not raw:
                searched_at[output] += forest.n_parallel * own[leaf]
    return value, raw


def _stepped(
    tree: Forest,
    leaf: IntArray,
    g: FloatArray,
    h: FloatArray,
    objective: Objective,
    params: BoostParams,
    rate: float,
) -> tuple[FloatArray, AnyArray]:
    """Return ``rate`` times Newton (or gradient) step of every node, and which have rows."""
    top, below, count = (
        _through(tree, np.bincount(leaf, part, len(tree.feature)).astype(np.float64))
        for part in (g, h, np.ones(len(g)))
    )
    below += params.reg_lambda
    shrunk = np.sign(top) * np.maximum(np.abs(top) - params.reg_alpha, 0.0)
    step = np.divide(-shrunk, below, out=np.zeros(len(top)), where=below > 0.0)
    limit = newton_limit(params, objective, rate * params.num_parallel_tree)
    longest = params.max_delta_step or limit
    if longest < np.inf:
        step = np.clip(step, -longest, longest)
    return rate * step, count > 0.0


def _through(tree: Forest, sums: FloatArray) -> FloatArray:
    """Turn sums over the rows of leaves into those over the rows that pass through each node."""
    for node in np.flatnonzero(tree.feature >= 0)[::-1]:  # children come after their parents
        sums[node] += sums[tree.left[node]] + sums[tree.right[node]]
    return sums


def _searched(
    tree: Forest,
    leaf: IntArray,
    objective: Objective,
    rows: tuple[FloatArray, FloatArray, FloatArray],
    output: int,
    params: BoostParams,
    rate: float,
) -> tuple[FloatArray, AnyArray]:
    """Return ``rate`` times the best step of each leaf, and which nodes have rows."""
    # ``rows`` are their targets, raw scores and masses.
    order = np.argsort(leaf, kind="stable")
    reached, starts = np.unique(leaf[order], return_index=True)
    ends = np.append(starts, len(order)).astype(np.int64)
    target, raw, mass = rows[0][order], np.ascontiguousarray(rows[1][:, order]), rows[2][order]
    leaf_rows = LeafRows(target, raw, mass, ends, unit_of(exact_sum(mass)))
    steps = objective.leaf_steps(leaf_rows, output)
    longest = params.max_delta_step or np.inf
    value, cover = np.zeros(len(tree.feature)), np.zeros(len(tree.feature))
    value[reached] = rate * np.clip(steps, -longest, longest)
    cover[reached] = np.add.reduceat(mass, starts)
    cover = _through(tree, cover)
    return means_of_leaves(tree.left, tree.right, cover, value), cover > 0.0


class Refitting(LabelledRows):
    """Base class of boosters whose leaves may be refitted."""

    def refit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        decay: float = 0.9,
        *,
        offset: Any = None,
        qid: Any = None,
        n_jobs: int | None = None,
    ) -> Self:
        """Return a model with the same trees and leaf values moved towards those of new rows.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            As for :class:`Dataset`; class labels if the booster knows ``classes``,
            else class indices.
        sample_weight : array-like of shape (n_rows,), optional
            Non-negative.
        decay : float in [0, 1], default=0.9
            Weight of the old values: ``decay * old + (1 - decay) * new``; 0 replaces them.
            Same as ``decay_rate`` of LightGBM's ``refit``.
        offset : array-like, optional
            As for :meth:`predict`.
        qid : array-like of shape (n_rows,), optional
            The query of each row, for rankings.
        n_jobs : int, optional

        Returns
        -------
        Booster
            A new booster with the same columns, cuts, gains and covers;
            leaves without new rows keep their values.  See docs/continue.md.

        Raises
        ------
        ParameterError
            For random forests, DART, linear leaves, monotone constraints, and user-defined losses;
            for ``qid`` if the model is not for rankings.
        DataError, DataTypeError
            If X or y does not fit the model.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> params = {"n_estimators": 1, "min_samples_leaf": 1, "reg_lambda": 0.0}
        >>> params |= {"learning_rate": 1.0, "early_stopping": False}
        >>> booster = train(params, Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0]))
        >>> booster.refit([[1.0], [5.0]], [10.0, 20.0], decay=0.0).predict([[1.0], [5.0]])
        array([10., 20.])
        """
        from hedgerow.boosting.loop.setup.job import called_in_fit  # imports this module's

        given = Dataset(X, y, sample_weight, self.offset_columns or offset, qid=qid)
        if self.offset_columns and offset is not None:
            offset_of_rows(self.model, X, offset)  # raises an error that explains why
        sample = self._labelled(given, partial(called_in_fit, rows=None))
        if sample.query is not None and scored_as(self._objective) != "ranking":
            raise queries_without_effect(self._objective)
        threads = self._threads(sample.n_rows, n_jobs)
        return type(self)(refit(self.model, self._objective, sample, decay, threads), self._classes)
