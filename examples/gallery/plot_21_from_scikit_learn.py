"""
Moving from scikit-learn
========================

The estimators follow the conventions of scikit-learn: pipelines, searches and inspection tools work
without changes.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.inspection import PartialDependenceDisplay
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from hedgerow import HedgerowClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
pipeline = make_pipeline(
    make_column_transformer(("passthrough", X.columns[:10].tolist())), HedgerowClassifier()
)
search = GridSearchCV(
    pipeline,
    {"hedgerowclassifier__max_leaves": [4, 15], "hedgerowclassifier__n_estimators": [50]},
    cv=3,
)
search.fit(X, y)
print(search.best_params_, round(search.best_score_, 3))

# %%
model = HedgerowClassifier(n_estimators=100).fit(X, y)
PartialDependenceDisplay.from_estimator(model, X, ["mean radius", "mean texture"])
plt.tight_layout()
