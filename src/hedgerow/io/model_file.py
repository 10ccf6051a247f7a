"""Write and read model files; ``docs/model-format.md`` describes the format.

Glossary
--------
container         safetensors layout with a checksum (:mod:`hedgerow.io.container`)
metadata          strings in the header: format, schema_version and JSON records
estimator record  class, parameters and class labels of a scikit-learn estimator, which this
                  module does not interpret

Saving checks the model like loading does, so every file that was written can be read.
Loading returns a fully validated model or raises ``ModelFormatError``.  It imports no names
from a file and runs no code.  It allocates at most twice the size of the file, the bounded
header, and a Python object for each level of a category column.
"""

from __future__ import annotations

import functools
import math
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from io import BufferedReader
from typing import Any, TypeAlias, get_args

import numpy as np

from hedgerow.argument_types import path_text
from hedgerow.arrays import AnyArray
from hedgerow.atomic import write_atomically
from hedgerow.boosting.row_data.class_weights import RECORD as CLASS_WEIGHT
from hedgerow.boosting.row_data.offsets import RECORD as OFFSET_COLUMNS
from hedgerow.data.categories.statistics import FIRST_TARGET, ROWS
from hedgerow.data.inputs import Inputs
from hedgerow.data.schema import Column, ColumnKind, Rounding, Schema, Temporal
from hedgerow.errors import ModelFormatError
from hedgerow.io import container, strict_json
from hedgerow.io.container import Header
from hedgerow.io.levels import LEVEL_DTYPES, level_arrays, level_record, read_levels
from hedgerow.io.sets import SET_DTYPES, read_sets, set_arrays
from hedgerow.io.slopes import SLOPE_DTYPES, read_slopes, slope_arrays
from hedgerow.io.sniff import SNIFF_BYTES
from hedgerow.io.statistics import (
    STATISTIC_DTYPES,
    check_inputs,
    cross_record,
    input_arrays,
    input_record,
    read_inputs,
    with_crosses,
)
from hedgerow.io.validate import FOREST_DTYPES, VECTOR_DTYPES, check_model
from hedgerow.model.forest import CategoryTables, Forest
from hedgerow.model.model import Model, has_foreign_rules

FORMAT = "hedgerow"
FORMAT_OF_TREES = "hedgerow cart"
"""Format name of :mod:`hedgerow.io.cart_file`."""

Record: TypeAlias = dict[str, Any]
Source: TypeAlias = Callable[[int, int], memoryview]
"""Function from offset and size to bytes, fewer at the end of the file."""

_WIDEST_FIRST = sorted(FOREST_DTYPES, key=lambda name: -FOREST_DTYPES[name].itemsize)
_LINES_OF_VECTORS = 9
"""Version of files whose leaves hold vectors and slopes."""
_SORTS: dict[str, str] = {each: each for each in get_args(Temporal)}
_SORTS |= {"any dates": "dates", "dates": "dates without zone"}
"""Names of dates and times in files: before version 10 a zone left no trace."""
_ROUNDINGS = {each: each for each in get_args(Rounding) if each != "none"}
_KINDS_OF_VERSION: dict[int, tuple[str, ...]] = {1: ("float", "int"), 2: get_args(ColumnKind)}
_NATURAL = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_NEEDED = {"n_features", "objective", "schema", "training"}
_PARALLEL = "num_parallel_tree"
_CROSSES = "crosses"


def save_model(
    model: Model, path: str | os.PathLike[str], *, estimator: Mapping[str, Any] | None = None
) -> None:
    """Write a model to a file atomically."""
    write_atomically(path, _parts(model, estimator))


def model_to_bytes(model: Model, *, estimator: Mapping[str, Any] | None = None) -> bytes:
    """Return the bytes that :func:`save_model` writes; equal models have equal bytes."""
    return b"".join(_parts(model, estimator))


def load_model(path: str | os.PathLike[str]) -> tuple[Model, Record | None]:
    """Read a model file, which need not be trusted."""
    path = path_text(path)
    try:
        # A pipe or a device could block when opened, or never end.
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise ModelFormatError("this is not a regular file.")
        with open(path, "rb") as file:
            return _read(functools.partial(_read_at, file), os.fstat(file.fileno()).st_size)
    except ModelFormatError as error:
        raise ModelFormatError(f"{path}: {error}") from None


