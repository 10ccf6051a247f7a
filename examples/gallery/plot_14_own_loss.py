"""
A custom loss
=============

Write the loss of a row as a function.  Hedgerow compiles it together with its first two
derivatives.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from hedgerow import HedgerowRegressor


def too_low_costs_more(y, raw):
    """Return the squared error, times four if the prediction is too low."""
    error = y - raw
    return error * error * (4.0 if error > 0.0 else 1.0)


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
