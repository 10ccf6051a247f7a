"""Why a model says what it says: Shapley values of its columns."""

from hedgerow.explain.explainer import Explainer
from hedgerow.explain.explanation import Explanation
from hedgerow.explain.views import ExplainedPredictions

__all__ = ["ExplainedPredictions", "Explainer", "Explanation"]
