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
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.data.schema import check_same_names
from hedgerow.errors import brief
from hedgerow.serving.records import predict_rows
from hedgerow.serving.requests import Limits, RequestError, Work, check_keys, decoded, encoded
from hedgerow.serving.slot import ServedModel

_WIDTHS = (8, 16, 32, 64)
_TYPES: dict[str, tuple[set[type], Any]] = {
    "BOOL": ({bool}, None),
    **{f"INT{bits}": ({int}, np.iinfo(f"int{bits}")) for bits in _WIDTHS},
    **{f"UINT{bits}": ({int}, np.iinfo(f"uint{bits}")) for bits in _WIDTHS},
    **{f"FP{bits}": ({int, float}, np.dtype(f"float{bits}")) for bits in (64, 32, 16)},
    "BYTES": ({str}, None),
}
"""The types of the values of each datatype, and their range or precision."""

_KINDS = {"prediction": "value", "probability": "probability", "raw": "raw"}
_EXPLAINED = ("contributions", "base_value")


class _Tensor(NamedTuple):
    shape: list[int]
    values: list[Any]  # in row-major order


def model_metadata(model: ServedModel) -> dict[str, Any]:
    """Return the answer to ``GET /v2/models/NAME``."""
    schema, offsets = model.schema, model.booster.offset_columns
    inputs: list[dict[str, Any]] = []
    for column in schema.columns:
        kind: str = column.temporal or column.kind
        if kind == "category":  # the type of its levels
            kind = type(column.levels[0]).__name__ if column.levels else "str"
        datatype = {"float": "FP64", "int": "INT64", "durations": "INT64"}.get(kind, "BYTES")
        inputs.append({"name": column.name, "datatype": datatype, "shape": [-1]})
    inputs += [{"name": name, "datatype": "FP64", "shape": [-1]} for name in offsets]
    if not schema.named and schema.only_floats and not offsets:
        inputs = [{"name": "X", "datatype": "FP64", "shape": [-1, schema.n_features]}]
    outputs = []
    for name in _default_outputs(model):
        tensor: dict[str, Any] = {"name": name, "datatype": "FP64", "shape": [-1]}
        if not offsets:
            tensor = _as_tensor(
                name, predict_rows(model, [[None] * len(model.columns)], _KINDS[name])
            )
            tensor["shape"][0] = -1
            del tensor["data"]
        outputs.append(tensor)
    versions = [model.version]
    about = {"name": model.name, "versions": versions, "platform": "hedgerow"}
    return {**about, "inputs": inputs, "outputs": outputs}


def read_tensors(model: ServedModel, body: bytes, limits: Limits) -> Work:
    """Read an inference request; raise errors of the client."""
    given = decoded(body)
    check_keys(given, ("id", "parameters", "inputs", "outputs"), "the request")
    rows = _rows(given.get("inputs"), model, limits)
    names = _requested_outputs(given.get("outputs"), model)
    about: dict[str, Any] = {"model_name": model.name, "model_version": model.version}
    if "id" in given:
        if not isinstance(given["id"], str):
            raise RequestError("id must be text.")
        about["id"] = given["id"]
    is_explained = bool(set(names) & set(_EXPLAINED))

    def answer() -> bytes:
        special: dict[str, Any] = {"classes": model.class_names} if "classes" in names else {}
        if is_explained:
            found = model.booster.explain(rows, n_jobs=1)
            base = np.broadcast_to(found.base_values, (len(found), *found.values.shape[2:]))
            special |= {"contributions": found.values, "base_value": base}
        outputs = [
            _as_tensor(
                name, special[name] if name in special else predict_rows(model, rows, _KINDS[name])
            )
            for name in names
        ]
        return encoded({**about, "outputs": outputs})

    return Work(len(rows), is_explained, answer)


def _rows(inputs: Any, model: ServedModel, limits: Limits) -> list[Any]:
    """Return the rows: lists in the order of the columns; dicts if there are offsets."""
    if not isinstance(inputs, list) or not inputs:
        raise RequestError("inputs must be a list with at least one tensor.")
    columns = model.columns
    width = len(columns)
    tensors: dict[str, _Tensor] = {}
    for place, tensor in enumerate(inputs):
        if not isinstance(tensor, dict):
            raise RequestError(f"input {place} must be an object.")
        name = tensor.get("name")
        if not isinstance(name, str):
            raise RequestError(f"input {place} has no name.")
        if name in tensors:
            raise RequestError(f"input {name!r} occurs twice in the request.")
        tensors[name] = _read_tensor(tensor, f"input {name!r}", limits, width)
    first = next(iter(tensors.values()))
    if len(tensors) == 1 and len(first.shape) == 2 and first.shape[1] == width:
        rows = [first.values[k : k + width] for k in range(0, len(first.values), width)]
    else:
        check_same_names(tuple(tensors), columns)
        n_rows = first.shape[0]
        for name, (shape, _) in tensors.items():
            if shape not in ([n_rows], [n_rows, 1]):
                raise RequestError(
                    f"input {name!r} has shape {shape}, others say [{n_rows}]: a column has the "
                    "shape [n] or [n, 1]."
                )
        by_column = (tensors[name].values for name in columns)
        rows = [list(row) for row in zip(*by_column, strict=True)]
    if model.booster.offset_columns:
        return [dict(zip(columns, row, strict=True)) for row in rows]
    return rows


