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

import math
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, get_args

from hedgerow.argument_types import path_text
from hedgerow.arrays import AnyArray
from hedgerow.atomic import write_atomically
from hedgerow.boosting.row_data.classes import RECORD as CLASS_WEIGHT
from hedgerow.boosting.row_data.offsets import RECORD as OFFSET_COLUMNS
from hedgerow.data.inputs import FIRST_TARGET, ROWS, Inputs
from hedgerow.data.schema import Column, Rounding, Schema, Temporal
from hedgerow.errors import ModelFormatError
from hedgerow.io import container, statistics, strict_json
from hedgerow.io import levels as lv
from hedgerow.io.container import Header
from hedgerow.io.validate import (
    FOREST_DTYPES,
    SLOPE_DTYPES,
    VECTOR_DTYPES,
    check_model,
    read_slopes,
    read_vectors,
    slope_arrays,
)
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model, has_foreign_rules

FORMAT = "hedgerow"

Record: TypeAlias = dict[str, Any]

_WIDEST_FIRST = sorted(FOREST_DTYPES, key=lambda name: -FOREST_DTYPES[name].itemsize)
NEWEST = 10
_SORTS: dict[str, str] = {each: each for each in get_args(Temporal)} | {
    "dates": "dates without zone"
}
"""Names of dates and times in files."""
_ROUNDINGS = {each: each for each in get_args(Rounding) if each != "none"}
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
        model, estimator = _read(*container.unpack(container.read_file(path)))
        check_model(model)  # after the content of the file is freed
    except ModelFormatError as error:
        raise ModelFormatError(f"{path}: {error}") from None
    return model, estimator


def model_from_bytes(data: bytes | bytearray | memoryview) -> tuple[Model, Record | None]:
    """Read a model from the bytes of a file, like :func:`load_model`."""
    model, estimator = _read(*container.unpack(data))
    check_model(model)
    return model, estimator


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
        arrays |= lv.level_arrays(model.schema) | lv.set_arrays(model.forest.categories)
    inputs = model.inputs
    if inputs is not None and inputs.crosses:
        metadata[_CROSSES] = strict_json.encode(statistics.cross_record(inputs), _CROSSES)
    if inputs is not None and not inputs.are_columns(model.schema.n_features):
        metadata["inputs"] = strict_json.encode(statistics.input_record(inputs), "inputs")
        arrays |= statistics.input_arrays(inputs)
    if model.forest.vectors is not None:
        arrays["vector"] = model.forest.vectors.reshape(-1)
    arrays |= slope_arrays(model.forest.slopes)
    # The sort is stable: arrays of one width keep their order.
    in_order = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)
    return container.pack(metadata, {name: arrays[name] for name in in_order})


def _version_of(model: Model) -> int:
    """Return the version of the format that has what the model holds."""
    forest, inputs, training = model.forest, model.inputs, model.training
    classes = () if inputs is None else [k for s in inputs.statistics for k in s.classes]
    dates = ("dates", "zoned dates")
    holds = {
        10: any(column.temporal in dates for column in model.schema.columns),
        8: model.schema.has_temporal or min(classes, default=0) <= FIRST_TARGET,
        7: inputs is not None and len(inputs.crosses) > 0,
        6: forest.n_parallel > 1,
        5: has_foreign_rules(model),
        4: forest.slopes is not None or ROWS in classes,
        3: forest.vectors is not None or OFFSET_COLUMNS in training or CLASS_WEIGHT in training,
        2: model.schema.has_categories,
    }
    return next((version for version, is_held in holds.items() if is_held), 1)


def _read(header: Header, payload: memoryview) -> tuple[Model, Record | None]:
    """Build a model without checking the values of its arrays."""
    metadata = header.metadata
    if metadata.get("format") != FORMAT:
        raise ModelFormatError("this is not a Hedgerow model file: it names another format.")
    version = _natural(metadata, "schema_version")
    if version > NEWEST:
        raise ModelFormatError(
            f"the file has schema_version {version}, this Hedgerow reads up to {NEWEST}: it was "
            "written by a newer one. Upgrade with 'pip install -U hedgerow'."
        )
    # The arrays of a forest, and of the parts that the file holds.
    dtypes, names = dict(FOREST_DTYPES), header.entries.keys()
    if not names.isdisjoint(lv.LEVEL_DTYPES):
        dtypes |= lv.LEVEL_DTYPES | lv.SET_DTYPES
        dtypes |= statistics.STATISTIC_DTYPES if "inputs" in metadata else {}
    for more in (VECTOR_DTYPES, SLOPE_DTYPES):
        dtypes |= {} if names.isdisjoint(more) else more
    container.check_header(header, dtypes, _NEEDED)
    arrays = {name: container.array_at(header, name, payload) for name in dtypes}
    has_levels = "level_int" in arrays
    schema = schema_of_text(metadata["schema"], arrays if has_levels else None)
    inputs = _inputs_of(metadata, arrays, schema)
    n_features = _natural(metadata, "n_features")
    if inputs is not None and n_features != schema.n_features:
        raise ModelFormatError(
            f"n_features is {n_features}, the schema has {schema.n_features} columns."
        )
    split_schema = schema if inputs is None else inputs.schema(schema)
    forest = Forest(
        **{name: arrays[name] for name in FOREST_DTYPES},
        n_features=n_features if inputs is None else inputs.n_inputs,
        categories=lv.read_sets(arrays, split_schema) if has_levels else None,
        vectors=read_vectors(arrays),
        slopes=read_slopes(arrays),
        n_parallel=_natural(metadata, _PARALLEL) if _PARALLEL in metadata else 1,
    )
    training = record_of_text(metadata["training"], "training")
    model = Model(forest, schema, metadata["objective"], training, inputs)
    if version != _version_of(model):
        raise ModelFormatError(
            f"the file has schema_version {version}, but what it holds is of {_version_of(model)}: "
            "it was written before the first release of Hedgerow. Train the model again."
        )
    text = metadata.get("estimator")
    return model, None if text is None else record_of_text(text, "estimator")


