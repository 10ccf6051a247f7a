"""
Moving from XGBoost and CatBoost
================================

Import a trained model, compare its predictions, and translate the parameters of both libraries.
"""

# %%
import catboost
import numpy as np
import xgboost

import hedgerow

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 6))
y = X[:, 0] + X[:, 1] * X[:, 2]

# %%
theirs = xgboost.XGBRegressor(n_estimators=50, max_depth=4).fit(X, y)
ours = hedgerow.from_xgboost(theirs)
print("largest difference:", np.abs(ours.predict(X) - theirs.predict(X)).max())
params = {"eta": 0.1, "max_depth": 4, "lambda": 2.0}
print(hedgerow.from_xgboost_params(params, defaults=False).params)

# %%
theirs = catboost.CatBoostRegressor(iterations=50, verbose=0, allow_writing_files=False).fit(X, y)
ours = hedgerow.from_catboost(theirs)
print("largest difference:", np.abs(ours.predict(X) - theirs.predict(X)).max())
print(hedgerow.from_catboost_params({"depth": 6, "l2_leaf_reg": 3.0}, defaults=False).params)

# %%
# A CatBoost model does not hold the gains of its splits, so the plot counts splits.
ours.plot_importance("split")
