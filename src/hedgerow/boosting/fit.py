"""From a table to a model: the whole training as one recipe.

::

    Sample  -- rows of weight 0 out, validation rows set aside
      |
    Encoded -- means of the target in the place of categories of many levels
      |
    BinSpec, BinnedMatrix
      |
    rounds  -- one state after each round: scores, early stopping, callbacks
      |
    Forest up to the best round  ->  Model
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.callbacks import (
    Callback,
    History,
    ProgressBar,
    Round,
    call_all,
    check_callbacks,
    read_only,
)
from hedgerow.boosting.checkpoint import Checkpoint, Recorder, Rounds, one_round, recording
from hedgerow.boosting.fingerprint import Fingerprint, fingerprint
from hedgerow.boosting.queries import check_queries, split_sample, stops_early, with_queries
from hedgerow.boosting.rounds import BoostState, TrainingData, resolve, rounds
from hedgerow.boosting.sample import Sample, with_own_levels
from hedgerow.boosting.statistics import (
    Encoded,
    constraints_of_inputs,
    encode,
    without_unused,
)
from hedgerow.boosting.stopping import BestRound, Rising, StoppingParams
from hedgerow.data import (
    AnyTable,
    BinnedMatrix,
    SparseTable,
    Table,
    fit_bins,
    numbers_of,
)
from hedgerow.data.blocks import ColumnBlocks, sort_columns
from hedgerow.data.bundles import BundleRules
from hedgerow.data.matrix import bin_bundled, bin_unseen
from hedgerow.data.pairs import may_pay, pair_columns
from hedgerow.errors import DataError, LossError, ParameterError, StorageError
from hedgerow.growing.constraints import resolve_constraints
from hedgerow.growing.tree import GrownTree
from hedgerow.metrics import (
    Metric,
    MetricFunction,
    evaluate,
    make_metrics,
    scored_as,
)
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.model.predict import Predictor
from hedgerow.objectives import Objective, loss_record
from hedgerow.params import BoostParams
from hedgerow.threads import resolve_threads


def fit(
    train: Sample,
    objective: Objective,
    params: BoostParams,
    *,
    validation: Sample | None = None,
    stopping: StoppingParams | None = None,
    eval_metric: str | MetricFunction | Sequence[str | MetricFunction] | None = None,
    callbacks: Callback | Sequence[Callback] | None = None,
    progress: bool = False,
    n_jobs: int | None = None,
    checkpoint: Checkpoint | None = None,
) -> Model:
    """Train a model.

    Scores are computed after each round on the validation rows or, where there
    are none, on the training rows if ``eval_metric`` is given.  With early
    stopping the model ends at the round with the best first score on the
    validation rows.  Callbacks and progress bar have no part in the model
    unless a callback ends the fit.

    Parameters
    ----------
    train : Sample
    objective : Objective
    params : BoostParams
    validation : Sample, optional
        Read with the schema of the training table.
    stopping : StoppingParams, optional
    eval_metric : str, callable or sequence of these, optional
        See :func:`hedgerow.metrics.make_metrics`.
    callbacks : callable or sequence of callables, optional
        See :mod:`hedgerow.boosting.callbacks`.
    progress : bool, default=False
        Draw a progress bar on standard error if that is a terminal.
    n_jobs : int, optional
        Threads; see :func:`hedgerow.threads.resolve_threads`.
    checkpoint : Checkpoint, optional
        Record the rounds, and go on from those that an earlier run has recorded.

    Returns
    -------
    Model
        Its ``training`` record holds ``parameters``, ``history``,
        ``best_round`` (None without early stopping) and ``n_rows``; with target
        statistics also ``copies``, the times that each row was trained on.

    Raises
    ------
    DataError, ParameterError, LossError
        See the message; whatever a callback raises comes through.
    StorageError
        If the checkpoint cannot be read, or not be written when the fit begins.
    """
    n_threads = resolve_threads(n_jobs)
    params = resolve_constraints(resolve(params, objective), train.table.schema, objective)
    metrics = make_metrics(eval_metric, objective)
    listed = check_callbacks(callbacks)
    bar = ProgressBar() if progress else None
    told: tuple[Callback, ...] = listed if bar is None else (*listed, bar)
    stopping = stopping or StoppingParams()
    named = () if eval_metric is None else metrics

    def describe() -> Fingerprint:
        return fingerprint(train, validation, objective, params, stopping, named, n_threads)

    try:
        with recording(checkpoint, describe) as recorder:
            return _fit(
                train, validation, objective, params, stopping, metrics, bool(named), told,
                n_threads, recorder,
            )  # fmt: skip
    finally:
        if bar is not None:
            bar.close()


def _fit(
    train: Sample,
    validation: Sample | None,
    objective: Objective,
    params: BoostParams,
    stopping: StoppingParams,
    metrics: tuple[Metric, ...],
    scored: bool,
    callbacks: tuple[Callback, ...],
    n_threads: int,
    recorder: Recorder | None,
) -> Model:
    """The fit itself, of arguments that are checked; ``scored`` also without validation rows."""
    check_queries(train, validation, objective, params, stopping)
    train, validation, stops = _prepare(train, validation, objective, stopping, params.seed)
    if stopping.by_out_of_bag:
        check_out_of_bag(params, train.n_rows)
        params = replace(params, oob_score=True)
    encoded = encode(train, validation, objective, params, n_threads)
    watched = train if validation is None else validation
    objective, metrics = with_queries(
        objective, metrics, encoded.train, watched, params.seed, n_threads
    )
    watch = Watch(
        objective=objective,
        metrics=metrics if scored or validation is not None else (),
        sample=watched,
        rows="train" if validation is None else "validation",
        best=best_round_of(metrics[0], stopping, stops),
        by_out_of_bag=stopping.by_out_of_bag,
        callbacks=callbacks,
        n_rounds=params.n_estimators,
    )
    asked = constraints_of_inputs(params, encoded.inputs)
    forest = _grow(encoded, objective, asked, watch, n_threads, recorder)
    record = record_of(train.n_rows, params, watch)
    record |= _found_by_loss(train, objective, forest, n_threads)
    inputs = encoded.inputs
    if inputs is not None:
        inputs, forest = without_unused(inputs, forest)
        record["copies"] = encoded.n_copies
    return Model(forest, train.table.schema, objective.name, record, inputs)


def check_out_of_bag(params: BoostParams, n_rows: int) -> None:
    if params.sampling != "uniform":
        raise ParameterError(
            "early_stopping='oob' judges by the rows that a round leaves out, which "
            f"sampling={params.sampling!r} chooses by their gradients: they tell too little of the "
            "others. Use sampling='uniform', or another early_stopping."
        )
    if params.subsample >= 1.0 or params.boosting != "gbdt":
        raise ParameterError(
            "early_stopping='oob' watches the rows that a round leaves out: it needs subsample "
            f"below 1 (got {params.subsample!r}) and boosting='gbdt' (got {params.boosting!r})."
        )
    if (1.0 - params.subsample) * n_rows < 1.0:
        raise DataError(
            f"early_stopping='oob': with subsample={params.subsample!r} a round leaves out less "
            f"than one of {n_rows} rows on average; lower subsample."
        )


def best_round_of(
    metric: Metric, stopping: StoppingParams, stops: tuple[int, float] | None
) -> BestRound | None:
    if stops is None:
        return None
    return BestRound(Rising() if stopping.by_out_of_bag else metric, *stops)


def _prepare(
    train: Sample,
    validation: Sample | None,
    objective: Objective,
    stopping: StoppingParams,
    seed: int,
) -> tuple[Sample, Sample | None, tuple[int, float] | None]:
    """Rows for training and validation, and ``(patience, min_delta)`` if the fit may stop."""
    train = train.without_zero_weights()
    objective.check_target(train.target)
    stops = stops_early(train, stopping, validation is not None)
    if validation is not None:
        validation = validation.without_zero_weights()
        objective.check_target(validation.target)
    elif stops and not stopping.by_out_of_bag:
        kept, aside = split_sample(train, objective, stopping.validation_fraction, seed)
        train, validation = train.take(kept), train.take(aside)
        # A category that only rows set aside have is no mistake of the user.
        train, validation = with_own_levels(train, validation, lenient=True)
        return train, validation, (stopping.patience, stopping.min_delta)
    train, validation = with_own_levels(train, validation)
    return train, validation, (stopping.patience, stopping.min_delta) if stops else None


_OUT_OF_BAG_SCORES = {"regression": "r2", "two classes": "accuracy", "classes": "accuracy"}


class RoundState(Protocol):
    """What a :class:`Watch` needs to know of a fit after a round."""

    n_rounds: int
    oob_improvement: list[float]

    @property
    def base_score(self) -> FloatArray:
        """Raw score before the first tree."""

    def newest(self) -> list[GrownTree]:
        """The trees of the last round as they were added."""


@dataclass(slots=True, eq=False)
class Watch:
    """Scores, early stopping and callbacks of one fit."""

    objective: Objective
    metrics: tuple[Metric, ...]
    sample: Sample | None
    rows: str
    best: BestRound | None
    callbacks: tuple[Callback, ...]
    n_rounds: int
    by_out_of_bag: bool = False
    history: History = field(default_factory=dict)
    out_of_bag: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def after_round(self, state: RoundState) -> bool:
        """Note the scores, tell the callbacks; True if the fit should end."""
        stop = False
        if self.metrics:
            scores = self._scores(state)
            curves = self.history.setdefault(self.rows, {name: [] for name in scores})
            for name, score in scores.items():
                curves[name].append(score)
            if self.best is not None and not self.by_out_of_bag:
                stop = self.best.observe(state.n_rounds, scores[self.metrics[0].name])
        if state.oob_improvement:
            stop = self._note_out_of_bag(state) or stop
        if self.callbacks:
            elapsed = time.monotonic() - self.started
            seen = Round(state.n_rounds, self.n_rounds, read_only(self.history), elapsed)
            stop = call_all(self.callbacks, seen) or stop
        return stop

    def take_over(self, earlier: Rounds, state: RoundState) -> bool:
        """Note the scores of rounds that were done before; True if the fit ended with them."""
        names = [metric.name for metric in self.metrics]
        if earlier.scores.shape[1] != len(names):
            raise StorageError(
                f"the checkpoint has {earlier.scores.shape[1]} scores of each round, this fit "
                f"{len(names)}: remove the checkpoint."
            )
        if names:
            self.history[self.rows] = dict(zip(names, earlier.scores.T.tolist(), strict=True))
        if state.oob_improvement:
            self.history["out_of_bag"] = {"improvement": list(state.oob_improvement)}
        if self.best is not None:
            for n_rounds in range(1, earlier.n_rounds + 1):
                if self.by_out_of_bag:
                    score = math.fsum(state.oob_improvement[:n_rounds])
                else:
                    score = self.history[self.rows][self.metrics[0].name][n_rounds - 1]
                self.best.observe(n_rounds, score)
        return earlier.ended

    def last_round(self, state: RoundState, ended: bool) -> Rounds:
        """The last round with its scores, to be recorded."""
        scores = [curve[-1] for curve in self.history.get(self.rows, {}).values()]
        improvement = state.oob_improvement[-1] if state.oob_improvement else math.nan
        return one_round(
            state.n_rounds - 1, state.newest(), state.base_score, scores, improvement, ended
        )

    def _note_out_of_bag(self, state: RoundState) -> bool:
        """Note how the round changed the loss of the rows that it left out."""
        curves = self.history.setdefault("out_of_bag", {"improvement": []})
        curves["improvement"].append(state.oob_improvement[-1])
        if self.best is None or not self.by_out_of_bag:
            return False
        return self.best.observe(state.n_rounds, math.fsum(state.oob_improvement))

    def note_forest(self, state: BoostState, data: TrainingData) -> None:
        """Score a random forest on the rows by the trees that did not see them."""
        unseen = state.out_of_bag()
        if unseen is None or len(unseen[0]) == 0:
            return
        if self.best is not None and self.best.round != state.n_rounds:
            return  # the model keeps fewer trees: their own score is not known
        rows, raw = unseen
        name = _OUT_OF_BAG_SCORES.get(scored_as(self.objective))
        target = data.target[rows]
        weight = None if data.weight is None else data.weight[rows]
        metrics = make_metrics(["loss"] if name is None else [name, "loss"], self.objective)
        self.out_of_bag = evaluate(metrics, self.objective, target, raw, weight)

    def _scores(self, state: RoundState) -> dict[str, float]:
        assert isinstance(state, BoostState)
        raw = state.train_raw if self.rows == "train" else state.validation_raw
        sample = self.sample
        assert raw is not None
        assert sample is not None
        if raw.shape[1] != sample.n_rows:  # copies of the rows: the first speaks for all
            raw = np.ascontiguousarray(raw[:, : sample.n_rows])
        try:
            return evaluate(self.metrics, self.objective, sample.target, raw, sample.weight)
        except LossError as error:
            raise LossError(f"round {state.n_rounds}: {error}") from error.__cause__


def _prepare_rows(
    encoded: Encoded, params: BoostParams, n_threads: int
) -> tuple[TrainingData, TrainingData | None]:
    """The rows in the form that ``tree_method`` searches: bins, or columns sorted once."""
    train, validation = encoded.train, encoded.validation

    def data(sample: Sample, matrix: BinnedMatrix | ColumnBlocks | AnyTable) -> TrainingData:
        n_copies = encoded.n_copies if sample is train else 1
        return TrainingData(matrix, sample.target, sample.weight, sample.offset, n_copies)

    if params.tree_method != "hist":
        table = _sortable(train.table, params.tree_method)
        seen = data(train, sort_columns(table, n_threads))
        return seen, None if validation is None else data(validation, validation.table)
    most_bins, forced = params.max_bins_by_feature or params.max_bins, params.forced_bins
    spec = fit_bins(train.table, most_bins, train.weight, params.seed, n_threads, forced)
    rules = BundleRules(
        params.bundle_features,
        params.bundle_order,
        params.bundle_conflicts,
        params.max_conflict_rate,
    )
    matrix = bin_bundled(train.table, spec, rules, n_threads)
    if may_pay(matrix):
        matrix = pair_columns(matrix, n_threads)
    if validation is None:
        return data(train, matrix), None
    return data(train, matrix), data(validation, bin_unseen(validation.table, matrix, n_threads))


def _sortable(table: AnyTable, tree_method: str) -> Table:
    """The table, if its columns can be sorted once."""
    if isinstance(table, SparseTable):
        raise ParameterError(
            f"tree_method={tree_method!r} sorts whole columns, but X is sparse: use "
            "tree_method='hist', or give X.toarray()."
        )
    for column in table.schema.columns:
        if column.kind == "category":
            raise ParameterError(
                f"tree_method={tree_method!r} sorts numbers, but column {column.name!r} is a "
                "category: use tree_method='hist', or encode the column."
            )
    return table


def _grow(
    encoded: Encoded,
    objective: Objective,
    params: BoostParams,
    watch: Watch,
    n_threads: int,
    recorder: Recorder | None,
) -> Forest:
    """Run the rounds; the forest up to the best of them."""
    earlier = None if recorder is None else recorder.earlier
    if earlier is not None:
        earlier = earlier.head(params.n_estimators)
    seen, unseen = _prepare_rows(encoded, params, n_threads)
    n_rows = encoded.train.n_rows // encoded.n_copies
    can_split = n_rows >= 2 * params.min_samples_leaf
    states = rounds(seen, objective, params, unseen, n_threads, earlier)
    with closing(states):
        for state in states:
            if not can_split:
                return state.freeze(0)
            if earlier is not None and state.n_rounds == earlier.n_rounds:
                stop = watch.take_over(earlier, state)
            else:
                stop = watch.after_round(state)
                if recorder is not None:
                    recorder.note(watch.last_round(state, stop))
            if stop:
                break
        watch.note_forest(state, seen)
        return state.freeze(watch.best.round if watch.best is not None else None)


def record_of(n_rows: int, params: BoostParams, watch: Watch) -> dict[str, Any]:
    """What the model file tells of the training; nothing of threads, time or machine."""
    objective = watch.objective
    best = watch.best.round if watch.best is not None and watch.history else None
    parameters = {name: _plain(value) for name, value in asdict(params).items()}
    if params.max_conflict_rate == 0.0:
        # Whether and how features share columns has then no part in the model.
        for name in ("bundle_features", "bundle_order", "bundle_conflicts"):
            del parameters[name]
    return {
        "parameters": parameters,
        "n_rows": n_rows,
        "history": watch.history,
        "best_round": best,
        **({"out_of_bag": watch.out_of_bag} if watch.out_of_bag else {}),
        **loss_record(objective),
    }


def _found_by_loss(
    train: Sample, objective: Objective, forest: Forest, n_threads: int
) -> dict[str, Any]:
    """What a loss adds to the record once the trees are known: a baseline hazard."""
    describe: Callable[..., dict[str, Any]] | None = getattr(objective, "fit_record", None)
    if describe is None:
        return {}
    predictor = Predictor(forest, train.table.schema.kinds)
    raw = predictor.raw_scores(numbers_of(train.table), n_threads)
    if train.offset is not None:
        raw = raw + train.offset
    return describe(train.target, raw, train.weight)


def _plain(value: Any) -> Any:
    """A NumPy number as a Python one."""
    item: Callable[[], Any] | None = getattr(value, "item", None)
    return value if item is None else item()


__all__ = ["Sample", "StoppingParams", "fit"]
