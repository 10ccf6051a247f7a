"""Times of events that may be censored: how they are read, and what a model says of them.

============================================  ==========  ===========================
what users have                               objectives  what the loss gets
============================================  ==========  ===========================
1-d numbers, censored ones with a minus sign  cox, aft    these
structured array or frame of two columns,     cox, aft    time, or minus it where
a truth value (event) and a number (time)                 there was no event
two columns of numbers: lower, upper          aft         these, shape (n_rows, 2)
============================================  ==========  ===========================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.sample import check_length, check_vector
from hedgerow.errors import DataError, DataTypeError, ParameterError
from hedgerow.model.model import Model
from hedgerow.objectives import objective_of_record
from hedgerow.objectives.aft import AcceleratedFailureTime
from hedgerow.objectives.cox import survival_of_baseline

SURVIVAL = ("cox", "aft")


def read_times(y: Any, n_rows: int, name: str, objective: str) -> FloatArray:
    """Targets of objective ``"cox"`` or ``"aft"``.

    Parameters
    ----------
    y : array-like
        As in the table above.
    n_rows : int
    name : str
        What it is, for messages.
    objective : {"cox", "aft"}

    Returns
    -------
    float64, shape (n_rows,), or (n_rows, 2) for intervals

    Raises
    ------
    DataError, DataTypeError
        If it is none of these.
    """
    columns = _two_columns(y)
    if columns is None:
        return check_vector(y, n_rows, name)
    first, second = columns
    if first.dtype.kind == "b":
        time = check_vector(second, n_rows, f"{name} (time)")
        check_length(len(first), n_rows, f"{name} (event)")
        if (time <= 0.0).any():
            row = int(np.argmax(time <= 0.0))
            raise DataError(f"{name}: times must be positive, but row {row} has {time[row]:g}.")
        return np.where(first, time, -time)
    if objective == "cox":
        raise DataError(
            f"{name} has two columns of numbers: objective 'cox' needs one of times, those of "
            "censored rows with a minus sign, or two of which the first holds truth values (event)."
        )
    return _intervals(first, second, n_rows, name)


def _two_columns(y: Any) -> tuple[AnyArray, AnyArray] | None:
    """The columns of a structured array, frame or matrix with two of them."""
    if hasattr(y, "columns") and len(y.columns) == 2:
        first, second = y.columns
        return np.asarray(y[first]), np.asarray(y[second])
    array = y if isinstance(y, np.ndarray) else np.asarray(y)
    if array.dtype.names is not None:
        if len(array.dtype.names) != 2:
            raise DataTypeError(
                f"a structured target needs two fields, event and time; got {array.dtype.names!r}."
            )
        first, second = array.dtype.names
        return array[first], array[second]
    if array.ndim == 2 and array.shape[1] == 2:
        return array[:, 0], array[:, 1]
    return None


def _intervals(lower: AnyArray, upper: AnyArray, n_rows: int, name: str) -> FloatArray:
    """Both as one array; upper ends may be infinite."""
    try:
        ends = np.column_stack([lower, upper]).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataTypeError(f"{name} must hold numbers: {error}.") from error
    check_length(len(ends), n_rows, name)
    if np.isnan(ends).any():
        row = int(np.argmax(np.isnan(ends).any(axis=1)))
        raise DataError(
            f"Input {name} contains NaN (the first in row {row}): give 0 for no lower end and "
            "infinity for no upper end."
        )
    return ends


class SurvivalPredictions(ABC):
    """What a :class:`hedgerow.Booster` says of models of event times."""

    model: Model

    @abstractmethod
    def raw_scores(
        self,
        X: Any,
        *,
        n_jobs: int | None = None,
        reader: str = "Booster",
        offset: Any = None,
    ) -> FloatArray:
        """Raw scores of shape (n_outputs, n_rows)."""

    @property
    def event_times(self) -> FloatArray:
        """Times of the training events of a Cox model, ascending."""
        return event_times(self.model)

    def predict_survival_function(
        self, X: Any, times: Any = None, *, n_jobs: int | None = None, offset: Any = None
    ) -> FloatArray:
        """Probability that no event has happened up to each time.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)
        times : array-like of positive numbers, optional
            Default for a Cox model: ``event_times``.
        n_jobs : int, optional
        offset : array-like, optional
            As for ``predict``.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_times)

        Raises
        ------
        ParameterError
            If the objective is neither ``"cox"`` nor ``"aft"``.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> data = Dataset([[1.0], [2.0], [3.0], [4.0]], [1.0, 2.0, 3.0, -4.0])
        >>> booster = train({"objective": "cox", "n_estimators": 1}, data)
        >>> booster.predict_survival_function([[1.0]], [0.5, 1.0]).round(3).tolist()
        [[1.0, 0.779]]
        """
        check_survival(self.model)
        return survival_function(
            self.model, self.raw_scores(X, n_jobs=n_jobs, offset=offset)[0], times
        )


def check_survival(model: Model) -> None:
    """Raise ``ParameterError`` unless the model is of times of events."""
    if model.objective not in SURVIVAL:
        raise ParameterError(
            f"a survival function needs objective 'cox' or 'aft'; this is a model of "
            f"{model.objective!r}."
        )


def event_times(model: Model) -> FloatArray:
    """Times at which the baseline hazard of a Cox model rises, ascending."""
    baseline = model.training.get("baseline")
    if model.objective != "cox" or baseline is None:
        raise ParameterError(
            f"event times are kept for objective 'cox'; this is a model of {model.objective!r}: "
            "give the times at which you want the survival function."
        )
    return np.array(baseline["times"], dtype=np.float64)


def survival_function(model: Model, raw: FloatArray, times: Any = None) -> FloatArray:
    """Probability that a row has no event up to each time.

    Parameters
    ----------
    model : Model
        Of objective ``"cox"`` or ``"aft"``.
    raw : float64 (n_rows,)
    times : array-like of positive numbers, optional
        Default: :func:`event_times`.

    Returns
    -------
    float64 (n_rows, n_times)

    Raises
    ------
    ParameterError
        If the model is of another kind, or times are not positive numbers.
    """
    check_survival(model)
    if times is None:
        at = event_times(model)
    else:
        at = np.atleast_1d(np.asarray(times, dtype=np.float64))
        if at.ndim != 1 or not (at > 0.0).all():
            raise ParameterError(f"times must be positive numbers; got {times!r}.")
    if model.objective == "cox":
        event_times(model)  # or an error that says that there is no baseline
        return survival_of_baseline(dict(model.training["baseline"]), raw, at)
    objective = objective_of_record(model.objective, model.forest.n_outputs, model.training)
    assert isinstance(objective, AcceleratedFailureTime)
    return objective.survival(raw, at)
