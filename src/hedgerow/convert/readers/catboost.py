"""Reader of CatBoost's JSON models.

The semantics of its trees (catboost/libs/model), and their form in Hedgerow:

=================================  ============================================================
CatBoost                           Hedgerow
=================================  ============================================================
number: ``float32(x) > border``    right; the cut is the largest float64 that rounds to no more
NaN with AsIs, AsFalse             left
NaN with AsTrue                    right
one-hot: the hash is the value     right; unknown and missing categories go left
CTR ``> border``                   right: a statistic of one column or two (:mod:`.catboost_inputs`)
symmetric tree                     a full binary tree whose root has the last split
``scale_and_bias``                 scaled leaf values, and the base score
=================================  ============================================================

CatBoost adds the bias last, Hedgerow first, so raw scores differ by the rounding of float64.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.convert.meaning import Imported, Meaning, finished, linked, several
from hedgerow.convert.readers import records
from hedgerow.convert.readers.catboost_inputs import columns_of
from hedgerow.convert.readers.catboost_trees import nested_tree, splits_of, symmetric_tree
from hedgerow.convert.trees import joined
from hedgerow.errors import ModelFormatError

_MOST_OUTPUTS = 2**16


def read_catboost(record: dict[str, Any]) -> Imported:
    """Read a decoded model."""
    about = records.member(record, "features_info")
    for name, what in _REFUSED.items():
        if about.get(name):
            raise ModelFormatError(
                f"{what} of CatBoost cannot be read: Hedgerow does not have them."
            )
    found = records.listed(record, "scale_and_bias")
    if len(found) != 2:
        raise ModelFormatError("'scale_and_bias' must have two entries.")
    scale = records.number({"scale": found[0]}, "scale")
    biases = found[1] if isinstance(found[1], list) else [found[1]]
    bias = records.floats({"bias": biases}, "bias")
    if not 1 <= len(bias) <= _MOST_OUTPUTS or not np.isfinite(bias).all():
        raise ModelFormatError("'scale_and_bias' must have a finite bias for each output.")
    splits = splits_of(record, about, columns_of(about))
    n_outputs = len(bias)
    where, read = "trees", nested_tree
    if "oblivious_trees" in record:
        where, read = "oblivious_trees", symmetric_tree
    table = joined([read(tree, splits, n_outputs) for tree in records.objects(record, where)])
    table.value *= scale
    known = _info(record, "params").get("loss_function")
    kind = known.get("type") if isinstance(known, dict) else None
    loss = kind[:100] if isinstance(kind, str) else "unknown"
    meaning = _meaning(loss, n_outputs)
    if "targets" in meaning.record and splits.ctrs:
        raise ModelFormatError(
            "the model has CTRs for several targets, whose tables CatBoost writes under one name, "
            "so only the last one is in the file: train with one_hot_max_size=255, or one model "
            "per target."
        )
    classes = _classes(record, meaning, n_outputs)
    source = {"format": "catboost", "objective": loss}
    schema = splits.columns.schema()
    return finished(table, schema, bias.tolist(), meaning, source, classes, splits.statistics)


_REFUSED = {
    "text_features": "columns of text",
    "embedding_features": "embeddings",
    "estimated_features": "estimated features",
}


def _info(record: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an entry of ``model_info``, an object or its text; empty if the file has none."""
    info = record.get("model_info")
    found = info.get(name) if isinstance(info, dict) else None
    if isinstance(found, str) and len(found) <= 1 << 20:
        with suppress(ValueError, RecursionError):
            found = json.loads(found)
    return found if isinstance(found, dict) else {}


_OURS = {
    "RMSE": "squared_error",
    "MAE": "absolute_error",
    "MAPE": "mape",
    "Logloss": "logistic",
    "CrossEntropy": "cross_entropy",
    "Poisson": "poisson",
}
_LINKS = {"Tweedie": "log", "LogLinQuantile": "log"}
_SINGLE = {
    "MultiRMSE": "squared_error",
    "MultiLogloss": "logistic",
    "MultiCrossEntropy": "cross_entropy",
}


def _meaning(loss: str, n_outputs: int) -> Meaning:
    if loss == "MultiClass" and n_outputs > 1:
        return Meaning("softmax")
    if loss == "MultiClassOneVsAll" and n_outputs > 1:
        return linked(loss, "logit", "classes")
    if loss == "RMSEWithUncertainty" and n_outputs == 2:
        return Meaning("normal")  # the second score is the logarithm of the standard deviation
    if n_outputs > 1:
        single = _SINGLE.get(loss)
        return linked(loss) if single is None else several(Meaning(single), n_outputs)
    if loss in _OURS:
        return Meaning(_OURS[loss])
    if loss == "Focal":  # whose weight of the classes is not that of Hedgerow
        return linked(loss, "logit", "two classes")
    return linked(loss, _LINKS.get(loss, "identity"))


def _classes(record: dict[str, Any], meaning: Meaning, n_outputs: int) -> AnyArray | None:
    """Return the labels of the classes, which must be ascending, as in Hedgerow."""
    names = _info(record, "class_params").get("class_names")
    expected = {"logistic": 2, "softmax": n_outputs}.get(meaning.objective)
    task = meaning.record.get("loss_parameters", {}).get("task")
    expected = {"two classes": 2, "classes": n_outputs}.get(task, expected)
    if not isinstance(names, list) or len(names) != expected:
        return None
    kinds = {type(name) for name in names}
    if not (kinds <= {str} or kinds <= {int} or kinds <= {float}):
        return None
    if sorted(set(names)) != names:
        raise ModelFormatError(
            f"the classes {str(names)[:80]} are not in ascending order: such models of CatBoost "
            "cannot be read."
        )
    return np.array(names)
