"""The simple route: records in, predictions out.

::

    {"records": [{"age": 39, "city": "Oslo"}, ...], "kind": "probability", "explain": true}
    {"model": "income", "version": "0f3a...", "predictions": [[0.8, 0.2], ...],
     "explanations": [{"base_value": -1.2, "contributions": {"age": 0.3, "city": -0.1}}, ...]}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.argument_types import is_one_of
from hedgerow.data.schema import check_same_names
from hedgerow.errors import DataError, DataTypeError, brief
from hedgerow.serving import requests as r
from hedgerow.serving.slot import ServedModel

KINDS = ("value", "raw", "probability")


def read_records(model: ServedModel, body: bytes, limits: r.Limits) -> r.Work:
    """Read a body; raise errors of the client."""
    given = r.decoded(body)
    r.check_keys(given, ("records", "kind", "explain"), "the body")
    rows = _rows(given.get("records"), model, limits)
    kind = given.get("kind", "value")
    if not is_one_of(kind, KINDS):
        raise r.RequestError(f"kind must be one of {', '.join(KINDS)}; got {brief(kind)}.")
    explain = given.get("explain", False)
    if not isinstance(explain, bool):
        raise r.RequestError(f"explain must be true or false; got {brief(explain)}.")

    def answer() -> bytes:
        found: dict[str, Any] = {"model": model.name, "version": model.version}
        if kind == "probability":
            found["classes"] = model.class_names
        found["predictions"] = predict_rows(model, rows, kind)
        if explain:
            found["explanations"] = explain_rows(model, rows)
        return r.encoded(found)

    return r.Work(len(rows), explain, answer)


def _rows(records: Any, model: ServedModel, limits: r.Limits) -> list[Any]:
    if not isinstance(records, list) or not records:
        raise r.RequestError("records must be a list with at least one record.")
    if len(records) > limits.rows:
        raise r.RequestError(
            f"{len(records)} records; the limit per request is {limits.rows}.", 413
        )
    kind = type(records[0])
    if kind not in (dict, list):
        raise r.RequestError(f"a record must be an object or a list; got a {kind.__name__}.")
    for number, record in enumerate(records):
        if type(record) is not kind:
            other = type(record).__name__
            raise r.RequestError(f"record {number} is a {other}, but record 0 a {kind.__name__}.")
    if kind is list and model.booster.offset_columns:
        raise r.RequestError("records of a model with offset columns must be objects.")
    if kind is dict and not model.schema.named:
        for number, record in enumerate(records):
            try:
                check_same_names(tuple(record), model.columns)
            except DataError as error:
                raise r.RequestError(f"record {number}: {error}") from None
        return [[record[name] for name in model.columns] for record in records]
    return records


def predict_rows(model: ServedModel, rows: Sequence[Any], kind: str) -> list[Any]:
    """Return predictions as Python values."""
    if len(rows) > r.FEW_ROWS:
        found: list[Any] = model.booster.predict(rows, kind=kind, n_jobs=1).tolist()  # type: ignore[arg-type]
        return found
    ask = model.booster.predict_one
    predictions = []
    for number, row in enumerate(rows):
        try:
            found_one = ask(row, kind)  # type: ignore[arg-type]
        except (DataError, DataTypeError) as error:
            if len(rows) == 1:
                raise
            raise r.RequestError(f"record {number}: {error}") from None
        generic = isinstance(found_one, np.generic | np.ndarray)
        predictions.append(found_one.tolist() if generic else found_one)
    return predictions


def explain_rows(model: ServedModel, rows: Sequence[Any]) -> list[Any]:
    """Return the contribution of each column to the raw score of each row."""
    found = model.booster.explain(rows, n_jobs=1)
    names, outputs = found.feature_names, found.output_names
    several = found.values.ndim == 3
    base = np.broadcast_to(found.base_values, (len(found), *found.values.shape[2:])).tolist()

    def described(base_value: float, values: list[float]) -> dict[str, Any]:
        return {"base_value": base_value, "contributions": dict(zip(names, values, strict=True))}

    if not several:
        return list(map(described, base, found.values.tolist()))
    return [
        dict(zip(outputs, map(described, bases, own), strict=True))
        for bases, own in zip(base, found.values.swapaxes(1, 2).tolist(), strict=True)
    ]
