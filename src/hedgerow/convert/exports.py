"""The part of a booster that writes it in other formats."""

from __future__ import annotations

import os
from typing import Any

from hedgerow.arrays import AnyArray
from hedgerow.convert.writers.report import ExportFormat, ExportReport
from hedgerow.model.model import Model


class Exports:
    """Part of :class:`hedgerow.Booster`."""

    model: Model
    _classes: AnyArray | None

    def export(
        self,
        path: str | os.PathLike[str],
        format: ExportFormat | None = None,  # noqa: A002
        *,
        check: Any = None,
        approximate: bool = False,
        raw: bool = False,
    ) -> ExportReport:
        """Write the model in a format of another library.

        Parameters
        ----------
        path : str or path-like
            Replaced in one step if it exists.
        format : {"lightgbm", "xgboost", "onnx", "treelite", "python", "json"}, optional
            By default what the end of ``path`` says: ``.txt``, ``.onnx``, ``.tl``, ``.py``,
            ``.json`` (which is JSON of ours).
        check : table, optional
            Rows that the target, if it is installed, predicts from what is written; raw scores
            must be equal but for rounding.
        approximate : bool, default=False
            Round what the target cannot hold, and say how much.
        raw : bool, default=False
            Write raw scores, whatever the objective makes of them.

        Returns
        -------
        ExportReport
            Notes of what differs, and what the check has found.

        Raises
        ------
        ParameterError
            If the model has what the format cannot express: the message names it.  If a package
            is missing.
        ExportError
            If the target predicts something else; nothing is written.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import os, tempfile
        >>> import hedgerow
        >>> X = {"size": [1.0, 2.0, 3.0, 4.0], "colour": ["red", "blue", "red", "blue"]}
        >>> booster = hedgerow.train({"min_samples_leaf": 1}, hedgerow.Dataset(X, [1, 2, 3, 5]), 3)
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
