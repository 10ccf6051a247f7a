"""Read files as the columns of a model, in batches.

The model determines the columns and their types, never the values.  A column that holds
only integers, or only missing values, in one batch has the same type in all batches.
Columns are matched by name, and other columns are ignored.

A reader holds one batch, and the smallest unit of its format: for Parquet a page of each column,
for Arrow files a record batch, for text a block of some megabytes.

Text files have no form for durations: whole numbers in a column of durations or of times of a day
are microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.arrays import MISSING_KEY
from hedgerow.data.reading.columns import LARGEST_INT
from hedgerow.data.reading.temporal import NUMBERS, array_of_ticks
from hedgerow.data.reading.texts import TextKind, parse
from hedgerow.data.schema import DATES, Column, Schema
from hedgerow.data.sources.base import header_hint
from hedgerow.data.sources.opening import FilePart, open_parts
from hedgerow.data.sources.paths import Paths
from hedgerow.data.sources.text_files import TextPart
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief, did_you_mean


@dataclass(frozen=True, slots=True, eq=False)
class FileRows:
    """Consecutive rows of a file."""

    path: str
    first_row: int  # number of rows of the file before these
    n_rows: int
    features: Any  # Arrow table of the columns of the model
    # dict from name to Arrow array; columns to copy to the output; text if the format has no types
    keys: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Files with the columns of a model; see :func:`model_files`."""

    files: tuple[FilePart, ...]
    schema: Schema
    keys: tuple[str, ...] = ()

    def batches(self, batch_rows: int) -> Iterator[FileRows]:
        """Yield the rows of all files in order, at most ``batch_rows`` at a time."""
        import pyarrow as pa

        schema = self.schema
        for file in self.files:
            names, first_row = _feature_names(file, schema, self.keys), 0
            wanted = [*names, *(key for key in self.keys if key not in names)]
            for part in file.tables(wanted, batch_rows):
                if isinstance(file, TextPart):
                    pairs = zip(names, schema.columns, strict=True)
                    features = pa.table(
                        {c.name: _converted(file, first_row, part[name], c) for name, c in pairs}
                    )
                else:
                    features = part.select(list(names)).rename_columns(list(schema.names))
                keys = {key: part[key] for key in self.keys}
                yield FileRows(file.name, first_row, part.num_rows, features, keys)
                first_row += part.num_rows


def model_files(paths: Paths, schema: Schema, keys: Sequence[str] = ()) -> ModelFiles:
    """Find files and check that each has the columns of a model."""
    if isinstance(keys, str):
        raise ParameterError(
            f"columns must be a list of names; got {brief(keys)}: give [{keys!r}]."
        )
    files = open_parts(paths)
    for file in files:
        names = file.column_names()
        for key in keys:
            if key not in names:
                raise DataError(
                    f"{file.name} has no column {key!r} to pass through.{did_you_mean(key, names)}"
                )
        _feature_names(file, schema, keys)
    return ModelFiles(files, schema, tuple(keys))


def _feature_names(file: FilePart, schema: Schema, keys: Sequence[str]) -> tuple[str, ...]:
    """Return the file's names of the columns of the model, in the order of the model."""
    names = file.column_names()
    held = set(names)
    missing = [name for name in schema.names if name not in held]
    if not missing:
        return schema.names
    rest = tuple(name for name in names if name not in keys)
    if not schema.named:
        if len(rest) == schema.n_features:
            return rest
        raise DataError(
            f"{file.name} has {len(rest)} columns, but the model, which has no column names, has "
            f"{schema.n_features}: leave out columns that are not features."
        )
    shown = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
    hint = did_you_mean(missing[0], names) + header_hint(names)
    raise DataError(f"{file.name} lacks {len(missing)} column(s) of the model: {shown}.{hint}")


def _converted(file: TextPart, first_row: int, texts: Any, column: Column) -> Any:
    """Convert text to the type of a column; raise if it holds text, and held none in training."""
    if column.kind == "category" and (not column.levels or isinstance(column.levels[0], str)):
        return texts
    kind, found = parse(texts, file.decimal)
    if kind == "text" and column.temporal == "times":
        return texts
    if kind == "text":
        had = column.temporal or NUMBERS
        fitting = ("date", "zoned") if had in DATES else ("int", "float")
        row = next(
            row
            for row in range(len(texts))
            if texts[row].is_valid and parse(texts.slice(row, 1), file.decimal)[0] not in fitting
        )
        raise DataTypeError(
            f"{file.name}: column {column.name!r} holds text, but held {had} when the model "
            f"was trained: {brief(texts[row].as_py())} in row {first_row + row + 1} is none "
            f"of them. Convert it to {column.temporal or 'numbers'}."
        )
    return as_column(texts, kind, found, column)


def as_column(texts: Any, kind: TextKind, found: Any, column: Column) -> Any:
    """Return text, parsed as ``found`` of a kind, in the type of a column of numbers or dates."""
    import pyarrow as pa

    if kind == "int" and column.kind == "float":
        return found.cast(pa.float64(), safe=False)  # to the nearest, as in training
    if kind == "int" and column.temporal is not None and column.temporal not in DATES:
        ticks = found.fill_null(MISSING_KEY).to_numpy()
        return pa.array(array_of_ticks(ticks, column.temporal))
    if kind == "float" and column.kind == "int":
        return pa.array(map(_integer, texts.to_pylist(), found.to_pylist()), pa.int64())
    return found


def _integer(text: str | None, value: float | None) -> int | None:
    """Return an integer exactly, and another number rounded up, which compares like it."""
    if text is None or value is None or math.isnan(value):
        return None
    try:
        number = int(text)
    except ValueError:
        number = LARGEST_INT if value == math.inf else -LARGEST_INT
        number = number if math.isinf(value) else math.ceil(value)
    return max(-LARGEST_INT, min(LARGEST_INT, number))
