"""Training without scikit-learn: :func:`train`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.booster import Booster, given_model
from hedgerow.boosting.external.stored_sample import StoredData, ValidRows, named_valid
from hedgerow.boosting.loop.callbacks import Callback
from hedgerow.boosting.loop.fit import fit
from hedgerow.boosting.loop.loss_spec import LossSpec, count_classes
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.resume.checkpoint import Checkpoint, claiming
from hedgerow.boosting.resume.continuing import Start, check_reading
from hedgerow.boosting.row_data.class_weights import rescaled
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.offsets import check_both_offset, with_offset_columns
from hedgerow.boosting.row_data.targets import Targets, same_targets
from hedgerow.boosting.validation.row_sets import ONLY, TRAINING, check_set_names, stacked
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data import AnyTable
from hedgerow.data.schema import Schema, check_same_names
from hedgerow.errors import AllRowsNeededError, DataError, DataTypeError, ParameterError
from hedgerow.io.checkpoint_folder import checkpoint_at
from hedgerow.model.model import Model
from hedgerow.objectives import PARAMETERS, Objective, objective_for
from hedgerow.params import BOOST_PARAMETER_NAMES, CHECKPOINT_SECONDS, BoostParams, boost_params

_STOPPING_NAMES = (
    *("early_stopping", "validation_fraction", "patience", "min_delta", "time_budget"),
    "train_scores",
)
_TRAIN_NAMES = (
    *BOOST_PARAMETER_NAMES,
    *_STOPPING_NAMES,
    "random_state",
    "objective",
    *PARAMETERS,
    "eval_metric",
    "n_jobs",
)


def train(
    params: Mapping[str, Any] | None,
    dataset: Dataset | StoredData,
    valid: ValidRows = None,
    *,
    callbacks: Callback | Sequence[Callback] | None = None,
    progress: bool = False,
    init_model: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = CHECKPOINT_SECONDS,
) -> Booster:
    """Train a model.

    Parameters
    ----------
    params : mapping or None
        Any parameter of :class:`hedgerow.HedgerowRegressor` by name, with the
        same default (``seed`` is another name of ``random_state``) but for
        ``objective``: ``"squared_error"`` (default) and the other losses of
        numbers, ``"logistic"``, ``"exponential"``, ``"focal"`` and ``"hinge"`` for
        targets 0 and 1, ``"softmax"`` and ``"one_vs_all"`` for targets
        0, 1, ... K - 1, and functions of your own (:mod:`hedgerow.objectives.own`).
    dataset : Dataset or StoredData
        With ``y``.
    valid : Dataset, StoredData, or mapping from str to these, optional
        Rows for learning curves and early stopping.  Of several sets, by name, each has
        curves of its own, and the first decides early stopping; one that is ``dataset``
        itself stands for ``train_scores=True``.
    callbacks : callable or sequence of callables, optional
        Each gets a :class:`hedgerow.boosting.loop.callbacks.Round` after each round
        and ends the training by returning True.
    progress : bool, default=False
        Draw a progress bar in a notebook, or if standard error is a terminal.
    init_model : Booster, fitted estimator, or path of a model file, optional
        Model to go on from: ``n_estimators`` rounds are added to its trees
        (docs/continue.md).
    checkpoint : str or path-like, optional
        Folder in which finished rounds are kept.  If the training is stopped in any
        way, the same call goes on from there, and its model has the same bytes as
        if nothing had happened (docs/checkpoint.md).
    checkpoint_every : float >= 0, default=10.0
        Seconds between two writes to the checkpoint; 0: after every round.

    Returns
    -------
    Booster

    Raises
    ------
    ParameterError
        For an unknown parameter, or a value out of range.
    DataError, DataTypeError
        For data that cannot be used, or that are no Dataset.
    StorageError
        If the folder of the checkpoint cannot be used.

    Warns
    -----
    InterruptedFitWarning
        If an interrupt (Ctrl-C) has ended the training: the booster has the rounds that
        were done, up to the best one.  Before the first round it comes through.

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.datasets import load_pima
    >>> X, y, names, _ = load_pima()
    >>> data = Dataset(X, y, feature_names=names)
    >>> booster = train({"objective": "logistic", "n_estimators": 20}, data)
    >>> booster.predict(X, kind="probability").shape
    (768, 2)
    """
    given = dict(params or {})
    check_names(given)
    valid, given = without_training(dataset, valid, given)
    check_datasets(dataset, valid)
    stopping = stopping_of(given)  # its clock is that of the time budget
    kept = checkpoint_at(checkpoint, checkpoint_every)
    if isinstance(dataset, StoredData):
        trees = trees_of(given)
        try:
            _check_parts(dataset, trees, init_model)
            return _train_stored(given, trees, stopping, dataset, valid, callbacks, progress, kept)
        except AllRowsNeededError as reason:
            dataset, valid = _in_memory(dataset, valid, trees, reason)
    asked = asked_fit(given, dataset, valid, init_model)
    model = fit(
        asked.train,
        asked.objective,
        asked.params,
        validation=asked.validation,
        stopping=stopping,
        eval_metric=given.get("eval_metric"),
        callbacks=callbacks,
        progress=progress,
        n_jobs=given.get("n_jobs"),
        checkpoint=kept,
        start=asked.start,
        finish=asked.finish,
    )
    return Booster(model)


@dataclass(frozen=True, slots=True, eq=False)
class AskedFit:
    """A fit of rows in memory, as parameters and Datasets ask for it.

    Attributes
    ----------
    train : Sample
    validation : Sample or None
    objective : Objective
    params : BoostParams
    start : Start or None
    finish : callable
        Makes of a trained model the one that is returned.
    """

    train: Sample
    validation: Sample | None
    objective: Objective
    params: BoostParams
    start: Start | None
    finish: Callable[[Model], Model]


def asked_fit(
    given: Mapping[str, Any], dataset: Dataset, valid: ValidRows, init_model: Any = None
) -> AskedFit:
    """Read the rows, and make the objective for them.

    Parameters
    ----------
    given : mapping
        Parameters of :func:`train`, whose names are checked.
    dataset : Dataset
    valid : Dataset, mapping from str to Dataset, or None
    init_model : Booster, fitted estimator, or path of a model file, optional
    """
    trees, start = trees_of(given), start_from(init_model)
    sets = cast(dict[str, Dataset], named_valid(valid))
    if any(isinstance(rows, StoredData) for rows in sets.values()):
        raise DataError(
            "the validation rows are read batch by batch, but the training rows are in memory: "
            "give both as files or batches, or the validation rows as a table."
        )
    table = _read(dataset, trees, start)
    name = given.get("objective", "squared_error")
    targets = dataset.targets(table.n_rows, name)
    target = targets.values
    objective = _objective_for(name, _counted(dataset, target), _loss_values(given), targets.names)
    validation = {
        label: _aside(rows, _y_of(label), dataset, table.schema, name, targets, objective)
        for label, rows in sets.items()
    }
    return AskedFit(
        dataset.sample(table, target, objective.n_outputs),
        stacked(validation),
        objective,
        trees,
        start,
        lambda found: with_offset_columns(found, dataset.offset_names),
    )


def without_training(dataset: Any, valid: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Validation rows without those that are the training rows, whose scores are asked for then.

    Raises
    ------
    ParameterError
        If the scores of the training rows are to be called by another name than they are.
    """
    sets = valid if isinstance(valid, Mapping) else {ONLY: valid}
    same = [name for name, rows in sets.items() if rows is dataset and rows is not None]
    if not same:
        return valid, given
    if isinstance(valid, Mapping) and same != [TRAINING]:
        raise ParameterError(
            f"valid[{same[0]!r}] is the Dataset to train on: the scores of these rows are called "
            f"{TRAINING!r}; name it so, or use train_scores=True."
        )
    others = {name: rows for name, rows in sets.items() if rows is not dataset}
    return others or None, given | {"train_scores": True}


