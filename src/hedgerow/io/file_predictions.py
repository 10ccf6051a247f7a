"""Predict files of any size and write one output file.

::

    files --- data.model_rows ---> batches --- predict ---> named columns
                                                                | table_files
    output, moved into place atomically  <---------------------+

The model fixes the type of each column (:mod:`hedgerow.data.reading.model_rows`), so the output
does not depend on the batch size.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TextIO, TypeAlias

from hedgerow.argument_types import BATCH_ROWS, check_batch_rows
from hedgerow.arrays import AnyArray
from hedgerow.boosting.row_data.offsets import offset_columns
from hedgerow.data.reading.model_rows import ModelFiles, model_files
from hedgerow.data.schema import Column, Schema
from hedgerow.data.sources.paths import Paths
from hedgerow.errors import DataError, DataTypeError, ParameterError, StorageError
from hedgerow.io.table_files import check_output, write_table
from hedgerow.model.model import Model
from hedgerow.terminal import RewrittenLine

Named: TypeAlias = Mapping[str, AnyArray]


def write_predictions(
    model: Model,
    paths: Paths,
    output: str | os.PathLike[str],
    predict: Callable[[Any], Named],
    *,
    batch_rows: int = BATCH_ROWS,
    columns: Sequence[str] = (),
    zero_based: bool = True,
    progress: bool = False,
) -> int:
    """Predict files batch by batch and write one table; see ``Booster.predict_files``."""
    target = os.fspath(output)
    check_batch_rows(batch_rows)
    check_output(target)
    files = model_files(paths, columns_of(model), columns, zero_based=zero_based)
    for path in files.paths:
        if os.path.realpath(path) == os.path.realpath(target):
            raise ParameterError(f"{target} is one of the files to predict: name another output.")
    line = ProgressLine(len(files.files), shown=progress)
    try:
        write_table(target, _predicted(files, int(batch_rows), predict, line))
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(
            f"{target}: the predictions could not be written ({error.strerror or error}); "
            "the file is as it was."
        ) from error
    finally:
        line.close()
    return line.n_rows


def columns_of(model: Model) -> Schema:
    """Return the schema of the columns that a file must have: features and offsets."""
    offsets = tuple(Column(name) for name in offset_columns(model))
    return replace(model.schema, columns=(*model.schema.columns, *offsets))


def _predicted(
    files: ModelFiles, batch_rows: int, predict: Callable[[Any], Named], line: ProgressLine
) -> Iterator[Mapping[str, Any]]:
    for rows in files.batches(batch_rows):
        try:
            predictions = predict(rows.features)
        except (DataError, DataTypeError) as error:
            after = f", rows counted from row {rows.first_row} on" if rows.first_row else ""
            raise type(error)(f"{rows.path}{after}: {error}") from error
        for key in rows.keys:
            if key in predictions:
                raise ParameterError(
                    f"column {key!r} would be written twice: it is also the name of a prediction."
                )
        yield {**rows.keys, **predictions}
        line.add(rows.path, rows.n_rows)
    if line.n_rows == 0:
        raise DataError(
            f"{files.paths[0]} has no rows to predict, nor has any other file: check the paths."
        )


class ProgressLine:
    """A progress line on a terminal, redrawn at most ten times a second.

    ::

        1,234,000 rows  3/12 files  part-0002.parquet  4.2 s
    """

    SECONDS_BETWEEN = 0.1

    def __init__(self, n_files: int, *, shown: bool, stream: TextIO | None = None) -> None:
        stream = sys.stderr if stream is None else stream
        self._shown = shown and stream is not None and stream.isatty()
        self._line = RewrittenLine(stream)
        self._n_files = n_files
        self._files: set[str] = set()
        self._path = ""
        self._start = time.monotonic()
        self._last = -1.0
        self.n_rows = 0

    def add(self, path: str, n_rows: int) -> None:
        """Add completed rows."""
        self.n_rows += n_rows
        self._files.add(path)
        self._path = path
        now = time.monotonic()
        if self._shown and now - self._last >= self.SECONDS_BETWEEN:
            self._draw(now)
            self._last = now

    def close(self) -> None:
        """Draw the final state and end the line."""
        if self._shown and self._last >= 0.0:
            self._draw(time.monotonic())
            self._line.end()

    def _draw(self, now: float) -> None:
        parts = [f"{self.n_rows:,} rows"]
        if self._n_files > 1:
            parts += [f"{len(self._files)}/{self._n_files} files", os.path.basename(self._path)]
        self._line.show("  ".join([*parts, f"{now - self._start:.1f} s"]))
