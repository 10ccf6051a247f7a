"""Files that fit into memory, read at once: named columns of NumPy arrays, or sparse rows.

Columns of all files are of these kinds, whatever their number::

    float64           numbers, NaN where missing (whole numbers up to 2**53 too)
    int64             whole numbers, some beyond 2**53, none missing
    datetime64[us]    dates, NaT where missing
    timedelta64[us]   durations, NaT where missing
    object            text, times of a day or dates with a zone, None where missing

Tables larger than memory are read in batches instead (:func:`choose_way`).  The model has the same
bytes either way.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from hedgerow.arrays import AnyArray, distinct
from hedgerow.cli.usage import UsageError
from hedgerow.data.binning.cut_sample import stack_sparse
from hedgerow.data.categories.columns import NearlyNumbers, nearly_numbers, odd_text_of
from hedgerow.data.external.memory import memory_bytes, shown_bytes
from hedgerow.data.reading.columns import ReadColumn, floats_of_column, stack_one
from hedgerow.data.reading.objects import read_column
from hedgerow.data.reading.temporal import array_of_ticks
from hedgerow.data.sources import opening
from hedgerow.data.sources.arrow_files import open_native
from hedgerow.data.sources.base import Part, no_column
from hedgerow.data.sources.facts import ColumnFacts
from hedgerow.data.sources.paths import find_files

if TYPE_CHECKING:
    from hedgerow.boosting.external.file_dataset import FileDataset
    from hedgerow.boosting.row_data.classes import CodedLabels

_COPIES = 3
"""Memory of a table, in multiples of its numbers: values read, columns, and bins."""
_TEXT_TO_MEMORY, _PACKED_TO_TEXT = 2, 5


class Way(NamedTuple):
    """Whether the rows are read at once: ``needed`` bytes, about, and the ``limit``."""

    in_memory: bool
    needed: int
    limit: int
    n_files: int

    def __str__(self) -> str:
        files = "1 file" if self.n_files == 1 else f"{self.n_files} files"
        fits = "fits" if self.in_memory else "does not fit"
        how = "read at once" if self.in_memory else "read in batches, binned rows on disk"
        return (
            f"{files}: {how} (about {shown_bytes(self.needed)} in memory, which {fits} into the "
            f"limit of {shown_bytes(self.limit)})"
        )


def choose_way(paths: Sequence[str], memory_limit: str | None) -> Way:
    """Choose the way of reading some files."""
    limit = memory_bytes(memory_limit, "--memory-limit")
    files = find_files(paths)
    needed = sum(_bytes_in_memory(file.path, file.format) for file in files)
    return Way(needed <= limit, needed, limit, len(files))


def _bytes_in_memory(path: str, kind: str) -> int:
    size = os.path.getsize(path)
    if kind == "parquet":
        try:
            import pyarrow.parquet

            with open_native(path) as source, pyarrow.parquet.ParquetFile(source) as file:
                return _COPIES * 8 * file.metadata.num_rows * file.metadata.num_columns
        except (ImportError, OSError, ValueError):
            return _COPIES * _PACKED_TO_TEXT * size  # the reader reports the error
    packed = _PACKED_TO_TEXT if path.lower().endswith(".gz") else 1
    return _COPIES * packed * size * (_TEXT_TO_MEMORY if kind != "arrow" else 1)


_BATCH_BYTES = 1 << 26


@dataclass(frozen=True)
class NamedColumns:
    """A table: columns by name, in the order of the file."""

    path: str
    columns: Mapping[str, AnyArray]

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def features(self, names: Sequence[str]) -> dict[str, AnyArray]:
        """Return some columns in this order, in the form of an estimator."""
        return {name: self.columns[name] for name in names}

    def role(self, name: str) -> AnyArray:
        """Return a column that is no feature: dates become numbers of microseconds."""
        column = self.columns[name]
        if column.dtype.kind not in "OMm" or holds_text(column):
            return column
        return floats_of_column(read_column(column, name).plain(""), "int")

    def weights(self, name: str) -> AnyArray:
        """Return the column of row weights; the fit checks the values."""
        column = self.role(name)
        if column.dtype == object:
            raise UsageError(f"{self.path}: weight {name!r} holds text; weights are numbers")
        return column.astype(np.float64)


def holds_text(column: AnyArray) -> bool:
    """Return whether a column holds text, or may hold it because all values are missing."""
    if column.dtype != object:
        return False
    first = next((item for item in column if item is not None), "")
    return not isinstance(first, dt.time | dt.datetime)


def names_of(parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the names of the columns of files, which LibSVM files do not have."""
    names = parts[0].column_names()
    if names is None:
        raise UsageError(f"{parts[0].name}: LibSVM files have no names of columns; give a table")
    return names


