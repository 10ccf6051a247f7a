"""scikit-learn estimators; the module of each is loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hedgerow.once import imported_once

if TYPE_CHECKING:
    from hedgerow.estimators.classifier import HedgerowClassifier
    from hedgerow.estimators.ranker import HedgerowRanker
    from hedgerow.estimators.regressor import HedgerowRegressor

__all__ = ["HedgerowClassifier", "HedgerowRanker", "HedgerowRegressor"]

__getattr__ = imported_once(
    __name__,
    {
        "classifier": ("HedgerowClassifier",),
        "ranker": ("HedgerowRanker",),
        "regressor": ("HedgerowRegressor",),
    },
)