def model_from_bytes(data: bytes | bytearray | memoryview) -> tuple[Model, Record | None]:
    """Read a model from the bytes of a file, like :func:`load_model`."""
    view = memoryview(data).cast("B")
    return _read(lambda offset, size: view[offset : offset + size], len(view))


def _read_at(file: BufferedReader, offset: int, size: int) -> memoryview:
    """Return ``size`` bytes at ``offset``, fewer at the end of the file."""
    buffer = bytearray(size)
    file.seek(offset)
    filled = 0
    while filled < size and (count := file.readinto(memoryview(buffer)[filled:])):
        filled += count
    return memoryview(buffer)[:filled]


def _parts(model: Model, estimator: Mapping[str, Any] | None) -> list[bytes | memoryview]:
    check_model(model)
    metadata = {
        "format": FORMAT,
        "n_features": str(model.schema.n_features),
        "objective": model.objective,
        "schema": schema_text(model.schema),
        "schema_version": str(_version_of(model)),
        "training": strict_json.encode(model.training, "training"),
    }
    if model.forest.n_parallel > 1:
        metadata[_PARALLEL] = str(model.forest.n_parallel)
    if estimator is not None:
        metadata["estimator"] = strict_json.encode(estimator, "estimator")
    arrays = {name: getattr(model.forest, name) for name in _WIDEST_FIRST}
    if model.schema.has_categories:
        arrays |= level_arrays(model.schema) | set_arrays(model.forest.categories)
    inputs = model.inputs
    if inputs is not None and inputs.crosses:
        metadata[_CROSSES] = strict_json.encode(cross_record(inputs), _CROSSES)
    if inputs is not None and not inputs.are_columns(model.schema.n_features):
        metadata["inputs"] = strict_json.encode(input_record(inputs), "inputs")
        arrays |= input_arrays(inputs)
    if model.forest.vectors is not None:
        arrays["vector"] = model.forest.vectors.reshape(-1)
    arrays |= slope_arrays(model.forest.slopes)
    # The sort is stable, so the arrays of version 1 keep their order.
    in_order = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)
    return container.pack(metadata, {name: arrays[name] for name in in_order})


def _version_of(model: Model) -> int:
    """Return the oldest version that can hold the model."""
    if any(column.temporal in ("dates", "zoned dates") for column in model.schema.columns):
        return 10
    if model.forest.vectors is not None and model.forest.slopes is not None:
        return _LINES_OF_VECTORS
    statistics = () if model.inputs is None else model.inputs.statistics
    if model.schema.has_temporal or any(min(s.classes) <= FIRST_TARGET for s in statistics):
        return 8
    if model.inputs is not None and model.inputs.crosses:
        return 7
    if model.forest.n_parallel > 1:
        return 6  # readers of earlier versions would count each tree as a round
    if has_foreign_rules(model):
        return 5
    if model.forest.slopes is not None or any(ROWS in s.classes for s in statistics):
        return 4
    named = any(name in model.training for name in (OFFSET_COLUMNS, CLASS_WEIGHT))
    if named or model.forest.vectors is not None:
        return 3  # readers of earlier versions would predict without these entries
    return 2 if model.schema.has_categories else 1


def _read(source: Source, size: int) -> tuple[Model, Record | None]:
    """Read a model through a chain of checks, each of which bounds the next one."""
    length = container.header_length(bytes(source(0, SNIFF_BYTES)), size)
    start = bytes(source(0, container.LENGTH_BYTES + length))
    header = container.parse_header(start[container.LENGTH_BYTES :])
    reader = _reader(header)
    container.check_tiling(header, size)
    payload = source(len(start), size - len(start))
    if len(start) + len(payload) != size:
        raise ModelFormatError("the file changed while it was read.")
    container.check_digest(start, payload)
    model, estimator = reader(header, payload)
    del payload  # free this copy before the checks need memory
    check_model(model)
    return model, estimator


