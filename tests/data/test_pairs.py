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
    left_bytes,
    pair_columns,
    pairs_may_pay,
)
from hedgerow.io import model_to_bytes
from tests.helpers import engine
from tests.helpers.examples import examples
from tests.kernels.test_histogram import MODES, assert_equals_naive, fixed_gradients

WIDTHS = [2, 3, 31, 32, 33, 34, 63, 64, 65, 66, 70, 129]


def table(n_rows, n_features, rng):
    X = rng.integers(0, 15, (n_rows, n_features)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def test_rows_hold_pairs_as_drawn() -> None:
    matrix = pair_columns(engine.binned([[1.0, 20.0, 7.0], [2.0, 10.0, np.nan]], 15))
    assert matrix.by_row[0, :2].tolist() == [[0x01, 0x00] + [0] * 6, [0x10, 0xF0] + [0] * 6]
    assert (matrix.features_per_tile, matrix.bytes_per_tile) == (4, 2)


@pytest.mark.parametrize("n_features", WIDTHS)
@pytest.mark.parametrize("n_threads", [1, 3])
def test_every_pair_is_where_its_features_are(n_features, n_threads) -> None:
    rng = np.random.default_rng(n_features)
    plain = engine.binned(table(20_100, n_features, rng), 15)
    matrix = pair_columns(plain, n_threads)
    bins = engine.columns_of(plain)
    per_tile = matrix.features_per_tile
    for j in range(n_features):
        byte = matrix.by_row[j // per_tile, : plain.n_rows, j % per_tile // 2]
        np.testing.assert_array_equal(byte & 15 if j % 2 else byte >> 4, bins[j])
    assert not matrix.by_row[:, plain.n_rows :].any()
    assert not matrix.by_row[:, :, matrix.bytes_per_tile :].any()
    assert matrix.n_tiles == -(-n_features // per_tile)


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


@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.sampled_from([1, 40, 99, 100, 101, 300]),
    n_features=st.sampled_from(WIDTHS),
    mode=st.sampled_from(MODES),
)
def test_histograms_are_those_of_the_features(seed, n_rows, n_features, mode) -> None:
    rng = np.random.default_rng(seed)
    matrix = pair_columns(engine.binned(table(n_rows, n_features, rng), 15))
    packed = engine.pack(*fixed_gradients(n_rows, rng), mode, seed=seed)
    columns = np.sort(rng.permutation(n_features)[: rng.integers(1, n_features, endpoint=True)])
    first = int(rng.integers(0, len(columns)))
    part = (first, int(rng.integers(first + 1, len(columns), endpoint=True)))
    rows = rng.permutation(n_rows)[: rng.integers(1, n_rows, endpoint=True)]
    built = engine.build(matrix, packed, rows, columns=columns, part=part)
    assert_equals_naive(matrix, packed, rows, built, set(columns[part[0] : part[1]].tolist()))


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


@given(column=st.integers(-1, 200), members=st.sets(st.integers(0, 15)))
def test_bytes_that_go_left_are_those_of_the_bins(column, members) -> None:
    words = np.array([[sum(1 << b for b in members), 0, 0, 0]], dtype=np.uint64)
    words[0, 1:] = 0xFFFF  # of no meaning: there are 16 bins
    found = left_bytes(np.array([column], dtype=np.int32), words)[0]
    for byte in range(256):
        is_left = bool((int(found[byte // 64]) >> (byte % 64)) & 1)
        assert column < 0 or is_left == ((byte & 15 if column % 2 else byte >> 4) in members)


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
