"""The one door of a fit: the rows that the user gave, the model to continue, validation rows.

Estimators, :func:`hedgerow.train`, :func:`hedgerow.cv`, :class:`hedgerow.Training`,
:func:`hedgerow.cross_fit` and ranks of a cluster make a :class:`Job`; reading it checks and
converts everything that was given, in one way::

    opened     a context for one fit
    read       targets --> loss;  rows of files: first pass;  validation rows --> FitSpec

A :class:`LossSpec` is a loss before the data that complete it are known.  The number of classes is
the largest target plus one, of all ranks of a cluster if there are some.  Most losses have
derivatives of one row alone (:attr:`hedgerow.objectives.base.Objective.rowwise`), so chunks of rows
are enough; :func:`needs_all_rows` tells the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.loop.driver import FitOptions
from hedgerow.boosting.loop.sample import ONLY, Sample
from hedgerow.boosting.resume.checkpoint import Checkpoint
from hedgerow.boosting.resume.continuing import Start, check_reading
from hedgerow.boosting.row_data.classes import corrected, rescaled, with_class_weights
from hedgerow.boosting.row_data.dataset import Dataset, reads_batches
from hedgerow.boosting.row_data.offsets import check_both_offset, with_offset_columns
from hedgerow.boosting.row_data.queries import queries_without_effect, require_queries
from hedgerow.boosting.row_data.row_values import ROW_VALUES
from hedgerow.boosting.row_data.targets import Targets, same_targets
from hedgerow.comm.base import count_rows
from hedgerow.data import AnyTable, Schema
from hedgerow.data.schema import check_same_names
from hedgerow.errors import AllRowsNeededError, DataError, DataTypeError, ParameterError
from hedgerow.model.model import Model
from hedgerow.objectives import (
    RANKING,
    Objective,
    RowLoss,
    SeveralTargets,
    make_objective,
    objective_for,
)
from hedgerow.objectives.catalogue import Task
from hedgerow.objectives.derivatives import PRECOMPUTED
from hedgerow.objectives.global_sums import largest_of_ranks
from hedgerow.objectives.own import OwnObject
from hedgerow.params import BoostParams

if TYPE_CHECKING:
    from hedgerow.boosting.external.file_dataset import FileDataset

Called: TypeAlias = Callable[[str, str | None], str]
"""``called(argument, set)``: the user's name of an argument; set None means training rows."""


def called_in_fit(argument: str, rows: str | None) -> str:
    """Return the name of an argument of ``fit``: ``"y_val"`` or ``"y of X_val['new']"``."""
    names = {value.name: value.of_fit for value in ROW_VALUES}
    argument = names.get(argument, argument)
    if rows is None:
        return argument
    return f"{argument}_val" if rows == ONLY else f"{argument} of X_val[{rows!r}]"


def called_in_train(argument: str, rows: str | None) -> str:
    """Return the name of an argument of a Dataset: ``"y of valid"`` or ``"y of valid['new']"``."""
    if rows is None:
        return argument
    return f"{argument} of valid" if rows == ONLY else f"{argument} of valid[{rows!r}]"


def in_chunks(rows: Dataset) -> TypeGuard[FileDataset]:
    """Return whether rows of files stay there, and are read in batches."""
    return reads_batches(rows) and not rows.why


