"""Training without scikit-learn: :func:`train`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.booster import Booster, given_model
from hedgerow.boosting.asked_loss import AskedLoss, count_classes
from hedgerow.boosting.callbacks import Callback
from hedgerow.boosting.checkpoint import SECONDS, Checkpoint, claiming
from hedgerow.boosting.class_weights import rescaled
from hedgerow.boosting.continuing import Start, check_reading
from hedgerow.boosting.dataset import Dataset
from hedgerow.boosting.fit import fit
from hedgerow.boosting.offsets import with_offset_columns
from hedgerow.boosting.sample import check_weight
from hedgerow.boosting.stopping import StoppingParams
from hedgerow.boosting.stored_sample import StoredData
from hedgerow.boosting.targets import same_targets
from hedgerow.convert.settings.names import name_hint
from hedgerow.data import AnyTable
from hedgerow.data.schema import check_same_names
from hedgerow.errors import DataError, DataTypeError, ParameterError
from hedgerow.io.checkpoint_folder import checkpoint_at
from hedgerow.objectives import PARAMETERS, Objective, objective_for
from hedgerow.params import BOOST_PARAMETER_NAMES, BoostParams, boost_params

_STOPPING_NAMES = ("early_stopping", "validation_fraction", "patience", "min_delta", "time_budget")
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
    valid: Dataset | StoredData | None = None,
    *,
    callbacks: Callback | Sequence[Callback] | None = None,
    progress: bool = False,
    init_model: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = SECONDS,
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
    valid : Dataset or StoredData, optional
        Rows for learning curves and early stopping.
    callbacks : callable or sequence of callables, optional
        Each gets a :class:`hedgerow.boosting.callbacks.Round` after each round
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
    _check_datasets(dataset, valid)
    stopping = stopping_of(given)  # its clock is that of the time budget
    kept = checkpoint_at(checkpoint, checkpoint_every)
    if "random_state" in given:
        if "seed" in given:
            raise ParameterError("seed and random_state are two names of one: give one of them.")
        given["seed"] = given.pop("random_state")
    trees = boost_params({name: given[name] for name in given if name in BOOST_PARAMETER_NAMES})
    start = start_from(init_model)
    if isinstance(dataset, StoredData):
        if start is not None:
            raise ParameterError(
                "init_model needs the rows in memory, and these are read batch by batch: give a "
                "table, or train all rounds at once."
            )
        return _train_stored(given, trees, stopping, dataset, valid, callbacks, progress, kept)
    if isinstance(valid, StoredData):
        raise DataError(
            "the validation rows are read batch by batch, but the training rows are in memory: "
            "give both as files or batches, or the validation rows as a table."
        )
    table = _read(dataset, trees, start)
    name = given.get("objective", "squared_error")
    targets = dataset.targets(table.n_rows, name)
    target = targets.values
    objective = _objective_for(name, _counted(dataset, target), _loss_values(given), targets.names)
    validation = None
    if valid is not None:
        valid = _with_like_offset(valid, dataset)
        seen = valid.table(table.schema)
        target_val = same_targets(valid.targets(seen.n_rows, name, targets), targets, "y of valid")
        validation = valid.sample(seen, target_val, objective.n_outputs)
    model = fit(
        dataset.sample(table, target, objective.n_outputs),
        objective,
        trees,
        validation=validation,
        stopping=stopping,
        eval_metric=given.get("eval_metric"),
        callbacks=callbacks,
        progress=progress,
        n_jobs=given.get("n_jobs"),
        checkpoint=kept,
        start=start,
        finish=lambda found: with_offset_columns(found, dataset.offset_names),
    )
    return Booster(model)


def _check_datasets(dataset: Any, valid: Any) -> None:
    """Say what to give where rows are no Dataset."""
    for name, given in (("dataset", dataset), ("valid", valid)):
        if isinstance(given, Dataset | StoredData) or (name == "valid" and given is None):
            continue
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
        valid = valid.with_offset(dataset.offset)
    if (valid.offset is None) != (dataset.offset is None):
        which = "validation" if valid.offset is None else "training"
        raise DataError(f"the {which} rows have no offset, the others have: give both or none.")
    return valid


def start_from(init_model: Any) -> Start | None:
    """The model to go on from; None without."""
    if init_model is None:
        return None
    return Start(rescaled(given_model(init_model)[0], None))


def _train_stored(
    given: Mapping[str, Any],
    trees: BoostParams,
    stopping: StoppingParams,
    dataset: StoredData,
    valid: Dataset | StoredData | None,
    callbacks: Callback | Sequence[Callback] | None,
    progress: bool,
    checkpoint: Checkpoint | None,
) -> Booster:
    """Train on rows that are read batch by batch, to the same bytes as on a table in memory."""
    # Most trainings are of tables in memory, and need not wait for these imports.
    from hedgerow.boosting.stored_data import TargetSurvey, fit_data

    names = dataset.offset_names if isinstance(dataset, Dataset) else ()
    if names and isinstance(valid, Dataset) and not isinstance(valid, StoredData):
        valid = valid if valid.offset is not None else valid.with_offset(list(names))
    with claiming(checkpoint):
        survey = TargetSurvey(loss_of(given), stopping, trees.seed, valid is None)
        dataset.survey(survey.note, trees, survey.may_set_aside)
        objective, set_aside = survey.finish()
        model = fit_data(
            dataset,
            objective,
            trees,
            set_aside,
            valid=valid,
            stopping=stopping,
            eval_metric=given.get("eval_metric"),
            callbacks=callbacks,
            progress=progress,
            n_jobs=given.get("n_jobs"),
            checkpoint=checkpoint,
        )
    return Booster(with_offset_columns(model, names))


def loss_of(given: Mapping[str, Any], has_queries: bool = False) -> AskedLoss:
    """What is said of the loss among the parameters of :func:`train`, for rows in batches."""
    asked = given.get("objective", "squared_error")
    return AskedLoss(asked, _loss_values(given), has_queries=has_queries)


def stopping_of(given: Mapping[str, Any]) -> StoppingParams:
    """What is said of early stopping among the parameters of :func:`train`."""
    return StoppingParams(**{name: given[name] for name in _STOPPING_NAMES if name in given})


def check_names(params: Mapping[str, Any]) -> None:
    """Refuse names that are no parameters of :func:`train`."""
    for name in params:
        if name not in _TRAIN_NAMES:
            if name in ("categorical_features", "unknown_category"):
                raise ParameterError(f"{name} belongs to the data: give it to the Dataset.")
            if name == "warm_start":
                raise ParameterError("warm_start is for estimators: give train an init_model.")
            hint = name_hint(str(name), _TRAIN_NAMES)
            raise ParameterError(f"unknown parameter {name!r}.{hint}")


def _loss_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of the loss."""
    return {name: given[name] for name in PARAMETERS if name in given}


def _counted(dataset: Dataset, target: FloatArray) -> FloatArray:
    """The targets of rows that count: a weight of 0 is a row that is not there."""
    weight = check_weight(dataset.weight, len(target), "weight")
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
