"""The partition of a node's rows keeps their order and loses none."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import engine
from tests.reference import naive


@given(
    data=st.data(),
    stride=st.sampled_from([16, 32, 64, 128, 256]),
    n_parts=st.sampled_from([1, 1, 2, 3, 5]),
    missing_left=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_left_rows_then_right_rows_in_order(data, stride, n_parts, missing_left, seed) -> None:
    rng = np.random.default_rng(seed)
    n_rows = data.draw(st.integers(1, 80))
    threshold = data.draw(st.integers(0, stride - 2))
    column = rng.integers(0, stride - 1, n_rows + engine.PAD).astype(np.uint8)
    column[rng.random(len(column)) < 0.2] = stride - 1
    column[rng.random(len(column)) < 0.2] = threshold
    rows = rng.permutation(n_rows)
    start = data.draw(st.integers(0, n_rows - 1))
    stop = data.draw(st.integers(start + 1, n_rows))
    found, n_left = engine.partition(
        column, threshold, stride - 1, int(missing_left), rows, start, stop, n_parts
    )
    ordered, expected_left = naive.partition(
        column, threshold, stride - 1, missing_left, rows[start:stop].tolist()
    )
    assert n_left == expected_left
    assert found[start:stop].tolist() == ordered
    assert found[:start].tolist() == rows[:start].tolist()
    assert found[stop:].tolist() == rows[stop:].tolist()
