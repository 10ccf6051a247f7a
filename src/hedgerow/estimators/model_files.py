"""Estimators in model files: the model with the parameters that it was trained with."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from hedgerow.convert.writers.report import ExportFormat, ExportReport
from hedgerow.errors import DataTypeError, ModelFormatError, ParameterError, UnknownNameError
from hedgerow.estimators.arguments import NamedArguments
from hedgerow.io import load_model, save_model
from hedgerow.model.model import Model
from hedgerow.objectives import CUSTOM
from hedgerow.schedules import SCHEDULES, Schedule, schedule_of_record, schedule_record
from hedgerow.threads import resolve_threads

if TYPE_CHECKING:
    from hedgerow.booster import Booster


class ModelFiles(NamedArguments, BaseEstimator, ABC):
    """Writing and reading of an estimator; part of its base class."""

    booster_: Booster
    objective: Any
    n_jobs: int | None

    _objectives: ClassVar[tuple[str, ...]]

    @abstractmethod
    def _adopt(self, model: Model, **more: Any) -> Self:
        """Take a trained model as one's own, in one step."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name.

        Parameters
        ----------
        **params : object
            Values by name.

        Returns
        -------
        self

        Raises
        ------
        UnknownNameError
            For unknown names; the message says what it is called here if it is a parameter of
            LightGBM, XGBoost or CatBoost.
        """
        known = self._get_param_names()
        wrong = [name for name in params if name not in known]
        if wrong:
            from hedgerow.convert.settings.names import unknown_names

            raise UnknownNameError(unknown_names(wrong, known, type(self).__name__))
        super().set_params(**params)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a model file.

        Parameters
        ----------
        path : str or path-like
            Replaced in one step if it exists.

        Raises
        ------
        NotFittedError
            If it is not fitted.
        DataTypeError
            If a parameter cannot be kept in a file (a function, for example).
        OSError
            If the file cannot be written; an old file is then intact.
        """
        check_is_fitted(self)
        save_model(self.booster_.model, path, estimator=self._to_record())

    def export(
        self,
        path: str | os.PathLike[str],
        format: ExportFormat | None = None,  # noqa: A002 (the name that users of other libraries know)
        *,
        check: Any = None,
        approximate: bool = False,
        raw: bool = False,
    ) -> ExportReport:
        """Write the model in a format of another library; see :meth:`hedgerow.Booster.export`.

        Raises
        ------
        NotFittedError
            If it is not fitted.
        """
        check_is_fitted(self)
        return self.booster_.export(path, format, check=check, approximate=approximate, raw=raw)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator that :meth:`save` has written, from any source.

        Parameters
        ----------
        path : str or path-like

        Returns
        -------
        estimator
            Fitted, with the same parameters.

        Raises
        ------
        ModelFormatError
            If the file is damaged, or is no estimator of this class.
        OSError
            If the file cannot be read.
        """
        model, record = load_model(path)
        try:
            return cls._from_record(model, record)
        except ModelFormatError as error:
            raise ModelFormatError(f"{os.fspath(path)}: {error}") from None

    def _to_record(self) -> dict[str, Any]:
        given = self.get_params(deep=False)
        if not isinstance(self.objective, str):
            given["objective"] = CUSTOM  # its name is in the model's record
        params = {name: to_json(name, value) for name, value in given.items()}
        return {"class": type(self).__name__, "params": params}

    @classmethod
    def _from_record(cls, model: Model, record: Mapping[str, Any] | None) -> Self:
        if record is None or "class" not in record:
            raise ModelFormatError("this is a plain model: read it with hedgerow.load.")
        params = record.get("params")
        if record.get("class") != cls.__name__ or not isinstance(params, dict):
            raise ModelFormatError(
                f"this is a model of {str(record.get('class'))[:60]}, not of {cls.__name__}."
            )
        if model.objective not in (*cls._objectives, CUSTOM):
            raise ModelFormatError(f"objective {model.objective!r} is not for {cls.__name__}.")
        known = cls._get_param_names()
        for name in params:
            if name not in known:
                raise ModelFormatError(f"{cls.__name__} has no parameter {name[:60]!r}.")
        estimator = cls(**{name: from_json(value) for name, value in params.items()})
        try:
            resolve_threads(estimator.n_jobs)  # the only one that predictions read
        except ParameterError as error:
            raise ModelFormatError(str(error)) from None
        return estimator._adopt(model, **cls._more_from_record(model, record))

    @classmethod
    def _more_from_record(cls, model: Model, record: Mapping[str, Any]) -> dict[str, Any]:
        return {}


def to_json(name: str, value: Any) -> Any:
    """A constructor parameter as a JSON-like value."""
    if isinstance(value, Mapping):
        return {"pairs": [[to_json(name, k), to_json(name, v)] for k, v in value.items()]}
    if isinstance(value, list | tuple | np.ndarray):
        return [to_json(name, item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple(SCHEDULES.values())):
        return {"schedule": schedule_record(cast(Schedule, value))}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    cleared = 0.1 if name == "learning_rate" else None
    raise DataTypeError(
        f"parameter {name}={value!r} cannot be kept in a model file: clear it first "
        f"(set_params({name}={cleared})), or save the model alone (booster_.save)."
    )


def from_json(value: Any) -> Any:
    """A constructor parameter from its JSON-like value, which may come from anywhere."""
    if isinstance(value, Mapping):
        pairs: Sequence[Any] = value.get("pairs", ())
        try:
            if "schedule" in value:
                return schedule_of_record(value["schedule"])
            return {from_json(key): from_json(item) for key, item in pairs}
        except (TypeError, ValueError):
            raise ModelFormatError("a parameter in the model file is malformed.") from None
    if isinstance(value, list):
        return [from_json(item) for item in value]
    return value
