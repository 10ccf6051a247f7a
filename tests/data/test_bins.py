"""Cuts: their places, their number, and changes that must not move them."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.data import fit_bins, read_table
from hedgerow.data.binning.bins import integer_midpoints, midpoints, sampled_rows
from hedgerow.data.binning.cut_sample import SAMPLE_ROWS
from hedgerow.errors import DataError, ParameterError
from hedgerow.kernels.primitives.hashing import BIN_SAMPLE_STREAM, hash64
from hedgerow.kernels.tables.keys import floats_of_keys
from tests.reference import naive_binning as naive

INT64 = np.iinfo(np.int64)
FLOAT64 = np.finfo(np.float64)


def cuts_of(spec, feature=0):
    keys = spec.cut_keys[spec.cut_start[feature] : spec.cut_start[feature + 1]]
    return keys if spec.schema.columns[feature].kind == "int" else floats_of_keys(keys)


def fit_column(values, max_bins=255, **options):
    return fit_bins(read_table(np.asarray(values).reshape(-1, 1)), max_bins, **options)


# ---- hash and sample --------------------------------------------------------


@given(st.integers(INT64.min, INT64.max), st.integers(0, 100), st.integers(0, 2**40))
def test_hash_equals_its_twin(seed, stream, index):
    assert int(hash64(seed, stream, index)) == naive.hash64(seed, stream, index)


def test_sample_is_spread_and_depends_on_seed_and_row_only():
    n_rows = 100 * SAMPLE_ROWS
    first, other = (sampled_rows(n_rows, seed) for seed in (3, -(2**70) + 4))
    limit = 2**64 // 100
    assert 0.99 * SAMPLE_ROWS < len(first) < 1.01 * SAMPLE_ROWS
    assert all(np.diff(first) > 0)
    assert [r for r in range(2000) if naive.hash64(3, BIN_SAMPLE_STREAM, r) < limit] == [
        r for r in first if r < 2000
    ]
    assert len(np.intersect1d(first, other)) < 0.02 * SAMPLE_ROWS
    np.testing.assert_array_equal(sampled_rows(1000, 3), np.arange(1000))


# ---- midpoints --------------------------------------------------------------

any_float = st.floats(allow_nan=False)


@given(any_float, any_float)
@example(-np.inf, np.inf)
@example(-np.inf, -FLOAT64.max)
@example(FLOAT64.max, np.inf)
@example(-FLOAT64.max, FLOAT64.max)
@example(0.0, 5e-324)
@example(-5e-324, 0.0)
@example(-5e-324, 5e-324)
@example(1.0, np.nextafter(1.0, 2.0))
def test_midpoint_lies_between_any_two_floats(one, other):
    below, above = min(one, other), max(one, other)
    if below == above:
        return
    cut = midpoints(np.array([below]), np.array([above]))[0]
    assert below <= cut < above
    # Only -inf stands below the lowest finite number.
    assert np.isfinite(cut) or above == -FLOAT64.max


@given(st.integers(INT64.min + 1, INT64.max), st.integers(INT64.min + 1, INT64.max))
@example(INT64.min + 1, INT64.max)
@example(-3, -2)
def test_integer_midpoint_is_the_floor_of_the_mean(one, other):
    cut = integer_midpoints(np.array([one]), np.array([other]))[0]
    assert int(cut) == (one + other) // 2


# ---- how many cuts, and where ------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 9)), min_size=1, max_size=80),
    st.integers(2, 12),
    st.data(),
)
def test_cuts_equal_the_naive_twin(pairs, max_bins, data):
    """The columns are skewed: values from a random walk, with given masses."""
    values = list(itertools.accumulate((step for step, _ in pairs), initial=0))[1:]
    weights = [mass * 20 if data.draw(st.integers(0, 9)) == 0 else mass for _, mass in pairs]
    runs = naive.masses_of(values, weights)
    expected = naive.choose_cuts([mass for _, mass in runs], max_bins)
    cuts = cuts_of(fit_column(np.array(values, float), max_bins, weight=np.array(weights, float)))
    np.testing.assert_array_equal(cuts, [(runs[c - 1][0] + runs[c][0]) / 2 for c in expected])


# ---- kinds, strides, errors ---------------------------------------------------


@pytest.mark.parametrize("n_bins", [1, 14, 15, 16, 31, 32, 127, 128, 254, 255])
def test_stride_is_the_least_power_of_two_above_the_bins(n_bins):
    spec = fit_column(np.arange(float(n_bins)))
    assert spec.n_bins(0) == n_bins
    assert spec.stride == max(16, 2 ** int(np.floor(np.log2(n_bins)) + 1))
    assert spec.bin_counts.tolist() == [n_bins]


@pytest.mark.parametrize("max_bins", [1, 0, -1, 256, True, 2.5])
def test_max_bins_out_of_range(max_bins):
    with pytest.raises(ParameterError, match="max_bins"):
        fit_column(np.arange(3.0), max_bins)


def test_weight_of_wrong_length():
    with pytest.raises(DataError, match="weight"):
        fit_column(np.arange(3.0), weight=np.ones(2))