def read_parts(
    parts: Sequence[Part], wanted: Sequence[str] | None = None, text: Collection[str] = ()
) -> NamedColumns:
    """Read all columns of opened files, or those wanted; ``text`` names columns that stay text."""
    names = names_of(parts)
    chosen = names if wanted is None else [name for name in names if name in set(wanted)]
    for part in parts:
        for name in wanted or chosen:
            if name not in (known := part.column_names() or ()):
                raise no_column(part.name, name, "needed", known)
    opening.keep_text(parts, text)
    opening.set_text_kinds(parts, opening.find_text_kinds(parts, _BATCH_BYTES, chosen))
    raw = [(part, b.columns) for part in parts for b in part.batches(chosen, _BATCH_BYTES)]
    columns = {name: _joined(name, [(part.name, c[name]) for part, c in raw]) for name in chosen}
    path = parts[0].name if len(parts) == 1 else f"{parts[0].name} and {len(parts) - 1} more"
    table = NamedColumns(path, columns)
    if table.n_rows == 0:
        raise UsageError(f"{path} has a header but no rows")
    return table


def _joined(name: str, batches: Sequence[tuple[str, ReadColumn]]) -> AnyArray:
    """Return a column of all batches, with their files, in the type that suits all values."""
    facts, values = ColumnFacts(), [column for _, column in batches]
    for path, column in batches:
        facts.add(column, path)
    kind = facts.kind(name, None, types_known=True)
    if not values:
        return np.empty(0)
    if kind == "category":
        return np.concatenate([_texts(part) for part in values])
    plain = [np.full(len(part), np.nan) if part.is_text else part.plain("") for part in values]
    if kind == "int":
        temporal = facts.temporal()
        ticks = stack_one(plain, kind)
        return ticks if temporal is None else array_of_ticks(ticks, temporal)
    return np.concatenate([floats_of_column(part, "int").astype(np.float64) for part in plain])


def _texts(part: ReadColumn) -> AnyArray:
    """Return text, with None for missing values."""
    return part.as_array() if part.is_text else np.full(len(part), None, dtype=object)


def read_sparse(parts: Sequence[Part]) -> tuple[Any, AnyArray]:
    """Read the entries and the targets of LibSVM files."""
    batches = [batch for part in parts for batch in part.batches(None, _BATCH_BYTES)]
    if not batches:
        raise UsageError(f"{parts[0].name} has no rows")
    targets = [batch.target.plain("") for batch in batches if batch.target is not None]
    return stack_sparse([batch.sparse for batch in batches]), np.concatenate(targets)


_MOST_CLASSES_OF_NUMBERS = 10

Target: TypeAlias = "AnyArray | Mapping[str, AnyArray]"
"""One target, or several by name."""


def matrix_of(columns: Mapping[str, AnyArray]) -> AnyArray:
    """Return columns of numbers as a matrix."""
    return np.column_stack(list(columns.values()))


def text_columns(columns: Mapping[str, AnyArray]) -> frozenset[str]:
    """Return the names of the text columns."""
    return frozenset(name for name, column in columns.items() if holds_text(column))


def numbered_matrix(
    table: NamedColumns, names: Sequence[str], y: AnyArray, train: AnyArray, task: str
) -> tuple[AnyArray, int]:
    """Return columns as a matrix of numbers; text becomes the mean target of its level."""
    target = np.zeros(len(y))
    if y.ndim == 2:
        target = np.mean((y - y[train].mean(axis=0)) / (y[train].std(axis=0) + 1e-300), axis=1)
    elif task == "regression":
        target = y.astype(np.float64)
    else:
        labels, counts = np.unique(y[train], return_counts=True)
        target[y == labels[counts.argmax()]] = 1.0
    texts = text_columns(table.features(names))
    columns = [
        _means(table.columns[name], target, train) if name in texts else table.role(name)
        for name in names
    ]
    wide = any(column.dtype != np.float64 for column in columns)
    return np.column_stack([c.astype(object) if wide else c for c in columns]), len(texts)


def _means(column: AnyArray, target: AnyArray, train: AnyArray) -> AnyArray:
    """Return the mean target of the training rows of each level; NaN for unknown and missing."""
    known = np.array([value is not None for value in column])
    levels, codes = np.unique(column[known].astype(str), return_inverse=True)
    place = np.full(len(column), len(levels))
    place[known] = codes
    counts = np.bincount(place[train], minlength=len(levels) + 1)
    sums = np.bincount(place[train], target[train], minlength=len(levels) + 1)
    means = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    means[-1] = np.nan
    return means[place]


