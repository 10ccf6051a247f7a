"""Binned matrices: every value in its bin, in both layouts, for every float."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.arrays import CACHE_LINE, MISSING_KEY
from hedgerow.data import PAD, BinSpec, Column, Schema, bin_table, fit_bins, read_table
from hedgerow.data.binning.matrix import tile_shape
from hedgerow.data.schema import unnamed_schema
from hedgerow.errors import DataError
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from tests.reference import naive_binning as naive

INT64 = np.iinfo(np.int64)


def spec_of(cuts):
    """Return a spec of one float column with the given cuts."""
    cuts = np.unique(np.asarray(cuts, dtype=np.float64) + 0.0)
    schema = unnamed_schema(1, "float")
    no_levels = (np.zeros(0, np.uint8), np.zeros(2, np.int64))
    return BinSpec(keys_of_floats(cuts), np.array([0, len(cuts)]), schema, 256, *no_levels)


@given(st.lists(st.none() | st.lists(st.integers(0, 254), max_size=5), min_size=1, max_size=6))
def test_a_column_has_as_many_bins_as_its_levels_or_cuts_ask_for(columns):
    """None is a numeric column with two cuts; a list has the bins of a category column's levels."""
    kinds = ["float" if levels is None else "category" for levels in columns]
    schema = Schema(tuple(Column(f"x{j}", kind) for j, kind in enumerate(kinds)))
    n_cuts = [2 if levels is None else 0 for levels in columns]
    n_levels = [len(levels or []) for levels in columns]
    spec = BinSpec(
        np.tile([0, 1], n_cuts.count(2)),
        np.concatenate([[0], np.cumsum(n_cuts)]).astype(np.int64),
        schema,
        256,
        np.array([b for levels in columns for b in levels or []], dtype=np.uint8),
        np.concatenate([[0], np.cumsum(n_levels)]).astype(np.int64),
    )
    expected = [3 if levels is None else 1 + max(levels, default=0) for levels in columns]
    assert spec.bin_counts.tolist() == expected
    assert [spec.n_bins(j) for j in range(len(columns))] == expected


def neighbours(value):
    """Return a float and the adjacent floats, in float64 and in float32."""
    narrow = np.float32(value)
    with np.errstate(over="ignore"):
        near = [np.nextafter(narrow, np.float32(s)) for s in (-np.inf, np.inf)]
    return [value, np.nextafter(value, -np.inf), np.nextafter(value, np.inf), narrow, *near]


SPECIAL = [0.0, -0.0, 5e-324, -5e-324, 1e-45, -1e-45, np.inf, -np.inf, np.nan]
SPECIAL += [np.finfo(np.float32).max, np.finfo(np.float64).max, -np.finfo(np.float64).max]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=254))
@example(list(np.linspace(-1, 1, 254)))
@example([0.0])
@example([np.nextafter(0.1, 1), 0.1, float(np.float32(0.1))])
@pytest.mark.filterwarnings("ignore:overflow")
def test_every_float_is_in_the_bin_of_its_twin(cuts):
    spec = spec_of(cuts)
    cuts = floats_of_keys(spec.cut_keys).tolist()
    values = np.array(SPECIAL + [n for cut in cuts[::5] for n in neighbours(cut)])
    for dtype in (np.float64, np.float32):
        column = values.astype(dtype)
        found = bin_table(read_table(column[:, None]), spec).by_column[0, : len(column)]
        assert found.tolist() == [naive.bin_of(float(v), cuts, 255) for v in column]


@given(
    hnp.arrays(np.int64, st.integers(1, 100), elements=st.integers(INT64.min + 1, INT64.max)),
    st.integers(2, 255),
)
def test_every_integer_is_in_the_bin_of_its_twin(values, max_bins):
    table = read_table(values[:, None])
    spec = fit_bins(table, max_bins)
    found = bin_table(table, spec).by_column[0, : len(values)]
    cuts = spec.cut_keys.tolist()
    assert found.tolist() == [naive.bin_of(int(v), cuts, spec.missing_bin) for v in values]


@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64]),
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=40),
        elements=st.floats(width=32),
    ),
    st.integers(2, 40),
)
def test_value_below_a_cut_exactly_if_bin_below_it(X, max_bins):
    spec = fit_bins(read_table(X), max_bins)
    matrix = bin_table(read_table(X), spec)
    for j in range(X.shape[1]):
        keys = spec.cut_keys[spec.cut_start[j] : spec.cut_start[j + 1]]
        found = matrix.by_column[j, : len(X)]
        present = ~np.isnan(X[:, j])
        assert np.all(found[~present] == spec.missing_bin)
        for b, cut in enumerate(floats_of_keys(keys)):
            np.testing.assert_array_equal(X[present, j] <= cut, found[present] <= b)


