"""Hedgerow: gradient-boosted decision trees in 100% Python.

This module lists the public names and modules.  Each is imported on first use (PEP 562), so
``import hedgerow`` takes a few milliseconds and loads neither Numba nor scikit-learn.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from hedgerow.once import imported_once

if TYPE_CHECKING:
    from hedgerow.booster import Booster, load
    from hedgerow.boosting.inspect.memory_estimate import estimate_memory
    from hedgerow.boosting.row_data.dataset import Dataset
    from hedgerow.cart import CARTClassifier, CARTRegressor
    from hedgerow.convert.exporting import ExportError, ExportReport
    from hedgerow.convert.settings.lightgbm import from_lightgbm_params
    from hedgerow.convert.settings.xgboost import from_xgboost_params
    from hedgerow.cross_validation import CrossValidation, cv
    from hedgerow.distributed import (
        DaskHedgerowClassifier,
        DaskHedgerowRanker,
        DaskHedgerowRegressor,
    )
    from hedgerow.errors import (
        CommunicationError,
        DataError,
        DataTypeError,
        FoldsWarning,
        HedgerowError,
        HedgerowWarning,
        InterruptedFitWarning,
        LossError,
        ModelFormatError,
        ParameterError,
        UnknownNameError,
    )
    from hedgerow.estimators import HedgerowClassifier, HedgerowRanker, HedgerowRegressor
    from hedgerow.estimators.cross import CrossFit, cross_fit
    from hedgerow.explain import Explanation
    from hedgerow.foreign import from_catboost, from_lightgbm, from_xgboost
    from hedgerow.stepwise import Training
    from hedgerow.training import train
    from hedgerow.versions import show_versions

__version__ = "0.1.0"

if type(globals().get("__loader__")).__name__ == "zipimporter":
    raise ImportError(
        f"hedgerow cannot run from a zip file, as here from {__file__}: it opens its kernels and "
        "their sources as files. Unpack the zip file, or install it with pip."
    )

__all__ = [
    "Booster",
    "CARTClassifier",
    "CARTRegressor",
    "CommunicationError",
    "CrossFit",
    "CrossValidation",
    "DaskHedgerowClassifier",
    "DaskHedgerowRanker",
    "DaskHedgerowRegressor",
    "DataError",
    "DataTypeError",
    "Dataset",
    "Explanation",
    "ExportError",
    "ExportReport",
    "FoldsWarning",
    "HedgerowClassifier",
    "HedgerowError",
    "HedgerowRanker",
    "HedgerowRegressor",
    "HedgerowWarning",
    "InterruptedFitWarning",
    "LossError",
    "ModelFormatError",
    "ParameterError",
    "Training",
    "UnknownNameError",
    "__version__",
    "cross_fit",
    "cv",
    "estimate_memory",
    "from_catboost",
    "from_lightgbm",
    "from_lightgbm_params",
    "from_xgboost",
    "from_xgboost_params",
    "load",
    "show_versions",
    "train",
]

_HOMES = {
    "booster": ("Booster", "load"),
    "boosting.row_data.dataset": ("Dataset",),
    "boosting.inspect.memory_estimate": ("estimate_memory",),
    "distributed": ("DaskHedgerowClassifier", "DaskHedgerowRanker", "DaskHedgerowRegressor"),
    "errors": (
        "CommunicationError",
        "DataError",
        "DataTypeError",
        "FoldsWarning",
        "HedgerowError",
        "HedgerowWarning",
        "InterruptedFitWarning",
        "LossError",
        "ModelFormatError",
        "ParameterError",
        "UnknownNameError",
    ),
    "explain": ("Explanation",),
    "convert.exporting": ("ExportError", "ExportReport"),
    "convert.settings.lightgbm": ("from_lightgbm_params",),
    "convert.settings.xgboost": ("from_xgboost_params",),
    "foreign": ("from_catboost", "from_lightgbm", "from_xgboost"),
    "cross_validation": ("CrossValidation", "cv"),
    "stepwise": ("Training",),
    "training": ("train",),
    "versions": ("show_versions",),
    "estimators.cross": ("CrossFit", "cross_fit"),
    "estimators": ("HedgerowClassifier", "HedgerowRanker", "HedgerowRegressor"),
    "cart": ("CARTClassifier", "CARTRegressor"),
}
_MODULES = (
    *("datasets", "distributed", "errors", "explain", "inspection", "metrics", "objectives"),
    *("params", "plot", "pruning", "report", "schedules", "serving"),
)
__getattr__ = imported_once(__name__, _HOMES, _MODULES)


def __dir__() -> list[str]:
    """Return public names, special names and imported modules, without helpers of this file."""
    modules = [name for name, value in globals().items() if isinstance(value, ModuleType)]
    special = [name for name in globals() if name.startswith("__")]
    return sorted({*__all__, *_MODULES, *modules, *special})
