"""Sorted columns have the entries of a plain sort, for every type, layout and value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.data import read_table
from hedgerow.data.external.blocks import RUN_BIT, sort_columns
from hedgerow.data.reading.mapped_table import RowSpace
from hedgerow.errors import DataError
from tests.growing.test_grow import data
from tests.reference import naive_exact

AWKWARD = [
    -math.inf, math.inf, math.nan, 0.0, -0.0, 1.0, np.nextafter(1.0, 2.0), 5e-324, -5e-324,
    1.7e308, -1.7e308, 3.5,
]  # fmt: skip


@example(column=[0.0, 1.0, -0.0, 0.0, -0.0], dtype=np.float32, layout="C")
@example(column=[0.0, 1.0, -0.0, 0.0, -0.0], dtype=np.float64, layout="C")
@given(
    column=st.lists(st.sampled_from(AWKWARD) | st.floats(allow_nan=True), min_size=1, max_size=40),
    dtype=st.sampled_from([np.float32, np.float64]),
    layout=st.sampled_from(["C", "F", "strided"]),
)
def test_blocks_equal_a_plain_sort(column, dtype, layout) -> None:
    with np.errstate(over="ignore"):
        first = np.array(column, dtype=np.float64).astype(dtype)
    X = np.column_stack([first, first[::-1], np.full(len(first), np.nan, dtype)])
    if layout == "strided":
        X = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    blocks = sort_columns(read_table(np.array(X, order=layout) if layout != "strided" else X))
    for j in range(3):
        rows, runs = naive_exact.entries_of([float(x) for x in X[:, j]])
        entries = blocks.entries[blocks.starts[j] : blocks.starts[j + 1]]
        assert (entries & ~RUN_BIT).tolist() == rows
        assert ((entries & RUN_BIT) > 0).tolist() == runs


def test_blocks_of_wide_integers_are_exact() -> None:
    big = 2**62
    X = np.array([[big + 1, 1], [big, -(2**63) + 1], [big + 2, 5], [big + 1, 5]])
    blocks = sort_columns(read_table(X))
    assert (blocks.entries[:8] & ~RUN_BIT).tolist() == [1, 0, 3, 2, 1, 0, 2, 3]
    assert ((blocks.entries[:8] & RUN_BIT) > 0).tolist() == [1, 1, 0, 1, 1, 1, 1, 0]


def test_blocks_are_linear_in_present_values() -> None:
    X = np.full((5000, 40), np.nan, dtype=np.float32)
    X[::100] = 1.0
    blocks = sort_columns(read_table(X))
    assert blocks.starts[-1] == 50 * 40
    assert len(blocks.entries) == 50 * 40 + 64


def test_blocks_do_not_depend_on_threads() -> None:
    X, _ = data(3000, 37, missing=0.2, n_values=40)
    one, three = sort_columns(read_table(X), 1), sort_columns(read_table(X), 3)
    np.testing.assert_array_equal(one.entries, three.entries)
    np.testing.assert_array_equal(one.starts, three.starts)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("n_folders", [1, 3])
def test_blocks_in_mapped_files_are_those_in_memory(dtype, n_folders, tmp_path) -> None:
    X = np.random.default_rng(0).integers(-9, 9, (3000, 20)).astype(dtype)
    if dtype != np.int64:
        X[::7, 3] = math.nan
    table, folders = read_table(X), [tmp_path / str(k) for k in range(n_folders)]
    for folder in folders:
        folder.mkdir()
    expected = sort_columns(table)
    n_bytes = expected.entries.nbytes
    space = RowSpace([str(folder) for folder in folders], 8 * n_bytes - 1)
    for memory in (1, 10**6, 10**9):
        found = sort_columns(table, 2, space.lists, memory)
        np.testing.assert_array_equal(found.entries, expected.entries)
        np.testing.assert_array_equal(found.starts, expected.starts)
        found.empty(len(found.entries))[:] = 1
        np.testing.assert_array_equal(found.entries, expected.entries)
    # Nothing is left if the process dies: files are mapped, and have no names.
    assert [list(folder.iterdir()) for folder in folders] == [[]] * n_folders
    assert not any(list(folder.iterdir()) for folder in folders)
    space.memory_limit += 1  # they now fit in memory
    assert space.lists(len(expected.entries)).nbytes == n_bytes
    assert not any(list(folder.iterdir()) for folder in folders)


def test_too_many_rows_are_refused(monkeypatch) -> None:
    monkeypatch.setattr("hedgerow.data.external.blocks._MOST_ROWS", 10)
    with pytest.raises(DataError, match="10 rows; sorted columns number at most 9"):
        sort_columns(read_table(np.ones((10, 1))))
