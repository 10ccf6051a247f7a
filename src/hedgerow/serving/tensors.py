"""The Open Inference Protocol, version 2 (KServe, Triton, MLServer): tensors in, tensors out.

A model takes one tensor for each column, with shape ``[n]`` or ``[n, 1]`` and the column's
name, or, if all columns are numbers, one tensor of shape ``[n, n_columns]`` of any name.  A
null in a tensor is a missing value.  Dates and times of a day are text of ISO 8601 or integers
of microseconds, and durations are such integers.  The answer has ``prediction``, also
``probability`` for classifiers, and on request ``classes`` (the order of the probabilities),
``raw``, ``contributions`` and ``base_value``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hedgerow import __version__
from hedgerow.arrays import AnyArray
from hedgerow.data.schema import DATES, Column, check_same_names
from hedgerow.errors import brief
from hedgerow.serving.bodies import Work, check_keys, decoded, encoded
from hedgerow.serving.errors import RequestError
from hedgerow.serving.records import predict_rows
from hedgerow.serving.settings import Limits
from hedgerow.serving.slot import ServedModel

_FLOATS = {"FP64": np.float64, "FP32": np.float32, "FP16": np.float16}
_INTEGERS = {
    f"{sign}{bits}": np.dtype(f"{sign.lower()}{bits}")
    for sign in ("INT", "UINT")
    for bits in (8, 16, 32, 64)
}
_DATATYPES = ("BOOL", *_INTEGERS, *_FLOATS, "BYTES")
_OF_TEMPORAL = {**dict.fromkeys(DATES, "BYTES"), "times": "BYTES", "durations": "INT64"}
"""Dates and times are text of ISO 8601, durations are microseconds."""
_OF_KIND = {"float": "FP64", "int": "INT64", "category": "BYTES"}


def server_metadata() -> dict[str, Any]:
    """Return the answer to ``GET /v2``."""
    return {"name": "hedgerow", "version": __version__, "extensions": []}


def model_metadata(model: ServedModel) -> dict[str, Any]:
    """Return the answer to ``GET /v2/models/NAME``."""
    schema = model.schema
    if not schema.named and schema.only_floats and not model.booster.offset_columns:
        shape = [-1, schema.n_features]
        inputs = [{"name": "X", "datatype": "FP64", "shape": shape}]
    else:
        inputs = [
            {"name": column.name, "datatype": _datatype(column), "shape": [-1]}
            for column in schema.columns
        ]
        for name in model.booster.offset_columns:
            inputs.append({"name": name, "datatype": "FP64", "shape": [-1]})
    outputs = []
    empty = [None] * len(model.columns)
    for name in _default_outputs(model):
        if model.booster.offset_columns:
            outputs.append({"name": name, "datatype": "FP64", "shape": [-1]})
            continue
        tensor = _as_tensor(name, predict_rows(model, [empty], _KINDS[name]))
        outputs.append({**tensor, "shape": [-1, *tensor["shape"][1:]]})
        del outputs[-1]["data"]
    return {
        "name": model.name,
        "versions": [model.version],
        "platform": "hedgerow",
        "inputs": inputs,
        "outputs": outputs,
    }


def _datatype(column: Column) -> str:
    if column.temporal is not None:
        return _OF_TEMPORAL[column.temporal]
    if column.kind == "category" and column.levels and not isinstance(column.levels[0], str):
        return "INT64" if isinstance(column.levels[0], int) else "FP64"
    return _OF_KIND[column.kind]


def read_tensors(model: ServedModel, body: bytes, limits: Limits) -> Work:
    """Read an inference request.

    Raise ``RequestError``, ``DataError``, ``DataTypeError`` or ``ParameterError`` for
    errors of the client.
    """
    given = decoded(body)
    check_keys(given, ("id", "parameters", "inputs", "outputs"), "the request")
    rows = _rows(given.get("inputs"), model, limits)
    names = _requested_outputs(given.get("outputs"), model)
    about: dict[str, Any] = {"model_name": model.name, "model_version": model.version}
    if "id" in given:
        if not isinstance(given["id"], str):
            raise RequestError(400, "id must be text.")
        about["id"] = given["id"]
    is_explained = bool(set(names) & set(_EXPLAINED))

    def answer() -> bytes:
        special = _explained(model, rows) if is_explained else {}
        if "classes" in names:
            special["classes"] = _as_tensor("classes", model.class_names)
        outputs = [
            special[name] if name in special
            else _as_tensor(name, predict_rows(model, rows, _KINDS[name]))
            for name in names
        ]  # fmt: skip
        return encoded({**about, "outputs": outputs})

    return Work(len(rows), is_explained, answer)


# -- inputs ---------------------------------------------------------------------------


def _rows(inputs: Any, model: ServedModel, limits: Limits) -> list[Any]:
    """Return the rows: lists in the order of the columns; dicts if there are offsets."""
    if not isinstance(inputs, list) or not inputs:
        raise RequestError(400, "inputs must be a list with at least one tensor.")
    columns = model.columns
    tensors: dict[str, tuple[list[int], list[Any]]] = {}
    for place, tensor in enumerate(inputs):
        name, shape, values = _tensor(tensor, place, limits, len(columns))
        if name in tensors:
            raise RequestError(400, f"input {name!r} occurs twice in the request.")
        tensors[name] = shape, values
    (shape, values), *others = tensors.values()
    if not others and len(shape) == 2 and shape[1] == len(columns):
        width = len(columns)
        rows = [values[k : k + width] for k in range(0, len(values), width)]
    else:
        rows = [list(row) for row in zip(*_columns(tensors, columns), strict=True)]
    if model.booster.offset_columns:
        return [dict(zip(columns, row, strict=True)) for row in rows]
    return rows


def _columns(
    tensors: dict[str, tuple[list[int], list[Any]]], names: tuple[str, ...]
) -> list[list[Any]]:
    """Return one list of values for each column."""
    check_same_names(tuple(tensors), names)
    n_rows = next(iter(tensors.values()))[0][0]
    for name, (shape, _) in tensors.items():
        if shape not in ([n_rows], [n_rows, 1]):
            raise RequestError(
                400, f"input {name!r} has shape {shape}, others say [{n_rows}]: a column has the "
                "shape [n] or [n, 1]."
            )  # fmt: skip
    return [tensors[name][1] for name in names]


def _tensor(
    tensor: Any, place: int, limits: Limits, n_columns: int
) -> tuple[str, list[int], list[Any]]:
    """Return name, shape and flat values of one input."""
    if not isinstance(tensor, dict):
        raise RequestError(400, f"input {place} must be an object.")
    name = tensor.get("name")
    if not isinstance(name, str):
        raise RequestError(400, f"input {place} has no name.")
    check_keys(tensor, ("name", "shape", "datatype", "parameters", "data"), f"input {name!r}")
    shape: Any = tensor.get("shape")
    datatype: Any = tensor.get("datatype")
    whole = isinstance(shape, list) and all(type(n) is int and n > 0 for n in shape)
    if not whole or not 1 <= len(shape) <= 2:
        raise RequestError(
            400,
            f"input {name!r} must have a shape of one or two lengths above 0; got {brief(shape)}.",
        )
    if datatype not in _DATATYPES:
        raise RequestError(
            400, f"input {name!r} has datatype {datatype!r}; supported are {', '.join(_DATATYPES)}."
        )
    if shape[0] > limits.rows:
        raise RequestError(413, f"{shape[0]} rows; the limit per request is {limits.rows}.")
    if len(shape) == 2 and shape[1] not in (1, n_columns):
        raise RequestError(
            400, f"input {name!r} has shape {shape}; a tensor has one column, or {n_columns}."
        )
    values = _flat(tensor.get("data"), shape, name)
    return name, shape, _checked(values, datatype, name)


def _flat(data: Any, shape: list[int], name: str) -> list[Any]:
    """Return the values in row-major order; the data may be flat or nested."""
    if not isinstance(data, list):
        raise RequestError(400, f"input {name!r} has no list of data.")
    if len(shape) == 2 and data and isinstance(data[0], list):
        if len(data) != shape[0] or not all(
            isinstance(row, list) and len(row) == shape[1] for row in data
        ):
            raise RequestError(400, f"the data of input {name!r} do not have the shape {shape}.")
        data = [value for row in data for value in row]
    if len(data) != math.prod(shape):
        raise RequestError(
            400, f"input {name!r} has {len(data)} values, but its shape {shape} has "
            f"{math.prod(shape)}."
        )  # fmt: skip
    return data


def _checked(values: list[Any], datatype: str, name: str) -> list[Any]:
    """Convert values to the datatype, or None."""
    types = set(map(type, values)) - {type(None)}
    if datatype in _FLOATS:
        _check_types(types, {int, float}, datatype, name)
        return _rounded(values, datatype, name) if datatype != "FP64" else values
    if datatype in _INTEGERS:
        _check_types(types, {int}, datatype, name)
        bounds = np.iinfo(_INTEGERS[datatype])
        for value in values:
            if value is not None and not bounds.min <= value <= bounds.max:
                raise RequestError(
                    400, f"input {name!r} contains {value}, which is not a {datatype}."
                )
        return values
    _check_types(types, {bool} if datatype == "BOOL" else {str}, datatype, name)
    return values


def _check_types(given: set[type], allowed: set[type], datatype: str, name: str) -> None:
    for kind in given - allowed:
        raise RequestError(400, f"input {name!r} is {datatype}, but contains a {kind.__name__}.")


def _rounded(values: list[Any], datatype: str, name: str) -> list[Any]:
    dtype: Callable[..., Any] = _FLOATS[datatype]
    try:
        with np.errstate(over="ignore"):
            return [None if value is None else float(dtype(value)) for value in values]
    except OverflowError:
        raise RequestError(
            400, f"input {name!r} contains an integer that no {datatype} can hold."
        ) from None


# -- outputs --------------------------------------------------------------------------

_KINDS = {"prediction": "value", "probability": "probability", "raw": "raw"}
_EXPLAINED = ("contributions", "base_value")


def _default_outputs(model: ServedModel) -> list[str]:
    return ["prediction", "probability"] if model.has_probabilities else ["prediction"]


def _requested_outputs(outputs: Any, model: ServedModel) -> list[str]:
    if outputs is None or outputs == []:
        return _default_outputs(model)
    if not isinstance(outputs, list) or not all(isinstance(one, dict) for one in outputs):
        raise RequestError(400, "outputs must be a list of objects with a name.")
    names: list[Any] = [one.get("name") for one in outputs]
    known = [*_KINDS, *_EXPLAINED, "classes"]
    if not model.has_probabilities:
        known = [name for name in known if name not in ("probability", "classes")]
    for name in names:
        if name not in known:
            raise RequestError(400, f"there is no output {name!r}; outputs are {', '.join(known)}.")
    return list(dict.fromkeys(names))


def _as_tensor(name: str, values: list[Any] | AnyArray) -> dict[str, Any]:
    found = np.asarray(values)
    datatype = {"f": "FP64", "i": "INT64", "b": "BOOL"}.get(found.dtype.kind, "BYTES")
    if datatype == "BYTES":
        found = found.astype(str)
    data = found.reshape(-1).tolist()
    return {"name": name, "shape": list(found.shape), "datatype": datatype, "data": data}


def _explained(model: ServedModel, rows: list[Any]) -> dict[str, dict[str, Any]]:
    found = model.booster.explain(rows, n_jobs=1)
    shape = (len(found), *found.values.shape[2:])
    return {
        "contributions": _as_tensor("contributions", found.values),
        "base_value": _as_tensor("base_value", np.broadcast_to(found.base_values, shape)),
    }
