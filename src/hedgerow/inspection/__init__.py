"""Inspection of models: effects of columns, importances.

================  =================================================================
``partial``       partial dependence of columns, and of two together; curves of single rows (ICE)
``importance``    importances, some with standard errors; the methods of boosters and estimators
----------------  -----------------------------------------------------------------
``effects``       the results
``background``    rows over which predictions are averaged; values at which a column is
                  evaluated; scores of the rows with these, by the trees that use the column
================  =================================================================
"""

from hedgerow.inspection.effects import Effect, IndividualCurves, JointEffect, PartialDependence
from hedgerow.inspection.importance import (
    Importances,
    explained_importance,
    model_importance,
    permutation_importance,
)
from hedgerow.inspection.partial import individual_curves, joint_dependence, partial_dependence

__all__ = [
    "Effect",
    "Importances",
    "IndividualCurves",
    "JointEffect",
    "PartialDependence",
    "explained_importance",
    "individual_curves",
    "joint_dependence",
    "model_importance",
    "partial_dependence",
    "permutation_importance",
]
