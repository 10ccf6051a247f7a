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
    lane_of,
    load_lanes,
    short_to_float,
    to_float,
)

pytest.importorskip("numba")

from numba import types
from numba.extending import intrinsic

from hedgerow.kernels.simd.lanes_llvm import Lanes, two_halves_to_float


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
