"""Export of a model as a method of a booster, and comparison with the predictions of the target."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from hedgerow.argument_types import is_one_of, path_text
from hedgerow.arrays import FloatArray
from hedgerow.atomic import write_atomically
from hedgerow.errors import (
    HedgerowError,
    ParameterError,
    StorageError,
    brief,
    did_you_mean,
    path_repr,
)
from hedgerow.model.booster_part import BoosterPart
from hedgerow.shown import Viewed

if TYPE_CHECKING:
    from hedgerow.convert.writers.plain import PlainModel

ExportFormat: TypeAlias = Literal["lightgbm", "onnx", "json"]
FORMATS: tuple[str, ...] = get_args(ExportFormat)

SUFFIXES: dict[str, ExportFormat] = {".txt": "lightgbm", ".onnx": "onnx", ".json": "json"}
"""Format of a file by its suffix, if ``format`` is not set."""


class ExportError(HedgerowError):
    """Error if the predictions of the target differ from the predictions of the model."""


@dataclass(frozen=True, slots=True, repr=False)
class ExportReport(Viewed):
    """Path and format of an export, notes on differences, and the result of a check.

    Attributes
    ----------
    path : str
    format : str
    notes : tuple of str
        Differences from the model, and properties of the format.
    rows_checked : int
        Rows that the target predicted; 0 without ``check``.
    largest_difference : float
        Largest difference of raw scores; 0.0 if nothing was checked.
    """

    path: str
    format: str
    notes: tuple[str, ...] = ()
    rows_checked: int = 0
    largest_difference: float = 0.0

    def _facts(self) -> dict[str, object]:
        checked = f"{self.rows_checked:,} rows, largest difference {self.largest_difference:.3g}"
        return {"path": self.path, "format": self.format, "checked": checked}


class Exports(BoosterPart):
    """Mixin of :class:`hedgerow.Booster` for exports."""

    def export(
        self,
        path: str | os.PathLike[str],
        format: ExportFormat | None = None,  # noqa: A002
        *,
        check: Any = None,
        approximate: bool = False,
        raw: bool = False,
    ) -> ExportReport:
        """Write the model in the format of another library.

        Parameters
        ----------
        path : str or path-like
            An existing file is replaced atomically.
        format : {"lightgbm", "onnx", "json"}, optional
            Default: by the suffix of ``path``: ``.txt``, ``.onnx``, ``.json`` (Hedgerow's
            JSON).  Treelite reads the text of ``"lightgbm"``.
        check : table, optional
            Rows that the target predicts, if it is installed; raw scores must be equal within
            rounding.
        approximate : bool, default=False
            Write a model for LightGBM although that treats more numbers as zeros.
        raw : bool, default=False
            Write raw scores instead of predictions.

        Returns
        -------
        ExportReport
            Notes on differences, and the result of the check.

        Raises
        ------
        ParameterError
            If the format cannot express the model (the message names the feature), or if a
            package is missing.
        ExportError
            If the target's predictions differ; no file is written.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import os, tempfile
        >>> import hedgerow
        >>> X = {"size": [1.0, 2.0, 3.0, 4.0], "colour": ["red", "blue", "red", "blue"]}
        >>> booster = hedgerow.train({"n_estimators": 3}, hedgerow.Dataset(X, [1, 2, 3, 5]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     booster.export(os.path.join(folder, "model.json"), check=X).rows_checked
        4
        """
        from hedgerow.convert.writers.plain import plain_model

        name = _format_of(path, format)
        plain = plain_model(self.model, self._classes, raw, name)
        notes: list[str] = []
        try:
            writer = import_module(f"hedgerow.convert.writers.{name}")
            data = writer.write(plain, approximate, notes)
        except ImportError as error:
            raise ParameterError(
                f"format={name!r} needs a package that is not installed: {error}. Install "
                "hedgerow[export]."
            ) from None
        report = ExportReport(os.fspath(path), name, tuple(dict.fromkeys(notes)))
        if check is not None:
            report = _checked(report, writer.predict, data, plain, check)
        write_atomically(path, [data])
        return report


def _format_of(path: str | os.PathLike[str], chosen: str | None) -> str:
    if chosen is None:
        text = path_text(path)
        found = SUFFIXES.get(os.path.splitext(text)[1].lower())
        if found is None:
            raise ParameterError(
                f"the suffix of path {path_repr(text)} is unknown: set format to one of "
                f"{', '.join(map(repr, FORMATS))}."
            )
        return found
    if not is_one_of(chosen, FORMATS):
        raise ParameterError(
            f"format must be one of {', '.join(map(repr, FORMATS))}; got {brief(chosen)}."
            f"{did_you_mean(chosen, FORMATS)}"
        )
    return str(chosen)


def _checked(
    report: ExportReport, predict: Callable[..., Any], data: bytes, plain: PlainModel, X: Any
) -> ExportReport:
    """Predict the rows with the target, and compare."""
    matrix = plain.matrix(X)
    ours = plain.scores(matrix)
    try:
        found = predict(data, plain, matrix)
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
    if not difference <= _allowance(plain, matrix):
        row = int(np.abs(ours - exported).max(axis=1).argmax())
        raise ExportError(
            f"the exported model predicts {exported[row].tolist()} for row {row} of check, but "
            f"this model predicts {ours[row].tolist()}: nothing was written."
        )
    return replace(report, rows_checked=len(ours), largest_difference=difference)


def _allowance(plain: PlainModel, matrix: FloatArray) -> float:
    """Return the limit of rounding: half a unit of the partial sum for each addition."""
    forest, slopes = plain.forest, plain.forest.slopes
    total = float(np.abs(forest.base_score).max())
    if forest.n_trees > 0:
        size = np.abs(forest.value)
        if slopes is not None:  # the largest sum of magnitudes of the terms of each node
            numbers = plain.inputs_of(matrix)
            reach = np.max(np.abs(numbers), axis=0, initial=0.0, where=np.isfinite(numbers))
            terms = np.abs(slopes.slope) * (reach[slopes.column] + np.abs(slopes.center))
            # Each term is rounded twice more than a leaf.
            size = size + np.diff(np.concatenate([[0.0], np.cumsum(3.0 * terms)])[slopes.start])
        total += float(np.maximum.reduceat(size, forest.tree_start[:-1]).sum())
    return 2.0**-52 * total * (forest.n_trees + 2)
