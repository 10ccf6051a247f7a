"""Integers that float64 cannot hold are exact or an error, also in columns of objects."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from hedgerow.arrays import MISSING_KEY
from hedgerow.data import Column, Schema, read_table
from hedgerow.errors import DataError

WIDE = 2**53 + 1
"""The first integer that float64 cannot hold."""


@pytest.mark.parametrize(
    "column",
    [
        [WIDE, 0.5],
        [None, 0.5, WIDE],
        [WIDE, Decimal("0.5")],
        [np.int64(WIDE), np.float32(0.5)],
        [2**63 + 1, 0.5],
        [10**400, 0.5],
    ],
)
def test_integers_are_never_rounded_beside_decimals(column):
    forms = [
        pd.DataFrame({"a": pd.Series(column, dtype=object)}),
        {"a": column},
        [{"a": cell} for cell in column],
        np.array(column, dtype=object)[:, None],
        [[cell] for cell in column],
    ]
    for form in forms:
        with pytest.raises(DataError, match=r"column '(a|x0)' holds .* \(row .* float64"):
            read_table(form)
        with pytest.raises(DataError, match="float64"):
            read_table(form, Schema((Column("a"),)))


@pytest.mark.parametrize("first", [2**63, -(2**63), 2**64 - 64])
def test_advice_for_ids_beyond_int64_keeps_them_apart(first):
    ids = pd.Series(
        [first + place for place in range(60)], dtype="uint64" if first > 0 else "int64"
    )
    with pytest.raises(DataError, match=r"If they are ids, convert the column to text"):
        read_table(pd.DataFrame({"a": ids}))
    assert ids.astype(float).nunique() < 10
    schema = read_table(pd.DataFrame({"a": ids.astype(str)})).schema
    assert schema.columns[0].levels == tuple(sorted(map(str, ids)))


@pytest.mark.parametrize("column", [[2**63, 1], [2**63, -1], [np.uint64(2**63 + 5), np.int64(-1)]])
def test_objects_beyond_int64_are_refused_as_wide_columns_are(column):
    with pytest.raises(DataError, match=f"'a' holds {column[0]} .row 0.; integers must lie"):
        read_table({"a": column})


def test_integers_of_objects_are_exact_where_a_type_holds_them():
    cases = {
        "int": [[WIDE, None, True], [np.uint64(5), np.int64(-1)], [2**63 - 1, -5]],
        "float": [[2**60, 0.5], [2**70, 0.5], [2**53, 1.5, None]],
    }
    for kind, columns in cases.items():
        for column in columns:
            table = read_table({"a": column})
            assert table.schema.kinds == (kind,)
            missing = MISSING_KEY if kind == "int" else np.nan
            expected = [missing if cell is None else cell for cell in column]
            np.testing.assert_array_equal(
                table.values[:, 0], np.array(expected, dtype=table.values.dtype)
            )
    rows = read_table([[WIDE, 0.5], [3, 1.5]])  # NumPy would make all of them floats
    assert rows.schema.kinds == ("int", "float")
    assert rows.values[:, 0].tolist() == [WIDE, 3]
