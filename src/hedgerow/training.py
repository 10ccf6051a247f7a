"""The function :func:`train`, an interface without scikit-learn estimators."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hedgerow.argument_types import check_mapping
from hedgerow.booster import Booster, initial_model
from hedgerow.boosting.loop.callbacks import Callback
from hedgerow.boosting.loop.driver import FitOptions
from hedgerow.boosting.loop.fit import fit
from hedgerow.boosting.loop.sample import ONLY
from hedgerow.boosting.loop.setup.job import Job, LossSpec
from hedgerow.boosting.resume.continuing import Start
from hedgerow.boosting.row_data.classes import rescaled
from hedgerow.boosting.row_data.dataset import (
    TRAINING,
    Dataset,
    ValidRows,
    check_set_names,
    named_valid,
)
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.errors import DataTypeError, ParameterError, brief
from hedgerow.io.checkpoint_folder import checkpoint_at
from hedgerow.objectives import PARAMETERS
from hedgerow.objectives.own import check_form
from hedgerow.params import (
    BOOST_PARAMETER_NAMES,
    CHECKPOINT_SECONDS,
    BoostParams,
    boost_params,
    flat,
)
from hedgerow.peers import OF_TRAIN, advised

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


@advised(OF_TRAIN, "Parameters of the training belong in params.")
def train(
    params: Mapping[str, Any] | None,
    dataset: Dataset,
    valid: ValidRows = None,
    *,
    callbacks: Callback | Sequence[Callback] | None = None,
    progress: bool = False,
    init_model: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = CHECKPOINT_SECONDS,
    folds: Any = None,
) -> Booster:
    """Train a model.

    Parameters
    ----------
    params : mapping or None
        Parameters of :class:`hedgerow.HedgerowRegressor` by name, those of ``advanced`` also
        directly; ``seed`` is another name of ``random_state``.  A parameter that is
        ``"auto"`` there has a fixed default here, such as 100 rounds, which does not depend
        on the rows.  ``objective`` is the name of a loss for numbers, survival times or
        rankings (default: ``"squared_error"``); ``"logistic"``, ``"exponential"``, ``"focal"``
        or ``"hinge"`` for targets 0 and 1; ``"softmax"`` or ``"one_vs_all"`` for targets 0, 1,
        ... K - 1; or a custom loss (:mod:`hedgerow.objectives.own`).
    dataset : Dataset
        Training rows with ``y``.
    valid : Dataset, or mapping from str to Dataset, optional
        Validation rows for learning curves and early stopping.  With several named sets,
        each has its own curves, and early stopping uses the first.  A set that is
        ``dataset`` itself means ``train_scores=True``.
    callbacks : callable or sequence of callables, optional
        Functions called after each round with a
        :class:`hedgerow.boosting.loop.callbacks.Round`; training stops if one returns True.
    progress : bool, default=False
        Show a progress bar in a notebook, or if standard error is a terminal.
    init_model : Booster, fitted estimator, or path of a model file, optional
        Model to continue: training adds ``n_estimators`` rounds to its trees
        (docs/continue.md).
    checkpoint : str or path-like, optional
        Folder where completed rounds are saved.  If training is stopped for any reason,
        the same call resumes from there, and the model has the same bytes as without the
        interruption (docs/checkpoint.md).
    checkpoint_every : float >= 0, default=10.0
        Seconds between two writes of the checkpoint; 0 writes after every round.
    folds : int, splitter or iterable of (train, test), optional
        Folds of ``early_stopping="cv"``: their number, a splitter of scikit-learn, or row
        numbers; by default five drawn folds.

    Returns
    -------
    Booster

    Raises
    ------
    ParameterError
        For an unknown parameter, or a value out of range.
    DataError, DataTypeError
        For invalid data, or data that are not a Dataset.
    StorageError
        If the checkpoint folder cannot be used, or the file of ``init_model`` cannot be read.

    Warns
    -----
    InterruptedFitWarning
        If an interrupt (Ctrl-C) ended training.  The booster has the completed rounds, up
        to the best one.  An interrupt in the first round raises ``KeyboardInterrupt``.

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
    settings = read_settings(params)
    valid, settings = without_training(dataset, valid, settings)
    check_datasets(dataset, valid)
    options = FitOptions(
        stopping_of(settings),  # starts the clock of the time budget
        settings.get("eval_metric"),
        callbacks,
        progress,
        settings.get("n_jobs"),
        checkpoint_at(checkpoint, checkpoint_every),
        folds,
    )
    trees, loss = trees_of(settings), loss_of(settings)
    job = Job(dataset, named_valid(valid), start_from(init_model))
    with job.opened(options.checkpoint) as own:
        model = fit(own.read(loss.read, trees, options), trees, options)
    return Booster(model)


