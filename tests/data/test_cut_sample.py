"""Cuts depend on what a table holds, not on how it is given, above the limit of the sample, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hedgerow.comm.base import Alone
from hedgerow.data import read_any
from hedgerow.data.binning import cut_sample, few_values
from hedgerow.data.binning.bins import BinSpec, fit_bins, fit_sample, integer_mass
from hedgerow.data.binning.cut_sample import SAMPLE_ROWS, CutSample, RowSample, sample_of
from hedgerow.data.sources.base import ReadRequest
from hedgerow.data.sources.batches import FunctionPart
from hedgerow.data.sources.survey import Survey
from hedgerow.data.sparse import AnyTable
from tests.helpers.examples import examples

BINS = 12
MOST = 60
"""Contents that the samples of these tests use."""

LIMIT = 10**8
FORMS = {
    "float32": lambda X: X.astype(np.float32),
    "float64": lambda X: X,
    "integers": lambda X: np.where(np.isnan(X), -1, X * 8).astype(np.int64) * 2**40 + 2**60,
    "mixed": lambda X: pd.DataFrame({"k": np.int64(2**60) + np.arange(len(X)) % 90, "x": X[:, 0]}),
    "sparse": sparse.csr_array,
    "sparse integers": lambda X: sparse.csr_array(np.nan_to_num(X * 8).astype(np.int64) << 40),
}


def numbers(rng: np.random.Generator, n_rows: int) -> Any:
    """Return numbers with many zeros, repeated rows, missing values, and a rare value."""
    X = rng.integers(-9, 10, (n_rows, 4)) / 8 * (rng.random((n_rows, 4)) < 0.7)
    X[:, 3] = np.where(rng.random(n_rows) < 0.2, np.nan, X[:, 3])
    X[:, 2] = 0.0
    X[rng.integers(n_rows), 2] = 1.0
    return X


def sample(table: AnyTable, weight: Any, seed: int = 3) -> CutSample:
    mass = None if weight is None else integer_mass(weight)
    most = np.full(table.n_features, BINS)
    return sample_of(table, mass, seed, 2, most, most=MOST)


def assert_same(first: BinSpec, second: BinSpec) -> None:
    for name in ("cut_keys", "cut_start", "level_bin", "level_start"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@settings(max_examples=examples(20), deadline=None)
@given(seed=st.integers(0, 2**32), form=st.sampled_from(sorted(FORMS)), zero=st.booleans())
def test_copies_weights_and_order_change_no_cut(seed: int, form: str, zero: bool) -> None:
    rng = np.random.default_rng(seed)
    X, times = numbers(rng, 400), rng.integers(1, 5, 400)
    copies = rng.permutation(np.repeat(np.arange(400), times))
    order = rng.permutation(400)

    whole = FORMS[form](X)

    def cuts(rows: Any, weight: Any) -> BinSpec:
        taken = whole.iloc[rows] if form == "mixed" else whole[rows]
        table = read_any(taken, zero_missing=zero)
        found = sample(table, weight)
        assert found.rows is not None
        assert len(found.rows) == MOST
        return fit_sample(found, BINS)

    base = cuts(np.arange(400), times.astype(float))
    assert_same(base, cuts(copies, None))
    assert_same(base, cuts(order, times[order] * 0.5))


@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 2**32), zero=st.booleans())
def test_dense_and_sparse_tables_have_one_sample(seed: int, zero: bool) -> None:
    rng = np.random.default_rng(seed)
    X, weight = numbers(rng, 300), rng.integers(1, 5, 300) / 4
    specs = [
        fit_sample(sample(read_any(rows, zero_missing=zero), weight), BINS)
        for rows in (X, sparse.csr_array(X), sparse.csc_array(X))
    ]
    assert_same(specs[0], specs[1])
    assert_same(specs[0], specs[2])


@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 2**32), zero=st.booleans())
def test_batches_and_ranks_have_the_sample_of_memory(seed: int, zero: bool) -> None:
    """Batches of other types, in another order, merged through messages."""
    rng = np.random.default_rng(seed)
    X, weight = numbers(rng, 500), rng.integers(1, 5, 500).astype(float)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["town"] = rng.choice([f"t{k}" for k in range(40)], 500)
    expected = fit_sample(sample(read_any(frame, zero_missing=zero), weight), BINS)
    edges = np.sort(rng.choice(np.arange(1, 500), 7, replace=False))
    request = ReadRequest(zero_missing=zero)
    given: Any = {"seed": 3, "memory_limit": LIMIT}
    surveys = [Survey(request, largest_weight=float(weight.max()), **given) for _ in range(3)]
    for survey in surveys:
        survey.sample = RowSample(MOST)
    for number, part in enumerate(np.split(rng.permutation(500), edges)):
        survey = surveys[number % 3]
        batch = frame.iloc[part]
        if number > 0:  # the first has floats, so the column is of floats
            batch = batch.astype({"c": np.int64 if number % 2 else np.int8})
        for found in FunctionPart(lambda batch=batch: iter([batch])).batches(None, LIMIT):
            survey.begin(list(frame), True, False)
            survey.add(found, None, weight[part], "batch")
    for last in (max(next(survey.sample.limits(Alone())) for survey in surveys), 4095):
        merged = Survey(request, **given)
        merged.sample = RowSample(MOST)
        for later in surveys:
            merged.merge(Survey.from_bytes(later.to_bytes(last), request, **given))
        found = merged.finish()
        assert found.sample.table.n_rows == MOST
        assert_same(expected, fit_sample(found.sample, BINS))


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_rare_values_have_bins(form: str) -> None:
    """Columns of few values over all rows have a bin for each; other columns are sampled."""
    rng = np.random.default_rng(0)
    n_rows = SAMPLE_ROWS + 30_000
    X = np.zeros((n_rows, 4), dtype=np.float32)
    X[:, 0] = rng.standard_normal(n_rows)
    X[rng.choice(n_rows, 3, replace=False), 1] = [1.0, 2.0, np.inf]
    X[:, 2] = rng.integers(0, 254, n_rows)
    X[rng.integers(n_rows), 2] = -5.0  # the value number 255
    X[:, 3] = rng.integers(0, 256, n_rows)
    table = read_any(X if form == "dense" else sparse.csr_array(X))
    spec = fit_bins(table, 255)
    assert [spec.n_bins(j) for j in range(4)] == [255, 4, 255, 255]
    assert fit_bins(table, (9, 3, 9, 9)).n_bins(1) <= 3


def test_too_many_pairs_of_sparse_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then no column is looked at further, whatever the order of the rows."""
    monkeypatch.setattr(few_values, "MOST_PAIRS", 300)
    X = numbers(np.random.default_rng(0), 500)
    wide = sparse.csr_array(np.hstack([X + k * (X != 0) for k in range(30)]))
    assert sample(read_any(wide), None).few == {}
    assert len(sample(read_any(wide[:, :4]), None).few) > 0


def test_huge_masses_keep_exact_sums() -> None:
    mass = np.array([2**34, 3, 2**61, 5 * 2**40], dtype=np.int64)
    floats = cut_sample.float_masses(mass)
    assert floats.sum() <= 2**53
    assert (np.diff(floats[[1, 0, 3, 2]]) > 0).all()
    assert cut_sample.float_masses(mass[:2]).tolist() == [2**34, 3]
