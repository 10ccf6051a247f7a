"""Sums of values in parts have the bits of NumPy's sum of all values."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.objectives.ordered_sum import OrderedSum


def draw(seed: int, n: int, n_cuts: int) -> list[np.ndarray]:
    """Return values of many magnitudes, in parts, some of which may be empty."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n)
    return np.split(values, np.sort(rng.integers(0, n + 1, n_cuts)))


def add_parts(total: OrderedSum, parts: list[np.ndarray], first: int = 0) -> None:
    for part in parts:
        total.add(part, first)
        first += len(part)


SIZES = st.one_of(st.integers(1, 20), st.integers(120, 300), st.integers(1000, 9000))


@given(seed=st.integers(0, 2**32 - 1), n=SIZES, n_cuts=st.integers(0, 6))
def test_parts_have_the_sum_of_all_values(seed: int, n: int, n_cuts: int) -> None:
    parts, total = draw(seed, n, n_cuts), OrderedSum(n)
    add_parts(total, parts)
    assert total.total() == np.add.reduceat(np.concatenate(parts), [0])[0]


@given(seed=st.integers(0, 2**32 - 1), n=SIZES, n_cuts=st.integers(1, 6))
def test_ranks_have_the_sum_of_all_values(seed: int, n: int, n_cuts: int) -> None:
    parts, merged, first = draw(seed, n, n_cuts), OrderedSum(n), 0
    for of_rank in parts:
        own = OrderedSum(n)
        add_parts(own, np.array_split(of_rank, 2), first)
        merged.merge(own.to_array())
        first += len(of_rank)
    assert merged.total() == np.add.reduceat(np.concatenate(parts), [0])[0]


def test_few_numbers_of_a_part_are_kept() -> None:
    n, total = 1_000_000, OrderedSum(1_000_000)
    total.add(np.ones(300_001), 300_000)
    assert len(total.to_array()) < 2 * 127 + 2 * 14
    total.add(np.ones(300_000), 0)
    total.add(np.ones(n - 600_001), 600_001)
    assert total.total() == n


def test_values_that_are_not_finite() -> None:
    for value in (np.inf, -np.inf, np.nan):
        own, merged = OrderedSum(200), OrderedSum(200)
        own.add(np.r_[np.ones(100), value, np.ones(99)], 0)
        merged.merge(own.to_array())
        np.testing.assert_equal(merged.total(), value)