def _reader(header: Header) -> Callable[[Header, memoryview], tuple[Model, Record | None]]:
    """Return the reader of the version of the file; old versions stay readable for ever."""
    metadata = header.metadata
    if metadata.get("format") == FORMAT_OF_TREES:
        raise ModelFormatError(
            "this is a single tree: read it with CARTClassifier.load or CARTRegressor.load."
        )
    if metadata.get("format") != FORMAT:
        raise ModelFormatError("this is not a Hedgerow model file: it names another format.")
    version = metadata.get("schema_version", "")
    if not _NATURAL.fullmatch(version):
        raise ModelFormatError("the schema_version is missing or malformed.")
    if int(version) not in _READERS:
        raise ModelFormatError(
            f"the file has schema_version {version}, this Hedgerow reads up to "
            f"{max(_READERS)}: it was written by a newer one. Upgrade with "
            "'pip install -U hedgerow'."
        )
    return _READERS[int(version)]


def _read_v1(header: Header, payload: memoryview) -> tuple[Model, Record | None]:
    container.check_header(header, FOREST_DTYPES, _NEEDED)
    return _read_model(header, payload, schema_of_text(header.metadata["schema"], 1))


def _read_v2(header: Header, payload: memoryview) -> tuple[Model, Record | None]:
    more, text = LEVEL_DTYPES | SET_DTYPES, header.metadata.get("inputs")
    if text is not None:
        more |= STATISTIC_DTYPES
    container.check_header(header, FOREST_DTYPES | more, _NEEDED)
    arrays = {name: container.array_at(header, name, payload) for name in more}
    schema = schema_of_text(header.metadata["schema"], 2, arrays)
    if text is None:
        return _read_model(header, payload, schema, read_sets(arrays, schema))
    inputs = read_inputs(record_of_text(text, "inputs"), arrays)
    check_inputs(inputs, schema, inputs.n_inputs)
    tables = read_sets(arrays, inputs.schema(schema))
    return _read_model(header, payload, schema, tables, inputs)


def _read_v3(header: Header, payload: memoryview) -> tuple[Model, Record | None]:
    """Read version 3: version 1 or 2 with optional vector leaves."""
    entries = {name: entry for name, entry in header.entries.items() if name != "vector"}
    read = _read_v1 if entries.keys().isdisjoint(LEVEL_DTYPES) else _read_v2
    model, estimator = read(replace(header, entries=entries), payload)
    vector = header.entries.get("vector")
    if vector is None:
        return model, estimator
    if vector.dtype != VECTOR_DTYPES["vector"].newbyteorder("<"):
        raise ModelFormatError("the array 'vector' does not have dtype float64.")
    flat, forest = container.array_at(header, "vector", payload), model.forest
    if len(flat) != len(forest.feature) * forest.n_outputs:
        raise ModelFormatError("vector must hold a number for each node and output.")
    vectors = flat.reshape(len(forest.feature), forest.n_outputs)
    return replace(model, forest=replace(forest, vectors=vectors)), estimator


def _read_model(
    header: Header,
    payload: memoryview,
    schema: Schema,
    categories: CategoryTables | None = None,
    inputs: Inputs | None = None,
) -> tuple[Model, Record | None]:
    """Build a model without checking the values of its arrays."""
    metadata = header.metadata
    if not _NATURAL.fullmatch(metadata["n_features"]):
        raise ModelFormatError("n_features is malformed.")
    n_features = int(metadata["n_features"])
    if inputs is not None and n_features != schema.n_features:
        raise ModelFormatError(
            f"n_features is {n_features}, the schema has {schema.n_features} columns."
        )
    arrays: dict[str, Any] = {
        name: container.array_at(header, name, payload) for name in FOREST_DTYPES
    }
    model = Model(
        forest=Forest(
            **arrays,
            n_features=n_features if inputs is None else inputs.n_inputs,
            categories=categories,
        ),
        schema=schema,
        objective=metadata["objective"],
        training=record_of_text(metadata["training"], "training"),
        inputs=inputs,
    )
    text = metadata.get("estimator")
    return model, None if text is None else record_of_text(text, "estimator")


