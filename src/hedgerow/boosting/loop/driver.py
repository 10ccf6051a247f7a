"""The driver of all fits: from rows in the form for trees to the model.

::

    FitPlan        parameters, loss and metrics, checked and resolved
      |
    PreparedRows   of a table, of files, of one of several ranks, or of a fold
      |
    Ready          loss and metrics bound to the rows; a watch
      |
    rounds         hedgerow.boosting.loop.training_loop runs all; hedgerow.Training one by one
      |
    Model

The callers differ in how they prepare rows: :mod:`hedgerow.boosting.loop.fit` encodes and bins a
table, :mod:`hedgerow.boosting.external.fit_files` reads files, and folds
(:mod:`hedgerow.boosting.validation.cross`) take rows of either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.loop.callbacks import Callback, ProgressBar
from hedgerow.boosting.loop.fit_rows import FitRows
from hedgerow.boosting.loop.ranks import Ranks
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.scored import ScoredRows, Tally
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.training_loop import grow_forest
from hedgerow.boosting.loop.watch import Watch, best_round_of, record_of
from hedgerow.boosting.resume.checkpoint import Checkpoint, Recorder, recording
from hedgerow.boosting.resume.continuing import Start
from hedgerow.boosting.resume.fingerprint import Fingerprint, fingerprint
from hedgerow.boosting.row_data.metric_groups import bound_metrics
from hedgerow.boosting.row_data.queries import (
    bias_record,
    positions_of_all,
    with_positions,
    with_queries,
)
from hedgerow.boosting.row_data.statistics import assembled, constraints_of_inputs
from hedgerow.boosting.validation.budget import Budget, budget_of
from hedgerow.boosting.validation.row_sets import TRAINING, parts_of
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data import SparseTable, numbers_of
from hedgerow.data.inputs import Inputs
from hedgerow.data.reading.mapped_table import BLOCK_ROWS
from hedgerow.errors import DataError, ParameterError
from hedgerow.metrics import Metric
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.model.predict import Predictor
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams

if TYPE_CHECKING:
    from hedgerow.boosting.validation.cross_stopping import ChosenRounds
    from hedgerow.growing.chunks.space import Spaces

Stops: TypeAlias = tuple[int, float] | None
"""Patience and smallest improvement, if early stopping is on."""


@dataclass(frozen=True, slots=True, eq=False)
class FitPlan:
    """The resolved arguments of a fit, except for its rows.

    Attributes
    ----------
    params : BoostParams
        With column positions instead of names.
    metrics : tuple of Metric
        For the validation rows, or for the training rows if there are none.
    of_train : tuple of Metric
        For the training rows, if they are scored in addition to validation rows.
    is_scored : bool
        Whether training rows are scored if there are no validation rows.
    bar : ProgressBar or None
        The one among the callbacks.
    """

    objective: Objective
    params: BoostParams
    stopping: StoppingParams
    metrics: tuple[Metric, ...]
    of_train: tuple[Metric, ...] = ()
    is_scored: bool = True
    callbacks: tuple[Callback, ...] = ()
    bar: ProgressBar | None = None
    n_threads: int = 1
    start: Start | None = None
    finish: Callable[[Model], Model] = lambda model: model

    @property
    def has_nothing_to_add(self) -> bool:
        """Whether the model to continue already has all requested rounds."""
        return self.start is not None and self.start.rounds_to_add(self.params.n_estimators) == 0

    @property
    def n_first(self) -> int:
        """Number of rounds of the model to continue."""
        return 0 if self.start is None else self.start.forest.n_rounds

    def fingerprint(
        self, contents: Mapping[str, str], n_rows: int, sets: tuple[str, ...] = ()
    ) -> Fingerprint:
        """Return what identifies the fit on rows with these digests, for its checkpoint."""
        named = self.metrics if self.is_scored else ()
        found = fingerprint(
            contents, n_rows, self.objective, self.params, self.stopping, named, sets
        )
        return found if self.start is None else self.start.identified(found, self.params)


class ScoredPart(NamedTuple):
    """Validation rows that are scored together.

    name     in the history
    number   of the rows in ``PreparedRows.unseen``
    columns  places of these rows in their raw scores
    """

    name: str
    rows: Sample
    number: int = 0
    columns: slice | IntArray = slice(None)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRows:
    """The rows of a fit in the form for trees, wherever they are.

    Attributes
    ----------
    train : Sample
        Each training row once, with the user's columns; without values if only bins are there.
    learned : Sample
        The training rows on which trees are grown: copies of ``train`` if there are statistics.
    seen, unseen : TrainingData
        The latter are validation rows.
    parts : tuple of ScoredPart
        The validation rows by name.
    inputs : Inputs or None
        Inputs of the trees, if they differ from the columns of the table.
    first : Forest or None
        Trees of the model to continue.
    read_again : callable or None
        Yields the rows of ``train`` as trees see new rows, if the table has no values.
    """

    train: Sample
    learned: Sample
    seen: TrainingData
    unseen: tuple[TrainingData, ...] = ()
    parts: tuple[ScoredPart, ...] = ()
    inputs: Inputs | None = None
    first: Forest | None = None
    ranks: Ranks = field(default_factory=Ranks)
    read_again: Callable[[], NewRows] | None = None


NewRows: TypeAlias = Iterator[tuple[AnyArray | SparseTable, FloatArray | None]]
"""Values and offset of each block of rows, as trees see rows that they were not grown on."""


def parts_in(validation: Sample | None) -> tuple[ScoredPart, ...]:
    """Return the sets of validation rows in one sample."""
    found = [] if validation is None else parts_of(validation)
    return tuple(ScoredPart(name, part, 0, place) for name, place, part in found)


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """A fit before its first round.

    Attributes
    ----------
    rows : FitRows
        Training and validation rows, with parameters for the columns that trees split.
    chosen : ChosenRounds or None
        Result of early stopping by folds.
    assemble : callable
        Makes a model from a forest.
    inputs : Inputs or None
        Inputs of the trees, if they differ from the columns of the table.
    """

    plan: FitPlan
    rows: FitRows
    watch: Watch
    chosen: ChosenRounds | None
    assemble: Callable[[Forest], Model]
    inputs: Inputs | None


@contextmanager
def running(
    plan: FitPlan, checkpoint: Checkpoint | None, describe: Callable[[], Fingerprint]
) -> Iterator[tuple[Budget | None, Recorder | None]]:
    """Yield the budget and the recorder of a fit while it runs; close its progress bar."""
    try:
        with budget_of(plan.stopping) as budget, recording(checkpoint, describe) as recorder:
            yield budget, recorder
    finally:
        if plan.bar is not None:
            plan.bar.close()


def watched_rows(
    plan: FitPlan,
    rows: PreparedRows,
    stops: Stops,
    budget: Budget | None = None,
    may_run_ahead: bool = False,
    spaces: Spaces | None = None,
) -> tuple[FitRows, Watch]:
    """Bind the loss and the metrics to the rows; ``plan.params`` are those of the inputs.

    ``may_run_ahead``: whether nothing but early stopping follows each round.
    """
    others, params, n_threads = rows.ranks.others, plan.params, plan.n_threads
    positions = positions_of_all(rows.learned.position, others)
    objective = with_positions(plan.objective, positions, params, plan.start)
    objective = with_queries(objective, rows.learned, params.seed, n_threads, rows.ranks)
    is_scored = bool(plan.is_scored or plan.stopping.train_scores or rows.parts)
    wanted = [(part, plan.metrics) for part in rows.parts]
    of_train = plan.of_train if rows.parts else plan.metrics
    if of_train and is_scored:
        every = slice(0, rows.train.n_rows)  # the first of its copies
        wanted.append((ScoredPart(TRAINING, rows.train, columns=every), of_train))
    scored = []
    for part, metrics in wanted:
        name, own, names = part.name, part.rows, part.rows.row_names
        bound = bound_metrics(metrics, own, objective, others)
        tally = None
        if others.size > 1:
            tally = Tally(bound, objective, rows.ranks.rows(own.target, own.weight))
        scored.append(
            ScoredRows(
                name, bound, own.target, own.weight, part.columns, name == TRAINING, names,
                part.number, tally,
            )
        )  # fmt: skip
    watch = Watch(
        objective=objective,
        scored={part.name: part.metrics for part in scored},
        best=best_round_of(
            scored[0].metrics[0] if scored else plan.metrics[0], plan.stopping, stops
        ),
        by_out_of_bag=plan.stopping.by_out_of_bag,
        callbacks=plan.callbacks,
        n_rounds=params.n_estimators + plan.n_first,
        n_first=plan.n_first,
        started=plan.stopping.began,
        budget=budget,
    )
    found = FitRows(
        rows.seen, objective, params, rows.unseen, n_threads, rows.first, scored,
        may_run_ahead=may_run_ahead and not plan.callbacks, ranks=rows.ranks, spaces=spaces,
    )  # fmt: skip
    found.names = rows.train.row_names
    return found, watch


def make_ready(
    plan: FitPlan,
    rows: PreparedRows,
    stops: Stops = None,
    chosen: ChosenRounds | None = None,
    budget: Budget | None = None,
    may_run_ahead: bool = False,
) -> Ready:
    """Return the fit before its first round; ``chosen`` is what folds have found."""
    inputs, n_threads = rows.inputs, plan.n_threads
    own = constraints_of_inputs(plan.params, inputs)
    if chosen is not None:
        own = own.with_rounds(chosen.n_rounds)
    fit_rows, watch = watched_rows(replace(plan, params=own), rows, stops, budget, may_run_ahead)
    if chosen is not None:
        watch.history = {"cv": chosen.curves}
    if plan.start is not None:
        watch.note_start(fit_rows.scores())

    def assemble(forest: Forest) -> Model:
        record = record_of(fit_rows.n_rows, plan.params, watch)
        if plan.start is not None:
            plan.start.complete(record, watch.n_kept)
        if chosen is not None:
            chosen.complete(record, watch.n_kept)
        read = rows.read_again or (lambda: new_rows(rows.train, inputs, n_threads))
        record |= found_by_loss(watch.objective, forest, rows.train, inputs, read, n_threads)
        record |= bias_record(watch.objective, forest.n_rounds - watch.n_first)
        schema, n_copies = rows.train.table.schema, rows.seen.n_copies
        return plan.finish(
            assembled(forest, schema, watch.objective, record, inputs, n_copies, watch.seconds)
        )

    return Ready(plan, fit_rows, watch, chosen, assemble, inputs)


def grow_model(ready: Ready, recorder: Recorder | None) -> Model:
    """Run the rounds of a fit; return its model."""
    plan, watch, chosen = ready.plan, ready.watch, ready.chosen
    with watch.assembling(ready.assemble):
        forest = grow_forest(ready.rows, watch, recorder)
    if watch.stopped_by == "rounds" and chosen is not None:
        watch.stopped_by = chosen.stopped_by(chosen.params.n_estimators)
    model = ready.assemble(forest)
    if plan.bar is not None:
        plan.bar.tell(model.training)
    return model


def new_rows(train: Sample, inputs: Inputs | None, n_threads: int) -> NewRows:
    """Yield the rows of a table as trees see rows that they were not grown on."""
    values, schema, offset = numbers_of(train.table), train.table.schema, train.offset
    if inputs is None:
        yield values, offset
    elif isinstance(values, SparseTable):
        yield inputs.values(values, schema, n_threads), offset
    else:
        for start in range(0, len(values), BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            own = None if offset is None else offset[:, rows]
            yield inputs.values(values[rows], schema, n_threads), own


def found_by_loss(
    objective: Objective,
    forest: Forest,
    train: Sample,
    inputs: Inputs | None,
    read: Callable[[], NewRows],
    n_threads: int,
) -> dict[str, Any]:
    """Return what a loss adds to the record after training, such as a baseline hazard.

    The rows are read again, as new rows: bins would not do, because the trees of a model to
    continue split between them, and conflicts in bundles hide values.
    """
    describe: Callable[..., dict[str, Any]] | None = getattr(objective, "fit_record", None)
    if describe is None:
        return {}
    schema = train.table.schema
    predictor = Predictor(forest, schema.kinds if inputs is None else inputs.schema(schema).kinds)
    parts = []
    for values, offset in read():
        raw = predictor.raw_scores(values, n_threads)
        parts.append(raw if offset is None else raw + offset)
    return describe(train.target, np.concatenate(parts, axis=1), train.weight)


def with_out_of_bag(params: BoostParams, stopping: StoppingParams, n_rows: int) -> BoostParams:
    """Turn on out-of-bag scores if early stopping uses them."""
    if not stopping.by_out_of_bag:
        return params
    check_out_of_bag(params, n_rows)
    return replace(params, oob_score=True)


def check_out_of_bag(params: BoostParams, n_rows: int) -> None:
    """Raise an error unless rounds leave out rows that represent the others."""
    if params.sampling != "uniform":
        raise ParameterError(
            "early_stopping='oob' scores the rows that a round leaves out, but "
            f"sampling={params.sampling!r} chooses them by gradient, so they do not represent all "
            "rows. Use sampling='uniform', or another early_stopping."
        )
    if params.subsample >= 1.0 or params.boosting != "gbdt":
        raise ParameterError(
            "early_stopping='oob' watches the rows that a round leaves out: it needs subsample "
            f"below 1 (here {params.subsample!r}) and boosting='gbdt' (here {params.boosting!r})."
        )
    if (1.0 - params.subsample) * n_rows < 1.0:
        raise DataError(
            f"early_stopping='oob': with subsample={params.subsample!r} a round leaves out fewer "
            f"than one of {n_rows} rows on average; lower subsample."
        )
