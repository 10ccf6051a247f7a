"""Inputs of trees in model files: convert them to records and arrays, read and check them.

::

    statistic_key     joint keys, statistic after statistic
    statistic_value   values of the keys, class after class, statistic after statistic
    statistic_prior   value of all other keys, one for each class of each statistic

The record lists the columns used directly, and for each statistic its columns, its classes
and the number of its keys.  Crosses have a record of their own, with two columns and an operation
for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.data.inputs import FIRST_TARGET, OPERATIONS, ROWS, TARGET, Cross, Inputs, Statistic
from hedgerow.data.schema import Schema
from hedgerow.errors import ModelFormatError

STATISTIC_DTYPES: dict[str, np.dtype[np.generic]] = {
    "statistic_key": np.dtype(np.int64),
    "statistic_value": np.dtype(np.float64),
    "statistic_prior": np.dtype(np.float64),
}
"""Element type of every array of statistics."""

_MOST_CLASSES = 2**20


def input_record(inputs: Inputs) -> dict[str, Any]:
    """Return the metadata record of valid inputs."""
    listed = [[list(s.columns), list(s.classes), len(s.keys)] for s in inputs.statistics]
    return {"kept": list(inputs.kept), "statistics": listed}


def cross_record(inputs: Inputs) -> dict[str, Any]:
    """Return the metadata record of valid crosses."""
    return {"crosses": [[c.first, c.second, c.operation] for c in inputs.crosses]}


def with_crosses(inputs: Inputs | None, record: Mapping[str, Any], schema: Schema) -> Inputs:
    """Return the inputs with the crosses of a record; None: the inputs are the columns."""
    listed = record.get("crosses")
    if record.keys() != {"crosses"} or not isinstance(listed, list):
        raise ModelFormatError("crosses need a list of crosses, no more.")
    crosses = []
    for item in listed:
        if not isinstance(item, list) or len(item) != 3 or not _are_ints(item[:2]):
            raise ModelFormatError("crosses have a malformed entry.")
        if item[2] not in OPERATIONS:
            raise ModelFormatError("a cross has an unknown operation.")
        crosses.append(Cross(*item))
    if inputs is None:
        inputs = Inputs(tuple(range(schema.n_features)), ())
    return replace(inputs, crosses=tuple(crosses))


def input_arrays(inputs: Inputs) -> dict[str, AnyArray]:
    """Return the arrays of valid inputs, in the order of ``STATISTIC_DTYPES``."""
    keys: list[AnyArray] = [np.zeros(0, np.int64), *(s.keys for s in inputs.statistics)]
    values: list[AnyArray] = [np.zeros(0), *(s.values.reshape(-1) for s in inputs.statistics)]
    priors: list[AnyArray] = [np.zeros(0), *(s.prior for s in inputs.statistics)]
    return {
        "statistic_key": np.concatenate(keys),
        "statistic_value": np.concatenate(values),
        "statistic_prior": np.concatenate(priors),
    }


def read_inputs(record: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Inputs:
    """Build inputs from a record and arrays of any length, without checking columns and keys."""
    kept, listed = record.get("kept"), record.get("statistics")
    if record.keys() != {"kept", "statistics"} or not _are_ints(kept):
        raise ModelFormatError("inputs need kept and statistics, no more.")
    if not isinstance(listed, list):
        raise ModelFormatError("inputs have a malformed list of statistics.")
    left = {name: arrays[name] for name in STATISTIC_DTYPES}

    def take(name: str, count: int) -> AnyArray:
        if count > len(left[name]):
            raise ModelFormatError(f"{name} ends before the statistics do.")
        part, left[name] = left[name][:count], left[name][count:]
        return part

    statistics = []
    for item in listed:
        if not isinstance(item, list) or len(item) != 3 or not all(map(_are_ints, item[:2])):
            raise ModelFormatError("inputs have a malformed statistic.")
        columns, classes, n_keys = item
        if type(n_keys) is not int or n_keys < 0:
            raise ModelFormatError("a statistic has a malformed number of keys.")
        keys = take("statistic_key", n_keys)
        values = take("statistic_value", n_keys * len(classes)).reshape(len(classes), n_keys)
        prior = take("statistic_prior", len(classes))
        statistics.append(Statistic(tuple(columns), tuple(classes), keys, values, prior))
    for name, rest in left.items():
        if len(rest):
            raise ModelFormatError(f"{name} goes on after the last statistic.")
    return Inputs(tuple(kept or ()), tuple(statistics))


def check_inputs(inputs: Inputs, schema: Schema, n_features: int) -> None:
    """Raise ``ModelFormatError`` unless the inputs of every possible row can be computed."""
    kept = inputs.kept
    once = [j for place, j in enumerate(kept) if place == 0 or kept[place - 1] != j]
    _check_positions(tuple(once), schema, "kept")
    if any(a == b and schema.kinds[a] != "category" for a, b in pairwise(kept)):
        raise ModelFormatError("inputs: only columns of categories may be kept more than once.")
    for statistic in inputs.statistics:
        _check_statistic(statistic, schema)
    for cross in inputs.crosses:
        columns = cross.first, cross.second
        if not all(0 <= j < schema.n_features for j in columns) or cross.first == cross.second:
            raise ModelFormatError("a cross must have two different columns of the table.")
        if any(schema.kinds[j] == "category" for j in columns):
            raise ModelFormatError("a cross has a column that holds categories.")
        if cross.operation not in OPERATIONS:
            raise ModelFormatError("a cross has an unknown operation.")
    if inputs.n_inputs != n_features or n_features < 1:
        raise ModelFormatError(
            f"there are {inputs.n_inputs} inputs for {n_features} features; both must be the same "
            "and at least 1."
        )


def _check_statistic(statistic: Statistic, schema: Schema) -> None:
    _check_positions(statistic.columns, schema, "columns of a statistic")
    if not 1 <= len(statistic.columns) <= 2:
        raise ModelFormatError("a statistic must have one column or two.")
    if any(schema.kinds[j] != "category" for j in statistic.columns):
        raise ModelFormatError("a statistic has a column that does not hold categories.")
    classes = statistic.classes
    shares = classes[1:] if classes[:1] == (ROWS,) else classes
    if not classes or shares not in ((), (TARGET,)):
        targets = bool(shares) and shares[0] <= FIRST_TARGET
        places = [FIRST_TARGET - k for k in shares] if targets else shares
        in_range = all(0 <= k < _MOST_CLASSES for k in places)
        if not (places and in_range and all(a < b for a, b in pairwise(places))):
            raise ModelFormatError("the classes of a statistic must ascend from 0 on.")
    keys, values, prior = statistic.keys, statistic.values, statistic.prior
    shapes = (keys.ndim, values.shape, prior.shape)
    if shapes != (1, (len(classes), len(keys)), (len(classes),)):
        raise ModelFormatError("the arrays of a statistic do not fit each other.")
    for name, array in zip(STATISTIC_DTYPES, (keys, values, prior), strict=True):
        if array.dtype != STATISTIC_DTYPES[name]:
            raise ModelFormatError(f"{name} must have dtype {STATISTIC_DTYPES[name]}.")
    n_keys = 1
    for j in statistic.columns:
        n_keys *= schema.n_levels(j) + 2
    if len(keys) and not (keys[0] >= 0 and keys[-1] < n_keys and (keys[1:] > keys[:-1]).all()):
        raise ModelFormatError("the keys of a statistic must ascend within their range.")
    if not (np.isfinite(values).all() and np.isfinite(prior).all()):
        raise ModelFormatError("the values of a statistic must be finite.")


def _check_positions(positions: tuple[int, ...], schema: Schema, what: str) -> None:
    in_range = all(0 <= j < schema.n_features for j in positions)
    if not (in_range and all(a < b for a, b in pairwise(positions))):
        raise ModelFormatError(f"inputs: {what} must be positions of columns that ascend.")


def _are_ints(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int for item in value)
