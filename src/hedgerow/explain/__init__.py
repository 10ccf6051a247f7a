"""Why a model says what it says: Shapley values of the columns, of any model and row.

===============  ==========================================================================
``explanation``  :class:`Explanation`: values, base values, the rows, names; what users get
``outputs``      the raw scores of a model: what they are called, a model of some of them
``players``      which columns stand behind what the trees split
``game``         trees as games: shares, stops of unknown categories, lines as splits
``plan``         a game as the kernels take it
``explainer``    values of rows, in blocks and threads
``background``   the same where unknown columns take their values from other rows
``cart``         single trees, with splits by categories
``views``        :meth:`hedgerow.Booster.explain`
===============  ==========================================================================
"""

from hedgerow.explain.explanation import Explanation
from hedgerow.explain.views import ExplainedPredictions

__all__ = ["ExplainedPredictions", "Explanation"]