def target(table: NamedColumns, name: str, *, may_be_infinite: bool = False) -> AnyArray:
    """Return the target column, which must not have missing values."""
    column = table.role(name)
    if column.dtype == object:
        missing = np.array([value is None for value in column], dtype=bool)
    else:
        numbers = column.astype(np.float64)
        missing = np.isnan(numbers) if may_be_infinite else ~np.isfinite(numbers)
    if missing.any():
        what = "missing" if may_be_infinite else "missing or infinite"
        raise UsageError(
            f"{table.path}: target {name!r} is {what} in {int(missing.sum())} row(s), "
            f"the first is row {int(missing.argmax()) + 1}; remove these rows"
        )
    return column


def targets(table: NamedColumns, names: Sequence[str]) -> Target:
    """Return the target column, or several by name, whose values may be ends of intervals."""
    if len(names) == 1:
        return target(table, names[0])
    return {name: target(table, name, may_be_infinite=True) for name in names}


def guess_task(y: Target, path: str, name: str) -> tuple[str, str]:
    """Return ``("classification" | "regression", why)`` for a target column."""
    if isinstance(y, Mapping):
        return "regression", f"{len(y)} targets"
    if y.dtype == object:
        found = odd_text_of(y)
        if found is not None:
            where = f"row {found[1] + 1} has {found[0].odd!r}"
            _refuse_odd_text(found[0], path, name, where)
        return "classification", "the target is text"
    return _task_of_numbers(distinct(y))


def guess_task_of(rows: FileDataset, path: str, name: str) -> tuple[str, str]:
    """Guess the task from the targets of files that were surveyed, as :func:`guess_task` does."""
    if rows.n_targets > 1:
        return "regression", f"{rows.n_targets} targets"
    labels: CodedLabels = rows.y
    if labels.are_text:
        found = nearly_numbers(labels.values.tolist(), labels.masses(rows.row_weight(rows.n_rows)))
        if found is not None:
            _refuse_odd_text(found, path, name, f"{found.odd!r} is none")
        return "classification", "the target is text"
    return _task_of_numbers(labels.values, has_more=labels.has_more)


def _refuse_odd_text(found: NearlyNumbers, path: str, name: str, where: str) -> None:
    """Raise ``UsageError`` for a target of numbers that a few other values make text."""
    if _task_of_numbers(distinct(np.array(found.numbers)))[0] == "regression":
        raise UsageError(
            f"{path}: target {name!r} is text, but {found}; {where}: mend or remove such rows, or "
            "use --task classification"
        )


def _task_of_numbers(values: AnyArray, *, has_more: bool = False) -> tuple[str, str]:
    """Guess the task from the different numbers of a target; ``has_more``: some are left out."""
    n_values = len(values)
    few = not has_more and n_values <= _MOST_CLASSES_OF_NUMBERS
    if few and np.array_equal(values, np.floor(values)):
        return "classification", f"the target has {n_values} distinct whole numbers"
    more = "more than " if has_more else ""
    return "regression", f"the target has {more}{n_values} distinct numbers"


def as_targets(y: Target, task: str, path: str, name: str = "y") -> Target:
    """Return :func:`class_labels` of one target, called ``name``, or of several."""
    if isinstance(y, Mapping):
        return {label: class_labels(column, task, path, label) for label, column in y.items()}
    return class_labels(y, task, path, name)


def class_labels(column: AnyArray, task: str, path: str, name: str) -> AnyArray:
    """Return the target in the form of the estimator: labels or float64."""
    if task in ("regression", "ranking"):
        if column.dtype == object:
            raise UsageError(
                f"{path}: target {name!r} holds text ({column[0]!r} in row 1); {task} needs "
                "numbers: use --task classification, or another --target"
            )
        return column.astype(np.float64)
    if column.dtype == object:
        return column.astype(str)
    if task == "classification":
        refuse_fractions(column, path, name)
    integers = column.astype(np.int64)
    return integers if np.array_equal(integers, column) else column


def refuse_fractions(values: AnyArray, path: str, name: str) -> None:
    """Raise ``UsageError`` if numbers of a target are no classes."""
    broken = values != np.floor(values)
    if broken.any():
        raise UsageError(
            f"{path}: target {name!r} holds {values[int(np.argmax(broken))]:g}, which is no class; "
            "classification needs text or whole numbers: use --task regression, or another --target"
        )
