"""Sums of values on ranks have the bits of NumPy's sum of all values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.objectives.ordered_sum import part_of_sum, sum_of_parts

SIZES = st.one_of(st.integers(1, 20), st.integers(120, 300), st.integers(1000, 9000))


def sum_in_parts(values: np.ndarray, cuts: np.ndarray) -> float:
    parts = np.split(values, cuts)
    places = [0, *cuts.tolist()]
    entries = [
        part_of_sum(part, place, len(values)) for part, place in zip(parts, places, strict=True)
    ]
    return sum_of_parts(np.concatenate(entries), len(values))


@given(seed=st.integers(0, 2**32 - 1), n=SIZES, n_cuts=st.integers(0, 6))
def test_parts_have_the_sum_of_all_values(seed: int, n: int, n_cuts: int) -> None:
    """The values have many magnitudes, and some parts may be empty."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n)
    cuts = np.sort(rng.integers(0, n + 1, n_cuts))
    assert sum_in_parts(values, cuts) == np.add.reduceat(values, [0])[0]


def test_few_numbers_of_a_part_are_sent() -> None:
    assert len(part_of_sum(np.ones(300_001), 300_000, 1_000_000)) < 2 * 127 + 2 * 14
    assert sum_in_parts(np.ones(1_000_000), np.array([300_000, 600_001])) == 1_000_000


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_values_that_are_not_finite(value: float) -> None:
    values = np.r_[np.ones(100), value, np.ones(99)]
    np.testing.assert_equal(sum_in_parts(values, np.array([90, 150])), value)
