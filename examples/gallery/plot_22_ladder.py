"""
From one tree to gradient boosting
==================================

A few parameters lead from a single tree to gradient boosting.  The errors show what each step adds.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from hedgerow import CARTRegressor, HedgerowRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(3000, 6))
y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=3000)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
plain = {"n_estimators": 200, "learning_rate": 0.1, "early_stopping": False}

# %%
ladder = {
    "the mean": None,
    "a tree (CART)": CARTRegressor(min_samples_leaf=10),
    "a tree, pruned": CARTRegressor(min_samples_leaf=10, ccp_alpha=0.005),
    "a random forest": HedgerowRegressor(
        boosting="rf", n_estimators=200, subsample=0.7, max_leaves=200
    ),
    "boosted stumps": HedgerowRegressor(**plain, max_leaves=2),
    "boosted trees": HedgerowRegressor(**plain, max_leaves=15),
    "... with DART": HedgerowRegressor(**plain, max_leaves=15, boosting="dart"),
    "... without parameters": HedgerowRegressor(random_state=0),
}
errors = {}
for name, model in ladder.items():
    prediction = y_train.mean() if model is None else model.fit(X_train, y_train).predict(X_test)
    errors[name] = float(np.sqrt(np.mean((prediction - y_test) ** 2)))
    print(f"{name:24s}{errors[name]:.3f}")

# %%
plt.barh(list(errors)[::-1], list(errors.values())[::-1])
plt.axvline(0.3, color="grey", linestyle="--")  # the noise
plt.xlabel("root mean squared error of test rows")
plt.tight_layout()
