"""
A first model
=============

Train a classifier with the default settings, measure its quality, and save it to a file.
"""

# %%
# The Pima data set ships with the package: eight measurements of 768 women, and whether they had
# diabetes.  Missing values are NaN and need no preparation.
import tempfile
from pathlib import Path

from sklearn.metrics import RocCurveDisplay, log_loss
from sklearn.model_selection import train_test_split

import hedgerow
from hedgerow import HedgerowClassifier
from hedgerow.datasets import load_pima

pima = load_pima()
X_train, X_test, y_train, y_test = train_test_split(pima.X, pima.y, random_state=0)

# %%
# Without parameters, a fit chooses the learning rate and the tree size from the data, and the
# number of trees by cross-validation.  Then it trains on all rows.
model = HedgerowClassifier(random_state=0).fit(X_train, y_train)
print(model.chosen_params_["learning_rate"], model.n_iter_, "trees")
print("log loss of the test rows:", round(log_loss(y_test, model.predict_proba(X_test)), 4))

# %%
RocCurveDisplay.from_estimator(model, X_test, y_test)

# %%
# A model file holds plain arrays and no code, so it is safe to load.
path = Path(tempfile.mkdtemp()) / "pima.hedgerow"
model.save(path)
booster = hedgerow.load(path)
print(booster.predict(X_test[:3]), model.predict(X_test[:3]))
