"""Inspection of models: effects of columns, interactions, importances.

================  =================================================================
``partial``       partial dependence of columns, and of two together
``curves``        curves of single rows (ICE), accumulated local effects (ALE)
``friedman``      Friedman's H
``importance``    importances, some with standard errors
``views``         methods of a booster
----------------  -----------------------------------------------------------------
``background``    rows over which predictions are averaged
``grids``         values at which a column is evaluated
``rescoring``     scores of rows with another value of a column, by the trees that use it
================  =================================================================
"""

from typing import TYPE_CHECKING

from hedgerow.once import imported_once

if TYPE_CHECKING:
    from hedgerow.inspection.curves import IndividualCurves, accumulated_effects, individual_curves
    from hedgerow.inspection.effects import Effect, JointEffect, PartialDependence
    from hedgerow.inspection.friedman import Interactions, interactions
    from hedgerow.inspection.importance import (
        Importances,
        explained_importance,
        model_importance,
        permutation_importance,
    )
    from hedgerow.inspection.partial import joint_dependence, partial_dependence

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

__getattr__ = imported_once(
    __name__,
    {
        "curves": ("IndividualCurves", "accumulated_effects", "individual_curves"),
        "effects": ("Effect", "JointEffect", "PartialDependence"),
        "friedman": ("Interactions", "interactions"),
        "importance": (
            "Importances",
            "explained_importance",
            "model_importance",
            "permutation_importance",
        ),
        "partial": ("joint_dependence", "partial_dependence"),
    },
)