def _read_tensor(tensor: dict[str, Any], what: str, limits: Limits, n_columns: int) -> _Tensor:
    """Check one input; its data may be flat or nested."""
    check_keys(tensor, ("name", "shape", "datatype", "parameters", "data"), what)
    shape, datatype, data = (tensor.get(key) for key in ("shape", "datatype", "data"))
    whole = isinstance(shape, list) and all(type(n) is int and n > 0 for n in shape)
    if not isinstance(shape, list) or not whole or not 1 <= len(shape) <= 2:
        raise RequestError(
            f"{what} must have a shape of one or two lengths above 0; got {brief(shape)}."
        )
    if not isinstance(datatype, str) or datatype not in _TYPES:
        raise RequestError(f"{what} has datatype {datatype!r}; supported are {', '.join(_TYPES)}.")
    if shape[0] > limits.rows:
        raise RequestError(f"{shape[0]} rows; the limit per request is {limits.rows}.", 413)
    if len(shape) == 2 and shape[1] not in (1, n_columns):
        raise RequestError(f"{what} has shape {shape}; a tensor has one column, or {n_columns}.")
    if not isinstance(data, list):
        raise RequestError(f"{what} has no list of data.")
    if len(shape) == 2 and data and isinstance(data[0], list):
        fits = all(isinstance(row, list) and len(row) == shape[1] for row in data)
        if len(data) != shape[0] or not fits:
            raise RequestError(f"the data of {what} do not have the shape {shape}.")
        data = [value for row in data for value in row]
    if len(data) != math.prod(shape):
        raise RequestError(
            f"{what} has {len(data)} values, but its shape {shape} has {math.prod(shape)}."
        )
    return _Tensor(shape, _checked(data, datatype, what))


def _checked(values: list[Any], datatype: str, what: str) -> list[Any]:
    """Return values, or None, of a datatype, rounded to its precision."""
    allowed, limits = _TYPES[datatype]
    for kind in set(map(type, values)) - {type(None)} - allowed:
        raise RequestError(f"{what} is {datatype}, but contains a {kind.__name__}.")
    if isinstance(limits, np.iinfo):
        for value in values:
            if value is not None and not limits.min <= value <= limits.max:
                raise RequestError(f"{what} contains {value}, which is not a {datatype}.")
    if datatype not in ("FP32", "FP16"):
        return values
    try:
        with np.errstate(over="ignore"):
            return [None if value is None else float(limits.type(value)) for value in values]
    except OverflowError:
        raise RequestError(f"{what} contains an integer that no {datatype} can hold.") from None


def _default_outputs(model: ServedModel) -> list[str]:
    return ["prediction", "probability"] if model.has_probabilities else ["prediction"]


def _requested_outputs(outputs: Any, model: ServedModel) -> list[str]:
    if outputs is None or outputs == []:
        return _default_outputs(model)
    if not isinstance(outputs, list) or not all(isinstance(one, dict) for one in outputs):
        raise RequestError("outputs must be a list of objects with a name.")
    names: list[Any] = [one.get("name") for one in outputs]
    known = [*_KINDS, *_EXPLAINED, "classes"]
    if not model.has_probabilities:
        known = [name for name in known if name not in ("probability", "classes")]
    for name in names:
        if name not in known:
            raise RequestError(f"there is no output {name!r}; outputs are {', '.join(known)}.")
    return list(dict.fromkeys(names))


def _as_tensor(name: str, values: list[Any] | AnyArray) -> dict[str, Any]:
    found = np.asarray(values)
    datatype = {"f": "FP64", "i": "INT64", "b": "BOOL"}.get(found.dtype.kind, "BYTES")
    if datatype == "BYTES":
        found = found.astype(str)
    data = found.reshape(-1).tolist()
    return {"name": name, "shape": list(found.shape), "datatype": datatype, "data": data}
