"""Inspection of models: effects of columns, importances.

================  =================================================================
``partial``       partial dependence of columns
``importance``    importances, some with standard errors; the methods of boosters and estimators
----------------  -----------------------------------------------------------------
``effects``       the results
``background``    rows over which predictions are averaged; values at which a column is
                  evaluated; scores of the rows with these, by the trees that use the column
================  =================================================================
"""

from hedgerow.inspection.effects import Effect, PartialDependence
from hedgerow.inspection.importance import (
    Importances,
    explained_importance,
    model_importance,
    permutation_importance,
)
from hedgerow.inspection.partial import partial_dependence

__all__ = [
    "Effect",
    "Importances",
    "PartialDependence",
    "explained_importance",
    "model_importance",
    "partial_dependence",
    "permutation_importance",
]