def without_training(
    dataset: Any, valid: Any, settings: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Replace the training rows among the validation sets by ``train_scores=True``."""
    sets = valid if isinstance(valid, Mapping) else {ONLY: valid}
    same = [name for name, rows in sets.items() if rows is dataset and rows is not None]
    if not same:
        return valid, settings
    if isinstance(valid, Mapping) and same != [TRAINING]:
        raise ParameterError(
            f"valid[{same[0]!r}] is the Dataset to train on: the scores of these rows are called "
            f"{TRAINING!r}; name it so, or use train_scores=True."
        )
    others = {name: rows for name, rows in sets.items() if rows is not dataset}
    return others or None, settings | {"train_scores": True}


def trees_of(settings: Mapping[str, Any]) -> BoostParams:
    """Return the boosting parameters among those of :func:`train`."""
    known = {name: settings[name] for name in settings if name in BOOST_PARAMETER_NAMES}
    if "random_state" in settings:
        if "seed" in settings:
            raise ParameterError(
                "seed and random_state are two names of one parameter: give one of them."
            )
        known["seed"] = settings["random_state"]
    return boost_params(known)


def check_datasets(dataset: Any, valid: Any) -> None:
    """Raise if the training or validation rows are not Datasets."""
    named = {"dataset": dataset}
    if isinstance(valid, Mapping):
        check_set_names(valid)
        named |= {f"valid[{name!r}]": rows for name, rows in valid.items()}
    elif valid is not None:
        named["valid"] = valid
    for name, rows in named.items():
        if isinstance(rows, Dataset):
            continue
        if isinstance(rows, int | np.integer):
            raise DataTypeError(
                f"{name} must be a Dataset; got the number {brief(rows)}: the number of rounds is "
                "the parameter n_estimators, train({'n_estimators': ...}, dataset)."
            )
        pair = isinstance(rows, tuple | list) and len(rows) == 2
        how = "Dataset(*" + name + ")" if pair else "Dataset(X, y)"
        raise DataTypeError(
            f"{name} must be a Dataset, which holds the rows and their targets; got a "
            f"{type(rows).__name__}: make one, {how}, or Dataset.from_files for files."
        )


def start_from(init_model: Any) -> Start | None:
    """Return the model to continue; None without ``init_model``."""
    if init_model is None:
        return None
    return Start(rescaled(initial_model(init_model)[0], None))


def loss_of(settings: Mapping[str, Any], has_queries: bool | None = None) -> LossSpec:
    """Return the loss among the parameters of :func:`train`."""
    values = {name: settings[name] for name in PARAMETERS if name in settings}
    return LossSpec(settings.get("objective", "squared_error"), values, has_queries=has_queries)


def stopping_of(settings: Mapping[str, Any]) -> StoppingParams:
    """Return the parameters of early stopping among those of :func:`train`."""
    return StoppingParams(**{name: settings[name] for name in _STOPPING_NAMES if name in settings})


def read_settings(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parameters of :func:`train`, flat; raise for names that it does not have."""
    check_mapping(params)
    settings = flat(params or {}, _TRAIN_NAMES)
    wrong = [name for name in settings if name not in _TRAIN_NAMES]
    for name in wrong:
        if name in ("categorical_features", "unknown_category"):
            raise ParameterError(f"{name} is a parameter of the data: pass it to the Dataset.")
        if name == "warm_start":
            raise ParameterError("warm_start is for estimators: pass init_model to train.")
    if wrong:
        from hedgerow.convert.settings.names import unknown_names

        raise ParameterError(unknown_names(wrong, _TRAIN_NAMES, "train"))
    if "objective" in settings:
        check_form(settings["objective"])
    return settings