def _read_v4(header: Header, payload: memoryview) -> tuple[Model, Record | None]:
    """Read version 4: version 3 with optional linear leaves and row counts of statistics."""
    more = {name: entry for name, entry in header.entries.items() if name in SLOPE_DTYPES}
    if not more:
        return _read_v3(header, payload)
    if "vector" in header.entries and int(header.metadata["schema_version"]) < _LINES_OF_VECTORS:
        raise ModelFormatError(
            f"leaves hold vectors and slopes, which need schema_version {_LINES_OF_VECTORS}."
        )
    if more.keys() != SLOPE_DTYPES.keys():
        raise ModelFormatError("arrays of slopes are missing.")
    for name, entry in more.items():
        if entry.dtype != SLOPE_DTYPES[name].newbyteorder("<"):
            raise ModelFormatError(f"array {name!r} must have dtype {SLOPE_DTYPES[name]}.")
    others = {name: entry for name, entry in header.entries.items() if name not in more}
    model, estimator = _read_v3(replace(header, entries=others), payload)
    slopes = read_slopes({name: container.array_at(header, name, payload) for name in more})
    return replace(model, forest=replace(model.forest, slopes=slopes)), estimator


def _read_v6(header: Header, payload: memoryview) -> tuple[Model, Record | None]:
    """Read version 6: version 5 with several trees of each output in a round."""
    text = header.metadata.get(_PARALLEL, "")
    if not _NATURAL.fullmatch(text):
        raise ModelFormatError(f"{_PARALLEL} is missing or malformed.")
    model, estimator = _read_v4(header, payload)
    return replace(model, forest=replace(model.forest, n_parallel=int(text))), estimator


def _read_v7(header: Header, payload: memoryview) -> tuple[Model, Record | None]:
    """Read version 7: version 5 or 6 with crosses, the last inputs of the trees."""
    record = record_of_text(header.metadata.get(_CROSSES, ""), _CROSSES)
    read = _read_v6 if _PARALLEL in header.metadata else _read_v4
    model, estimator = read(header, payload)
    inputs = with_crosses(model.inputs, record, model.schema)
    forest, n_inputs = model.forest, inputs.n_inputs
    tables = forest.categories
    if tables is not None:  # crosses have no levels
        levels = tables.level_start
        more = np.full(len(inputs.crosses), levels[-1], levels.dtype)
        tables = replace(tables, level_start=np.concatenate([levels, more]))
    forest = replace(forest, n_features=n_inputs, categories=tables)
    return replace(model, inputs=inputs, forest=forest), estimator


def _read_v8(header: Header, payload: memoryview) -> tuple[Model, Record | None]:
    """Read version 8: an earlier one with dates in the schema, or means of several targets.

    Version 9 may have slopes where leaves hold vectors; version 10 tells dates with a time zone.
    """
    if _CROSSES in header.metadata:
        return _read_v7(header, payload)
    return (_read_v6 if _PARALLEL in header.metadata else _read_v4)(header, payload)


_READERS = {
    1: _read_v1,
    2: _read_v2,
    3: _read_v3,
    4: _read_v4,
    5: _read_v4,
    6: _read_v6,
    7: _read_v7,
    8: _read_v8,
    _LINES_OF_VECTORS: _read_v8,
    10: _read_v8,
}
"""Version 5 has the layout of version 4, but allows more values in the schema and inputs."""


def schema_text(schema: Schema) -> str:
    """Encode the schema: column names, positions of kinds other than float, options."""
    kinds: dict[str, list[int]] = {}
    for position, column in enumerate(schema.columns):
        if column.kind != "float":
            kinds.setdefault(column.kind, []).append(position)
    record: Record = {"kinds": kinds, "named": schema.named, "names": schema.names}
    if schema.has_categories:
        record |= {"categories": level_record(schema), "unknown": schema.unknown}
    if schema.zero_missing:
        record["zero_missing"] = True
    if schema.zero_band > 0.0:
        record["zero_band"] = schema.zero_band
    rounding: dict[str, list[int]] = {}
    for position, column in enumerate(schema.columns):
        if column.rounding != "none":
            rounding.setdefault(column.rounding, []).append(position)
    if rounding:
        record["rounding"] = rounding
    temporal: dict[str, list[int]] = {}
    for position, column in enumerate(schema.columns):
        if column.temporal is not None:
            temporal.setdefault(_SORTS[column.temporal], []).append(position)
    if temporal:
        record["temporal"] = temporal
    return strict_json.encode(record, "schema")


