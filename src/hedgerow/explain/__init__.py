"""Shapley values of the columns, for any model and row.

===============  ==========================================================================
``explanation``  :class:`Explanation`: values, base values, rows and names; the public result
``outputs``      the raw scores of a model: their names, and a model of some of them
``players``      the columns behind the inputs of the trees
``game``         trees as games: shares, stops at unknown categories, linear leaves as splits
``plan``         a game in the form of the kernels
``explainer``    values of rows, in blocks and threads
``background``   values of rows if unknown columns take their values from background rows
``cart``         single trees with category splits
``views``        :meth:`hedgerow.Booster.explain`
===============  ==========================================================================
"""

from hedgerow.explain.explanation import Explanation
from hedgerow.explain.views import ExplainedPredictions

__all__ = ["ExplainedPredictions", "Explanation"]
