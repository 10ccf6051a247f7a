"""
Several targets in one model
============================

With vector leaves, all targets share the splits, and each round grows one tree for all of them.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from hedgerow import HedgerowRegressor

rng = np.random.default_rng(0)
t = np.sort(rng.uniform(0, 2 * np.pi, 1500))
Y = np.column_stack([np.cos(t), np.sin(2 * t)]) + rng.normal(scale=0.05, size=(1500, 2))
model = HedgerowRegressor(n_estimators=150, learning_rate=0.1, early_stopping=False)
model.fit(t[:, None], Y)
prediction = model.predict(t[:, None])
print(model.booster_.num_trees, "trees for", Y.shape[1], "targets")

# %%
plt.plot(*Y.T, ".", color="lightgrey", markersize=3)
plt.plot(*prediction.T)
plt.gca().set_aspect("equal")
