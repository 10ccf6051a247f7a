"""Predict more rows than fit in memory, batch by batch.

The prediction of a row has the same bits whatever rows are predicted with it.  The output
therefore does not depend on the batch size, which bounds the memory.  The code for files
(:mod:`hedgerow.io.file_predictions`) is imported only when files are predicted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hedgerow.argument_types import BATCH_ROWS, check_batch_rows
from hedgerow.arrays import AnyArray
from hedgerow.errors import DataError, DataTypeError
from hedgerow.model.booster_part import BoosterPart
from hedgerow.model.model import trees_of_rounds
from hedgerow.params import PredictionKind

if TYPE_CHECKING:
    from hedgerow.data.sources.paths import Paths


def prediction_columns(kind: PredictionKind, values: AnyArray) -> dict[str, AnyArray]:
    """Name the columns of predictions: ``prediction``, ``raw``, or ``KIND_0``, ``KIND_1``, ..."""
    if values.ndim == 1:
        return {"prediction" if kind == "value" else kind: values}
    return {f"{kind}_{j}": values[:, j] for j in range(values.shape[1])}


def as_batches(batches: Any, batch_rows: int) -> Iterator[Any]:
    """Return an iterator of the user's batches, or raise if they are one table."""
    if hasattr(batches, "__arrow_c_stream__"):
        from hedgerow.data.sources.arrow_files import arrow

        pa = arrow("an Arrow stream")
        reader = pa.RecordBatchReader.from_stream(batches)
        return (
            pa.Table.from_batches([batch.slice(start, batch_rows)])
            for batch in reader
            for start in range(0, batch.num_rows, batch_rows)
        )
    one = isinstance(batches, str | bytes | os.PathLike | np.ndarray | Mapping)
    if one or hasattr(batches, "columns") or not isinstance(batches, Iterable):
        instead = "predict_files" if isinstance(batches, str | os.PathLike) else "predict"
        raise DataTypeError(
            "batches must be an iterator of tables, or have __arrow_c_stream__; got "
            f"{type(batches).__name__}: use {instead}."
        )
    return iter(batches)


