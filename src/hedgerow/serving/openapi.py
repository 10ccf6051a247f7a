"""The description of a server's routes as OpenAPI 3.1."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from hedgerow.serving.records import KINDS
from hedgerow.serving.requests import Limits
from hedgerow.serving.slot import ServedModel, type_of

_FEW = 3
_REFUSALS = {
    "400": "the body or a record is wrong; the message names the column",
    "401": "the token is missing or wrong",
    "408": "the body did not arrive in time",
    "413": "too many bytes or rows",
    "503": "too many requests wait",
    "504": "no answer in time",
}


def openapi(model: ServedModel, limits: Limits, with_token: bool) -> dict[str, Any]:
    """Return the answer to ``GET /openapi.json``."""
    v2 = f"/v2/models/{quote(model.name, safe='')}"
    tensors = {"type": "object", "description": "as in the Open Inference Protocol, version 2"}
    columns = _columns(model)
    record = _object(columns, list(model.columns), closed=True)
    record["description"] = "A value for each column; null is a missing value."
    text = {"type": "string"}
    answer: dict[str, Any] = {
        "model": text,
        "version": text,
        "predictions": {"type": "array", "description": "one for each record"},
        "explanations": {"type": "array", "description": "with explain, by record"},
    }
    if model.has_probabilities:
        answer["classes"] = {"type": "array", "examples": [model.class_names[:_FEW]]}
    answered = _object(answer, ["model", "version", "predictions"])
    listed = {"type": "array", "description": "values in the order of the columns"}
    either = {"anyOf": [{"$ref": "#/components/schemas/Record"}, listed]}
    properties = {
        "records": {"type": "array", "items": either, "minItems": 1, "maxItems": int(limits.rows)},
        "kind": {"enum": list(KINDS), "default": "value"},
        "explain": {"type": "boolean", "default": False},
    }
    request = _object(properties, ["records"], closed=True)
    example = {name: each["examples"][0] for name, each in columns.items()}
    request["examples"] = [
        {"records": [example], "kind": "probability" if model.has_probabilities else "value"}
    ]
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"hedgerow: {model.name}", "version": model.version},
        "paths": {
            "/predict": {"post": _posted("Predict records", request, answered)},
            f"{v2}/infer": {"post": _posted("Predict tensors", tensors, tensors)},
            v2: {"get": _got("Input and output tensors of the model")},
            f"{v2}/ready": {"get": _got("Whether the model answers")},
            "/v2": {"get": _got("Name and version of the server")},
            "/v2/health/live": {"get": _got("Whether the server answers") | {"security": []}},
            "/v2/health/ready": {"get": _got("Whether a model is in service") | {"security": []}},
            "/metrics": {"get": _got("Counts for Prometheus")},
        },
        "components": {"schemas": {"Record": record}},
    }
    if with_token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _columns(model: ServedModel) -> dict[str, dict[str, Any]]:
    """Return the schema of each column, with examples."""
    found: dict[str, dict[str, Any]] = {}
    for column in model.schema.columns:
        kind = type_of(column)
        is_plain = column.kind != "category" or column.temporal is not None
        examples: list[Any] = [kind.example] if is_plain else [*column.levels[:_FEW]] or [None]
        types = [*dict.fromkeys((kind.json, "null"))]
        found[column.name] = {"type": types, "examples": examples}
        if column.temporal == "durations":
            found[column.name]["description"] = "microseconds in lists"
    for name in model.booster.offset_columns:
        found[name] = {"type": "number", "description": "offset", "examples": [0.0]}
    return found


def _object(
    properties: dict[str, Any], required: list[str], *, closed: bool = False
) -> dict[str, Any]:
    """Return the schema of an object; a closed one has no other properties."""
    more: dict[str, Any] = {"additionalProperties": False} if closed else {}
    return {"type": "object", "properties": properties, "required": required, **more}


def _got(summary: str) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": {"description": "the answer"}}}


def _posted(summary: str, body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    error = _object({"error": {"type": "string"}}, ["error"])
    refusals = {
        status: {"description": why, "content": _json(error)} for status, why in _REFUSALS.items()
    }
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": _json(body)},
        "responses": {"200": {"description": "the answer", "content": _json(answer)}, **refusals},
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
