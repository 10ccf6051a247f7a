"""Datasets saved in a file: the parsed table for later trainings.

The file is an uncompressed NumPy ``.npz``, which ``numpy.load`` also opens::

    about          JSON: format, version, columns with their levels, list of arrays
    values         float32, float64 or int64 (n_rows, n_features), as trees compare them; or
    row_start, column, value       of a sparse table
    y, weight, offset, qid, position, groups       those present, one number for each row;
                   for queries, positions and groups the index of the value in ``about``

Parsing text, dates and frames is the slow part; bins depend on training parameters
and are computed again.  A file may come from any source: no code runs, no allocation is
larger than the file, and inconsistent content is an error.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast, get_args

import numpy as np

from hedgerow.argument_types import path_text
from hedgerow.arrays import AnyArray
from hedgerow.atomic import open_atomically
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.factorize import number_values
from hedgerow.boosting.row_data.offsets import Offsets, names_of_offset, take_offset
from hedgerow.boosting.row_data.positions import read_position
from hedgerow.cuda.arrays import host_array
from hedgerow.data import AnyTable, Schema, SparseTable, Table
from hedgerow.data.reading.frames import as_frame
from hedgerow.data.reading.numbers import floats_of_column
from hedgerow.data.reading.reread import ColumnsOf, read_again
from hedgerow.data.schema import Column, Temporal, UnknownCategory
from hedgerow.data.sparse import is_sparse, mark_zeros
from hedgerow.errors import DataError, DataTypeError

_FORMAT = "hedgerow-dataset"
_VERSION = 1
_ROW_ARRAYS = ("y", "weight", "offset", "qid", "position", "groups")
_TABLE_ARRAYS = ("values", "row_start", "column", "value")
_PLURALS = {"qid": "queries", "position": "positions", "groups": "groups"}
_KINDS = ("float", "int", "category")


class SavedDataset(Dataset):
    """A dataset that :meth:`hedgerow.Dataset.load` has read."""

    def __init__(self, X: Any, about: _About, rows: Mapping[str, Any]) -> None:
        schema = about.schema
        super().__init__(
            ColumnsOf(X) if isinstance(X, Table) else X,
            **rows,
            feature_names=schema.names if schema.named else None,
            categorical_features=[c.name for c in schema.columns if c.kind == "category"] or "auto",
            unknown_category=cast(UnknownCategory, schema.unknown),
        )
        self._table = X if isinstance(X, Table) else None
        self._offsets = about.offsets

    @property
    def offset_names(self) -> tuple[str, ...]:
        """Columns that held the offset; empty if the offset is an array."""
        return names_of_offset(self.offset) or self._offsets

    def _features(self) -> Any:
        names = names_of_offset(self.offset)  # saved offset columns are not in the table
        return take_offset(self.X, names)[0] if names else self.X

    def table(
        self,
        schema: Schema | None = None,
        zero_missing: bool = False,
        *,
        more_levels: bool = False,
    ) -> AnyTable:
        """Return the saved table, recoded for the schema of a training table if one is given."""
        if self._table is None or names_of_offset(self.offset):
            return super().table(schema, zero_missing, more_levels=more_levels)
        if schema is None:
            return mark_zeros(self._table, zero_missing)
        return read_again(self._table, schema, more_levels=more_levels)


def save_dataset(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a dataset to a file; see :meth:`hedgerow.Dataset.save`."""
    if dataset.X is None:
        raise DataError(
            "the rows of this Dataset are read in batches, and its chunks are in cache_dir only "
            "during a training: to save a Dataset, make it from a table in memory."
        )
    table = dataset.table()
    arrays: dict[str, AnyArray] = _table_arrays(table)
    about: dict[str, Any] = {
        "format": _FORMAT,
        "version": _VERSION,
        "columns": [_record(column) for column in table.schema.columns],
        "named": table.schema.named,
        "unknown": table.schema.unknown,
        "offsets": list(dataset.offset_names),
        "targets": None,
        "queries": None,
        "positions": None,
        "groups": None,
    }
    _add_rows(dataset, table.n_rows, about, arrays)
    try:
        text = json.dumps(about).encode("ascii")
    except TypeError as error:
        raise DataTypeError(f"groups must be numbers or text to be saved: {error}.") from None
    arrays["about"] = np.frombuffer(text, dtype=np.uint8)
    _write(path, arrays)


