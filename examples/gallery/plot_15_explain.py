"""
Explanations: exact Shapley values
==================================

What each column adds to each prediction, for every kind of model.
"""

# %%

import pandas as pd

from hedgerow import HedgerowClassifier
from hedgerow.datasets import load_pima
from hedgerow.plot import plot_beeswarm, plot_dependence, plot_waterfall

pima = load_pima()
X = pd.DataFrame(pima.X, columns=pima.feature_names)
model = HedgerowClassifier(random_state=0).fit(X, pima.y)
found = model.explain(X)
print(found.values.shape, found.base_values)

# %%
# Each point is a row: far right, the column has made diabetes likelier for it.
plot_beeswarm(found)

# %%
# One row, from the base value to its raw score.
plot_waterfall(found, row=0)

# %%
# One column, coloured by the column that it acts together with most.
plot_dependence(found, "Glucose")