def _natural(metadata: Mapping[str, str], name: str) -> int:
    text = metadata.get(name, "")
    if not _NATURAL.fullmatch(text):
        raise ModelFormatError(f"{name} is missing or malformed.")
    return int(text)


def _inputs_of(
    metadata: Mapping[str, str], arrays: Mapping[str, AnyArray], schema: Schema
) -> Inputs | None:
    """Return the inputs of the trees; None if they are the columns."""
    inputs = None
    if "statistic_key" in arrays:
        inputs = statistics.read_inputs(record_of_text(metadata["inputs"], "inputs"), arrays)
    if _CROSSES in metadata:
        record = record_of_text(metadata[_CROSSES], _CROSSES)
        inputs = statistics.with_crosses(inputs, record, schema)
    if inputs is not None:
        statistics.check_inputs(inputs, schema, inputs.n_inputs)
    return inputs


def schema_text(schema: Schema) -> str:
    """Encode the schema: column names, positions of kinds other than float, options."""
    columns = schema.columns
    kinds = _positions(None if column.kind == "float" else column.kind for column in columns)
    record: Record = {"kinds": kinds, "named": schema.named, "names": schema.names}
    if schema.has_categories:
        record |= {"categories": lv.level_record(schema), "unknown": schema.unknown}
    if schema.zero_missing:
        record["zero_missing"] = True
    if schema.zero_band > 0.0:
        record["zero_band"] = schema.zero_band
    rounding = _positions(_ROUNDINGS.get(column.rounding) for column in columns)
    temporal = _positions(_SORTS.get(column.temporal or "") for column in columns)
    record |= {"rounding": rounding} if rounding else {}
    record |= {"temporal": temporal} if temporal else {}
    return strict_json.encode(record, "schema")


def _positions(values: Iterable[str | None]) -> dict[str, list[int]]:
    """Return the positions of each value but None."""
    found: dict[str, list[int]] = {}
    for position, value in enumerate(values):
        if value is not None:
            found.setdefault(value, []).append(position)
    return found


def schema_of_text(text: str, arrays: Mapping[str, AnyArray] | None = None) -> Schema:
    """Decode a schema; ``arrays`` holds the levels of categories, if there may be some."""
    record = record_of_text(text, "schema")
    # Written only if true.
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
    named, names = record["named"], record["names"]
    if not isinstance(named, bool) or not isinstance(names, list):
        raise ModelFormatError("schema has a malformed named or names.")
    if not all(isinstance(name, str) for name in names):
        raise ModelFormatError("schema has malformed names.")
    known = {kind: kind for kind in (("int",) if arrays is None else ("int", "category"))}
    kinds = _by_column(record["kinds"], known, len(names), "kinds")
    temporals = _by_column(temporal, {v: k for k, v in _SORTS.items()}, len(names), "temporal")
    roundings = _by_column(rounding, _ROUNDINGS, len(names), "rounding")
    levels = {} if arrays is None else lv.read_levels(record["categories"], arrays)
    if levels.keys() != {j for j, kind in kinds.items() if kind == "category"}:
        raise ModelFormatError("schema gives levels to a column that has no categories, or none.")
    columns = tuple(
        Column(
            name, kinds.get(j, "float"), levels.get(j, ()), roundings.get(j, "none"),
            temporals.get(j),
        )
        for j, name in enumerate(names)
    )  # fmt: skip
    for column in columns:
        whole = column.kind == "int" or all(type(level) is int for level in column.levels)
        if column.temporal is not None and (column.kind == "float" or not whole):
            raise ModelFormatError(
                f"schema says that column {column.name[:50]!r} held {column.temporal}, but its "
                "values are no integers."
            )
    return Schema(columns, named, record.get("unknown", "missing"), zero_missing is True, band)


def _by_column(record: Any, known: Mapping[str, Any], n_columns: int, name: str) -> dict[int, Any]:
    """Return the value of each column that has one, from lists of columns by value."""
    found: dict[int, Any] = {}
    if not isinstance(record, dict) or not record.keys() <= known.keys():
        raise ModelFormatError(f"schema has malformed {name}.")
    for value, positions in record.items():
        if not isinstance(positions, list):
            raise ModelFormatError(f"schema has malformed {name}.")
        for j in positions:
            if type(j) is not int or not 0 <= j < n_columns or j in found:
                raise ModelFormatError(f"schema gives {name} to a column twice, or to none.")
            found[j] = known[value]
    return found


def record_of_text(text: str, name: str) -> Record:
    """Decode the JSON object stored in the metadata under the key ``name``."""
    record = strict_json.decode(text, name)
    if not isinstance(record, dict):
        raise ModelFormatError(f"{name} is not a JSON object.")
    return record