def trees_of(given: Mapping[str, Any]) -> BoostParams:
    """Parameters of the trees among those that are given."""
    known = {name: given[name] for name in given if name in BOOST_PARAMETER_NAMES}
    if "random_state" in given:
        if "seed" in given:
            raise ParameterError("seed and random_state are two names of one: give one of them.")
        known["seed"] = given["random_state"]
    return boost_params(known)


def _aside(
    rows: Dataset,
    called: str,
    dataset: Dataset,
    schema: Schema,
    objective_name: Any,
    targets: Targets,
    objective: Objective,
) -> Sample:
    """A set of validation rows, whose target is ``called`` so in messages."""
    rows = _with_like_offset(rows, dataset)
    seen = rows.table(schema)
    own = rows.targets(seen.n_rows, objective_name, targets)
    return rows.sample(seen, same_targets(own, targets, called), objective.n_outputs)


def _y_of(name: str) -> str:
    return "y of valid" if name == ONLY else f"y of valid[{name!r}]"


def check_datasets(dataset: Any, valid: Any) -> None:
    """Say what to give where rows are no Dataset."""
    named = {"dataset": dataset}
    if isinstance(valid, Mapping):
        check_set_names(valid)
        named |= {f"valid[{name!r}]": rows for name, rows in valid.items()}
    elif valid is not None:
        named["valid"] = valid
    for name, given in named.items():
        if isinstance(given, Dataset | StoredData):
            continue
        if isinstance(given, int | np.integer):
            raise DataTypeError(
                f"{name} must be a Dataset; got the number {given!r}: the number of rounds is "
                "the parameter n_estimators, train({'n_estimators': ...}, dataset)."
            )
        pair = isinstance(given, tuple | list) and len(given) == 2
        how = "Dataset(*" + name + ")" if pair else "Dataset(X, y)"
        raise DataTypeError(
            f"{name} must be a Dataset, which holds the rows and their targets; got a "
            f"{type(given).__name__}: make one, {how}, or Dataset.from_files for files."
        )