def _table_arrays(table: AnyTable) -> dict[str, AnyArray]:
    if isinstance(table, SparseTable):
        found = {"row_start": table.row_start, "column": table.column, "value": table.value}
        return {name: np.ascontiguousarray(array) for name, array in found.items()}
    return {"values": table.values}


def _add_rows(
    dataset: Dataset, n_rows: int, about: dict[str, Any], arrays: dict[str, AnyArray]
) -> None:
    """Add the values of each row besides the features, as numbers."""
    if dataset.y is not None:
        names, arrays["y"] = _target_columns(dataset.y)
        about["targets"] = names
    weight = dataset.row_weight(n_rows)
    if weight is not None:
        arrays["weight"] = weight
    offset = Offsets.of(dataset.X, dataset.offset).values
    if offset is not None:
        arrays["offset"] = host_array(offset).astype(np.float64, copy=False)
    if dataset.qid is not None:
        arrays["qid"], about["queries"] = _numbered_queries(dataset.qid, n_rows)
    position = read_position(dataset.position, n_rows)
    if position is not None:
        arrays["position"], about["positions"] = position.codes, list(position.labels)
    if dataset.groups is not None:
        arrays["groups"], about["groups"] = number_values(
            dataset.groups, n_rows, "groups", "its group"
        )


def _numbered_queries(qid: Any, n_rows: int) -> tuple[AnyArray, list[Any] | None]:
    """Return the query of each row as an index, and the queries if JSON can store them."""
    codes, queries = number_values(qid, n_rows, "qid", "its query")
    return codes, queries if _is_scalars(queries) else None


def _target_columns(y: Any) -> tuple[list[str] | None, AnyArray]:
    """Return the names of the columns (None without names) and y as a numeric array."""
    if is_sparse(y):
        y = y.toarray()
    named: dict[str, Any] | None = None
    if isinstance(y, Mapping):
        named = {str(name): host_array(column) for name, column in y.items()}
    elif isinstance(y, np.ndarray) and y.dtype.names is not None:
        named = {name: y[name] for name in y.dtype.names}
    elif not isinstance(y, np.ndarray | list | tuple) and hasattr(y, "columns"):
        frame = as_frame(y)
        if frame is not None and frame.named and len(frame.names) > 1:
            named = {name: frame.native[name].to_numpy() for name in frame.names}
    numbers = np.column_stack(list(named.values())) if named else host_array(y)
    if numbers.dtype.kind not in "biuf":
        raise DataTypeError(
            f"y must be numbers to be saved, but is of type {numbers.dtype}: for classes give "
            "their indices, 0, 1, ..."
        )
    return None if named is None else list(named), numbers


def _write(path: str | os.PathLike[str], arrays: Mapping[str, AnyArray]) -> None:
    """Write all arrays or none: an old file is replaced atomically."""
    with open_atomically(path) as file:
        np.savez(file, **cast(Any, arrays))


