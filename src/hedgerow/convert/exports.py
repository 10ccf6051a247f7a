"""Export as a method of a booster, and its report."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from hedgerow.model.booster_part import BoosterPart
from hedgerow.notebook import Viewed

ExportFormat: TypeAlias = Literal["lightgbm", "xgboost", "onnx", "treelite", "python", "json"]


@dataclass(frozen=True, slots=True, repr=False)
class ExportReport(Viewed):
    """Path and format of an export, notes on differences, and the result of a check.

    Attributes
    ----------
    path : str
    format : str
    notes : tuple of str
        Differences from the model: rounded numbers, and properties of the format.
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

    def _more(self) -> list[tuple[str, str]]:
        return [("note", text) for text in self.notes]


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
        format : {"lightgbm", "xgboost", "onnx", "treelite", "python", "json"}, optional
            Default: by the suffix of ``path``: ``.txt``, ``.onnx``, ``.tl``, ``.py``,
            ``.json`` (Hedgerow's JSON).
        check : table, optional
            Rows that the target predicts, if it is installed; raw scores must be equal within
            rounding.
        approximate : bool, default=False
            Round numbers that the target cannot represent, and report the differences.
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
        ...     booster.export(os.path.join(folder, "model.py"), check=X).rows_checked
        4
        """
        from hedgerow.convert.exporting import export_model

        return export_model(
            self.model,
            self._classes,
            path,
            format,
            check=check,
            approximate=approximate,
            raw=raw,
        )
