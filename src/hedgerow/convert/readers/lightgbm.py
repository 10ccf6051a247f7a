"""Reader of LightGBM's text format.

The semantics of its trees (src/io/tree.cpp, include/LightGBM/tree.h), and their form in Hedgerow:

================================  =============================================================
LightGBM                          Hedgerow
================================  =============================================================
number: ``x <= threshold``        the key of the threshold
``|x| <= 1e-35`` (as float32)     counts as 0: a cut among such numbers moves to their end
missing type None                 NaN is 0.0: it goes left if ``0 <= threshold``
missing type NaN                  NaN goes to the default side
missing type Zero                 NaN and zeros go to the default side: in the schema, zeros
                                  are missing values
category: in the set              left; unknown, negative and missing ones go right
value with a fraction             truncated: the column rounds to zero
``average_output``                values divided by the number of rounds
``sigmoid``                       values multiplied
linear leaf                       a line that applies with all terms or, if a value is NaN,
                                  not at all
================================  =============================================================

Without ``average_output``, ``sigmoid`` and linear leaves, raw scores are equal to the last bit:
both libraries add float64 numbers in the order of the trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.convert.meaning import Imported, Meaning, column_names, finished, linked
from hedgerow.convert.readers.lightgbm_categories import categories_of
from hedgerow.convert.readers.lightgbm_text import LightGBMText, Nodes, parse, read_floats, read_int
from hedgerow.convert.readers.lightgbm_trees import ZERO, table_of
from hedgerow.data.schema import Schema
from hedgerow.errors import ModelFormatError


def read_lightgbm(data: bytes) -> Imported:
    """Read the content of a LightGBM text file."""
    text = parse(data)
    n_features = read_int(text.header.get("max_feature_idx", ""), "max_feature_idx", 0, 2**24) + 1
    per_round = read_int(
        text.header.get("num_tree_per_iteration", ""), "num_tree_per_iteration", 1, 2**20
    )
    names, named = column_names(
        _names(text.header.get("feature_names", "")), n_features, "Column_{}"
    )
    nodes = Nodes(text.trees)
    categories = categories_of(text, nodes, n_features)
    columns = tuple(categories.column(name, j) for j, name in enumerate(names))
    table, zero = table_of(nodes, categories, n_features)
    schema = Schema(columns, named, zero_missing=zero, zero_band=ZERO if zero else 0.0)
    factor, meaning = _meaning(text, per_round)
    source = {"format": "lightgbm", "version": text.header["version"]}
    boosting = text.parameters.get("boosting")
    if boosting in ("dart", "rf"):
        source["boosting"] = boosting
    if "average_output" in text.header:
        source["boosting"] = "rf"
        if len(text.trees) >= per_round:
            table.value /= len(text.trees) // per_round
            table.slopes = _scaled(table.slopes, 1.0 / (len(text.trees) // per_round))
    if factor != 1.0:
        table.value *= factor
        table.slopes = _scaled(table.slopes, factor)
    return finished(table, schema, [0.0] * per_round, meaning, source)


def _scaled(slopes: Any, factor: float) -> Any:
    if slopes is None:
        return None
    return slopes._replace(slope=slopes.slope * factor, center=slopes.center * factor)


def _names(text: str) -> list[str] | None:
    return text.split(" ") if text else None


def _meaning(text: LightGBMText, n_outputs: int) -> tuple[float, Meaning]:
    """Return the factor of the raw scores, and their meaning."""
    words = text.header.get("objective", "custom").split()
    name = words[0] if words else "custom"
    given = dict(word.split(":", 1) for word in words[1:] if ":" in word)
    factor = _number(given.get("sigmoid", "1"), "sigmoid")
    if name == "multiclass":
        return 1.0, Meaning("softmax")
    if name == "multiclassova":
        return factor, linked(name, "logit", "classes")
    if n_outputs > 1:
        return 1.0, linked(name)
    if name == "binary":
        return factor, Meaning("logistic")
    if name == "regression" and "sqrt" in words:
        return 1.0, linked("regression sqrt", "signed_square")
    if name in _OURS:
        return 1.0, Meaning(_OURS[name])
    return 1.0, linked(name[:100], _LINKS.get(name, "identity"))


_OURS = {
    "regression": "squared_error",
    "regression_l1": "absolute_error",
    "mape": "mape",
    "poisson": "poisson",
    "gamma": "gamma",
    "cross_entropy": "cross_entropy",
    "lambdarank": "lambdarank",
    "rank_xendcg": "rank_xendcg",
}
"""Objectives of LightGBM without parameters, and their names in Hedgerow."""

_LINKS = {"tweedie": "log", "cross_entropy_lambda": "softplus"}


def _number(text: str, name: str) -> float:
    found = read_floats(text, name)
    if len(found) != 1 or not np.isfinite(found[0]) or found[0] == 0.0:
        raise ModelFormatError(f"{name} of the objective must be a number other than 0.")
    return float(found[0])


__all__: Sequence[str] = ["read_lightgbm"]