def load_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Read a dataset from a file; see :meth:`hedgerow.Dataset.load`."""
    try:
        arrays = _read_arrays(path)
        return _dataset_of(arrays)
    except _Malformed as error:
        raise DataError(f"{os.fspath(path)}: {error}") from None


class _Malformed(Exception):
    """Reason why a file is not a dataset."""


def _check(holds: bool, why: str) -> None:
    if not holds:
        raise _Malformed(why)


def _read_arrays(path: str | os.PathLike[str]) -> dict[str, AnyArray]:
    known = {f"{name}.npy" for name in ("about", *_TABLE_ARRAYS, *_ROW_ARRAYS)}
    path = path_text(path)
    size = os.path.getsize(path)
    try:
        with zipfile.ZipFile(path) as parts:
            listed = parts.infolist()
            names = [part.filename for part in listed]
            _check("about.npy" in names and len(set(names)) == len(names), "this is not a Dataset.")
            _check(set(names) <= known, "it holds unknown arrays.")
            stored = all(part.compress_type == zipfile.ZIP_STORED for part in listed)
            _check(stored and sum(part.file_size for part in listed) <= size, "it is compressed.")
            return {name[:-4]: _array(parts.read(name), name[:-4]) for name in names}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise _Malformed(f"this is not a Dataset, or it is damaged ({error}).") from None


def _array(data: bytes, name: str) -> AnyArray:
    """Parse an array in NumPy's file format and check that its size fits the data."""
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        _check(version == (1, 0), f"array {name!r} has an unsupported version.")
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(stream)
    except ValueError as error:
        raise _Malformed(f"array {name!r} is malformed ({error}).") from None
    plain = not dtype.hasobject and dtype.kind in "biuf" and dtype.isnative
    _check(plain and all(n >= 0 for n in shape), f"array {name!r} does not hold numbers.")
    begin, count = stream.tell(), 1
    for n in shape:
        count *= n
    _check(count * dtype.itemsize == len(data) - begin, f"array {name!r} has the wrong length.")
    flat = np.frombuffer(data, dtype=dtype, count=count, offset=begin)
    return flat.reshape(shape, order="F" if by_column else "C")


@dataclass(frozen=True, slots=True)
class _About:
    """The metadata of the file, with checked types."""

    schema: Schema
    offsets: tuple[str, ...]
    targets: tuple[str, ...] | None
    values: Mapping[str, list[Any] | None]
    """Return the meaning of the indices of an array, by its name."""


def _about(array: AnyArray) -> _About:
    _check(array.dtype == np.uint8 and array.ndim == 1, "'about' is malformed.")
    try:
        found = json.loads(array.tobytes())
    except (ValueError, RecursionError):
        raise _Malformed("'about' is malformed.") from None
    _check(isinstance(found, dict) and found.get("format") == _FORMAT, "this is not a Dataset.")
    _check(
        found.get("version") == _VERSION,
        "it has another version: save the Dataset again with this version of Hedgerow.",
    )
    columns = found.get("columns")
    _check(isinstance(columns, list) and len(columns) > 0, "'columns' is malformed.")
    known = tuple(_column(column) for column in columns)
    _check(len({column.name for column in known}) == len(known), "columns must differ.")
    policy, named = found.get("unknown"), found.get("named")
    _check(
        policy in ("missing", "backoff", "error") and isinstance(named, bool), "it is malformed."
    )
    targets = found.get("targets")
    lists = {name: found.get(plural) for name, plural in _PLURALS.items()}
    _check(targets is None or _is_texts(targets), "'targets' is malformed.")
    _check(_is_texts(found.get("offsets")), "'offsets' is malformed.")
    for values in lists.values():
        _check(values is None or _is_scalars(values), "values of rows are malformed.")
    return _About(
        Schema(known, named, policy),
        tuple(found["offsets"]),
        None if targets is None else tuple(targets),
        lists,
    )


def _record(column: Column) -> dict[str, Any]:
    """Return the record of a column; ``temporal`` is in it only if the column held dates."""
    found = {"name": column.name, "kind": column.kind, "levels": list(column.levels)}
    return found if column.temporal is None else {**found, "temporal": column.temporal}


def _column(record: Any) -> Column:
    known = isinstance(record, dict) and record.keys() - {"temporal"} == {"name", "kind", "levels"}
    _check(known, "a column is malformed.")
    name, kind, levels = record["name"], record["kind"], record["levels"]
    _check(isinstance(name, str) and kind in _KINDS, "a column has no name, or an unknown kind.")
    _check(isinstance(levels, list) and (kind == "category" or not levels), "a column has levels.")
    one_type = len({type(level) for level in levels}) <= 1 and all(map(_is_level, levels))
    ascending = one_type and all(a < b for a, b in pairwise(levels))
    _check(ascending, f"levels of column {name!r} are not ascending.")
    temporal = record.get("temporal")
    whole = kind == "int" or all(type(level) is int for level in levels)
    _check(
        "temporal" not in record or (temporal in get_args(Temporal) and kind != "float" and whole),
        f"column {name!r} cannot hold dates, times or durations.",
    )
    return Column(name, kind, tuple(levels), temporal=temporal)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_level(value: Any) -> bool:
    if type(value) is int:
        return -(2**63) < value < 2**63
    return type(value) is str or (type(value) is float and value == value)