def schema_of_text(text: str, version: int, arrays: Mapping[str, AnyArray] | None = None) -> Schema:
    """Decode a schema; from version 2 on ``arrays`` holds the category levels."""
    record = record_of_text(text, "schema")
    # Written only if true, so the meaning of older files does not change.
    zero_missing = record.pop("zero_missing", None)
    if zero_missing is not None and zero_missing is not True:
        raise ModelFormatError("schema has a malformed zero_missing.")
    band, rounding = record.pop("zero_band", 0.0), record.pop("rounding", {})
    if not isinstance(band, float) or not 0.0 <= band < math.inf or (band and not zero_missing):
        raise ModelFormatError("schema has a malformed zero_band.")
    temporal = record.pop("temporal", {})
    more = set() if arrays is None else {"categories", "unknown"}
    if record.keys() != {"kinds", "named", "names"} | more:
        expected = "".join(f"{name}, " for name in sorted(more))
        raise ModelFormatError(f"schema needs {expected}kinds, named and names, no more.")
    named, names, positions = record["named"], record["names"], record["kinds"]
    if not isinstance(named, bool) or not isinstance(names, list):
        raise ModelFormatError("schema has a malformed named or names.")
    if not all(isinstance(name, str) for name in names) or not isinstance(positions, dict):
        raise ModelFormatError("schema has malformed names or kinds.")
    kinds: list[Any] = ["float"] * len(names)
    for kind, columns_of_kind in positions.items():
        known = kind in _KINDS_OF_VERSION[version] and kind != "float"
        if not known or not isinstance(columns_of_kind, list):
            raise ModelFormatError(f"schema has an unknown kind of column, {kind[:50]!r}.")
        for j in columns_of_kind:
            if type(j) is not int or not 0 <= j < len(names) or kinds[j] != "float":
                raise ModelFormatError("schema gives a kind to a column twice or to none.")
            kinds[j] = kind
    temporals = _by_column(temporal, {v: k for k, v in _SORTS.items()}, len(names), "temporal")
    if arrays is None:
        columns = tuple(
            Column(name, kind, temporal=temporals.get(j))
            for j, (name, kind) in enumerate(zip(names, kinds, strict=True))
        )
        _check_temporal(columns)
        return Schema(columns, named, zero_missing=zero_missing is True, zero_band=band)
    levels = read_levels(record["categories"], arrays)
    if levels.keys() != {j for j, kind in enumerate(kinds) if kind == "category"}:
        raise ModelFormatError("schema gives levels to a column that has no categories, or none.")
    roundings = _by_column(rounding, _ROUNDINGS, len(names), "rounding")
    columns = tuple(
        Column(name, kind, levels.get(j, ()), roundings.get(j, "none"), temporals.get(j))
        for j, (name, kind) in enumerate(zip(names, kinds, strict=True))
    )
    _check_temporal(columns)
    return Schema(columns, named, record["unknown"], zero_missing is True, band)


def _by_column(record: Any, known: Mapping[str, Any], n_columns: int, name: str) -> dict[int, Any]:
    """Return the value of each column that has one, from lists of columns by value."""
    found: dict[int, Any] = {}
    if not isinstance(record, dict) or not record.keys() <= known.keys():
        raise ModelFormatError(f"schema has a malformed {name}.")
    for value, positions in record.items():
        if not isinstance(positions, list):
            raise ModelFormatError(f"schema has a malformed {name}.")
        for j in positions:
            if type(j) is not int or not 0 <= j < n_columns or j in found:
                raise ModelFormatError(f"schema gives {name} to a column twice, or to none.")
            found[j] = known[value]
    return found


def _check_temporal(columns: Sequence[Column]) -> None:
    """Raise if a column of other values than integers held dates, times or durations."""
    for column in columns:
        whole = column.kind == "int" or all(type(level) is int for level in column.levels)
        if column.temporal is not None and (column.kind == "float" or not whole):
            raise ModelFormatError(
                f"schema says that column {column.name[:50]!r} held {column.temporal}, but its "
                "values are no integers."
            )


def record_of_text(text: str, name: str) -> Record:
    """Decode the JSON object stored in the metadata under the key ``name``."""
    record = strict_json.decode(text, name)
    if not isinstance(record, dict):
        raise ModelFormatError(f"{name} is not a JSON object.")
    return record
