"""Two features in one byte of a row give the same histograms, scores and model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hedgerow import Dataset, train
from hedgerow.boosting.loop.setup import resolved as resolved_module
from hedgerow.boosting.loop.setup import training_matrix
from hedgerow.data import read_table
from hedgerow.data.binning.bundles import BundleRules
from hedgerow.data.binning.matrix import (
    FEWEST_PAIRED_ROWS,
    bin_bundled,
    can_pair,
    pair_columns,
    pairs_may_pay,
)
from hedgerow.io import model_to_bytes
from tests.helpers import engine
from tests.helpers.examples import examples
from tests.kernels.test_histogram import MODES


def table(n_rows, n_features, rng):
    X = rng.integers(0, 15, (n_rows, n_features)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def test_what_cannot_be_paired() -> None:
    rng = np.random.default_rng(0)
    X = table(300, 4, rng)
    assert can_pair(engine.binned(X, 15))
    assert not can_pair(pair_columns(engine.binned(X, 15)))
    assert not can_pair(engine.binned(X[:, :1], 15))
    assert not pairs_may_pay(engine.binned(X, 15))
    assert pairs_may_pay(engine.binned(table(FEWEST_PAIRED_ROWS, 2, rng), 15))
    assert not can_pair(engine.binned(rng.standard_normal((300, 4)), 16))
    exclusive = np.zeros((300, 9))
    exclusive[np.arange(300), np.arange(300) % 9] = 1.0
    spec = engine.binned(exclusive, 15).spec
    assert not can_pair(bin_bundled(read_table(exclusive), spec, BundleRules()))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n_rows", [8192, 8192 + 99, 65_536 + 100])
@pytest.mark.parametrize("sign", [-1, 1])
def test_no_field_overflows_in_the_margins(mode, n_rows, sign) -> None:
    X = np.zeros((n_rows, 3))
    X[::2, 1] = 1.0  # two cells of the pair, one bin of its first feature
    plain = engine.binned(X, 15)
    g, h = np.full(n_rows, sign * 2**30), np.full(n_rows, 2**30)
    packed = engine.pack(g, h, mode)
    built = engine.build(pair_columns(plain), packed, np.arange(n_rows))
    for a, b in zip(built, engine.build(plain, packed, np.arange(n_rows)), strict=True):
        np.testing.assert_array_equal(a, b)


# -- models -------------------------------------------------------------------------


def model(params, train_set, validation, paired, monkeypatch):
    with monkeypatch.context() as patch:
        matrices = []

        def pair(matrix, n_threads=1):
            matrices.append(matrix)
            return pair_columns(matrix, n_threads)

        patch.setattr(training_matrix, "pair_columns", pair)
        patch.setattr(
            training_matrix, "pairs_may_pay", can_pair if paired else lambda matrix: False
        )
        booster = train(params, train_set, validation)
        assert len(matrices) == int(paired), "the fit did not go the way that is tested"
    return model_to_bytes(booster.model)


VARIANTS = (
    {},
    {"subsample": 0.6},
    {"subsample": 0.3, "sampling": "mvs"},
    {"sampling": "goss"},
    {"colsample_bytree": 0.4},
    {"colsample_bylevel": 0.5},
    {"colsample_bynode": 0.5, "grow_policy": "depthwise", "max_depth": 4},
    {"colsample_bytree": 0.6, "colsample_bynode": 0.6, "subsample": 0.7},
    {"monotone_constraints": {"x0": 1, "x1": -1}},
    {"interaction_constraints": [["x0", "x1"], ["x1", "x2"]], "colsample_bytree": 0.7},
    {"feature_penalties": {"x1": 0.5}, "reg_alpha": 0.1},
)


@settings(max_examples=examples(30), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    variant=st.sampled_from(VARIANTS),
    objective=st.sampled_from(["squared_error", "logistic", "softmax"]),
    n_features=st.sampled_from([3, 4, 7, 33]),
    max_bins=st.sampled_from([2, 5, 14, 15]),
    n_threads=st.sampled_from([1, 2, 3]),
    n_rows=st.sampled_from([150, 700, 9000]),
    weighted=st.booleans(),
    validated=st.booleans(),
)
def test_models_do_not_show_pairs(
    seed, variant, objective, n_features, max_bins, n_threads, n_rows, weighted, validated
) -> None:
    assume(objective != "softmax" or "monotone_constraints" not in variant)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)).astype(np.float32)
    X[rng.random(X.shape) < 0.15] = np.nan
    X[:, 1] = np.round(X[:, 1])
    y = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1] * X[:, 2]) + rng.standard_normal(n_rows)
    if objective != "squared_error":
        y = np.digitize(y, [0.0] if objective == "logistic" else [-1.0, 1.0]).astype(float)
        y[:3] = [0.0, 1.0, 1.0 if objective == "logistic" else 2.0]
    weight = rng.random(n_rows) if weighted else None
    params = {
        "objective": objective,
        "n_estimators": 4,
        "max_leaves": 12,
        "min_samples_leaf": 3,
        "max_bins": max_bins,
        **variant,
    }
    rows = rng.permutation(n_rows)[: n_rows // 3]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolved_module, "_CELLS_PER_THREAD", 1)
        models = {
            model(
                {**params, "n_jobs": n_jobs},
                Dataset(X, y, weight=weight),
                Dataset(X[rows], y[rows]) if validated else None,
                paired,
                patch,
            )
            for n_jobs, paired in ((1, False), (n_threads, True))
        }
    assert len(models) == 1


def test_categories_are_paired_like_numbers(monkeypatch) -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    level = rng.integers(0, 9, 3000)
    X = pandas.DataFrame(
        {"a": pandas.Categorical(level), "b": rng.standard_normal(3000), "c": level % 3 + 0.5}
    )
    y = np.sin(level) + X["b"].to_numpy() + rng.standard_normal(3000)
    params = {"n_estimators": 5, "max_bins": 15, "subsample": 0.5, "n_jobs": 1}
    one, other = (model(params, Dataset(X, y), None, on, monkeypatch) for on in (True, False))
    assert one == other
