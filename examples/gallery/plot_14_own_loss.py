"""
A custom loss
=============

Write a function that returns the gradient and the hessian of each row's loss by its raw score,
as for XGBoost and LightGBM.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from hedgerow import HedgerowRegressor


def too_low_costs_more(y, raw):
    """Return the slopes of the squared error, times four if the prediction is too low."""
    factor = np.where(y > raw, 4.0, 1.0)
    return factor * (raw - y), factor


# %%
rng = np.random.default_rng(0)
X = rng.uniform(0, 10, size=(2000, 1))
y = np.sin(X[:, 0]) + rng.normal(scale=0.5, size=2000)
params = {"n_estimators": 100, "learning_rate": 0.1, "early_stopping": False}
model = HedgerowRegressor(objective=too_low_costs_more, **params).fit(X, y)
plain = HedgerowRegressor(**params).fit(X, y)
print(
    "shares of rows above the prediction:",
    (y > model.predict(X)).mean(),
    (y > plain.predict(X)).mean(),
)

# %%
grid = np.linspace(0, 10, 500)[:, None]
plt.plot(X[:, 0], y, ".", color="lightgrey", markersize=2)
plt.plot(grid, plain.predict(grid), label="squared error")
plt.plot(grid, model.predict(grid), label="too low costs four times")
plt.legend()
