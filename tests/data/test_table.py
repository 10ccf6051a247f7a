"""Reading of tables: accepted types, errors, and exact values."""

import datetime as dt
import math
import sys
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.arrays import MISSING_KEY
from hedgerow.data import Column, Schema, read_table
from hedgerow.errors import DataError, DataTypeError, HedgerowError
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats

pa = pytest.importorskip("pyarrow")

INT64 = np.iinfo(np.int64)
FLOATS = Schema((Column("x0"),))
INTS = Schema((Column("x0", "int"),))
NAMED = Schema((Column("a"), Column("b"), Column("c")), named=True)

FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "pandas-arrow": lambda data: pd.DataFrame(
        {name: pd.array(pa.array(column), dtype=None) for name, column in data.items()}
    ).convert_dtypes(dtype_backend="pyarrow"),
    "pandas-nullable": lambda data: pd.DataFrame(data).convert_dtypes(),
    "record batch": lambda data: pa.RecordBatch.from_pydict(data),
}
each_frame = pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES.keys())


def test_a_column_that_its_library_cannot_convert_is_named():
    union = pa.UnionArray.from_sparse(
        pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array([0.5, 1.5])]
    )
    with pytest.raises(DataTypeError, match="column 'u' has type"):
        read_table(pa.table({"u": union, "v": [1.0, 2.0]}))


def test_wide_integers_of_polars():
    data = pl.DataFrame({"k": pl.Series([2**60, None, 3], dtype=pl.Int128), "x": [1.0, 2.0, 3.0]})
    found = read_table(data)
    assert found.schema.kinds == ("int", "float")
    assert found.values[:, 0].tolist() == [2**60, MISSING_KEY, 3]
    with pytest.raises(HedgerowError, match="'k'"):
        read_table(data.with_columns(pl.lit(2**100, dtype=pl.Int128).alias("k")))


def test_a_dict_of_scalars_of_numpy_is_a_row():
    expected = read_table({"a": 1.0, "b": 2, "c": "x", "d": True})
    row = {"a": np.float64(1.0), "b": np.int64(2), "c": np.str_("x"), "d": np.bool_(True)}
    for name in row:
        found = read_table({"a": 1.0, "b": 2, "c": "x", "d": True, name: row[name]})
        assert found.schema == expected.schema
        np.testing.assert_array_equal(found.values, expected.values)


def test_a_dict_of_columns_of_frames():
    data = {"a": [1.0, math.nan, 3.0], "b": [1, 2, 3], "c": ["x", None, "y"]}
    frame = pd.DataFrame(data)
    expected = read_table(frame)
    for columns in (dict(frame), dict(pl.DataFrame(data).to_dict())):
        found = read_table(columns)
        assert found.schema == expected.schema
        np.testing.assert_array_equal(found.values, expected.values)


# ---- arrays -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("g", "f8"), (">f4", "f4"), (">f8", "f8"),
        ("?", "f4"), ("i1", "f4"), ("u1", "f4"), ("i2", "f4"), (">u2", "f4"),
        ("i4", "f8"), ("u4", "f8"), ("i8", "i8"), (">i8", "i8"), ("u8", "i8"), ("O", "i8"),
    ],
)  # fmt: skip
def test_every_number_type_is_held_exactly(dtype, expected):
    X = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    table = read_table(X)
    assert table.values.dtype == np.dtype(expected)
    np.testing.assert_array_equal(table.values, X.astype(float))
    kind = "int" if expected == "i8" else "float"
    assert table.schema == Schema((Column("x0", kind), Column("x1", kind)))
    assert (table.n_rows, table.n_features) == (3, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(
    "view",
    [lambda X: X, lambda X: X.T, lambda X: X[::-2, 1:], lambda X: np.broadcast_to(X[:1], X.shape)],
    ids=["whole", "transposed", "strided", "zero-stride"],
)
def test_arrays_of_the_types_in_use_are_not_copied(dtype, view):
    X = np.arange(12).reshape(4, 3).astype(dtype)
    X.flags.writeable = False
    values = read_table(view(X)).values
    assert np.shares_memory(values, X)
    np.testing.assert_array_equal(values, view(X))


def test_array_that_is_not_aligned_is_copied():
    packed = np.zeros(4, dtype=[("flag", "u1"), ("x", "f8", (2,))])
    assert not packed["x"].flags.aligned
    assert read_table(packed["x"]).values.flags.aligned


@pytest.mark.parametrize("n_rows", [1, 5000])
def test_reading_an_array_is_a_few_dozen_calls(n_rows):
    """The test counts calls instead of time (2 us on an idle machine)."""
    X = np.ones((n_rows, 28), dtype=np.float32)
    schema = read_table(X).schema
    read_table(X, schema)
    calls = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, called: calls.append(event.endswith("call")))
    try:
        read = read_table(X, schema)
    finally:
        sys.setprofile(before)
    assert sum(calls) < 28 + 60  # one for the kind of each column
    assert np.shares_memory(read.values, X)


