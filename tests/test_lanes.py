"""Eight lanes do what eight numbers do one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hedgerow.compile import kernel
from hedgerow.kernels.lanes import N_LANES, choose, lane_of, load_turned, spread, to_float

places = arrays(np.int64, N_LANES, elements=st.integers(0, 50))


@kernel
def turned(array, at, offset, out):
    vectors = load_turned(array, at, offset)
    for j in range(N_LANES):
        out[0, j], out[1, j] = lane_of(vectors[0], j), lane_of(vectors[1], j)
        out[2, j], out[3, j] = lane_of(vectors[2], j), lane_of(vectors[3], j)
        out[4, j], out[5, j] = lane_of(vectors[4], j), lane_of(vectors[5], j)
        out[6, j], out[7, j] = lane_of(vectors[6], j), lane_of(vectors[7], j)


@kernel
def arithmetic(a, b, at, out):
    x, y = load_turned(a, at, 0)[0], load_turned(b, at, 0)[0]
    f, g = to_float(x), to_float(y)
    sums, differences = x + y, x - y
    products, quotients = f * g, f / g
    larger = choose((f > g) & (spread(np.int64(0)) >= y), f, spread(0.5))
    for j in range(N_LANES):
        out[0, j], out[1, j] = lane_of(sums, j), lane_of(differences, j)
        out[2, j], out[3, j] = lane_of(products, j), lane_of(quotients, j)
        out[4, j] = lane_of(larger, j)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@given(at=places, offset=st.integers(0, 5), seed=st.integers(0, 2**32 - 1))
def test_load_turned_is_a_transposed_gather(dtype, at, offset, seed) -> None:
    limits = np.iinfo(dtype)
    array = np.random.default_rng(seed).integers(limits.min, limits.max, 70, dtype, endpoint=True)
    out = np.zeros((N_LANES, N_LANES), np.int64)
    turned(array, at, np.int64(offset), out)
    expected = array[at[None, :] + offset + np.arange(N_LANES)[:, None]]
    np.testing.assert_array_equal(out, expected)


@given(at=places, seed=st.integers(0, 2**32 - 1))
def test_operators_are_those_of_numbers(at, seed) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-3, 4, (2, 70))
    out = np.zeros((5, N_LANES))
    arithmetic(a, b, at, out)
    x, y = a[at], b[at]
    with np.errstate(all="ignore"):
        quotient = x.astype(float) / y
    larger = np.where((x > y) & (y <= 0), x, 0.5)
    np.testing.assert_array_equal(out, [x + y, x - y, x * y, quotient, larger])
