"""
Missing values and categories
=============================

Text columns are categories, and NaN is a missing value.  Neither needs an encoder or an imputer.
"""

# %%
import numpy as np
import pandas as pd

from hedgerow import HedgerowRegressor
from hedgerow.plot import plot_tree

rng = np.random.default_rng(0)
n = 2000
X = pd.DataFrame(
    {"size": rng.gamma(4.0, 20.0, n), "town": rng.choice(["Bergen", "Lund", "Turku", "Vejle"], n)}
)
price = 3.0 * X["size"] + X["town"].map({"Bergen": 80, "Lund": 0, "Turku": -40, "Vejle": 30})
X.loc[rng.random(n) < 0.2, "size"] = np.nan  # a fifth of the sizes is unknown

# %%
# A split of a category column sends a set of categories to the left.  Each split also sends
# missing values to one side, the side with the larger gain.
model = HedgerowRegressor(n_estimators=50, max_leaves=6).fit(X, price)
plot_tree(model.booster_.model, 0)

# %%
# Categories are compared by value, so a pandas categorical with other codes gets the same
# predictions.  The booster counts towns that training did not see; ``unknown_category`` sets how
# they are treated.
new = pd.DataFrame({"size": [100.0, np.nan], "town": ["Lund", "Oslo"]})
print(model.predict(new), model.booster_.unseen_categories)
