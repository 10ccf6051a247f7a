"""Binned matrices: every value in its bin, in both layouts, for every float."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.arrays import CACHE_LINE, MISSING_KEY
from hedgerow.data import BinSpec, Column, Schema, bin_table, fit_bins, read_table
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


def test_rows_do_not_straddle_cache_lines():
    for n_features in range(1, 300):
        n_tiles, per_tile, width = tile_shape(n_features)
        assert n_tiles * per_tile >= n_features > (n_tiles - 1) * per_tile
        assert per_tile <= width
        assert width in (8, 16, 32)
    matrix = bin_table(*(lambda t: (t, fit_bins(t, 9)))(read_table(np.eye(50))))
    assert matrix.by_row.ctypes.data % CACHE_LINE == 0
    assert matrix.by_column.ctypes.data % CACHE_LINE == 0


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
