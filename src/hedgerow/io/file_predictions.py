"""Predict files of any size and write one output file.

::

    files --- data.model_rows ---> batches --- predict ---> named columns
                                                                | write_table
    output, moved into place atomically  <---------------------+

The model fixes the type of each column (:mod:`hedgerow.data.reading.model_rows`), so the rows of
the output do not depend on the batch size.  Each batch is a group of rows of the file, which is
moved into place atomically (:mod:`hedgerow.atomic`).
"""

from __future__ import annotations

import csv
import io
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, BinaryIO, TextIO, TypeAlias

import numpy as np

from hedgerow.argument_types import BATCH_ROWS, check_batch_rows
from hedgerow.arrays import AnyArray
from hedgerow.atomic import check_place, open_atomically
from hedgerow.boosting.row_data.offsets import offset_columns
from hedgerow.data.reading.model_rows import ModelFiles, model_files
from hedgerow.data.schema import Column, Schema
from hedgerow.data.sources.arrow_files import arrow, decoded
from hedgerow.data.sources.paths import Paths
from hedgerow.errors import DataError, DataTypeError, ParameterError, StorageError
from hedgerow.model.model import Model
from hedgerow.terminal import RewrittenLine

Columns: TypeAlias = Mapping[str, Any]
"""Columns of equal length by name: NumPy arrays or Arrow chunked arrays."""

OUTPUT_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".arrow", ".feather", ".ipc")

_CSV_ROWS = 8192


def check_output(path: str) -> None:
    """Raise ``ParameterError`` if a table cannot be written to this path."""
    name = path.lower()
    if not name.endswith(OUTPUT_SUFFIXES):
        known = ", ".join(OUTPUT_SUFFIXES)
        raise ParameterError(f"{path}: the output is written as {known}.")
    check_place(path)
    if not name.endswith((".csv", ".tsv")):
        arrow(path)


def write_table(path: str, batches: Iterable[Columns]) -> None:
    """Write a table atomically, batch by batch."""
    name = path.lower()
    with open_atomically(path) as file:
        if name.endswith((".csv", ".tsv")):
            _write_csv(file, batches, "\t" if name.endswith(".tsv") else ",")
        else:
            _write_arrow(file, batches, name.endswith((".parquet", ".pq")))


def _write_csv(file: BinaryIO, batches: Iterable[Columns], delimiter: str) -> None:
    """Write CSV text; floats have the fewest digits that represent them exactly."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    try:
        for number, columns in enumerate(batches):
            if number == 0:
                writer.writerow(columns)
            for start in range(0, len(next(iter(columns.values()))), _CSV_ROWS):
                parts = [column[start : start + _CSV_ROWS] for column in columns.values()]
                items = (p.tolist() if isinstance(p, np.ndarray) else p.to_pylist() for p in parts)
                writer.writerows(zip(*items, strict=True))
    finally:
        text.detach()


def _write_arrow(file: BinaryIO, batches: Iterable[Columns], is_parquet: bool) -> None:
    """Write Arrow or Parquet; the first batch decides on the types of the columns."""
    import pyarrow as pa
    import pyarrow.parquet

    make_writer = pyarrow.parquet.ParquetWriter if is_parquet else pa.ipc.new_file
    writer: Any = None
    schema: Any = None
    with ExitStack() as stack:
        for columns in batches:
            table = decoded(pa.table(dict(columns)))  # dictionaries differ from file to file
            if writer is None:
                schema = table.schema
                writer = stack.enter_context(make_writer(file, schema))
            for name, wanted in zip(schema.names, schema.types, strict=True):
                found = table.schema.field(name).type
                try:
                    table.column(name).cast(wanted)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise DataError(
                        f"column {name!r} is {found}, but {wanted} in the first file, and some "
                        "value cannot be converted: leave it out, or give the files the same types."
                    ) from error
            writer.write_table(table.cast(schema).combine_chunks())


Named: TypeAlias = Mapping[str, AnyArray]


def write_predictions(
    model: Model,
    paths: Paths,
    output: str | os.PathLike[str],
    predict: Callable[[Any], Named],
    *,
    batch_rows: int = BATCH_ROWS,
    columns: Sequence[str] = (),
    progress: bool = False,
) -> int:
    """Predict files batch by batch and write one table; see ``Booster.predict_files``."""
    target = os.fspath(output)
    check_batch_rows(batch_rows)
    check_output(target)
    files = model_files(paths, columns_of(model), columns)
    for file in files.files:
        if os.path.realpath(file.name) == os.path.realpath(target):
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
            f"{files.files[0].name} has no rows to predict, nor has any other file: check the "
            "paths."
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
