"""
Partial dependence
==================

Compute the effects of all columns, the joint effect of two columns, curves of single rows, and the
interactions of all pairs of columns.
"""

# %%
import numpy as np

from hedgerow import HedgerowRegressor
from hedgerow.plot import plot_curves, plot_interactions, plot_joint_dependence

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

# %%
plot_joint_dependence(model.joint_dependence(X, ["age", "colour"]))

# %%
# Each row has a curve.  The curves differ in shape, so the age interacts with another column.
few = {name: column[:80] for name, column in X.items()}
plot_curves(model.individual_curves(few, "age").centred())

# %%
plot_interactions(model.explain(few, interactions=True))
