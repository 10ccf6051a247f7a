"""
A distribution for each row
===========================

``objective="normal"`` learns the mean and the spread of each row by natural gradients.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from hedgerow import HedgerowRegressor

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-3, 3, 2000))
y = x**2 + rng.normal(scale=0.3 + np.abs(x))
model = HedgerowRegressor(objective="normal", n_estimators=200, learning_rate=0.05)
model.fit(x[:, None], y)
distribution = model.predict_distribution(x[:, None])
lower, upper = distribution.interval(0.9).T
print("share of rows in the 90% interval:", np.mean((lower <= y) & (y <= upper)).round(3))

# %%
plt.plot(x, y, ".", color="lightgrey", markersize=2)
plt.plot(x, distribution.mean, label="mean")
plt.fill_between(x, lower, upper, alpha=0.3, label="90%")
plt.legend()
