"""Inspection of models: effects of columns, importances.

================  =================================================================
``partial``       partial dependence of columns
``importance``    importances, some with standard errors
``methods``       both as methods of boosters and estimators
----------------  -----------------------------------------------------------------
``effects``       the results
``background``    rows over which predictions are averaged; values at which a column is
                  evaluated; scores of the rows with these, by the trees that use the column
================  =================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hedgerow.once import imported_once

if TYPE_CHECKING:
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

# An estimator has the methods, and most processes call none.
__getattr__ = imported_once(
    __name__,
    {
        "effects": ("Effect", "PartialDependence"),
        "importance": (
            "Importances",
            "explained_importance",
            "model_importance",
            "permutation_importance",
        ),
        "partial": ("partial_dependence",),
    },
)
