"""
Explanations: exact Shapley values
==================================

Compute the contribution of each column to each prediction, for every kind of model.
"""

# %%
import pandas as pd

from hedgerow import HedgerowClassifier
from hedgerow.datasets import load_pima
from hedgerow.plot import plot_beeswarm, plot_waterfall

pima = load_pima()
X = pd.DataFrame(pima.X, columns=pima.feature_names)
model = HedgerowClassifier(random_state=0).fit(X, pima.y)
explanation = model.explain(X)
explanation

# %%
# Each point is a row.  On the right, the column makes diabetes more probable for this row.
plot_beeswarm(explanation)

# %%
# The waterfall shows the contributions to one row, from the base value to its raw score.
plot_waterfall(explanation, row=0)