def _is_scalars(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) in (str, int, float, bool) for item in value)


def _dataset_of(arrays: Mapping[str, AnyArray]) -> Dataset:
    about = _about(arrays["about"])
    is_dense = "values" in arrays
    given = {name for name in _TABLE_ARRAYS if name in arrays}
    wanted = {"values"} if is_dense else set(_TABLE_ARRAYS[1:])
    _check(given == wanted, "arrays of the table are missing.")
    n_rows = len(arrays["values"]) if is_dense else len(arrays["row_start"]) - 1
    rows = _rows_of(arrays, about, n_rows)
    if not is_dense:
        return SavedDataset(_sparse_rows(arrays, about.schema), about, rows)
    table = Table(_checked_values(arrays["values"], about.schema), about.schema)
    return SavedDataset(table, about, rows)


def _rows_of(arrays: Mapping[str, AnyArray], about: _About, n_rows: int) -> dict[str, Any]:
    rows: dict[str, Any] = {name: arrays.get(name) for name in _ROW_ARRAYS}
    for name, array in rows.items():
        right = array is None or (array.ndim in (1, 2) and len(array) == n_rows)
        _check(right, f"array {name!r} does not have an entry for each row.")
    for name, values in about.values.items():
        codes, malformed = rows[name], f"{name!r} is malformed."
        if codes is None:
            continue
        _check(codes.dtype == np.int64 and codes.ndim == 1, malformed)
        if name == "qid" and values is None:  # of queries that JSON cannot store
            continue
        within = n_rows == 0 or (codes.min() >= 0 and codes.max() < len(values or ()))
        _check(bool(within), malformed)
        rows[name] = np.array(values, dtype=object)[codes]
    if about.targets is not None:
        y = rows["y"]
        shape = None if y is None else y.shape
        _check(shape == (n_rows, len(about.targets)), "y does not have the columns that it names.")
        rows["y"] = {name: y[:, k] for k, name in enumerate(about.targets)}
    return rows


def _checked_values(values: AnyArray, schema: Schema) -> AnyArray:
    right = values.ndim == 2 and values.shape[1] == schema.n_features and len(values) > 0
    _check(right, "the table has the wrong number of columns.")
    of_keys = values.dtype == np.int64
    _check(of_keys or values.dtype in (np.float32, np.float64), "the table has the wrong type.")
    _check(of_keys == schema.has_int, "the type of the table does not fit its columns.")
    for j, column in enumerate(schema.columns):
        if column.kind == "category":
            _check_codes(values[:, j], len(column.levels), column.name)
    return values


def _check_codes(column: AnyArray, n_levels: int, name: str) -> None:
    codes = floats_of_column(column, "category")
    known = codes[~np.isnan(codes)]
    within = (known >= 0) & (known < max(n_levels, 1)) & (known == np.floor(known))
    _check(bool(within.all()), f"column {name!r} has codes without a level.")


def _sparse_rows(arrays: Mapping[str, AnyArray], schema: Schema) -> Any:
    from scipy.sparse import csr_array

    row_start, column, value = (arrays[name] for name in _TABLE_ARRAYS[1:])
    flat = all(array.ndim == 1 for array in (row_start, column, value))
    _check(flat and row_start.dtype == np.int64 and column.dtype == np.int32, "it is malformed.")
    _check(not schema.has_categories and len(row_start) > 1, "sparse rows cannot be categories.")
    ends = row_start[0] == 0 and row_start[-1] == len(column) == len(value)
    _check(bool(ends and (np.diff(row_start) >= 0).all()), "the rows are not contiguous.")
    within = len(column) == 0 or (column.min() >= 0 and column.max() < schema.n_features)
    _check(bool(within), "an entry has no column.")
    return csr_array((value, column, row_start), shape=(len(row_start) - 1, schema.n_features))
