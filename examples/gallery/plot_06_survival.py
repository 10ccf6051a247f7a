"""
Survival times with censoring
=============================

Cox's proportional hazards model uses censored rows too: a row whose event has not happened yet
counts for the time that it was observed.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from hedgerow import HedgerowRegressor

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 4))
time = rng.exponential(np.exp(-X[:, 0] - 0.5 * X[:, 1] ** 2))
censoring = rng.exponential(1.0, size=len(X))  # each row is observed for a time of its own
event = time <= censoring

# %%
# The sign of the target shows whether the event happened: a negative time is censored at its
# absolute value.
y = np.where(event, time, -censoring)
model = HedgerowRegressor(objective="cox", n_estimators=200, early_stopping=False).fit(X, y)
print("concordance:", round(model.score(X, y), 3))

# %%
times = np.linspace(0.01, 2.0, 100)
rows = np.array([[-1.0, 0, 0, 0], [0, 0, 0, 0], [1.0, 0, 0, 0]])
for row, curve in zip(rows, model.predict_survival_function(rows, times), strict=True):
    plt.step(times, curve, where="post", label=f"first column {row[0]:g}")
plt.xlabel("time")
plt.ylabel("probability of no event")
plt.legend()
