"""Read files as the columns of a model, in batches.

The model determines the columns and their types, never the values.  A column that holds
only integers, or only missing values, in one batch has the same type in all batches.
Columns are matched by name, and other columns are ignored.

Text files have no form for durations: whole numbers in a column of durations or of times of a day
are microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hedgerow.arrays import MISSING_KEY
from hedgerow.data.reading.columns import LARGEST_INT
from hedgerow.data.reading.files import TableFile, open_files
from hedgerow.data.reading.temporal import NUMBERS, array_of_ticks
from hedgerow.data.reading.texts import TextKind, first_other, parse
from hedgerow.data.schema import DATES, Column, Schema
from hedgerow.data.sources.base import header_hint
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief, did_you_mean


@dataclass(frozen=True, slots=True, eq=False)
class FileRows:
    """Consecutive rows of a file.

    Attributes
    ----------
    first_row : int
        Number of rows of the file before these.
    features : frame, dict of arrays, or sparse array
        The columns of the model, in a form for :func:`hedgerow.data.read_any`.
    keys : dict from name to Arrow array
        Columns to copy to the output; text if the format has no types.
    """

    path: str
    first_row: int
    n_rows: int
    features: Any
    keys: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Files with the columns of a model; see :func:`model_files`."""

    files: tuple[TableFile, ...]
    schema: Schema
    keys: tuple[str, ...] = ()
    zero_based: bool = True

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)

    def batches(self, batch_rows: int) -> Iterator[FileRows]:
        """Yield the rows of all files in order, at most ``batch_rows`` at a time."""
        texts = _Texts()
        for file in self.files:
            first_row = 0
            for rows in self._rows_of(file, batch_rows, texts):
                found = FileRows(file.path, first_row, *rows)
                yield found
                first_row += found.n_rows

    def _rows_of(
        self, file: TableFile, batch_rows: int, texts: _Texts
    ) -> Iterator[tuple[int, Any, dict[str, Any]]]:
        if file.names is None:
            width = self.schema.n_features
            for part in file.batches(batch_rows):
                yield part.n_rows, part.matrix(file.path, width, zero_based=self.zero_based), {}
            return
        names = _feature_names(file, self.schema, self.keys)
        wanted = [*names, *(key for key in self.keys if key not in names)]
        first_row = 0
        for part in file.batches(batch_rows, wanted):
            if file.holds_texts:
                features = texts.typed(file, first_row, part, names, self.schema)
            else:
                features = part.select(list(names)).rename_columns(list(self.schema.names))
            yield part.num_rows, features, {key: part[key] for key in self.keys}
            first_row += part.num_rows


def model_files(
    paths: Any, schema: Schema, keys: Sequence[str] = (), *, zero_based: bool = True
) -> ModelFiles:
    """Find files and check that each has the columns of a model."""
    if isinstance(keys, str):
        raise ParameterError(
            f"columns must be a list of names; got {brief(keys)}: give [{keys!r}]."
        )
    files = open_files(paths)
    if files[0].names is None:
        if keys:
            raise ParameterError("LibSVM files have no named columns: leave columns out.")
    elif not zero_based:
        raise ParameterError("zero_based is for LibSVM files; these have named columns.")
    for file in files:
        if file.names is not None:
            _check_keys(file, keys)
            _feature_names(file, schema, keys)
    return ModelFiles(files, schema, tuple(keys), zero_based)


def _check_keys(file: TableFile, keys: Sequence[str]) -> None:
    names = file.names or ()
    for key in keys:
        if key not in names:
            raise DataError(
                f"{file.path} has no column {key!r} to pass through.{did_you_mean(key, names)}"
            )


def _feature_names(file: TableFile, schema: Schema, keys: Sequence[str]) -> tuple[str, ...]:
    """Return the file's names of the columns of the model, in the order of the model."""
    names = file.names or ()
    held = set(names)
    missing = [name for name in schema.names if name not in held]
    if not missing:
        return schema.names
    rest = tuple(name for name in names if name not in keys)
    if not schema.named:
        if len(rest) == schema.n_features:
            return rest
        raise DataError(
            f"{file.path} has {len(rest)} columns, but the model, which has no column names, has "
            f"{schema.n_features}: leave out columns that are not features."
        )
    shown = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
    hint = did_you_mean(missing[0], names) + header_hint(names)
    raise DataError(f"{file.path} lacks {len(missing)} column(s) of the model: {shown}.{hint}")


_WORDS: dict[TextKind, str] = {
    "int": "numbers",
    "float": "numbers",
    "bool": "booleans",
    "date": "dates",
    "zoned": "times with a zone",
}


@dataclass(slots=True)
class _Texts:
    """Convert text to the types of a model, and check that columns keep their kinds."""

    seen: dict[str, tuple[str, str]] = field(default_factory=dict)

    def typed(
        self, file: TableFile, first_row: int, part: Any, names: Sequence[str], schema: Schema
    ) -> Any:
        """Return the columns of the model with their types."""
        import pyarrow as pa

        return pa.table(
            {
                column.name: part[name]
                if _stays_text(column)
                else self._convert(file, first_row, part[name], column)
                for name, column in zip(names, schema.columns, strict=True)
            }
        )

    def _convert(self, file: TableFile, first_row: int, texts: Any, column: Column) -> Any:
        kind, found = parse(texts, file.decimal)
        if kind == "text" and column.temporal == "times":
            return texts
        if kind == "text":
            had = column.temporal or NUMBERS
            row = first_other(
                texts, ("date", "zoned") if had in DATES else ("int", "float"), file.decimal
            )
            raise DataTypeError(
                f"{file.path}: column {column.name!r} holds text, but held {had} when the model "
                f"was trained: {brief(texts[row].as_py())} in row {first_row + row + 1} is none "
                f"of them. Convert it to {column.temporal or 'numbers'}."
            )
        if kind != "nothing":
            what = _WORDS[kind]
            before, where = self.seen.setdefault(column.name, (what, file.path))
            if before != what:
                raise DataTypeError(
                    f"{file.path}: column {column.name!r} holds {what}, but {before} before (in "
                    f"{where}): convert it to one of them."
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


def _stays_text(column: Column) -> bool:
    return column.kind == "category" and (not column.levels or isinstance(column.levels[0], str))


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
