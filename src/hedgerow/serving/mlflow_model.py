"""Models in MLflow: ``save_model``, ``log_model``, and the loader of ``mlflow.pyfunc``.

The flavour contains the model file, which is checked when it is loaded, and no pickle.
``mlflow.pyfunc.load_model`` returns a model whose ``predict`` takes a frame and the parameter
``kind``: ``"value"``, ``"raw"`` or ``"probability"``.

>>> from hedgerow.serving import mlflow_model
>>> # mlflow_model.save_model(booster, "folder")
>>> # mlflow.pyfunc.load_model("folder").predict(frame, params={"kind": "raw"})
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import __version__
from hedgerow.argument_types import is_one_of
from hedgerow.booster import Booster, load
from hedgerow.errors import ParameterError, brief
from hedgerow.serving.records import KINDS
from hedgerow.serving.slot import type_of

FILE = "model.hedgerow"


class PyfuncModel:
    """The object that ``mlflow.pyfunc`` calls."""

    def __init__(self, booster: Booster) -> None:
        self.booster = booster

    def predict(
        self, model_input: Any, params: Mapping[str, Any] | None = None
    ) -> npt.NDArray[Any]:
        """Predict a frame or an array."""
        kind: Any = (params or {}).get("kind", "value")
        if not is_one_of(kind, KINDS):
            raise ParameterError(f"kind must be one of {', '.join(KINDS)}; got {brief(kind)}.")
        return self.booster.predict(self._with_durations(model_input), kind=kind)

    def _with_durations(self, model_input: Any) -> Any:
        """Return a frame whose integers of microseconds are durations where the model had them."""
        if not hasattr(model_input, "assign"):
            return model_input
        whole = {
            column.name: model_input[column.name].astype("timedelta64[us]")
            for column in self.booster.model.schema.columns
            if column.temporal == "durations"
            and column.name in model_input
            and model_input[column.name].dtype.kind == "i"
        }
        return model_input.assign(**whole) if whole else model_input


def _load_pyfunc(path: str) -> PyfuncModel:
    """Load the model; MLflow passes the path of the file or of its folder."""
    found = Path(path)
    return PyfuncModel(load(found / FILE if found.is_dir() else found))


def signature_of(booster: Booster) -> Any:
    """Return the signature: the columns of a model, and the parameter ``kind``.

    Columns of numbers may have missing values, so they are optional.
    """
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec

    schema = booster.model.schema
    if not schema.named and schema.only_floats and not booster.offset_columns:
        columns: list[Any] = [TensorSpec(np.dtype(np.float64), (-1, schema.n_features))]
    else:
        columns = [
            ColSpec(type_of(column).mlflow, column.name, required=False)
            for column in schema.columns
        ]
        columns += [ColSpec("double", name) for name in booster.offset_columns]
    kind = ParamSchema([ParamSpec("kind", "string", "value")])
    return ModelSignature(inputs=Schema(columns), params=kind)


def save_model(model: Any, path: str, **more: Any) -> None:
    """Write a booster or an estimator as an MLflow model.

    Parameters
    ----------
    model : Booster or fitted estimator
    path : str
        A folder that does not exist.
    **more
        Arguments of ``mlflow.pyfunc.save_model``.
    """
    import mlflow.pyfunc

    with tempfile.TemporaryDirectory() as folder:
        mlflow.pyfunc.save_model(path, **_described(model, Path(folder)), **more)


def log_model(model: Any, name: str, **more: Any) -> Any:
    """Log a booster or an estimator in the active run, in the form of :func:`save_model`.

    Parameters
    ----------
    model : Booster or fitted estimator
    name : str
        Name of the model in MLflow.
    **more
        Arguments of ``mlflow.pyfunc.log_model``.

    Returns
    -------
    mlflow.models.model.ModelInfo
    """
    import mlflow.pyfunc

    with tempfile.TemporaryDirectory() as folder:
        return mlflow.pyfunc.log_model(name=name, **_described(model, Path(folder)), **more)


def _described(model: Any, folder: Path) -> dict[str, Any]:
    """Write the model file to a folder, and return its description for MLflow."""
    booster = model if isinstance(model, Booster) else getattr(model, "booster_", None)
    if not isinstance(booster, Booster):
        raise ParameterError(
            f"model must be a Booster or a fitted estimator; got a {type(model).__name__}."
        )
    file = folder / FILE
    booster.save(file)
    return {
        "loader_module": __name__,
        "data_path": str(file),
        "signature": signature_of(booster),
        "pip_requirements": [f"hedgerow=={__version__}"],
    }
