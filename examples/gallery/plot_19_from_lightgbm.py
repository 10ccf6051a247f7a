"""
Moving from LightGBM
====================

Import a model of LightGBM, and translate its parameters.
"""

# %%
import lightgbm
import numpy as np

import hedgerow

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 6))
y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
model = lightgbm.LGBMClassifier(n_estimators=50, verbosity=-1).fit(X, y)

# %%
# The imported model gives the same predictions.  You can explain, plot and serve it like any model
# of Hedgerow.
booster = hedgerow.from_lightgbm(model)
imported = booster.predict(X, kind="probability")[:, 1]
print("largest difference:", np.abs(imported - model.predict_proba(X)[:, 1]).max())
booster.plot_tree(0, max_depth=3)

# %%
# The translation lists Hedgerow's names of the parameters, and the differences.
translation = hedgerow.from_lightgbm_params(
    {"num_leaves": 31, "bagging_fraction": 0.8, "bagging_freq": 1}
)
print(translation)
