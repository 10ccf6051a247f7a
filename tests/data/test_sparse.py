"""Sparse tables of any format give the model, predictions and bytes of dense ones."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import HedgerowRegressor, load
from hedgerow.arrays import MISSING_KEY
from hedgerow.data import Column, Schema, SparseTable, bin_table, fit_bins, read_any, read_table
from hedgerow.errors import DataError, ParameterError

sparse = pytest.importorskip("scipy.sparse")

FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")


def random_table(seed, n_rows=200, n_features=12, density=0.2, dtype=np.float32, missing=0.0):
    """Return numbers with many zeros, negative ones, ties, and perhaps missing values."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n_rows, n_features)) * rng.choice([1, 4, 300]))
    X[rng.random(X.shape) > density] = 0.0
    if missing and np.dtype(dtype).kind == "f":
        X[rng.random(X.shape) < missing] = np.nan
    return (X + 0.0).astype(dtype)


def store_zeros(X, seed=0):
    """Return a CSR matrix of X that stores some of its zeros."""
    rng = np.random.default_rng(seed)
    recorded = (X != 0) | (rng.random(X.shape) < 0.1)
    rows, columns = np.nonzero(recorded)
    return sparse.csr_matrix((X[recorded], (rows, columns)), shape=X.shape)


tables = st.builds(
    random_table,
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(1, 120),
    n_features=st.integers(1, 9),
    density=st.sampled_from([0.0, 0.02, 0.3, 0.9, 1.0]),
    dtype=st.sampled_from([np.float32, np.float64, np.int64, np.int8]),
    missing=st.sampled_from([0.0, 0.05]),
)


# -- reading ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("wrap", ["array", "matrix"])
def test_every_format_is_read(kind, wrap):
    X = random_table(0)
    if kind == "dia":
        X = np.diag(np.arange(1.0, 9.0))
    table = read_any(getattr(sparse, f"{kind}_{wrap}")(X))
    assert isinstance(table, SparseTable)
    np.testing.assert_array_equal(table.dense(), X)
    assert table.schema.names == tuple(f"x{j}" for j in range(X.shape[1]))


@pytest.mark.parametrize(
    ("dtype", "plain", "kind"),
    [
        (np.bool_, np.float32, "float"),
        (np.int8, np.float32, "float"),
        (np.uint16, np.float32, "float"),
        (np.int32, np.float64, "float"),
        (np.int64, np.int64, "int"),
        (np.uint64, np.int64, "int"),
        (np.float32, np.float32, "float"),
        (np.float64, np.float64, "float"),
    ],
)
def test_types_are_those_of_dense_tables(dtype, plain, kind):
    X = np.abs(random_table(1, dtype=np.float64)).astype(dtype)
    table, dense = read_any(sparse.csr_array(X)), read_table(X)
    assert table.value.dtype == dense.values.dtype == plain
    assert table.schema == dense.schema
    assert set(table.schema.kinds) == {kind}
    np.testing.assert_array_equal(table.dense(), dense.values)


def test_empty_rows_columns_and_whole_tables():
    X = np.zeros((5, 4))
    X[2, 1] = 3.0
    np.testing.assert_array_equal(read_any(sparse.csc_array(X)).dense(), X)
    nothing = read_any(sparse.csr_array((3, 2)))
    assert nothing.n_entries == 0
    model = HedgerowRegressor(min_samples_leaf=1).fit(sparse.csr_array((3, 2)), [1.0, 2.0, 6.0])
    np.testing.assert_allclose(model.predict(np.zeros((2, 2))), 3.0)


def test_read_only_arrays_and_long_indices():
    X = random_table(2)
    S = sparse.csr_matrix(X)
    S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    for array in (S.data, S.indices, S.indptr):
        array.flags.writeable = False
    table = read_any(S)
    np.testing.assert_array_equal(table.dense(), X)
    assert table.column.dtype == np.int32
    spec = fit_bins(table, 255)
    bin_table(table, spec)


