"""Splits that every tree begins with, as users give them.

::

    {"feature": "age", "threshold": 40,          (0, 40.0,  1, -1)    number 0, the root
     "left": {"feature": "size",            ->   (1, 1.5,  -1, -1)    number 1
              "threshold": 1.5}}                  column, threshold, left, right

The form on the left is that of LightGBM's file ``forcedsplits_filename``, where columns may
be named as well.
"""

from __future__ import annotations

import json
import math
import numbers
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from hedgerow.data.schema import Schema, position_of
from hedgerow.errors import DataError, ParameterError, brief, did_you_mean, path_repr

Splits = tuple[tuple[int, float, int, int], ...]
_KEYS = ("feature", "threshold", "left", "right")
_MOST = 4096
_NAME = "forced_splits"


def read_forced_splits(forced: Any, schema: Schema) -> Splits | None:
    """Return the splits in preorder: column, threshold, numbers of the children or -1.

    Examples
    --------
    >>> from hedgerow.data import read_table
    >>> schema = read_table({"age": [1.0], "size": [2.0]}).schema
    >>> given = {"feature": "age", "threshold": 40, "left": {"feature": 1, "threshold": 1.5}}
    >>> read_forced_splits(given, schema)
    ((0, 40.0, 1, -1), (1, 1.5, -1, -1))
    """
    if forced is None:
        return None
    if isinstance(forced, str | os.PathLike):
        forced = _from_file(forced)
    if isinstance(forced, list | tuple):
        return _resolved(forced, schema)
    splits: list[list[Any]] = []
    waiting: list[tuple[Any, str, int, int]] = [(forced, "the root", -1, 0)]
    while waiting:
        node, where, parent, side = waiting.pop(0)
        if parent >= 0:
            splits[parent][2 + side] = len(splits)
        feature, threshold = _read_node(node, where, schema)
        number = len(splits)
        splits.append([feature, threshold, -1, -1])
        if number >= _MOST:
            raise ParameterError(f"{_NAME} has more than {_MOST} splits.")
        for place, key in enumerate(("left", "right")):
            if node.get(key) is not None:
                waiting.append((node[key], f"{where}, {key}", number, place))
    return tuple((feature, threshold, left, right) for feature, threshold, left, right in splits)


def _from_file(path: Any) -> Any:
    shown = path_repr(path)
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(f"{_NAME}: {shown} cannot be read as JSON ({reason}).") from None
    if not isinstance(found, dict):
        raise ParameterError(f"{_NAME}: {shown} must hold an object with 'feature'.")
    return found


def _read_node(node: Any, where: str, schema: Schema) -> tuple[int, float]:
    if not isinstance(node, Mapping):
        raise ParameterError(
            f"{_NAME}, {where}: must be a dict of 'feature' and 'threshold', or the path of a "
            f"JSON file; got {brief(node)}."
        )
    for key in node:
        if key not in _KEYS:
            raise ParameterError(
                f"{_NAME}, {where}: unknown key {brief(key)}; known: {', '.join(_KEYS)}."
                f"{did_you_mean(key, _KEYS)}"
            )
    for key in _KEYS[:2]:
        if key not in node:
            raise ParameterError(f"{_NAME}, {where}: {brief(key)} is missing.")
    feature = position_of(node["feature"], schema.names, f"{_NAME}, {where}")
    column = schema.columns[feature]
    if column.kind == "category":
        raise ParameterError(
            f"{_NAME}, {where}: column {column.name!r} holds categories, which no threshold "
            "divides: leave it out, or give it as numbers."
        )
    value, whole = node["threshold"], column.kind == "int"
    if not is_finite_number(value) or (whole and not -(2**63) < value < 2**63):
        raise ParameterError(
            f"{_NAME}, {where}: threshold must be a finite number; got {brief(value)}."
        )
    return feature, math.floor(value) if whole else float(value) + 0.0


def is_finite_number(value: object) -> bool:
    """Return whether a value is a finite number, and no truth."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool | np.bool_):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def _resolved(forced: Any, schema: Schema) -> Splits:
    """Return the forced splits from a model's record."""
    splits = []
    for number, split in enumerate(forced):
        right = isinstance(split, list | tuple) and len(split) == 4
        if not right or not all(
            isinstance(n, numbers.Integral)
            and not isinstance(n, bool)
            and (n == -1 or number < n < len(forced))
            for n in split[2:]
        ):
            raise ParameterError(
                f"{_NAME} must be a dict, or the path of a file; got {brief(forced)}."
            )
        feature, threshold = _read_node(
            {"feature": split[0], "threshold": split[1]}, f"split {number}", schema
        )
        splits.append((feature, threshold, int(split[2]), int(split[3])))
    return tuple(splits)
