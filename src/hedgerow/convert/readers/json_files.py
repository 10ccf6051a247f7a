"""JSON models of other libraries: detection of the library."""

from __future__ import annotations

from hedgerow.convert.meaning import Imported
from hedgerow.errors import ModelFormatError
from hedgerow.io import strict_json
from hedgerow.io.strict_json import Bounds

BOUNDS = Bounds(values=1 << 26, containers=1 << 23, depth=256, constants=True)
"""A value takes at most about 60 bytes in Python, so a file takes a multiple of its size."""


def read_json(data: bytes) -> Imported:
    """Read a JSON model of XGBoost or CatBoost.

    Raises
    ------
    ModelFormatError
    """
    record = strict_json.decode(data.removeprefix(b"\xef\xbb\xbf"), "the model", BOUNDS)
    if isinstance(record, dict) and "learner" in record:
        from hedgerow.convert.readers.xgboost import read_record

        return read_record(record)
    if isinstance(record, dict) and ("oblivious_trees" in record or "features_info" in record):
        from hedgerow.convert.readers.catboost import read_catboost

        return read_catboost(record)
    raise ModelFormatError(
        "this is JSON, but not a model of XGBoost (no 'learner') or CatBoost (no 'features_info')."
    )
