"""scikit-learn estimators; the module of each is loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.estimators.cart.trees import CARTClassifier, CARTRegressor
    from hedgerow.estimators.classifier import HedgerowClassifier
    from hedgerow.estimators.ranker import HedgerowRanker
    from hedgerow.estimators.regressor import HedgerowRegressor

__all__ = [
    "CARTClassifier",
    "CARTRegressor",
    "HedgerowClassifier",
    "HedgerowRanker",
    "HedgerowRegressor",
]

_HOME_OF = {
    "CARTClassifier": "cart.trees",
    "CARTRegressor": "cart.trees",
    "HedgerowClassifier": "classifier",
    "HedgerowRanker": "ranker",
    "HedgerowRegressor": "regressor",
}


def __getattr__(name: str) -> Any:
    """Load the module of an estimator on first use."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
