"""Compute digests of a few models, which every kernel library must reproduce.

Tests run this program in processes with other libraries.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import numpy as np

import hedgerow


def models():
    """Return estimators that reach different kernels, and the target of each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 12))
    X[rng.random(X.shape) < 0.05] = np.nan
    present = np.nan_to_num(X)
    y = 2.0 * present[:, 0] + present[:, 1] ** 2 + rng.normal(size=3000)
    classes = np.digitize(y, [0.0, 2.0])
    plain = {"n_estimators": 10, "early_stopping": False, "n_jobs": 2}
    regressor, classifier = hedgerow.HedgerowRegressor, hedgerow.HedgerowClassifier
    return X, [
        (regressor(**plain), y),
        (regressor(**plain, grow_policy="symmetric", max_depth=4), y),
        (regressor(**plain, monotone_constraints={"x0": 1}), y),
        (regressor(**plain, tree_method="exact"), y),
        (regressor(**plain, linear_leaves=True), y),
        (classifier(**plain, sampling="goss"), classes),
        (classifier(**plain, multi_strategy="multi_output_tree"), classes),
    ]


def digest() -> str:
    """Return one digest of the files of all models and of their predictions."""
    found = hashlib.sha256()
    X, cases = models()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        for model, target in cases:
            model.fit(X, target)
            model.booster_.save(path)
            found.update(path.read_bytes())
            found.update(model.predict(X[:100].astype(np.float32)).tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    print(digest())
