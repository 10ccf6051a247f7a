"""Different values of arrays, compared with NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.testing import assert_array_equal

from hedgerow.arrays import distinct

DTYPES = ["bool", "uint8", "int64", "uint64", "float32", "float64", "M8[us]", "m8[s]", "U3"]


@given(
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=2, min_side=0))
    )
)
def test_distinct_is_what_numpy_finds(values: np.ndarray) -> None:
    found = distinct(values)
    assert found.dtype == values.dtype
    assert_array_equal(found, np.unique(values))


@pytest.mark.parametrize("missing", [0, 1, 2, 9])
@pytest.mark.parametrize("values", [[], [1.0], [3.0, -0.0, 1.0, 0.0, 3.0, np.inf]])
def test_missing_values_are_one_value_at_the_end(values: list[float], missing: int) -> None:
    given = np.random.default_rng(0).permutation([*values, *[np.nan] * missing])
    assert_array_equal(distinct(given), [*sorted({*values}), *[np.nan] * min(missing, 1)])


def test_objects_are_compared_by_their_own_order() -> None:
    assert distinct(np.array(["b", "a", "b"], dtype=object)).tolist() == ["a", "b"]
    with pytest.raises(TypeError, match="not supported"):
        distinct(np.array([1, "a"], dtype=object))
