"""Inspection of models: effects of columns, interactions, importances.

================  =================================================================
``partial``       partial dependence of columns, and of two together; Friedman's H
``curves``        curves of single rows (ICE), accumulated local effects (ALE)
``importance``    importances, some with standard errors
``views``         methods of a booster
----------------  -----------------------------------------------------------------
``effects``       the results
``background``    rows over which predictions are averaged; values at which a column is
                  evaluated; scores of the rows with these, by the trees that use the column
================  =================================================================
"""

from hedgerow.inspection.curves import IndividualCurves, accumulated_effects, individual_curves
from hedgerow.inspection.effects import Effect, Interactions, JointEffect, PartialDependence
from hedgerow.inspection.importance import (
    Importances,
    explained_importance,
    model_importance,
    permutation_importance,
)
from hedgerow.inspection.partial import interactions, joint_dependence, partial_dependence

__all__ = [
    "Effect",
    "Importances",
    "IndividualCurves",
    "Interactions",
    "JointEffect",
    "PartialDependence",
    "accumulated_effects",
    "explained_importance",
    "individual_curves",
    "interactions",
    "joint_dependence",
    "model_importance",
    "partial_dependence",
    "permutation_importance",
]
