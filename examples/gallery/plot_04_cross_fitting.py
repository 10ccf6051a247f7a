"""
Cross-fitting: all folds in one call
====================================

``cross_fit`` trains a model for each fold, gives a prediction for each row by models that have not
seen it, and one model of them all.
"""

# %%
from sklearn.datasets import load_diabetes
from sklearn.metrics import PredictionErrorDisplay, r2_score

from hedgerow import HedgerowRegressor, cross_fit

X, y = load_diabetes(return_X_y=True)
found = cross_fit(HedgerowRegressor(random_state=0), X, y, cv=5)

# %%
# Out-of-fold predictions are those of new rows: use them to judge, to stack, or to calibrate.
print("r2 of rows that were not seen:", round(r2_score(y, found.oof_prediction), 3))
PredictionErrorDisplay.from_predictions(y, found.oof_prediction)

# %%
# The mean of the folds' models predicts like any other model.
print(found.model.predict(X[:3]))
