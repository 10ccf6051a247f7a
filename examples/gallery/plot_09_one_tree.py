"""
One tree that can be read
=========================

:class:`hedgerow.CARTClassifier` grows the tree of Breiman, Friedman, Olshen and Stone.
Cost-complexity pruning leaves the splits that pay.
"""

# %%
import pandas as pd
from sklearn.model_selection import train_test_split

from hedgerow import CARTClassifier
from hedgerow.datasets import load_pima

pima = load_pima()
X = pd.DataFrame(pima.X, columns=pima.feature_names)
X_train, X_test, y_train, y_test = train_test_split(X, pima.y, random_state=0)
full = CARTClassifier().fit(X_train, y_train)
pruned = CARTClassifier(ccp_alpha=0.008).fit(X_train, y_train)
for name, tree in (("full", full), ("pruned", pruned)):
    print(f"{name}: {tree.get_n_leaves()} leaves, accuracy {tree.score(X_test, y_test):.3f}")

# %%
# The picture shows each split, and the rows and the class of each leaf.
axes = pruned.plot_tree()

# %%
# The same tree as rules:
print(*pruned.to_rules(), sep="\n")
