"""Cuts: their places, their number, and changes that must not move them."""

import itertools

import hypothesis.extra.numpy as hnp
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


def test_large_tables_are_sampled_the_same_by_any_number_of_threads():
    rng = np.random.default_rng(0)
    table = read_table(rng.standard_normal((SAMPLE_ROWS + 50_000, 3), dtype=np.float32))
    one = fit_bins(table, 255, seed=5)
    two = fit_bins(table, 255, seed=5, n_threads=3)
    other = fit_bins(table, 255, seed=-(2**70) + 6)
    np.testing.assert_array_equal(one.cut_keys, two.cut_keys)
    assert not np.array_equal(one.cut_keys, other.cut_keys)
    filled = np.bincount(np.searchsorted(cuts_of(one), table.values[:, 0]))
    assert filled.min() > 0.6 * filled.mean()
    assert filled.max() < 1.4 * filled.mean()


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


def test_cuts_between_float32_neighbours_separate_them():
    low = np.float32(0.1)
    high = np.nextafter(low, np.float32(1))
    (cut,) = cuts_of(fit_column(np.array([low, high])))
    assert low <= cut < high


# ---- how many cuts, and where ------------------------------------------------


@given(
    hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(width=16)),
    st.integers(2, 255),
)
def test_few_values_have_a_bin_each(values, max_bins):
    different = np.unique(values[~np.isnan(values)] + 0.0)
    if len(different) > max_bins:
        return
    cuts = cuts_of(fit_column(values, max_bins))
    np.testing.assert_array_equal(np.searchsorted(cuts, different), np.arange(len(different)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_constant_or_missing_columns_have_no_cut(dtype):
    spec = fit_column(np.full(10, 7, dtype=dtype))
    assert (spec.n_bins(0), spec.stride) == (1, 16)
    assert fit_column(np.full(10, np.nan)).n_bins(0) == 1
    assert fit_column(np.array([np.nan, 3.0, np.nan])).n_bins(0) == 1
    assert fit_column(np.array([0.0, -0.0])).n_bins(0) == 1


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


@given(
    st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 5)), min_size=1, max_size=60),
    st.integers(2, 16),
    st.sampled_from([1.0, 2.0**-40, 2.0**70, 3.0, 0.1, 1e-12, 1e12]),
)
def test_weight_k_is_k_rows_and_a_common_factor_is_nothing(pairs, max_bins, factor):
    values = np.array([float(v) for v, _ in pairs])
    weights = np.array([float(w) for _, w in pairs])
    weighted = fit_column(values, max_bins, weight=weights * factor)
    repeated = fit_column(np.repeat(values, weights.astype(int)), max_bins)
    np.testing.assert_array_equal(weighted.cut_keys, repeated.cut_keys)


@given(st.randoms(use_true_random=False), st.integers(2, 40))
def test_order_of_rows_and_threads_change_nothing(random, max_bins):
    rng = np.random.default_rng(random.randrange(2**32))
    X = np.round(rng.standard_normal((120, 4)), 1)
    weight = rng.random(120) + 0.1
    order = rng.permutation(120)
    one = fit_bins(read_table(X), max_bins, weight)
    two = fit_bins(read_table(X[order]), max_bins, weight[order], n_threads=4)
    np.testing.assert_array_equal(one.cut_keys, two.cut_keys)
    np.testing.assert_array_equal(one.cut_start, two.cut_start)


@given(st.integers(2, 255), st.integers(1, 3), st.floats(0.1, 3), st.integers(0, 2**20))
def test_never_more_bins_than_requested(max_bins, digits, skew, seed):
    rng = np.random.default_rng(seed)
    values = np.round(rng.standard_normal(3000) ** 2, digits) ** skew
    spec = fit_column(values, max_bins)
    different = len(np.unique(values))
    assert spec.n_bins(0) <= min(max_bins, different)
    assert spec.n_bins(0) >= min(max_bins, different) / 2
    assert np.all(np.diff(spec.cut_keys) > 0)
    assert spec.stride >= 16
    assert spec.stride & (spec.stride - 1) == 0
    assert spec.n_bins(0) <= spec.missing_bin < 256


def test_bins_of_a_continuous_column_have_like_mass():
    values = np.random.default_rng(1).standard_normal(50_000)
    filled = np.bincount(np.searchsorted(cuts_of(fit_column(values)), values))
    assert len(filled) == 255
    assert filled.max() - filled.min() <= 2


def test_heavy_values_are_alone_and_the_rest_is_even():
    rng = np.random.default_rng(2)
    values = np.concatenate([np.zeros(60_000), np.full(20_000, 0.5), rng.random(20_000)])
    cuts = cuts_of(fit_column(values, 64))
    bins = np.searchsorted(cuts, values)
    for heavy in (0.0, 0.5):
        inside = values[bins == np.searchsorted(cuts, heavy)]
        assert np.mean(inside == heavy) > 0.99
    others = np.bincount(bins)
    others = others[others < 10_000]
    assert len(others) >= 61
    assert others.max() < 2 * 20_000 / len(others)


def test_alternating_heavy_and_light_values_use_all_bins_well():
    values = np.concatenate([np.repeat(np.arange(200), 100), np.arange(200) + 0.5])
    cuts = cuts_of(fit_column(values, 250))
    own = np.bincount(np.searchsorted(cuts, np.arange(200.0)), minlength=len(cuts) + 1)
    assert own.max() == 1
    assert len(cuts) + 1 == 250


# ---- kinds, strides, errors ---------------------------------------------------


def test_int_columns_are_cut_between_integers_beyond_float64():
    base = 2**60
    spec = fit_column(np.array([base, base + 1, base + 4]))
    np.testing.assert_array_equal(cuts_of(spec), [base, base + 2])


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


def test_the_table_is_not_written_to():
    X = np.random.default_rng(0).random((300, 2))
    before = X.copy()
    fit_bins(read_table(X), 20)
    fit_bins(read_table(np.asfortranarray(X)), 20, weight=np.ones(300))
    np.testing.assert_array_equal(X, before)
