"""
Monotone constraints
====================

Pass prior knowledge to a model: the prediction never falls when the first column rises.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from hedgerow import HedgerowRegressor

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, size=(300, 2))
y = np.log1p(X[:, 0]) + 0.1 * X[:, 1] + rng.normal(scale=0.4, size=300)

# %%
params = {"n_estimators": 200, "learning_rate": 0.1, "min_samples_leaf": 5, "early_stopping": False}
free = HedgerowRegressor(**params).fit(X, y)
rising = HedgerowRegressor(**params, monotone_constraints=[1, 0]).fit(X, y)
grid = np.column_stack([np.linspace(0, 10, 500), np.full(500, 5.0)])
plt.plot(X[:, 0], y, ".", color="lightgrey")
plt.plot(grid[:, 0], free.predict(grid), label="without constraint")
plt.plot(grid[:, 0], rising.predict(grid), label="rising")
plt.legend()

# %%
# The verifier proves this for all possible rows, not only for a sample.
print(rising.verify_monotone())
