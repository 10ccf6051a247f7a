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

import numpy as np

from hedgerow.convert.categories import schema_of
from hedgerow.convert.meaning import Imported, Meaning, column_names, finished, linked
from hedgerow.convert.readers.lightgbm_text import LightGBMText, Nodes, parse, read_floats, read_int
from hedgerow.convert.readers.lightgbm_trees import ZERO, coded_columns, table_of
from hedgerow.errors import ModelFormatError
from hedgerow.kernels.prediction.slopes import Slopes


def read_lightgbm(data: bytes) -> Imported:
    """Read the content of a LightGBM text file."""
    text = parse(data)
    header = text.header
    n_features = read_int(header.get("max_feature_idx", ""), "max_feature_idx", 0, 2**24) + 1
    per_round = "num_tree_per_iteration"
    n_outputs = read_int(header.get(per_round, ""), per_round, 1, 2**20)
    names = header.get("feature_names", "")
    columns = column_names(names.split(" ") if names else None, n_features, "Column_{}")
    table, zero = table_of(Nodes(text.trees), n_features)
    coded = coded_columns(text, table, n_features)
    for node, listed in table.sets.items():
        table.sets[node] = np.flatnonzero(coded[int(table.feature[node])].has(listed))
    schema = schema_of(*columns, coded, zero_missing=zero, zero_band=ZERO if zero else 0.0)
    factor, meaning = _meaning(text, n_outputs)
    source = {"format": "lightgbm", "version": header["version"]}
    boosting = text.parameters.get("boosting")
    if boosting in ("dart", "rf"):
        source["boosting"] = boosting
    if "average_output" in header:
        source["boosting"] = "rf"
        n_rounds = len(text.trees) // n_outputs
        if n_rounds > 0:
            table.value /= n_rounds
            table.slopes = _scaled(table.slopes, 1.0 / n_rounds)
    if factor != 1.0:
        table.value *= factor
        table.slopes = _scaled(table.slopes, factor)
    return finished(table, schema, [0.0] * n_outputs, meaning, source)


def _scaled(slopes: Slopes | None, factor: float) -> Slopes | None:
    if slopes is None:
        return None
    return slopes._replace(slope=slopes.slope * factor, center=slopes.center * factor)


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
    if name in OBJECTIVES:
        return 1.0, Meaning(OBJECTIVES[name])
    return 1.0, linked(name[:100], _LINKS.get(name, "identity"))


OBJECTIVES = {
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
