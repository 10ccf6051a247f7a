"""scikit-learn estimators."""

from __future__ import annotations

from hedgerow.estimators.cart import CARTClassifier, CARTRegressor
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