@dataclass(frozen=True, slots=True, eq=False)
class KnownTargets:
    """Targets of the training rows, and what they decide.

    read      ``read(rows, n_rows, name)`` returns the targets of validation rows
    by_class  float64 (n_classes,): class weights
    classes   array (n_classes,): class labels
    """

    values: FloatArray
    objective: Objective
    read: Callable[[Dataset, int, str], FloatArray]
    by_class: FloatArray | None = None
    classes: AnyArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """The rows of a fit as the user gave them.

    validation      sets of validation rows by name; the first decides early stopping
    called, reader  the user's names of arguments, and what reads the rows, for messages
    """

    rows: Dataset
    validation: Mapping[str, Dataset]
    start: Start | None = None
    called: Called = called_in_train
    reader: str = "Booster"

    def __post_init__(self) -> None:
        if not reads_batches(self.rows) and any(map(reads_batches, self.validation.values())):
            raise DataError(
                "the validation rows are read in batches, but the training rows are in memory: "
                "give both as files or batches, or the validation rows as a table."
            )

    @contextmanager
    def opened(self, checkpoint: Checkpoint | None = None) -> Iterator[Job]:
        """Yield the job for one fit; what is made of rows of files is deleted afterwards."""
        with ExitStack() as stack:
            if checkpoint is not None:  # its problems show before data are read and binned
                stack.enter_context(closing(checkpoint.store)).open()

            def for_one_use(rows: Dataset) -> Dataset:
                if not reads_batches(rows):
                    return rows
                return stack.enter_context(closing(rows.for_one_use()))

            sets = {name: for_one_use(rows) for name, rows in self.validation.items()}
            yield replace(self, rows=for_one_use(self.rows), validation=sets)

    def read(
        self, read_targets: ReadTargets, params: BoostParams, options: FitOptions | None = None
    ) -> FitSpec:
        """Check and convert the rows; ``read_targets`` reads the targets and makes the loss."""
        # Rows of files stay there, unless an option, or a column, needs all of them in memory.
        # Only they need the ``options``: some may be held out before the first pass.
        try:
            return self._read(read_targets, params, options or FitOptions())
        except AllRowsNeededError as reason:
            if not in_chunks(self.rows) or self.rows.communicator.size > 1:
                raise  # no worker of a cluster has all rows
            why = str(reason)
        return self.in_memory(why).read(read_targets, params, options)

    def in_memory(self, why: str) -> Job:
        """Return the job with rows of files read into memory."""

        def whole(rows: Dataset) -> Dataset:
            return rows.having(why=why) if reads_batches(rows) else rows

        sets = {name: whole(rows) for name, rows in self.validation.items()}
        return replace(self, rows=whole(self.rows), validation=sets)

    def _read(self, read_targets: ReadTargets, params: BoostParams, options: FitOptions) -> FitSpec:
        rows, start, has_validation = self.rows, self.start, bool(self.validation)
        if reads_batches(rows):
            # Imported here: most trainings use tables in memory.
            from hedgerow.boosting.external.file_dataset import check_parts

            if in_chunks(rows):
                if options.folds is not None:
                    raise AllRowsNeededError("folds number the rows of the whole table.")
                check_parts(rows, params, options.stopping)
            rows.survey(params, options.stopping.sets_rows_aside and not has_validation)
        table = rows.table() if in_chunks(rows) else self._table(params.zero_as_missing)
        weight = rows.row_weight(table.n_rows, lambda argument: self.called(argument, None))
        known = read_targets(self, table.n_rows, weight)
        if start is not None:
            start = replace(start, model=rescaled(start.model, known.by_class))
        train, samples = self._sample(None, rows, table, known.values, known), list[Sample]()
        if in_chunks(rows):
            given = train, known.objective, options.stopping, start, has_validation
            train, samples = rows.first_pass(*given)
        samples += [
            self._validation(name, given_rows, train.table.schema, known, params)
            for name, given_rows in self.validation.items()
        ]
        if in_chunks(rows):
            for each in (rows, *self.validation.values()):
                if reads_batches(each) and not isinstance(each.y, np.ndarray):
                    each.y = None  # the loss has targets of its own
        names = rows.offset_names

        def finish(found: Model) -> Model:
            return with_offset_columns(corrected(found, known.by_class), names)

        return FitSpec(train, known.objective, samples, start, finish, known.classes, rows)

    def _table(self, zero_missing: bool) -> AnyTable:
        """Read the training table."""
        rows = self.rows
        if self.start is None:
            return rows.table(zero_missing=zero_missing, reader=self.reader)
        schema, name = self.start.model.schema, self.start.name
        check_reading(schema, rows.categorical_features, rows.unknown_category, name)
        if rows.given_names is not None:
            check_same_names(rows.given_names, schema.names)
        return rows.table(schema, more_levels=True, reader=self.reader)

    def _validation(
        self, name: str, rows: Dataset, schema: Schema, known: KnownTargets, params: BoostParams
    ) -> Sample:
        """Read a set of validation rows."""
        names = self.rows.offset_names
        if reads_batches(rows):
            rows.survey(params, classes=known.classes)
        elif names and rows.offset is None:
            rows = rows.having(offset=list(names))
        check_both_offset(self.rows.offset is not None, rows.offset is not None)
        try:
            table = rows.table(schema, reader=self.reader)
        except (DataError, DataTypeError) as error:
            error.args = (f"{self.called('X', name)}: {error}",)
            raise
        target = known.read(rows, table.n_rows, self.called("y", name))
        return self._sample(name, rows, table, target, known)

    def _sample(
        self, name: str | None, rows: Dataset, table: AnyTable, target: FloatArray,
        known: KnownTargets,
    ) -> Sample:  # fmt: skip
        found = rows.sample(
            table, target, known.objective.n_outputs, lambda argument: self.called(argument, name)
        )
        found = replace(found, set_name=name)
        if known.by_class is None:
            return found
        return with_class_weights(found, known.by_class).without_equal_weights()


ReadTargets: TypeAlias = Callable[[Job, int, FloatArray | None], KnownTargets]
"""``read_targets(job, n_rows, weight)``: reads the training targets and makes the loss."""