def _read(dataset: Dataset, trees: BoostParams, start: Start | None) -> AnyTable:
    """The table to train on."""
    if start is None:
        return dataset.table(zero_missing=trees.zero_as_missing)
    schema = start.model.schema
    check_reading(schema, dataset.categorical_features, dataset.unknown_category, start.name)
    if dataset.given_names is not None:
        check_same_names(dataset.given_names, schema.names)
    return dataset.table(schema, more_levels=True)


def _with_like_offset(valid: Dataset, dataset: Dataset) -> Dataset:
    """Validation rows whose offset is in the columns in which that of the others is."""
    if dataset.offset_names and valid.offset is None:
        valid = valid.with_offset(list(dataset.offset_names))
    check_both_offset(dataset.offset is not None, valid.offset is not None)
    return valid


def start_from(init_model: Any) -> Start | None:
    """The model to go on from; None without."""
    if init_model is None:
        return None
    return Start(rescaled(given_model(init_model)[0], None))


def _check_parts(dataset: StoredData, trees: BoostParams, init_model: Any) -> None:
    # Most trainings are of tables in memory, and need not wait for these imports.
    from hedgerow.boosting.external.file_checks import check_parts

    check_parts(dataset, trees, init_model)


def _in_memory(
    dataset: StoredData, valid: ValidRows, trees: BoostParams, reason: AllRowsNeededError
) -> tuple[Dataset, ValidRows]:
    """Rows that are read in parts, in memory: something asked for needs all of them."""
    from hedgerow.boosting.external.resident import in_memory

    rows = in_memory(dataset, trees, reason)
    if isinstance(valid, Mapping):
        return rows, {name: in_memory(each, trees, reason) for name, each in valid.items()}
    return rows, None if valid is None else in_memory(valid, trees, reason)


def _train_stored(
    given: Mapping[str, Any],
    trees: BoostParams,
    stopping: StoppingParams,
    dataset: StoredData,
    valid: ValidRows,
    callbacks: Callback | Sequence[Callback] | None,
    progress: bool,
    checkpoint: Checkpoint | None,
) -> Booster:
    """Train on rows that are read batch by batch, to the same bytes as on a table in memory."""
    # Most trainings are of tables in memory, and need not wait for these imports.
    from hedgerow.boosting.external.stored_data import fit_data

    names = dataset.offset_names if isinstance(dataset, Dataset) else ()
    sets = {name: _with_offset_of(rows, names) for name, rows in named_valid(valid).items()}
    with claiming(checkpoint):
        model = fit_data(
            dataset,
            loss_of(given),
            trees,
            valid=sets,
            stopping=stopping,
            eval_metric=given.get("eval_metric"),
            callbacks=callbacks,
            progress=progress,
            n_jobs=given.get("n_jobs"),
            checkpoint=checkpoint,
        )
    return Booster(with_offset_columns(model, names))


def _with_offset_of(rows: Dataset | StoredData, names: tuple[str, ...]) -> Dataset | StoredData:
    """Validation rows with the columns as offset that the training rows have as offset."""
    if not names or isinstance(rows, StoredData) or rows.offset is not None:
        return rows
    return rows.with_offset(list(names))


def loss_of(given: Mapping[str, Any], has_queries: bool = False) -> LossSpec:
    """What is said of the loss among the parameters of :func:`train`, for rows in batches."""
    asked = given.get("objective", "squared_error")
    return LossSpec(asked, _loss_values(given), has_queries=has_queries)


def stopping_of(given: Mapping[str, Any]) -> StoppingParams:
    """What is said of early stopping among the parameters of :func:`train`."""
    return StoppingParams(**{name: given[name] for name in _STOPPING_NAMES if name in given})


def check_names(params: Mapping[str, Any]) -> None:
    """Refuse names that are no parameters of :func:`train`."""
    wrong = [name for name in params if name not in _TRAIN_NAMES]
    for name in wrong:
        if name in ("categorical_features", "unknown_category"):
            raise ParameterError(f"{name} belongs to the data: give it to the Dataset.")
        if name == "warm_start":
            raise ParameterError("warm_start is for estimators: give train an init_model.")
    if wrong:
        from hedgerow.convert.settings.names import unknown_names

        raise ParameterError(unknown_names(wrong, _TRAIN_NAMES, "train"))


def _loss_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of the loss."""
    return {name: given[name] for name in PARAMETERS if name in given}


def _counted(dataset: Dataset, target: FloatArray) -> FloatArray:
    """The targets of rows that count: a weight of 0 is a row that is not there."""
    weight = dataset.row_weight(len(target))
    return target if weight is None else target[weight > 0.0]


def _objective_for(
    name: Any,
    target: FloatArray,
    parameters: Mapping[str, Any],
    names: tuple[str, ...] | None = None,
) -> Objective:
    """The objective, with as many outputs as the target has classes, or as there are targets."""
    if name not in ("softmax", "one_vs_all"):
        return objective_for(name, target, parameters=parameters, names=names)
    if target.ndim == 2:
        raise ParameterError(
            f"objective {name!r} has one target, but y has several columns: for labels use "
            "'logistic', or train a model for each column."
        )
    n_classes = count_classes(name, float(target.max(initial=-np.inf)), len(target))
    return objective_for(name, target, n_classes, parameters)