class StreamedPredictions(BoosterPart):
    """Mixin of the booster for predictions in bounded memory."""

    def predict_batches(
        self,
        batches: Any,
        kind: PredictionKind = "value",
        *,
        batch_rows: int = BATCH_ROWS,
        n_rounds: int | None = None,
        n_jobs: int | None = None,
    ) -> Iterator[npt.NDArray[Any]]:
        """Predict tables one by one; each is read when its predictions are requested.

        Parameters
        ----------
        batches : iterable of tables, or object with ``__arrow_c_stream__``
            Tables as for :meth:`predict`.  An Arrow stream may be a DuckDB relation, a
            polars or pandas frame, an Arrow table or reader.
        kind, n_rounds, n_jobs
            As for :meth:`predict`.
        batch_rows : int, default=65_536
            Most rows read from an Arrow stream at a time.  Tables of an iterable are not
            divided.

        Returns
        -------
        iterator of ndarray
            The result of :meth:`predict` for each table, even for a table without rows.
            Concatenated, the results equal the prediction of all rows at once, to the last
            bit.

        Raises
        ------
        ParameterError
            If ``kind``, ``n_rounds`` or ``batch_rows`` is invalid.
        DataError, DataTypeError
            If ``batches`` is a single table, or a table does not have the columns of the
            model.  The message has the number of the table, from 0.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> params = {"n_estimators": 1, "min_samples_leaf": 1, "learning_rate": 1.0}
        >>> data = Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0])
        >>> booster = train(params | {"reg_lambda": 0.0, "early_stopping": False}, data)
        >>> [batch.tolist() for batch in booster.predict_batches([[[1.0], [5.0]], [[4.0]]])]
        [[0.0, 3.0], [3.0]]
        """
        check_batch_rows(batch_rows)
        self._check_kind(kind)
        n_trees = trees_of_rounds(self.model, 0, n_rounds)[1]
        tables = as_batches(batches, int(batch_rows))
        return self._predict_each(tables, kind, n_trees, n_rounds, n_jobs)

    def _predict_each(
        self,
        tables: Iterator[Any],
        kind: PredictionKind,
        n_trees: int,
        n_rounds: int | None,
        n_jobs: int | None,
    ) -> Iterator[npt.NDArray[Any]]:
        for number, table in enumerate(tables):
            shape = getattr(table, "shape", None)
            if isinstance(shape, tuple) and len(shape) == 2 and shape[0] == 0:
                if kind == "leaf":
                    yield np.empty((0, n_trees), dtype=np.int32)
                else:
                    yield self._prediction(np.empty((self.model.forest.n_outputs, 0)), kind)
                continue
            try:
                yield self.predict(table, kind, n_rounds=n_rounds, n_jobs=n_jobs)
            except (DataError, DataTypeError) as error:
                raise type(error)(f"batch {number}: {error}") from error

    def predict_files(
        self,
        paths: Paths,
        output: str | os.PathLike[str],
        kind: PredictionKind = "value",
        *,
        columns: Sequence[str] = (),
        batch_rows: int = BATCH_ROWS,
        n_rounds: int | None = None,
        n_jobs: int | None = None,
        progress: bool = False,
    ) -> int:
        r"""Predict files of any size and write one output file.

        Parameters
        ----------
        paths : path, or sequence of paths
            Files, folders or patterns of Parquet, Arrow (Feather), CSV or TSV (also
            gzipped).  A folder stands for all files in it and below it, in the
            order of their paths, which may contain columns (``year=2020``).  Columns are
            matched by name, and other columns are ignored.  Columns of CSV files are
            converted to their types in training.
        output : path
            File with the suffix ``.parquet``, ``.csv``, ``.tsv`` or ``.arrow``.  It is
            written to a temporary file and moved into place at the end, so an existing file
            stays intact after an error.
        kind, n_rounds, n_jobs
            As for :meth:`predict`.  The output column is called ``prediction`` (values),
            ``raw``, or by kind and class or tree: ``probability_0``, ``leaf_0``.
        columns : sequence of str, default=()
            Input columns to copy to the output, such as an id.  Columns of CSV files are
            copied as text.
        batch_rows : int, default=65_536
            Rows in memory at a time, and in each row group of Parquet or Arrow output.  The
            predictions do not depend on it.
        progress : bool, default=False
            Show a progress line if standard error is a terminal.

        Returns
        -------
        int
            Number of rows written.

        Raises
        ------
        ParameterError
            If an argument is invalid, or pyarrow is required but not installed.
        DataError, DataTypeError
            If a file does not have the columns of the model; the message names file and
            column.
        StorageError
            If a file cannot be read, or the output cannot be written.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from hedgerow import Dataset, train
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> data = Dataset({"size": [1.0, 2.0, 4.0]}, [0.0, 0.0, 3.0])
        >>> params = {"n_estimators": 1, "min_samples_leaf": 1, "learning_rate": 1.0}
        >>> booster = train(params | {"reg_lambda": 0.0, "early_stopping": False}, data)
        >>> _ = (folder / "new.csv").write_text("id,size\na7,1\na8,5\n")
        >>> booster.predict_files(folder / "new.csv", folder / "out.csv", columns=["id"])
        2
        >>> (folder / "out.csv").read_text().splitlines()
        ['id,prediction', 'a7,0.0', 'a8,3.0']
        """
        from hedgerow.io.file_predictions import write_predictions

        self._check_kind(kind)
        trees_of_rounds(self.model, 0, n_rounds)

        def predict(features: Any) -> Mapping[str, AnyArray]:
            values = self.predict(features, kind, n_rounds=n_rounds, n_jobs=n_jobs)
            return prediction_columns(kind, values)

        return write_predictions(
            self.model,
            paths,
            output,
            predict,
            batch_rows=batch_rows,
            columns=columns,
            progress=progress,
        )