@dataclass(frozen=True, slots=True, eq=False)
class FitSpec:
    """The rows of a fit, read, and its loss.

    validation  a sample for each set, or of rows held out
    finish      converts the trained model to the one that is returned
    classes     array (n_classes,): class labels
    rows        the training rows as the user gave them
    """

    train: Sample
    objective: Objective
    validation: Sequence[Sample] = ()
    start: Start | None = None
    finish: Callable[[Model], Model] = lambda model: model
    classes: AnyArray | None = None
    rows: Dataset | None = None

    @property
    def in_chunks(self) -> bool:
        """Whether the rows stay in files."""
        return self.rows is not None and in_chunks(self.rows)


# -- the loss ------------------------------------------------------------------------------------

_CLASSES = ("softmax", "one_vs_all")

TargetsOf: TypeAlias = Callable[[Dataset, int, str, Targets | None], Targets]
"""``targets_of(rows, n_rows, name, like)`` reads the targets of rows, which messages call ``name``;
``like`` are those of the training rows, if these are validation rows."""


@dataclass(frozen=True, slots=True, eq=False)
class LossSpec:
    """The loss of a fit, by name or of the user.

    parameters   of the loss by name; None for the default
    task         of a user-defined loss
    n_classes    number of classes, if known from labels
    has_queries  whether the query of each row is known; None: the rows will tell
    labelled     name of the estimator that accepts labels other than 0, 1, ..., for messages
    """

    objective: Any = "squared_error"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    task: Task = "regression"
    n_classes: int | None = None
    has_queries: bool | None = None
    labelled: str = "HedgerowClassifier"

    def __post_init__(self) -> None:
        if isinstance(self.objective, str) and self.has_queries is not None:
            n_classes = (self.n_classes or 2) if self.objective in _CLASSES else 1
            named = make_objective(self.objective, n_classes, parameters=self.parameters)
            ranks = named.name in RANKING
            if ranks and not self.has_queries:
                require_queries(None, "qid", "train", f"objective {named.name!r}")
            if self.has_queries and not ranks:
                raise queries_without_effect(named)

    def read(
        self, job: Job, n_rows: int, weight: FloatArray | None, targets_of: TargetsOf | None = None
    ) -> KnownTargets:
        """Read the training targets of a job, and make the loss for them."""
        # ``targets_of`` reads the targets of rows; by default they are numbers, or times of events.
        name, others = self.objective, job.rows.communicator
        if targets_of is None:

            def targets_of(rows: Dataset, n_rows: int, y: str, like: Targets | None) -> Targets:
                return rows.targets(n_rows, name, like, y)

        targets = targets_of(job.rows, n_rows, "y", None)
        target = targets.values if weight is None else targets.values[weight > 0.0]
        n_outputs = self.n_classes or 1
        if isinstance(name, str) and name in _CLASSES and self.n_classes is None:
            if targets.several:
                raise ParameterError(
                    f"objective {name!r} has one target, but y has several columns: for labels use "
                    "'logistic', or train a model for each column."
                )
            most = largest_of_ranks(np.array([target.max(initial=-np.inf)]), others)
            largest, n_all = float(most[0]), count_rows(len(target), others)[1]
            n_outputs = max(2, int(max(largest, 0.0)) + 1)
            if n_outputs > n_all:
                raise DataError(
                    f"objective {name!r} needs class indices 0, 1, ...; the largest is "
                    f"{largest:g}, which makes more classes than there are rows ({n_all}): "
                    f"renumber the classes, or use {self.labelled}, which takes any labels."
                )
        columns = targets.values.shape[1] if targets.several else 1  # a rank without rows: 1
        n_targets = int(others.allreduce(np.array([columns], dtype=np.int64), "max")[0])
        objective = objective_for(
            name, n_outputs, self.parameters, self.task, n_targets, targets.names
        )

        def read(rows: Dataset, n_rows: int, y: str) -> FloatArray:
            return same_targets(targets_of(rows, n_rows, y, targets), n_targets, targets.names, y)

        return KnownTargets(targets.values, objective, read)


def needs_all_rows(objective: Objective) -> bool:
    """Return whether the loss must see all rows at once."""
    # True for losses that compare rows, for user-defined functions that return the derivatives of
    # all rows, and for user-defined objects whose start value or loss is not a sum over rows.
    # Rankings need the rows of a query only (:mod:`hedgerow.objectives.ranking.complete`).
    if isinstance(objective, SeveralTargets):
        objective = objective.single
    if objective.kernel_id != PRECOMPUTED or objective.name in RANKING:
        return False
    if not objective.rowwise:
        return True
    if not isinstance(objective, OwnObject):
        return False
    kind = type(objective.inner)
    if objective.coupled or not issubclass(kind, RowLoss) or kind.loss is not RowLoss.loss:
        return True
    starts = kind.initial_score is not RowLoss.initial_score
    return starts and kind.start_of is RowLoss.start_of