def test_duplicates_are_summed_in_a_copy():
    data, columns, starts = np.array([1.0, 2.0, 4.0]), np.array([2, 2, 0]), np.array([0, 3, 3])
    S = sparse.csr_matrix((data, columns, starts), shape=(2, 3))
    np.testing.assert_array_equal(read_any(S).dense(), [[4.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(S.data, [1.0, 2.0, 4.0])
    np.testing.assert_array_equal(S.indices, [2, 2, 0])


def test_values_compare_as_the_columns_of_the_model():
    schema = Schema((Column("a", "float"), Column("b", "int")))
    X = np.array([[0.5, 1.5], [0.0, 0.0], [-2.0, np.nan]])
    table = read_any(sparse.csr_array(X), schema)
    np.testing.assert_array_equal(table.dense(), read_table(X, schema).values)
    assert table.dense()[2, 1] == MISSING_KEY


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: sparse.csr_array((0, 3)), DataError, r"0 sample\(s\)"),
        (lambda: sparse.csr_array((3, 0)), DataError, r"0 feature\(s\)"),
        (lambda: sparse.coo_array(np.ones(3)), DataError, "Expected 2D array, got 1D"),
        (lambda: sparse.csr_array(np.eye(2) * 1j), DataError, "Complex data not supported"),
        (
            lambda: sparse.csr_array(np.array([[0, 0], [0, 2**63]], dtype=np.uint64)),
            DataError,
            "'x1' holds 9223372036854775808 .row 1.",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error(make, error, words):
    with pytest.raises(error, match=words):
        read_any(make())


def test_other_numbers_of_features_and_categories_are_refused():
    model = HedgerowRegressor(n_estimators=1).fit(np.eye(30), np.arange(30.0))
    with pytest.raises(DataError, match="X has 2 features, but HedgerowRegressor is expecting 30"):
        model.predict(sparse.eye_array(2))
    levels = Schema((Column("a", "category", ("x", "y")),))
    with pytest.raises(DataError, match="'a' is a category"):
        read_any(sparse.csr_array([[1.0]]), levels)


# -- zeros as missing values --------------------------------------------------------------


@given(tables)
def test_zeros_can_be_missing_values_in_both_kinds_of_table(X):
    dense = read_any(X, zero_missing=True)
    recorded = read_any(store_zeros(X), zero_missing=True)
    assert dense.schema.zero_missing
    assert (recorded.value != 0).all()
    np.testing.assert_array_equal(recorded.dense(), dense.values)
    again = read_any(X, dense.schema)
    np.testing.assert_array_equal(again.values, dense.values)


def test_zeros_are_missing_in_prediction_and_after_loading(tmp_path):
    X = random_table(5, n_rows=400)
    y = np.where(X[:, 0] == 0, 5.0, X[:, 0])
    model = HedgerowRegressor(zero_as_missing=True, min_samples_leaf=5).fit(X, y)
    with_nan = np.where(X == 0, np.nan, X)
    np.testing.assert_array_equal(model.predict(X), model.predict(with_nan))
    model.save(tmp_path / "m")
    loaded = HedgerowRegressor.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(sparse.csr_array(X)), model.predict(X))
    model.booster_.save(tmp_path / "b")
    assert load(tmp_path / "b").model.schema.zero_missing


# -- models -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "approx"])
def test_methods_that_sort_columns_say_so(method):
    with pytest.raises(ParameterError, match="X is sparse: use tree_method='hist'"):
        HedgerowRegressor(tree_method=method).fit(sparse.eye_array(30), np.arange(30.0))


def test_integers_and_wide_batches_predict_alike():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((800, 200)) < 0.05, rng.integers(1, 2**62, (800, 200)), 0)
    y = (X[:, :20] > 0).sum(axis=1) + rng.standard_normal(800)
    model = HedgerowRegressor(n_estimators=10, early_stopping=False).fit(sparse.csr_array(X), y)
    assert model.booster_.model.schema.has_int
    for n_jobs in (1, 2):
        model.set_params(n_jobs=n_jobs)
        np.testing.assert_array_equal(model.predict(sparse.csr_array(X)), model.predict(X))


# -- memory and real data -----------------------------------------------------------------------


@pytest.mark.slow
def test_memory_is_linear_in_the_entries():
    rng = np.random.default_rng(0)
    n_rows, n_features, per_row = 200_000, 2_000, 10
    level = rng.integers(0, n_features // per_row, (n_rows, per_row), dtype=np.int32)
    column = level + np.arange(per_row, dtype=np.int32) * (n_features // per_row)
    starts = np.arange(0, n_rows * per_row + 1, per_row)
    X = sparse.csr_array((np.ones(column.size, np.float32), column.ravel(), starts))
    y = (level[:, 0] % 7).astype(float)
    model = HedgerowRegressor(n_estimators=2, early_stopping=False)
    model.fit(X[:1000], y[:1000])  # compiled
    n_bytes = X.data.nbytes + X.indices.nbytes
    for action in (lambda: model.fit(X, y), lambda: model.predict(X)):
        tracemalloc.start()
        action()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # Rows cost about 70 bytes by themselves; a dense byte each would take 400 MB.
        assert peak < 6 * n_bytes + 100 * n_rows < n_rows * n_features / 2
