"""scikit-learn estimators."""

from __future__ import annotations

from hedgerow.estimators.classifier import HedgerowClassifier
from hedgerow.estimators.regressor import HedgerowRegressor

__all__ = ["HedgerowClassifier", "HedgerowRegressor"]