def test_lists_and_masked_arrays():
    np.testing.assert_array_equal(
        read_table([[1.5, None], [2, 3.5]]).values, [[1.5, np.nan], [2.0, 3.5]]
    )
    assert read_table([[1, None], [2, 3]]).values.tolist() == [[1, MISSING_KEY], [2, 3]]
    assert read_table([[1, 2], [3, 4]]).schema.kinds == ("int", "int")
    assert read_table([(True, False)]).values.tolist() == [[1.0, 0.0]]
    masked = np.ma.array([[1.0, 2.0]], mask=[[False, True]])
    np.testing.assert_array_equal(read_table(masked).values, [[1.0, np.nan]])
    masked = np.ma.array([[1, MISSING_KEY]], mask=[[False, True]])
    assert read_table(masked).values.tolist() == [[1, MISSING_KEY]]


def test_objects_that_hold_numbers_are_numbers():
    X = np.empty((3, 4), dtype=object)
    X[:, 0] = [1, None, 2**62 + 1]
    X[:, 1] = [1.5, float("nan"), pd.NA]
    X[:, 2] = [True, None, False]
    X[:, 3] = None
    table = read_table(X)
    assert table.schema.kinds == ("int", "float", "float", "float")
    assert table.values[:, 0].tolist() == [1, MISSING_KEY, 2**62 + 1]
    np.testing.assert_array_equal(
        floats_of_keys(table.values[:, 1:]),
        [[1.5, 1, np.nan], [np.nan, np.nan, np.nan], [np.nan, 0, np.nan]],
    )


# ---- what is refused -------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.ones(3), "Reshape your data"),
        ([1.0, 2.0], "Reshape your data"),
        (3.0, "Reshape your data"),
        (pd.Series([1.0]), "Reshape your data"),
        (pl.Series([1.0]), "Reshape your data"),
        (np.ones((1, 1, 1)), "dim 3"),
        (np.ones((0, 3)), r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required\."),
        (np.ones((5, 0)), r"0 feature\(s\) \(shape=\(5, 0\)\) while a minimum of 1 is required\."),
        (pd.DataFrame({"a": []}), r"0 sample\(s\)"),
        (pd.DataFrame(index=[1, 2]), r"0 feature\(s\) \(shape=\(2, 0\)\)"),
        (np.ones((2, 1), dtype=complex), "Complex data not supported"),
        ([[1, 2], [3]], "rows of one length"),
        (np.array([[1], [MISSING_KEY]]), "'x0' holds -9223372036854775808 .row 1."),
        (np.array([[1, 2**63]], dtype=np.uint64), "'x1' holds 9223372036854775808 .row 0."),
        (
            pl.DataFrame({"a": [1], "b": [2**63]}, {"a": pl.Int64, "b": pl.UInt64}),
            "'b' holds 9223372036854775808",
        ),
        (np.array([[2**80]], dtype=object), "'x0' holds 1208925819614629174706176 .row 0."),
        (np.array([[10**5000]], dtype=object), "'x0' holds an integer of 16610 bits .row 0."),
        (pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]), "twice: a"),
        (pa.table([[1], [2]], names=["a", "a"]), "twice: a"),
    ],
)
def test_data_that_cannot_be_used(X, words):
    with pytest.raises(DataError, match=words):
        read_table(X)


