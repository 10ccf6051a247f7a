"""
Quantiles that do not cross
===========================

One model predicts several quantiles of each row.  Each level has its own trees, and the predictions
of a row are sorted.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from hedgerow import HedgerowRegressor

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 3000))
y = np.sin(x) + rng.normal(scale=0.1 + 0.1 * x)
levels = [0.05, 0.25, 0.5, 0.75, 0.95]
model = HedgerowRegressor(objective="quantile", quantile=levels, n_estimators=150).fit(
    x[:, None], y
)
prediction = model.predict(x[:, None])
print("in order:", bool((np.diff(prediction, axis=1) >= 0).all()))
print("shares below:", (y[:, None] <= prediction).mean(axis=0).round(3))

# %%
plt.plot(x, y, ".", color="lightgrey", markersize=2)
for k, level in enumerate(levels):
    plt.plot(x, prediction[:, k], label=f"{level:g}")
plt.legend(title="quantile")
