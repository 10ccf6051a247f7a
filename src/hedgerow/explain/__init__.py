"""Shapley values of the columns, for any model and row.

===============  ==========================================================================
``explanation``  :class:`Explanation`: values, base values, rows and names; the public result
``game``         trees as games: players, shares, linear leaves as
                 splits; and their form for the kernels
``explainer``    values of rows, in blocks and threads
``background``   values of rows if unknown columns take their values from background rows
``views``        :meth:`hedgerow.Booster.explain`
===============  ==========================================================================
"""

from hedgerow.explain.explanation import Explanation
from hedgerow.explain.views import ExplainedPredictions

__all__ = ["ExplainedPredictions", "Explanation"]
