"""
Partial dependence
==================

Compute the effects of all columns.
"""

# %%
import numpy as np

from hedgerow import HedgerowRegressor

rng = np.random.default_rng(0)
X = {
    "size": rng.normal(size=2000),
    "age": rng.normal(size=2000),
    "colour": rng.choice(["red", "blue"], 2000),
}
y = 2 * X["size"] + X["age"] * (X["colour"] == "red") + rng.normal(scale=0.1, size=2000)
model = HedgerowRegressor(n_estimators=150, early_stopping=False, linear_leaves=False).fit(X, y)

# %%
model.plot_partial_dependence(X)
