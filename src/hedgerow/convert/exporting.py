"""Export of a model, and comparison with the predictions of the target."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

from hedgerow.argument_types import is_one_of, path_text
from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.atomic import write_atomically
from hedgerow.convert.exports import ExportFormat, ExportReport
from hedgerow.convert.writers import json_text, lightgbm, onnx, python_text, treelite, xgboost
from hedgerow.convert.writers.plain import PlainModel, plain_model
from hedgerow.errors import (
    HedgerowError,
    ParameterError,
    StorageError,
    brief,
    did_you_mean,
    path_repr,
)
from hedgerow.model.model import Model

SUFFIXES: dict[str, ExportFormat] = {
    ".txt": "lightgbm",
    ".onnx": "onnx",
    ".tl": "treelite",
    ".py": "python",
    ".json": "json",
}
"""Format of a file by its suffix, if ``format`` is not set."""


@dataclass(frozen=True, slots=True)
class _Target:
    """Writer of a format, and the prediction by its own program.

    ``rounding`` is the allowed difference of raw scores, in units of the largest sum of
    magnitudes: one rounding error for each tree.
    """

    write: Callable[[PlainModel, bool, list[str]], bytes]
    predict: Callable[[bytes, PlainModel, FloatArray], Any]
    rounding: float


_TARGETS: dict[str, _Target] = {
    "lightgbm": _Target(lightgbm.write_lightgbm, lightgbm.predict_lightgbm, 2.0**-52),
    "xgboost": _Target(xgboost.write_xgboost, xgboost.predict_xgboost, 2.0**-23),
    "onnx": _Target(onnx.write_onnx, onnx.predict_onnx, 2.0**-52),
    "treelite": _Target(treelite.write_treelite, treelite.predict_treelite, 2.0**-52),
    "python": _Target(python_text.write_python, python_text.predict_python, 2.0**-52),
    "json": _Target(json_text.write_json, json_text.predict_json, 2.0**-52),
}


def export_model(
    model: Model,
    classes: AnyArray | None,
    path: str | os.PathLike[str],
    chosen: str | None,
    *,
    check: Any,
    approximate: bool,
    raw: bool,
) -> ExportReport:
    """Write a model; see :meth:`hedgerow.Booster.export`."""
    name = _format_of(path, chosen)
    plain = plain_model(model, classes, raw, name)
    notes: list[str] = []
    try:
        data = _TARGETS[name].write(plain, approximate, notes)
    except ImportError as error:
        raise ParameterError(
            f"format={name!r} needs a package that is not installed: {error}. Install "
            "hedgerow[export]."
        ) from None
    report = ExportReport(os.fspath(path), name, tuple(dict.fromkeys(notes)))
    if check is not None:
        report = _checked(report, data, plain, check)
    write_atomically(path, [data])
    return report


def _format_of(path: str | os.PathLike[str], chosen: str | None) -> str:
    if chosen is None:
        text = path_text(path)
        found = SUFFIXES.get(os.path.splitext(text)[1].lower())
        if found is None:
            raise ParameterError(
                f"the suffix of path {path_repr(text)} is unknown: set format to one of "
                f"{', '.join(map(repr, _TARGETS))}."
            )
        return found
    if not is_one_of(chosen, get_args(ExportFormat)):
        raise ParameterError(
            f"format must be one of {', '.join(map(repr, _TARGETS))}; got {brief(chosen)}."
            f"{did_you_mean(chosen, _TARGETS)}"
        )
    return str(chosen)


def _checked(report: ExportReport, data: bytes, plain: PlainModel, X: Any) -> ExportReport:
    """Predict the rows with the target, and compare."""
    target = _TARGETS[report.format]
    matrix = plain.matrix(X)
    if report.format == "xgboost":  # XGBoost rounds values to float32
        with np.errstate(over="ignore"):
            matrix = matrix.astype(np.float32).astype(np.float64)
    ours = plain.scores(matrix)
    try:
        found = target.predict(data, plain, matrix)
        exported = np.asarray(found, dtype=np.float64).reshape(len(matrix), -1)
    except ImportError as error:
        raise ParameterError(
            f"check needs the program for format={report.format!r}: {error}. Install it, "
            "or leave check out."
        ) from None
    except (MemoryError, StorageError):
        raise
    except Exception as error:  # each program has errors of its own, with traces behind them
        line = next(iter(str(error).strip().splitlines()), "").rstrip(".")
        raise ParameterError(
            f"the program for format={report.format!r} cannot predict the rows of check: "
            f"{type(error).__name__}: {line}. Give it rows that the program accepts, or leave "
            "check out."
        ) from error
    difference = float(np.max(np.abs(ours - exported), initial=0.0))
    allowed = _allowance(plain, matrix, target.rounding)
    if not difference <= allowed:
        row = int(np.abs(ours - exported).max(axis=1).argmax())
        raise ExportError(
            f"the exported model predicts {exported[row].tolist()} for row {row} of check, but "
            f"this model predicts {ours[row].tolist()}: nothing was written."
        )
    return replace(report, rows_checked=len(ours), largest_difference=difference)


def _allowance(plain: PlainModel, matrix: FloatArray, unit: float) -> float:
    """Return the limit of rounding: half a unit of the partial sum for each addition."""
    forest = plain.forest
    total = float(np.abs(forest.base_score).max())
    if forest.n_trees > 0:
        size = np.abs(forest.value)
        if forest.slopes is not None:
            size = size + _size_of_terms(plain, matrix)
        total += float(np.maximum.reduceat(size, forest.tree_start[:-1]).sum())
    return unit * total * (forest.n_trees + 2)


def _size_of_terms(plain: PlainModel, matrix: FloatArray) -> FloatArray:
    """Return the largest sum of magnitudes of the terms of each node, for the rows to check."""
    slopes, numbers = plain.forest.slopes, plain.inputs_of(matrix)
    assert slopes is not None
    reach = np.max(np.abs(numbers), axis=0, initial=0.0, where=np.isfinite(numbers))
    terms = np.abs(slopes.slope) * (reach[slopes.column] + np.abs(slopes.center))
    # Each term is rounded twice more than a leaf.
    before = np.concatenate([[0.0], np.cumsum(3.0 * terms)])
    size: FloatArray = np.diff(before[slopes.start])
    return size


class ExportError(HedgerowError):
    """Error if the predictions of the target differ from the predictions of the model."""
