"""
Intervals with guaranteed coverage
==================================

Conformal intervals contain the target of the requested share of new rows, for any estimator, good
or bad.  The only condition: new rows come from the same distribution as the calibration rows.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from hedgerow import ConformalRegressor, HedgerowRegressor

rng = np.random.default_rng(0)
X = rng.normal(size=(4000, 5))
y = 3.0 * X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_t(3, size=len(X))
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
coverage = []
levels = [0.5, 0.7, 0.8, 0.9, 0.95]
model = ConformalRegressor(HedgerowRegressor(n_estimators=100), random_state=0)
model.fit(X_train, y_train)
for level in levels:
    lower, upper = model.predict_interval(X_test, level).T
    coverage.append(np.mean((lower <= y_test) & (y_test <= upper)))
    print(f"level {level:.2f}, coverage {coverage[-1]:.3f}, width {np.mean(upper - lower):.2f}")

# %%
plt.plot(levels, coverage, "o-")
plt.plot([0.5, 1], [0.5, 1], "--", color="grey")
plt.xlabel("level")
plt.ylabel("coverage of test rows")
