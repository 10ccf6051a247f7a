"""
Cross-fitting: all folds in one call
====================================

``cross_fit`` trains a model for each fold.  It predicts each row with a model that was not trained
on it, and averages the models of all folds.
"""

# %%
from sklearn.datasets import load_diabetes
from sklearn.metrics import PredictionErrorDisplay, r2_score

from hedgerow import HedgerowRegressor, cross_fit

X, y = load_diabetes(return_X_y=True)
result = cross_fit(HedgerowRegressor(random_state=0), X, y, cv=5)

# %%
# Out-of-fold predictions are as accurate as predictions of new rows: use them to evaluate, stack
# or calibrate models.
print("r2 of rows that were not seen:", round(r2_score(y, result.oof_prediction), 3))
PredictionErrorDisplay.from_predictions(y, result.oof_prediction)

# %%
# The average of the models predicts like any other model.
print(result.model.predict(X[:3]))
