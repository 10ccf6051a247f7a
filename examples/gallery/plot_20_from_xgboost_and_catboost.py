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
model = xgboost.XGBRegressor(n_estimators=50, max_depth=4).fit(X, y)
booster = hedgerow.from_xgboost(model)
print("largest difference:", np.abs(booster.predict(X) - model.predict(X)).max())
params = {"eta": 0.1, "max_depth": 4, "lambda": 2.0}
print(hedgerow.from_xgboost_params(params, defaults=False).params)

# %%
model = catboost.CatBoostRegressor(iterations=50, verbose=0, allow_writing_files=False).fit(X, y)
booster = hedgerow.from_catboost(model)
print("largest difference:", np.abs(booster.predict(X) - model.predict(X)).max())

# %%
# A CatBoost model does not store the gains of its splits, so the plot counts splits.
booster.plot_importance("split")
