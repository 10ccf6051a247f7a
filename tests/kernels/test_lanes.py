"""Vector lanes give the results of scalar operations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hedgerow.compile import kernel
from hedgerow.kernels.simd.lanes import (
    N_LANES,
    WIDTH,
    choose,
    lane_of,
    load_lanes,
    load_turned,
    short_to_float,
    spread,
    sum_floats,
    to_float,
)

pytest.importorskip("numba")

from numba import types
from numba.extending import intrinsic

from hedgerow.kernels.simd.lanes_llvm import Lanes, two_halves_to_float

places = arrays(np.int64, WIDTH, elements=st.integers(0, 50))


@kernel
def turned(array, at, offset, out):
    vectors = load_turned(array, at, offset)
    for i in range(WIDTH):
        for j in range(WIDTH):
            out[i, j] = lane_of(vectors[i], j)


@kernel
def arithmetic(a, b, at, out):
    x, y = load_turned(a, at, 0)[0], load_turned(b, at, 0)[0]
    f, g = to_float(x), to_float(y)
    sums, differences = x + y, x - y
    products, quotients = f * g, f / g
    larger = choose((f > g) & (spread(np.int64(0)) >= y), f, spread(0.5))
    for j in range(WIDTH):
        out[0, j], out[1, j] = lane_of(sums, j), lane_of(differences, j)
        out[2, j], out[3, j] = lane_of(products, j), lane_of(quotients, j)
        out[4, j] = lane_of(larger, j)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@given(at=places, offset=st.integers(0, 5), seed=st.integers(0, 2**32 - 1))
def test_load_turned_is_a_transposed_gather(dtype, at, offset, seed) -> None:
    limits = np.iinfo(dtype)
    array = np.random.default_rng(seed).integers(limits.min, limits.max, 70, dtype, endpoint=True)
    out = np.zeros((WIDTH, WIDTH), np.int64)
    turned(array, at, np.int64(offset), out)
    expected = array[at[None, :] + offset + np.arange(WIDTH)[:, None]]
    np.testing.assert_array_equal(out, expected)


@given(at=places, seed=st.integers(0, 2**32 - 1))
def test_operators_are_those_of_numbers(at, seed) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-3, 4, (2, 70))
    out = np.zeros((5, WIDTH))
    arithmetic(a, b, at, out)
    x, y = a[at], b[at]
    with np.errstate(all="ignore"):
        quotient = x.astype(float) / y
    larger = np.where((x > y) & (y <= 0), x, 0.5)
    np.testing.assert_array_equal(out, [x + y, x - y, x * y, quotient, larger])


@kernel
def mixed(a, b, at, number, out):
    x = load_turned(a, at, 0)[0]
    f, half = to_float(x), to_float(x) * 0.5
    kept = choose(f > number, f, number)
    found = number - f, f / 2, kept, choose(number > 0.0, half, 0.0), to_float(3 + x)
    for i in range(5):
        for j in range(WIDTH):
            out[i, j] = lane_of(found[i], j)
    # Of numbers alone.
    out[5, 0] = choose(number > 0.0, number, -number) + to_float(b[0])


@given(at=places, number=st.sampled_from([-1.5, 0.0, 2.0]), seed=st.integers(0, 2**32 - 1))
def test_a_number_stands_in_every_lane(at, number, seed) -> None:
    a, b = np.random.default_rng(seed).integers(-3, 4, (2, 70))
    out = np.zeros((6, WIDTH))
    mixed(a, b, at, number, out)
    x = a[at].astype(float)
    half = 0.5 * x if number > 0 else 0 * x
    expected = [number - x, x / 2, np.maximum(x, number), half, x + 3]
    np.testing.assert_array_equal(out[:5], expected)
    assert out[5, 0] == abs(number) + b[0]


@intrinsic
def convert_by_halves(typingctx, lanes):
    """Convert like ``to_float`` does on processors without an instruction for it."""

    def generate(context, builder, sig, args):
        kinds = (context.get_value_type(kind) for kind in (lanes, sig.return_type))
        return two_halves_to_float(builder, args[0], *kinds)

    return Lanes(types.float64)(lanes), generate


@kernel
def converted(array, out):
    for first in range(0, N_LANES, WIDTH):
        words = load_lanes(array, first)
        plain, halves, short = to_float(words), convert_by_halves(words), short_to_float(words)
        for j in range(WIDTH):
            to = first + j
            out[0, to], out[1, to], out[2, to] = (
                lane_of(plain, j),
                lane_of(halves, j),
                lane_of(short, j),
            )


EDGES = (
    0,
    1,
    -1,
    2**31,
    2**32,
    -(2**32) - 1,
    2**52 + 1,
    2**53 + 1,
    -(2**53) - 1,
    2**54 + 2,
    2**54 + 6,
)


@given(
    arrays(np.int64, N_LANES, elements=st.integers(-(2**63), 2**63 - 1) | st.sampled_from(EDGES))
)
def test_whole_numbers_are_rounded_to_the_nearest_float(numbers) -> None:
    out = np.zeros((3, N_LANES))
    converted(numbers, out)
    np.testing.assert_array_equal(out[:2], [numbers.astype(np.float64)] * 2)


SHORT = 2**51 - 1


@given(
    arrays(
        np.int64, N_LANES, elements=st.integers(-SHORT, SHORT) | st.sampled_from([-SHORT, SHORT])
    )
)
def test_short_whole_numbers_become_the_same_floats(numbers) -> None:
    out = np.zeros((3, N_LANES))
    converted(numbers, out)
    np.testing.assert_array_equal(out[2], numbers.astype(np.float64))


@kernel
def added_up(array, at):
    return sum_floats(array, at)


@given(arrays(np.float64, N_LANES + 3, elements=st.floats(-1e6, 1e6)), st.integers(0, 3))
def test_sums_are_of_halves_and_their_halves(array, at) -> None:
    a = array[at : at + N_LANES]
    b = a[:4] + a[4:]
    expected = (b[0] + b[2]) + (b[1] + b[3])
    assert added_up(array, np.int64(at)) == expected