def sparse():
    return pytest.importorskip("scipy.sparse").csr_array(np.eye(3))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (sparse, "Sparse data.*toarray"),
        (lambda: np.array([[b"a", b"b"]]), "'x0' has type .S1.*encode"),
        (lambda: np.zeros(2, dtype=[("a", "f8")])[:, None], "'x0' has type"),
        (lambda: [[1.5], ["b"]], "'x0' mixes numbers .1.5, row 0. and text .'b', row 1."),
        (lambda: np.array([[1], ["1"]], dtype=object), "'x0' mixes numbers .1, row 0. and text"),
        (lambda: np.array([[{"a": 1}]], dtype=object), "argument must be .* string.* number"),
        (lambda: pd.DataFrame({"b": [dt.date(2020, 1, 1), 3]}), "'b' mixes dates .* and numbers"),
        (lambda: pd.DataFrame({"b": pd.Categorical(["x", 1])}), "'b' mixes"),
        (
            lambda: {"b": [None, dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2, tzinfo=dt.UTC)]},
            r"'b' mixes dates with a time zone \(.*row 2\) and without one \(.*row 1\): give all",
        ),
        (
            lambda: {"b": [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.date(2020, 1, 1)]},
            r"'b' mixes dates with a time zone \(.*row 0\) and without one \(.*row 1\): give all",
        ),
        (lambda: pl.DataFrame({"b": [[1]]}), "'b' has type List"),
        (lambda: pl.DataFrame({"b": [b"1"]}), "'b' has type Binary"),
        (lambda: {"a": 1.0, "b": [1.0]}, "'a' is a float, others are lists"),
        (lambda: {1: 1.0}, "names of columns must be text, got 1"),
        (lambda: [{"a": 1.0}, [1.0]], "row 1 is a list, but row 0 is a dict"),
        (lambda: pd.DataFrame({"b": [object()]}, dtype=object), "'b' holds <object"),
        (lambda: pl.LazyFrame({"b": [1]}), "collect"),
        (lambda: pd.DataFrame([[1, 2]], columns=["a", 0]), "0 among text"),
    ],
)
def test_types_that_cannot_be_used(make, words):
    with pytest.raises(DataTypeError, match=words):
        read_table(make())


# ---- frames ---------------------------------------------------------------------


@each_frame
def test_frames_of_all_kinds(make):
    table = read_table(
        make(
            {
                "narrow": np.array([1, 2, 3], dtype=np.int16),
                "wide": np.array([2**60, 2**60 + 1, -5]),
                "real": np.array([0.5, np.nan, -np.inf]),
                "flag": np.array([True, False, True]),
            }
        )
    )
    assert table.schema.named
    assert table.schema.names == ("narrow", "wide", "real", "flag")
    assert table.schema.kinds[1:] == ("int", "float", "float")
    assert table.values.dtype == np.int64
    assert table.values[:, 1].tolist() == [2**60, 2**60 + 1, -5]
    np.testing.assert_array_equal(
        table.values[:, 2], keys_of_floats(np.array([0.5, np.nan, -np.inf]))
    )
    np.testing.assert_array_equal(floats_of_keys(table.values[:, 3]), [1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(
            {
                "i": pd.array([2**60 + 1, None], dtype="Int64"),
                "s": pd.array([7, None], dtype="Int8"),
                "b": pd.array([True, None], dtype="boolean"),
                "f": pd.array([0.5, None], dtype="Float64"),
            }
        ),
        pl.DataFrame(
            {"i": [2**60 + 1, None], "s": [7, None], "b": [True, None], "f": [0.5, None]},
            schema={"i": pl.Int64, "s": pl.Int8, "b": pl.Boolean, "f": pl.Float64},
        ),
        pa.table(
            {
                "i": pa.array([2**60 + 1, None], pa.int64()),
                "s": pa.array([7, None], pa.int8()),
                "b": pa.array([True, None], pa.bool_()),
                "f": pa.array([0.5, None], pa.float64()),
            }
        ),
    ],
    ids=["pandas", "polars", "pyarrow"],
)
def test_null_is_missing_and_integers_beside_it_stay_exact(frame):
    table = read_table(frame)
    assert table.schema.kinds == ("int", "float", "float", "float")
    assert table.values.tolist() == [
        [2**60 + 1, *keys_of_floats(np.array([7, 1, 0.5])).tolist()],
        [MISSING_KEY] * 4,
    ]


