"""Histograms are exact integer sums, for any packing, order and chunks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import engine
from tests.reference import naive

MODES = ("constant", "narrow", "apart")
LARGEST = 2**30


def table(n_rows, n_features, rng, n_values=9):
    X = rng.integers(0, n_values, (n_rows, n_features)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def fixed_gradients(n_rows, rng):
    g = rng.integers(-LARGEST, LARGEST, n_rows, endpoint=True)
    return g, rng.integers(0, LARGEST, n_rows, endpoint=True)


def assert_equals_naive(matrix, packed, rows, built, features=None):
    n_rows = matrix.n_rows
    g, h = packed.g_and_h(n_rows)
    expected = naive.histogram(engine.columns_of(matrix), rows, g, h, matrix.spec.stride)
    features = range(matrix.n_features) if features is None else features
    for sums, naive_sums in zip(built, expected, strict=True):
        for feature in range(matrix.n_features):
            if feature in features:
                assert sums[feature].tolist() == naive_sums[feature]
            else:
                assert (sums[feature] == -7).all()


@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(1, 70),
    n_features=st.sampled_from([1, 2, 9, 32, 33, 70]),
    mode=st.sampled_from(MODES),
)
def test_every_cell_is_the_sum_of_its_rows(seed, n_rows, n_features, mode) -> None:
    rng = np.random.default_rng(seed)
    matrix = engine.binned(table(n_rows, n_features, rng))
    packed = engine.pack(*fixed_gradients(n_rows, rng), mode, seed=seed)
    rows = rng.permutation(n_rows)[: rng.integers(1, n_rows, endpoint=True)]
    assert_equals_naive(matrix, packed, rows, engine.build(matrix, packed, rows))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n_rows", [8191, 8192, 32_767, 32_768, 65_535, 65_536, 200_001])
@pytest.mark.parametrize("sign", [-1, 1])
def test_no_field_overflows_with_extremes_in_one_bin(mode, n_rows, sign) -> None:
    matrix = engine.binned(np.zeros((n_rows, 2)))
    g = np.full(n_rows, sign * LARGEST)
    packed = engine.pack(g, np.full(n_rows, LARGEST), mode)
    g_sums, h_sums, n_sums = engine.build(matrix, packed, np.arange(n_rows))
    unit = 2**packed.dropped
    assert g_sums[:, 0].tolist() == [sign * LARGEST // unit * n_rows] * 2
    assert h_sums[:, 0].tolist() == [n_rows if mode == "constant" else LARGEST // unit * n_rows] * 2
    assert n_sums[:, 0].tolist() == [n_rows] * 2
    assert not any(sums[:, 1:].any() for sums in (g_sums, h_sums, n_sums))


@pytest.mark.parametrize("mode", MODES)
def test_mixed_signs_over_many_chunks(mode) -> None:
    n_rows = 150_000
    rng = np.random.default_rng(1)
    matrix = engine.binned(rng.integers(0, 3, (n_rows, 1)).astype(float))
    g = rng.choice([-LARGEST, -1, 0, 1, LARGEST], n_rows)
    h = rng.choice([0, 1, LARGEST - 1, LARGEST], n_rows)
    packed = engine.pack(g, h, mode)
    built = engine.build(matrix, packed, rng.permutation(n_rows))
    row_g, row_h = packed.g_and_h(n_rows)
    for b in range(3):
        here = engine.columns_of(matrix)[0] == b
        expected = [row_g[here].sum(), row_h[here].sum(), here.sum()]
        assert [sums[0, b] for sums in built] == expected


@pytest.mark.parametrize("mode", ["constant", "apart"])
def test_packing_that_claims_to_be_exact_loses_no_bit(mode) -> None:
    rng = np.random.default_rng(2)
    g, h = fixed_gradients(5000, rng)
    row_g, row_h = engine.pack(g, h, mode).g_and_h(5000)
    np.testing.assert_array_equal(row_g, g)
    np.testing.assert_array_equal(row_h, np.ones(5000) if mode == "constant" else h)


def test_packed_number_lies_as_drawn() -> None:
    packed = engine.pack([-3 << 18, 5 << 18], [7 << 18, 2**30], "narrow")
    p = packed.packing
    fields = [naive.unpack(v, p.count_bits, p.hessian_bits) for v in packed.numbers[:2]]
    assert fields == [(-3, 7, 1), (5, 2**12, 1)]
