"""The partition of a node's rows keeps their order and loses none."""

from __future__ import annotations

import numpy as np
import pytest
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


@pytest.mark.parametrize("n_parts", [1, 2, 7])
@pytest.mark.parametrize("all_left", [True, False])
def test_one_sided_partition_changes_nothing(n_parts, all_left) -> None:
    column = np.full(10 + engine.PAD, 3, dtype=np.uint8)
    rows = np.arange(10)[::-1]
    found, n_left = engine.partition(column, 5 if all_left else 2, 15, 0, rows, 0, 10, n_parts)
    assert n_left == (10 if all_left else 0)
    assert found.tolist() == rows.tolist()


@pytest.mark.parametrize("missing_left", [0, 1])
def test_highest_threshold_sets_missing_apart(missing_left) -> None:
    column = np.zeros(6 + engine.PAD, dtype=np.uint8)
    column[:6] = [254, 255, 0, 255, 253, 254]
    found, n_left = engine.partition(column, 254, 255, missing_left, np.arange(6), 0, 6)
    if missing_left:
        assert (n_left, found.tolist()) == (6, [0, 1, 2, 3, 4, 5])
    else:
        assert (n_left, found.tolist()) == (4, [0, 2, 4, 5, 1, 3])
