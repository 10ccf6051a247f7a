"""Rows at the cuts of a model, and small tables of real data for other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hedgerow.kernels.tables.keys import floats_of_keys

SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-35, -1e-35, 1e300, -1e300, 5e-324])
ZERO = float(np.float32(1e-35))
AROUND_ZERO = np.array([ZERO, np.nextafter(ZERO, 1), np.nextafter(ZERO, 0)])


def near_cuts(booster: Any, column: int, narrow: bool = False) -> np.ndarray:
    """Return the cuts of a column, and the adjacent float64 and float32 numbers."""
    forest, schema = booster.model.forest, booster.model.split_schema
    if schema.kinds[column] == "category":
        raise ValueError("no numbers")
    cuts = np.unique(floats_of_keys(forest.threshold[forest.feature == column]))
    near = [cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf)]
    with np.errstate(over="ignore"):
        single = cuts.astype(np.float32)
    sides = [np.nextafter(single, np.float32(side)) for side in (-np.inf, np.inf)]
    near += [part.astype(np.float64) for part in (single, *sides)]
    found = np.concatenate([*near, AROUND_ZERO, -AROUND_ZERO, SPECIAL])
    if narrow:  # what XGBoost and the trees of scikit-learn refuse
        found = found[~(np.abs(found) > np.finfo(np.float32).max)]
    return found


def rows_near_cuts(
    booster: Any, n_rows: int = 3000, narrow: bool = False, codes: dict[int, Any] | None = None
) -> np.ndarray:
    """Return rows with values near the cuts; ``codes`` has the values of category columns."""
    rng = np.random.default_rng(0)
    n_columns = booster.num_features
    X = np.empty((n_rows, n_columns))
    for j in range(n_columns):
        pool = (codes or {}).get(j)
        X[:, j] = rng.choice(near_cuts(booster, j, narrow) if pool is None else pool, n_rows)
    return X


def leaf_numbers(booster: Any) -> np.ndarray:
    """Return the number of inner nodes of each tree: LightGBM numbers only leaves."""
    forest = booster.model.forest
    inner = np.concatenate(([0], np.cumsum(forest.feature >= 0)))
    return inner[forest.tree_start[1:]] - inner[forest.tree_start[:-1]]


def same_partition(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Return whether the rows that share a leaf are the same, tree by tree."""
    assert ours.shape == theirs.shape
    for a, b in zip(ours.T, theirs.T, strict=True):
        pairs = np.unique(np.column_stack([a, b]), axis=0)
        if len(pairs) != len(np.unique(a)) or len(pairs) != len(np.unique(b)):
            return False
    return True


def adult(folder: Path, n_rows: int = 4000) -> tuple[pd.DataFrame, np.ndarray]:
    """Return rows of adult: numbers, and text as pandas categories with missing values."""
    table = pd.read_parquet(folder / "train.parquet").head(n_rows)
    target = "income" if "income" in table.columns else table.columns[-1]
    y = pd.factorize(table[target].astype(str), sort=True)[0]
    X = table.drop(columns=[target])
    for name in X.columns:
        if not pd.api.types.is_numeric_dtype(X[name].dtype):
            text = X[name].astype(object)
            X[name] = pd.Categorical(text.where(text.notna(), None))
    return X, y


def california(folder: Path, n_rows: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of california as numbers, a tenth of the cells missing, a tenth zero."""
    table = pd.read_parquet(folder / "data.parquet")
    table = table.select_dtypes("number").head(n_rows).astype(float)
    values = table.to_numpy()
    rng = np.random.default_rng(0)
    X, y = values[:, :-1].copy(), values[:, -1].copy()
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.1] = 0.0
    X[:, -1] = np.where(np.isnan(X[:, -1]), 1.0, X[:, -1])  # one column without missing values
    return X, np.log(np.abs(y) + 1.0)