def test_frames_of_one_float_type_become_one_block():
    X = np.random.default_rng(0).random((50, 3), dtype=np.float32)
    frame = pd.DataFrame(X, columns=["a", "b", "c"], copy=False)
    assert np.shares_memory(read_table(frame).values, X)
    for make in (pl.DataFrame, pa.table):
        table = read_table(make({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}))
        assert table.values.dtype == np.float32
        np.testing.assert_array_equal(table.values, X)
    nullable = pd.DataFrame({"a": pd.array([1.5, None], dtype="Float64")})
    np.testing.assert_array_equal(read_table(nullable).values, [[1.5], [np.nan]])


_FAR: dict[str, Any] = {
    "days": np.array(["2020-01-01", "NaT", "300000-01-01"], "M8[D]"),
    "seconds": np.array(["2020-01-01", "NaT", "-300000-01-01"], "M8[s]"),
    "years": np.array(["2020", "NaT", "1000000"], "M8[Y]"),
    "hours": np.array([1, "NaT", 10**14], "m8[h]"),
    "pandas": pd.Series(np.array(["2020-01-01", "NaT", "300000-01-01"], "M8[s]")),
    "Arrow": pa.array([1, None, 2_000_000_000], pa.date32()),
    "objects": np.array([dt.timedelta(1), None, dt.timedelta.max], dtype=object),
    "objects of NumPy": np.array([np.datetime64("2020"), None, np.datetime64("300000")], object),
}


@pytest.mark.parametrize("column", _FAR.values(), ids=_FAR)
def test_times_beyond_64_bits_do_not_wrap_around(column) -> None:
    X = pa.table({"t": column}) if isinstance(column, pa.Array) else {"t": column}
    with pytest.raises(DataError, match=r"^column 't' holds .* \(row 2\).*292,000 years"):
        read_table(X)


def test_durations_of_numpy_among_objects_have_any_unit() -> None:
    mixed = np.array([np.timedelta64(1, "Y"), np.timedelta64(3, "s"), dt.timedelta(1)], object)
    assert read_table({"t": mixed}).values.tolist() == [
        [31_556_952_000_000],
        [3_000_000],
        [86_400_000_000],
    ]


def test_dates_and_durations_are_microseconds_whatever_their_unit():
    day = np.datetime64("2024-02-03")
    ticks = int(day.astype("M8[us]").astype(int))
    whole = np.array([day, np.datetime64("NaT")])
    for unit in ("s", "ms", "us", "ns"):
        assert read_table(whole.astype(f"M8[{unit}]")[:, None]).values.tolist() == [
            [ticks],
            [MISSING_KEY],
        ]
        table = read_table(pd.DataFrame({"t": whole.astype(f"M8[{unit}]")}))
        assert table.values[:, 0].tolist() == [ticks, MISSING_KEY]
        assert table.schema.kinds == ("int",)
    for column in ([dt.date(2024, 2, 3), None], [dt.datetime(2024, 2, 3), None]):
        for make in (pl.DataFrame, pa.table):
            assert read_table(make({"t": column})).values.tolist() == [[ticks], [MISSING_KEY]]
    zoned = pd.DataFrame({"t": pd.to_datetime(["2024-02-03T01:00+01:00", None], utc=True)})
    zoned["t"] = zoned["t"].dt.tz_convert("Asia/Tokyo")
    assert read_table(zoned).values[:, 0].tolist() == [ticks, MISSING_KEY]
    table = read_table(pl.DataFrame({"d": [dt.timedelta(seconds=2), None]}))
    assert table.values[:, 0].tolist() == [2_000_000, MISSING_KEY]


def test_input_is_never_written_to():
    for X in (
        np.array([[1.5, -0.0], [np.nan, 2.0]]),
        np.array([[1, 2**62]]),
        np.array([[1, None]], dtype=object),
    ):
        before = X.copy()
        for schema in (None, Schema((Column("a"), Column("b", "int")))):
            read_table(X, schema)
        np.testing.assert_array_equal(X, before)


# ---- prediction: the model's schema decides -----------------------------------------


