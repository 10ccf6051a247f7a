"""
Moving from LightGBM
====================

Read a model of LightGBM, and translate its parameters.
"""

# %%
import lightgbm
import numpy as np

import hedgerow

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 6))
y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
theirs = lightgbm.LGBMClassifier(n_estimators=50, verbosity=-1).fit(X, y)

# %%
# The model itself: it predicts the same here, and is explained, drawn and served as our own.
ours = hedgerow.from_lightgbm(theirs.booster_)
print("largest difference:", np.abs(ours.predict(X) - theirs.booster_.predict(X)).max())
ours.plot_tree(0, max_depth=3)

# %%
# The parameters: what they are called here, and what differs.
found = hedgerow.from_lightgbm_params(
    {"num_leaves": 31, "bagging_fraction": 0.8, "bagging_freq": 1}
)
print(found)
