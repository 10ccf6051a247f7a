"""Save and load estimators: the model together with the estimator's parameters."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from hedgerow.errors import DataTypeError, ModelFormatError, ParameterError, UnknownNameError, brief
from hedgerow.estimators.common import NamedArguments, of_one_fit
from hedgerow.objectives.catalogue import CUSTOM
from hedgerow.threads import resolve_threads

if TYPE_CHECKING:
    from hedgerow.booster import Booster
    from hedgerow.convert.exporting import ExportFormat, ExportReport
    from hedgerow.model.model import Model


class ModelFiles(NamedArguments, BaseEstimator, ABC):
    """Mixin of the estimators for model files."""

    booster_: Booster
    objective: Any
    n_jobs: int | None

    _objectives: ClassVar[tuple[str, ...]]

    @abstractmethod
    def _adopt(self, model: Model, **more: Any) -> Self:
        """Set the fitted attributes from a trained model, all in one assignment."""

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
            For unknown names.  The message translates names of LightGBM, XGBoost and CatBoost.
        """
        known = self._get_param_names()
        wrong = [name for name in params if name not in known]
        if wrong:
            from hedgerow.convert.settings.names import unknown_names

            raise UnknownNameError(unknown_names(wrong, known, type(self).__name__))
        super().set_params(**params)
        return self

    @of_one_fit
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a model file.

        Parameters
        ----------
        path : str or path-like
            An existing file is replaced atomically.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        DataTypeError
            If a file cannot hold a parameter (a function, for example).
        OSError
            If the file cannot be written.  An existing file then stays intact.
        """
        from hedgerow.io import save_model  # a fit needs no files

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
        """Write the model in the format of another library; see :meth:`hedgerow.Booster.export`.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        """
        check_is_fitted(self)
        return self.booster_.export(path, format, check=check, approximate=approximate, raw=raw)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator written by :meth:`save`; untrusted files are safe to load.

        Parameters
        ----------
        path : str or path-like

        Returns
        -------
        estimator
            The fitted estimator, with the same parameters.

        Raises
        ------
        ModelFormatError
            If the file is damaged, or does not hold an estimator of this class.
        OSError
            If the file cannot be read.
        """
        from hedgerow.io import load_model

        model, record = load_model(path)
        try:
            return cls._from_record(model, record)
        except ModelFormatError as error:
            raise ModelFormatError(f"{os.fspath(path)}: {error}") from None

    def _to_record(self) -> dict[str, Any]:
        values = self.get_params(deep=False)
        if not isinstance(self.objective, str):
            values["objective"] = CUSTOM  # the model's record has its name
        params = {name: to_json(name, value) for name, value in values.items()}
        return {"class": type(self).__name__, "params": params}

    @classmethod
    def _from_record(cls, model: Model, record: Mapping[str, Any] | None) -> Self:
        if record is None or "class" not in record:
            raise ModelFormatError("this is a plain model: read it with hedgerow.load.")
        estimator = cls(**_params_of_record(cls, record))
        if model.objective not in (*cls._objectives, CUSTOM):
            raise ModelFormatError(f"objective {model.objective!r} is not for {cls.__name__}.")
        return estimator._adopt(model, **cls._more_from_record(model, record))

    @classmethod
    def _more_from_record(cls, model: Model, record: Mapping[str, Any]) -> dict[str, Any]:
        return {}


def _params_of_record(cls: type[Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator from a record, which is not trusted."""
    params = record.get("params")
    if record.get("class") != cls.__name__ or not isinstance(params, dict):
        raise ModelFormatError(
            f"this is a model of {str(record.get('class'))[:60]}, not of {cls.__name__}."
        )
    known = signature(cls).parameters
    for name in params:
        if name not in known:
            raise ModelFormatError(f"{cls.__name__} has no parameter {name[:60]!r}.")
    found = {name: from_json(value) for name, value in params.items()}
    try:
        resolve_threads(found.get("n_jobs"))  # the only parameter that predictions use
    except ParameterError as error:
        raise ModelFormatError(str(error)) from None
    return found


def to_json(name: str, value: Any) -> Any:
    """Convert a constructor parameter to a JSON-like value."""
    if isinstance(value, Mapping):
        return {"pairs": [[to_json(name, k), to_json(name, v)] for k, v in value.items()]}
    if isinstance(value, list | tuple | np.ndarray):
        return [to_json(name, item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    cleared = 0.1 if name == "learning_rate" else None
    raise DataTypeError(
        f"parameter {name}={brief(value)} cannot be saved in a model file: clear it first "
        f"(set_params({name}={cleared})), or save the model alone (booster_.save)."
    )


def from_json(value: Any) -> Any:
    """Convert a JSON-like value, which is not trusted, to a constructor parameter."""
    if isinstance(value, Mapping):
        try:
            return {from_json(key): from_json(item) for key, item in value["pairs"]}
        except (KeyError, TypeError, ValueError):
            raise ModelFormatError("a parameter in the model file is malformed.") from None
    if isinstance(value, list):
        return [from_json(item) for item in value]
    return value