@each_frame
def test_frames_are_matched_by_name(make):
    columns = {name: np.array([number, np.nan]) for number, name in enumerate("cab")}
    table = read_table(make(columns), NAMED)
    assert table.schema is NAMED
    np.testing.assert_array_equal(table.values[0], [1, 2, 0])


def test_missing_and_unknown_columns_are_both_listed():
    frame = pd.DataFrame({"a": [1.0], "d": [1.0], "c": [1.0], "e": [0.0]})
    with pytest.raises(DataError, match=r"(?s)unseen at fit.*- d\n- e\n.*now missing:\n- b"):
        read_table(frame, NAMED)


@pytest.mark.parametrize("X", [np.ones((2, 2)), pd.DataFrame(np.ones((2, 2))), [[1, 2], [3, 4]]])
def test_wrong_number_of_features(X):
    words = "X has 2 features, but Booster is expecting 3 features as input"
    with pytest.raises(DataError, match=words):
        read_table(X, NAMED)
    with pytest.raises(DataError, match="but HedgerowRegressor is"):
        read_table(X, NAMED, reader="HedgerowRegressor")


def compares(value, cut):
    """Compare ``value <= cut`` like Python: exactly, also between int and float."""
    return value <= cut


@given(st.integers(INT64.min + 1, INT64.max), st.floats(allow_nan=False))
@example(INT64.max, 2.0**63)
@example(INT64.max, math.nextafter(2.0**63, 0))
@example(2**53 + 1, 2.0**53)
@example(INT64.min + 1, -(2.0**63))
def test_integers_meet_float_cuts_exactly(value, cut):
    table = read_table(np.array([[value]]), FLOATS)
    assert table.values.dtype == np.float64
    for near in (cut, float(value), math.nextafter(float(value), -math.inf)):
        assert (table.values[0, 0] <= near) == compares(value, near)


@given(st.floats(), st.integers(INT64.min + 1, INT64.max - 1))
@example(2.0**63, INT64.max - 1)
@example(-(2.0**63), INT64.min + 1)
@example(math.inf, 0)
@example(-math.inf, INT64.min + 1)
@example(-0.5, -1)
@example(math.nan, 0)
def test_floats_meet_integer_cuts_exactly(value, cut):
    key = int(read_table(np.array([[value]]), INTS).values[0, 0])
    if math.isnan(value):
        assert key == MISSING_KEY
        return
    # At -2**63 and below there is no value of training, so all of it is one.
    assert key > MISSING_KEY
    assert (key <= cut) == compares(value, cut)


@given(
    hnp.arrays(np.float64, (5, 2), elements=st.floats(-1e6, 1e6)),
    st.sampled_from([np.float32, np.float64, np.int64, np.int16]),
)
def test_arrays_and_frames_give_the_same_table(X, dtype):
    X = np.clip(X, -30000, 30000).astype(dtype)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    for kinds in (("float", "float"), ("int", "int"), ("float", "int")):
        schema = Schema((Column("a", kinds[0]), Column("b", kinds[1])), named=True)
        expected = read_table(X, schema).values
        for other in (frame, frame[["b", "a"]], pl.from_pandas(frame), X.astype(object)):
            np.testing.assert_array_equal(read_table(other, schema).values, expected)


def test_missing_integers_are_missing_for_either_kind():
    frame = pl.DataFrame({"x0": [1, None]})
    np.testing.assert_array_equal(read_table(frame, FLOATS).values, [[1.0], [np.nan]])
    assert read_table(frame, INTS).values.tolist() == [[1], [MISSING_KEY]]


def test_numbers_among_objects_stay_after_many_missing_values():
    frame = pd.DataFrame({"a": [*[None] * 100, 1.5]}, dtype=object)
    assert read_table(frame).values[-1, 0] == 1.5


@pytest.mark.parametrize("item", [[1], (1, 2), np.ones(2), {"a": 1}, {3}])
@pytest.mark.parametrize(
    "make", [pd.DataFrame, dict, lambda c: list(zip(*c.values(), strict=True))]
)
def test_a_cell_of_several_values_says_what_to_do(make, item) -> None:
    columns = {"a": [1.0, 2.0, 3.0], "b": [0.5, item, item]}
    with pytest.raises(HedgerowError, match=r"[Aa] cell holds one value.*columns of their own"):
        read_table(make(columns))
