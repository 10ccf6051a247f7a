"""
Imbalanced classes
==================

Class weights give a rare class more influence.  Hedgerow corrects the probabilities for the
weights, so they stay calibrated.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split

from hedgerow import HedgerowClassifier
from hedgerow.plot import plot_calibration

X, y = make_classification(20000, 12, n_informative=5, weights=[0.97], random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
for ax, weight in zip(axes, (None, "balanced"), strict=True):
    model = HedgerowClassifier(n_estimators=100, class_weight=weight).fit(X_train, y_train)
    probability = model.predict_proba(X_test)
    plot_calibration(y_test, probability, model.classes_, ax)
    ax.set_title(f"class_weight={weight!r}")
    recall = recall_score(y_test, model.predict(X_test))
    print(weight, "mean probability", probability[:, 1].mean().round(4), "recall", round(recall, 3))
