"""
Early stopping and learning curves
==================================

Score rows that are not used for training after each round, and keep the best round.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from hedgerow import HedgerowClassifier

X, y = make_classification(3000, 20, n_informative=6, flip_y=0.2, random_state=0)
X_train, X_val, y_train, y_val = train_test_split(X, y, random_state=0)

# %%
# With ``X_val``, the first metric decides.  The model keeps the trees up to the best round.
model = HedgerowClassifier(
    n_estimators=500, learning_rate=0.1, patience=30, eval_metric=["logloss", "auc"]
)
model.fit(X_train, y_train, X_val=X_val, y_val=y_val)
print(model.best_iteration_, model.stopped_by_)

# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 4))
model.plot_history("logloss", axes[0])
model.plot_history("auc", axes[1])

# %%
# If there are no rows to spare, cross-validation chooses the number of rounds, and the model is
# trained on all rows.
model = HedgerowClassifier(n_estimators=500, learning_rate=0.1, early_stopping="cv").fit(X, y)
print(model.n_iter_)