@pytest.mark.parametrize("n_features", [1, 7, 8, 9, 28, 32, 33, 64, 65, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_both_layouts_hold_the_same_bins_and_zeros_elsewhere(n_features, dtype):
    rng = np.random.default_rng(n_features)
    X = (1000 * rng.standard_normal((1100, n_features))).astype(dtype)
    table = read_table(X)
    spec = fit_bins(table, 200)
    matrix = bin_table(table, spec)
    n_tiles, per_tile, width = tile_shape(n_features)
    assert matrix.by_row.shape == (n_tiles, 1100 + PAD, width)
    assert matrix.by_column.shape == (n_features, 1100 + PAD)
    assert (matrix.n_rows, matrix.n_features) == X.shape
    assert (matrix.n_tiles, matrix.features_per_tile, matrix.tile_width) == (
        n_tiles,
        per_tile,
        width,
    )
    rest = matrix.by_row.copy()
    for j in range(n_features):
        place = matrix.by_row[j // per_tile, :, j % per_tile]
        np.testing.assert_array_equal(place, matrix.by_column[j])
        rest[j // per_tile, :, j % per_tile] = 0
        keys = spec.cut_keys[spec.cut_start[j] : spec.cut_start[j + 1]]
        values = X[:, j] if dtype is np.int64 else keys_of_floats(X[:, j].astype(float))
        np.testing.assert_array_equal(matrix.by_column[j, :1100], np.searchsorted(keys, values))
    assert not rest.any()
    assert not matrix.by_column[:, 1100:].any()


def test_rows_do_not_straddle_cache_lines():
    for n_features in range(1, 300):
        n_tiles, per_tile, width = tile_shape(n_features)
        assert n_tiles * per_tile >= n_features > (n_tiles - 1) * per_tile
        assert per_tile <= width
        assert width in (8, 16, 32)
    matrix = bin_table(*(lambda t: (t, fit_bins(t, 9)))(read_table(np.eye(50))))
    assert matrix.by_row.ctypes.data % CACHE_LINE == 0
    assert matrix.by_column.ctypes.data % CACHE_LINE == 0


def test_without_columns_the_rows_are_the_same():
    table = read_table(np.random.default_rng(0).random((500, 40)))
    spec = fit_bins(table, 30)
    rows = bin_table(table, spec, columns=False)
    np.testing.assert_array_equal(rows.by_row, bin_table(table, spec).by_row)
    assert rows.by_column.shape == (0, 500 + PAD)
    assert rows.n_features == 40


@pytest.mark.parametrize(
    "view",
    [
        lambda X: np.asfortranarray(X),
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: np.ascontiguousarray(X[::-1])[::-1],
        lambda X: np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape),
        lambda X: X.astype(X.dtype.newbyteorder()),
    ],
    ids=["fortran", "strided", "reversed", "read-only", "byte-swapped"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_layout_of_the_input_does_not_matter(view, dtype):
    X = (100 * np.random.default_rng(0).standard_normal((600, 5))).astype(dtype)
    plain, other = read_table(X), read_table(view(X))
    spec = fit_bins(plain, 50)
    np.testing.assert_array_equal(fit_bins(other, 50).cut_keys, spec.cut_keys)
    np.testing.assert_array_equal(bin_table(other, spec).by_row, bin_table(plain, spec).by_row)


@pytest.mark.parametrize("n_rows", [1, 511, 512, 513, 60_001])
def test_number_of_threads_does_not_matter(n_rows):
    table = read_table(np.random.default_rng(0).random((n_rows, 3), dtype=np.float32))
    spec = fit_bins(table, 255)
    one, four = bin_table(table, spec), bin_table(table, spec, n_threads=4)
    np.testing.assert_array_equal(one.by_row, four.by_row)
    np.testing.assert_array_equal(one.by_column, four.by_column)


def test_tables_of_both_kinds_keep_missing_values_of_both():
    schema = Schema((Column("a", "float"), Column("b", "int")))
    table = read_table(np.array([[0.5, 1.0], [np.nan, 2.0], [1.5, np.nan]]), schema)
    assert table.values.dtype == np.int64
    assert table.values[1, 0] == table.values[2, 1] == MISSING_KEY
    spec = fit_bins(table, 255)
    assert bin_table(table, spec).by_column[:, :3].tolist() == [[0, 15, 1], [0, 1, 15]]


def test_bins_of_other_columns_are_refused():
    spec = fit_bins(read_table(np.arange(4).reshape(-1, 1)), 255)
    with pytest.raises(DataError, match="read_table"):
        bin_table(read_table(np.ones((3, 1))), spec)
