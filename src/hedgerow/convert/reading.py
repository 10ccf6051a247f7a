"""Detection and reading of model files."""

from __future__ import annotations

import os
import stat
import warnings
from typing import Any

from hedgerow.argument_types import path_text
from hedgerow.boosting.row_data.classes import labels_to_record
from hedgerow.convert.meaning import SOURCE, Imported
from hedgerow.errors import HedgerowWarning, ModelFormatError
from hedgerow.io import strict_json
from hedgerow.io.container import SNIFF_BYTES
from hedgerow.io.model_file import load_model
from hedgerow.io.strict_json import Bounds
from hedgerow.model.model import Model
from hedgerow.objectives import objective_of_record
from hedgerow.objectives.catalogue import task_of

_CHANCES = {"lightgbm": "LightGBM", "xgboost": "XGBoost"}
"""Libraries whose boosters predict the probabilities of classes."""

MOST_BYTES = 2**31
"""Size limit of files of other libraries."""


def load_any(path: str | os.PathLike[str]) -> tuple[Model, dict[str, Any] | None, bool]:
    """Read a model file, maybe of another library; tell its record and whether it is foreign."""
    path = path_text(path)
    if not stat.S_ISREG(os.stat(path).st_mode):
        return *load_model(path), False
    with open(path, "rb") as file:
        start = file.read(SNIFF_BYTES)
        if format_of(start) is None:
            return *load_model(path), False
        size = os.fstat(file.fileno()).st_size
        if size > MOST_BYTES:
            raise ModelFormatError(
                f"{path}: the file has {size:,} bytes; the limit for models of other "
                f"libraries is {MOST_BYTES:,}."
            )
        data = start + file.read(size - len(start))
    try:
        found = read_foreign(data)
    except ModelFormatError as error:
        raise ModelFormatError(f"{path}: {error}") from None
    assert found is not None
    known = found.classes
    record = None if known is None else {"classes": labels_to_record(known)}
    return found.model, record, True


def warn_of_classes(model: Model) -> None:
    """Warn that ``predict`` gives classes, where the one of the model's library gave chances."""
    source = model.training[SOURCE]
    library = _CHANCES.get(source["format"])
    objective = objective_of_record(model.objective, model.forest.n_outputs, model.training)
    is_classifier = task_of(objective) != "regression"
    if library == "XGBoost":  # of its objectives, others give classes or raw scores
        is_classifier = source["objective"] in ("binary:logistic", "multi:softprob")
    if library is not None and is_classifier:
        warnings.warn(
            f"the predict of {library}'s Booster gives probabilities, but the predict of this "
            "booster gives classes: call predict_proba for probabilities.",
            HedgerowWarning,
            stacklevel=3,
        )


def format_of(start: bytes) -> str | None:
    """Return ``"lightgbm"``, ``"json"`` or ``"ubjson"`` for the first bytes, or None."""
    if start.startswith((b"tree\n", b"tree\r\n")):
        return "lightgbm"
    if start[:1] == b"{" and start[1:2] in b"L#iUIl$" and start[1:2] and start[2:4] != b"":
        return "ubjson"
    if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        return "json"
    return None


def read_foreign(data: bytes) -> Imported | None:
    """Read the content of a file of another library; None if the format is unknown."""
    kind = format_of(data[:SNIFF_BYTES])
    if kind == "lightgbm":
        from hedgerow.convert.readers.lightgbm import read_lightgbm

        return read_lightgbm(data)
    if kind == "ubjson":
        from hedgerow.convert.readers import ubjson, xgboost

        return xgboost.read_record(ubjson.decode(data))
    if kind == "json":
        return read_json(data)
    return None


BOUNDS = Bounds(values=1 << 26, containers=1 << 23, depth=256, constants=True)
"""A value takes at most about 60 bytes in Python, so a file takes a multiple of its size."""


def read_json(data: bytes) -> Imported:
    """Read a JSON model of XGBoost or CatBoost."""
    record = strict_json.decode(data.removeprefix(b"\xef\xbb\xbf"), "the model", BOUNDS)
    if isinstance(record, dict) and "learner" in record:
        from hedgerow.convert.readers.xgboost import read_record

        return read_record(record)
    if isinstance(record, dict) and ("oblivious_trees" in record or "features_info" in record):
        from hedgerow.convert.readers.catboost import read_catboost

        return read_catboost(record)
    if isinstance(record, dict) and str(record.get("format", "")).startswith("hedgerow-"):
        raise ModelFormatError(
            f"this is Hedgerow's JSON for other programs ({str(record['format'])[:40]!r}), which "
            "lacks what a booster needs: write the model with save."
        )
    raise ModelFormatError(
        "this is JSON, but not a model of XGBoost (no 'learner') or CatBoost (no 'features_info')."
    )
