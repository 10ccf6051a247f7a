"""Single trees: more criteria, sparse rows, paths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.tree import DecisionTreeRegressor

from hedgerow import CARTClassifier, CARTRegressor
from hedgerow.errors import DataError


def make_rows(n_rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    X = r.normal(size=(n_rows, 4))
    return X, X[:, 0] - X[:, 1] * X[:, 2] + r.normal(scale=0.5, size=n_rows)


X, Y = make_rows()
COUNTS = np.random.default_rng(1).poisson(np.exp(0.7 * X[:, 0])).astype(float)
WEIGHTS = [None, np.random.default_rng(2).integers(1, 4, 300).astype(float)]


def same_tree(ours: Any, peer: Any) -> None:
    """Assert that the tree is that of scikit-learn, node by node."""
    assert ours.tree_.node_count == peer.tree_.node_count
    assert (np.where(ours.tree_.feature < 0, -2, ours.tree_.feature) == peer.tree_.feature).all()
    inner = ours.tree_.feature >= 0
    np.testing.assert_allclose(ours.tree_.threshold[inner], peer.tree_.threshold[inner], rtol=1e-6)
    np.testing.assert_allclose(ours.tree_.impurity, peer.tree_.impurity, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("settings", [{"max_depth": 3}, {"max_leaf_nodes": 9}])
@pytest.mark.parametrize("criterion", ["poisson", "friedman_mse"])
def test_criteria_of_scikit_learn(
    criterion: str, settings: dict[str, Any], weight: np.ndarray | None
) -> None:
    y = COUNTS if criterion == "poisson" else Y
    common = {"min_samples_leaf": 15, **settings}  # in small nodes of counts cuts are equal
    known = "squared_error" if criterion == "friedman_mse" else criterion
    peer = DecisionTreeRegressor(criterion=known, **common).fit(X.astype(np.float32), y, weight)
    ours = CARTRegressor(criterion=criterion, **common).fit(X.astype(np.float32), y, weight)
    same_tree(ours, peer)
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), rtol=1e-9)


def test_poisson_refuses_what_it_cannot_learn() -> None:
    for y in (Y, np.zeros(300)):
        with pytest.raises(DataError, match="poisson"):
            CARTRegressor(criterion="poisson").fit(X, y)


def test_decision_path_of_scikit_learn() -> None:
    peer = DecisionTreeRegressor(max_depth=4).fit(X.astype(np.float32), Y)
    ours = CARTRegressor(max_depth=4).fit(X.astype(np.float32), Y)
    found = ours.decision_path(X)
    assert found.dtype == np.int64
    assert (found != peer.decision_path(X)).nnz == 0
    assert (found.indices[found.indptr[1:] - 1] >= 0).all()


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array])
def test_sparse_rows_give_the_tree_of_dense_ones(kind: Any) -> None:
    X0 = np.where(np.abs(X) < 0.9, 0.0, X)
    dense, thin = CARTRegressor(max_depth=5).fit(X0, Y), CARTRegressor(max_depth=5)
    thin.fit(kind(X0), Y)
    assert (thin.tree_.threshold_key == dense.tree_.threshold_key).all()
    assert (thin.predict(kind(X0)) == dense.predict(X0)).all()
    assert (thin.decision_path(kind(X0)) != dense.decision_path(X0)).nnz == 0


@pytest.mark.parametrize("kind", [CARTRegressor, CARTClassifier])
def test_a_tree_has_one_target(kind: Any) -> None:
    with pytest.raises(DataError, match=r"y should be a 1d array, got an array of shape"):
        kind().fit(X, np.c_[Y > 0, Y > 1])
