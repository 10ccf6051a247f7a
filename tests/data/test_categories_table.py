"""Categories by value: the same values give the same codes in all libraries."""

from __future__ import annotations

import datetime as dt
import pickle
import threading
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hedgerow import Dataset, HedgerowRegressor, train
from hedgerow.arrays import MISSING_KEY
from hedgerow.data import Column, Schema, Table, drop_unused_levels, read_table, recode
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.data.reading import frames
from hedgerow.data.reading.objects import read_objects
from hedgerow.errors import DataError, DataTypeError, ParameterError
from hedgerow.model.layout import find_splits
from tests.helpers.examples import examples

pa = pytest.importorskip("pyarrow")

Values = list[Any]


def shuffled(values: Values) -> list[Any]:
    """Return the distinct values in another order, and some values that do not occur."""
    distinct = sorted({value for value in values if value is not None}, key=hash)
    kind = type(distinct[0]) if distinct else str
    return [*(x for x in (kind("9"), kind("77")) if x not in distinct), *distinct]


def arrow_dictionary(values: Values) -> Any:
    """Return chunks with dictionaries of their own."""
    half = len(values) // 2
    parts = [pa.array(part).dictionary_encode() for part in (values[:half], values[half:]) if part]
    parts = [part for part in parts if part.type == parts[0].type]
    whole = sum(len(part) for part in parts) == len(values)
    return (
        pa.chunked_array(parts)
        if whole
        else pa.chunked_array([pa.array(values).dictionary_encode()])
    )


TEXT_HOLDERS = {
    "pandas object": lambda v: pd.DataFrame({"c": pd.Series(v, dtype=object)}),
    "pandas str": lambda v: pd.DataFrame({"c": pd.Series(v, dtype="str")}),
    "pandas string": lambda v: pd.DataFrame({"c": pd.Series(v, dtype="string")}),
    "pandas category": lambda v: pd.DataFrame({"c": pd.Categorical(v, categories=shuffled(v))}),
    "pandas ordered": lambda v: pd.DataFrame(
        {"c": pd.Categorical(v, categories=shuffled(v), ordered=True)}
    ),
    "pandas arrow": lambda v: pd.DataFrame({"c": pd.Series(v, dtype=pd.ArrowDtype(pa.string()))}),
    "pandas arrow dictionary": lambda v: pd.DataFrame(
        {"c": pd.arrays.ArrowExtensionArray(pa.array(v, pa.string()).dictionary_encode())}
    ),
    "polars String": lambda v: pl.DataFrame({"c": pl.Series(v, dtype=pl.String)}),
    "polars Categorical": lambda v: pl.DataFrame({"c": pl.Series(v, dtype=pl.Categorical)}),
    "polars Enum": lambda v: pl.DataFrame({"c": pl.Series(v, dtype=pl.Enum(shuffled(v)))}),
    "Arrow": lambda v: pa.table({"c": pa.array(v, pa.string())}),
    "Arrow large": lambda v: pa.table({"c": pa.array(v, pa.large_string())}),
    "Arrow view": lambda v: pa.table({"c": pa.array(v, pa.string_view())}),
    "Arrow dictionary": lambda v: pa.table({"c": arrow_dictionary(v)}),
    "dicts": lambda v: [{"c": value} for value in v],
    "dict of lists": lambda v: {"c": v},
    "dict of arrays": lambda v: {"c": np.array(v, dtype=object)},
}  # fmt: skip
ARRAY_HOLDERS = {
    "array": lambda v: np.array(v, dtype=object)[:, None],
    "list": lambda v: [[value] for value in v],
}

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
columns_of_text = st.lists(st.none() | texts, min_size=1, max_size=12).filter(any)


def naive_codes(values: Values) -> list[float]:
    known = sorted({value for value in values if value is not None})
    return [np.nan if value is None else known.index(value) for value in values]


@pytest.mark.fast(2)
@pytest.mark.parametrize(
    ("most_by_dict", "has_arrow"), [(None, True), (10**9, True), (0, True), (0, False)]
)
@settings(max_examples=examples(40), deadline=None)
@given(values=columns_of_text)
@example(values=["b", "a", None, "é", "e", "z", "Z", "", "\U0001f600", "\uffff"])
def test_text_of_every_library_has_the_same_codes(
    most_by_dict: int | None, has_arrow: bool, values: Values
) -> None:
    """By a dict in Python or by Arrow, whether or not Arrow is installed."""
    with pytest.MonkeyPatch.context() as patch:
        if most_by_dict is not None:
            patch.setattr(frames, "_FEW_ROWS", most_by_dict)
            patch.setattr(frames, "_MOST_ROWS", most_by_dict)
        if not has_arrow:
            patch.setattr(frames, "find_spec", lambda name: None)
        check_codes(values)


def check_codes(values: Values) -> None:
    expected = Column("c", "category", tuple(sorted({v for v in values if v is not None})))
    for name, make in TEXT_HOLDERS.items():
        table = read_table(make(values))
        assert table.schema == Schema((expected,), named=True), name
        np.testing.assert_array_equal(table.values[:, 0], naive_codes(values), name)
        again = read_table(make(values), table.schema)
        np.testing.assert_array_equal(again.values, table.values, name)
        assert again.unseen == {}
    for name, make in ARRAY_HOLDERS.items():
        table = read_table(make(values))
        assert table.schema.columns == (replace(expected, name="x0"),), name
        np.testing.assert_array_equal(table.values[:, 0], naive_codes(values), name)


@given(
    st.lists(
        st.sampled_from(["", "a", "b", np.str_("a"), None, np.nan, float("nan"), pd.NA, pd.NaT])
        | st.sampled_from([1.0, np.float64(np.nan), 2, True, Decimal("nan"), pd.Period("2020"), ()])
        | st.text(max_size=3)
    )
)
def test_the_quick_way_to_encode_objects_agrees_with_the_loop(items: list[Any]) -> None:
    class Text(str):
        """Text that the quick way does not take."""

        __slots__ = ()

    def found(items: list[Any]) -> Any:
        column = np.fromiter(items, dtype=object, count=len(items))
        try:
            column_read = read_objects(column, "c")
        except DataTypeError as error:
            return str(error)
        if column_read.is_text:
            return column_read.values, column_read.codes.tolist()
        return np.asarray(column_read.values).tolist().__repr__()

    other = [Text(item) if type(item) is str else item for item in items]
    assert found(other) == found(items)


@given(columns_of_text, columns_of_text, st.sampled_from(["missing", "split"]))
def test_unseen_text(seen: Values, new: Values, unknown: Any) -> None:
    schema = replace(read_table({"c": seen}).schema, unknown=unknown)
    known = list(schema.columns[0].levels)
    other = len(known) if unknown == "split" else np.nan
    expected = [np.nan if v is None else known.index(v) if v in known else other for v in new]
    n_unseen = sum(v is not None and v not in known for v in new)
    for name, make in TEXT_HOLDERS.items():
        table = read_table(make(new), schema)
        np.testing.assert_array_equal(table.values[:, 0], expected, name)
        assert table.unseen == ({"c": n_unseen} if n_unseen else {}), name


numbers = st.one_of(
    st.none(),
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.sampled_from([0, 1, 2, -1, 2**53, 2**53 + 1]),
    st.sampled_from([0.0, -0.0, 1.0, 2.0, 0.5, 1e300, -1e-300, float("inf")]),
    st.booleans(),
)


def homogeneous(values: Values) -> bool:
    """Return whether a NumPy array can hold the values exactly."""
    present = [v for v in values if v is not None]
    floats = any(isinstance(v, float) for v in present)
    return bool(present) and not (floats and any(abs(v) > 2**53 for v in present if type(v) is int))


@given(
    st.lists(numbers, min_size=1, max_size=10).filter(homogeneous),
    st.lists(numbers, min_size=1, max_size=10).filter(homogeneous),
)
def test_named_numbers_are_equal_as_in_python(seen: Values, new: Values) -> None:
    table = read_table({"c": seen}, categorical=["c"])
    (column,) = table.schema.columns
    known = sorted({v for v in seen if v is not None})
    assert column.kind == "category"
    assert list(column.levels) == known
    whole = all(v == int(v) and abs(v) < 2**63 for v in known if np.isfinite(v)) and all(
        np.isfinite(v) for v in known
    )
    assert all(type(level) is (int if whole else float) for level in column.levels)
    np.testing.assert_array_equal(table.values[:, 0], naive_codes(seen))
    expected = [known.index(v) if v is not None and v in known else np.nan for v in new]
    read = read_table({"c": new}, table.schema)
    np.testing.assert_array_equal(read.values[:, 0], expected)
    n_unseen = sum(v is not None and v not in known for v in new)
    assert read.unseen == ({"c": n_unseen} if n_unseen else {})


def test_numbers_of_every_library_have_the_same_codes() -> None:
    values = [3, 1, None, 1, 2]
    holders = {
        "nullable": pd.DataFrame({"c": pd.array(values, dtype="Int64")}),
        "float": pd.DataFrame({"c": [3.0, 1.0, np.nan, 1.0, 2.0]}),
        "category": pd.DataFrame({"c": pd.Categorical(values, categories=[7, 3, 2, 1])}),
        "polars": pl.DataFrame({"c": values}),
        "polars narrow": pl.DataFrame({"c": pl.Series(values, dtype=pl.Int8)}),
        "decimal": pl.DataFrame({"c": [None if v is None else Decimal(v) for v in values]}),
        "Arrow": pa.table({"c": values}),
        "Arrow dictionary": pa.table({"c": pa.array(values).dictionary_encode()}),
        "dicts": [{"c": v} for v in values],
    }
    for name, frame in holders.items():
        table = read_table(frame, categorical=["c"])
        assert table.schema.columns == (Column("c", "category", (1, 2, 3)),), name
        np.testing.assert_array_equal(table.values[:, 0], [2, 0, np.nan, 0, 1], name)
        for other in holders.values():
            np.testing.assert_array_equal(read_table(other, table.schema).values, table.values)
    X = np.array([[3.0], [1.0], [np.nan], [1.0], [2.0]], dtype=np.float32)
    assert read_table(X, categorical=[0]).schema.columns[0].levels == (1, 2, 3)


def test_categories_of_numbers_are_found_and_otherwise_stay_numbers() -> None:
    frame = pd.DataFrame({"c": pd.Categorical([5, None, 3]), "x": [0.5, 1.0, 2.0]})
    assert read_table(frame).schema.kinds == ("category", "float")
    table = read_table(frame, categorical=None)
    assert table.schema.kinds == ("int", "float")
    assert table.values[:, 0].tolist() == [5, MISSING_KEY, 3]
    trained = read_table(pd.DataFrame({"c": [1.0, 2.0], "x": [0.0, 1.0]})).schema
    np.testing.assert_array_equal(read_table(frame, trained).values[:, 0], [5.0, np.nan, 3.0])


def test_categories_of_intervals_are_text() -> None:
    frame = pd.DataFrame({"c": pd.cut([1.0, 5.0, 9.0, np.nan], [0, 4, 10])})
    table = read_table(frame)
    assert table.schema.columns[0].levels == ("(0, 4]", "(4, 10]")
    np.testing.assert_array_equal(table.values[:, 0], [0, 1, 1, np.nan])


def test_categories_of_dates_are_their_microseconds() -> None:
    days = [dt.date(2024, 1, 2), None, dt.date(2024, 1, 1)]
    for frame in (
        pl.DataFrame({"c": days}),
        pd.DataFrame({"c": pd.Categorical(pd.to_datetime(days))}),
    ):
        table = read_table(frame, categorical=["c"])
        assert table.schema.columns[0].levels == (1704067200000000, 1704153600000000)
        np.testing.assert_array_equal(table.values[:, 0], [1, np.nan, 0])


def test_bool_is_a_number_unless_named() -> None:
    frame = pl.DataFrame({"c": [True, None, False]})
    assert read_table(frame).schema.kinds == ("float",)
    table = read_table(frame, categorical=["c"])
    assert table.schema.columns[0].levels == (0, 1)
    np.testing.assert_array_equal(table.values[:, 0], [1, np.nan, 0])


def test_beside_int64_columns_codes_are_keys() -> None:
    frame = {"id": np.array([2**60, 2**60 + 1]), "c": ["b", None]}
    table = read_table(frame)
    assert table.schema.kinds == ("int", "category")
    assert table.values.tolist() == [[2**60, 0], [2**60 + 1, MISSING_KEY]]
    assert codes_of(table.values[:, 1], 1).tolist() == [0, 2]
    new = read_table({"id": np.array([1]), "c": ["x"]}, replace(table.schema, unknown="split"))
    assert codes_of(new.values[:, 1], 1).tolist() == [1]


def test_a_category_column_does_not_widen_a_float32_table() -> None:
    frame = pl.DataFrame({"x": pl.Series([0.5, 1.5], dtype=pl.Float32), "c": ["a", "b"]})
    assert read_table(frame).values.dtype == np.float32


# ---- which columns ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("categorical", "kinds"),
    [
        ("auto", ("float", "category", "float")),
        (["b", "c"], ("float", "category", "category")),
        (["a", 1], ("category", "category", "float")),
        ((2, 1), ("float", "category", "category")),
        (np.array([1, 0]), ("category", "category", "float")),
        (np.array(["b"]), ("float", "category", "float")),
        ([False, True, True], ("float", "category", "category")),
        (np.array([True, True, False]), ("category", "category", "float")),
    ],
)
def test_ways_to_name_columns(categorical: Any, kinds: tuple[str, ...]) -> None:
    frame = pd.DataFrame({"a": [0.5, 1.0], "b": ["x", "y"], "c": [1.0, 2.0]})
    assert read_table(frame, categorical=categorical).schema.kinds == kinds


@pytest.mark.parametrize(
    ("categorical", "words"),
    [
        (["aa"], "the table has no column 'aa'. Did you mean 'a'"),
        ([3], "there is no column 3; positions go from 0 to 2"),
        ([-1], "there is no column -1"),
        (["a", "a"], "column 'a' twice"),
        (["a", 0], "column 'a' twice"),
        ([True, False], "2 bools for 3 columns"),
        ([0, True], "name or position; got True"),
        ([0.5], "name or position; got 0.5"),
        ([None], "name or position; got None"),
        ("a", "must be 'auto', a list"),
        (3, "must be 'auto', a list"),
    ],
)
def test_columns_that_cannot_be_named(categorical: Any, words: str) -> None:
    frame = pd.DataFrame({"a": [0.5], "b": ["x"], "c": [1.0]})
    with pytest.raises(ParameterError, match=words):
        read_table(frame, categorical=categorical)
    estimator = HedgerowRegressor(categorical_features=categorical)
    with pytest.raises(ParameterError, match=words):
        estimator.fit(frame, [0.0])
    assert not hasattr(estimator, "booster_")
    with pytest.raises(ParameterError, match=words):
        Dataset(frame, categorical_features=categorical).table()


def test_text_that_is_not_named_is_an_error() -> None:
    frame = pd.DataFrame({"a": [0.5], "b": ["x"]})
    with pytest.raises(DataTypeError, match="'b' has type text, but is not among categorical_feat"):
        read_table(frame, categorical=["a"])
    with pytest.raises(DataTypeError, match="'b' has type text, but columns must hold numbers"):
        read_table(frame, categorical=None)


def test_names_of_a_dataset_name_categories() -> None:
    X = [[1.0, "u"], [2.0, "v"]]
    data = Dataset(X, feature_names=["p", "q"], categorical_features=["q", "p"])
    schema = data.table().schema
    assert (schema.names, schema.kinds, schema.named) == (("p", "q"), ("category",) * 2, True)
    assert (
        schema
        == Dataset(pd.DataFrame(X, columns=["p", "q"]), categorical_features=[0, 1]).table().schema
    )


@pytest.mark.parametrize("unknown", ["mising", "backoff", None, 3, ["missing"]])
def test_bad_policy(unknown: Any) -> None:
    with pytest.raises(ParameterError, match="unknown_category must be one of 'missing', 'error'"):
        read_table([["a"]], unknown=unknown)
    with pytest.raises(ParameterError, match="unknown_category"):
        HedgerowRegressor(unknown_category=unknown).fit(np.ones((3, 1)), [0.0, 1.0, 2.0])


# ---- text against numbers --------------------------------------------------------


def test_text_is_no_number() -> None:
    text = read_table({"c": ["1", "2"]}).schema
    number = read_table({"c": [1, 2]}, categorical=["c"]).schema
    plain = read_table({"c": [1.0, 2.0]}).schema
    with pytest.raises(DataTypeError, match="'c' holds numbers, but held text"):
        read_table({"c": [1.0, 2.0]}, text)
    with pytest.raises(DataTypeError, match="'c' holds text, but held numbers"):
        read_table({"c": ["1", "2"]}, number)
    with pytest.raises(DataTypeError, match="'c' holds text, but held numbers"):
        read_table({"c": ["1", "2"]}, plain)
    with pytest.raises(DataTypeError, match="'c' holds text, but held numbers"):
        read_table(pd.DataFrame({"c": pd.Categorical(["1"])}), number)
    without_values = read_table({"c": [np.nan, np.nan]}).schema
    with pytest.raises(DataTypeError, match="'c' holds text, but held numbers, or nothing, when"):
        read_table({"c": ["1", "2"]}, without_values)
    nothing = (
        {"c": None}, {"c": [None, np.nan]}, pl.DataFrame({"c": [None]}),
        pd.DataFrame({"c": [np.nan]}),
        pd.DataFrame({"c": pd.Categorical([None], categories=["1"])}),
        pd.DataFrame({"c": pd.Categorical([None], categories=[1])}),
        pa.table({"c": pa.nulls(1)}), pa.table({"c": pa.nulls(1, pa.string())}),
    )  # fmt: skip
    for frame in nothing:
        for schema in (text, number, plain):
            assert np.isnan(read_table(frame, schema).values).all()


def test_a_column_that_was_empty_takes_anything() -> None:
    schema = read_table(pl.DataFrame({"c": pl.Series([None], dtype=pl.String)})).schema
    assert schema.columns == (Column("c", "category", ()),)
    for value in ("a", 3, 0.5):
        table = read_table({"c": value}, schema)
        assert np.isnan(table.values).all()
        assert table.unseen == {"c": 1}


def test_errors_name_column_row_and_value() -> None:
    schema = read_table({"c": ["a", "b"], "d": [1.0, 2.0]}, unknown="error").schema
    with pytest.raises(
        DataError, match=r"'c' holds 'z' .row 2., which is none of the 2 categories"
    ):
        read_table(pd.DataFrame({"c": ["a", None, "z"], "d": [0.0, 0.0, 0.0]}), schema)
    schema = read_table({"c": [1, 2]}, categorical=[0], unknown="error").schema
    with pytest.raises(DataError, match=r"'c' holds 2.5 .row 1."):
        read_table({"c": [2.0, 2.5]}, schema)
    with pytest.raises(DataError, match="'c' holds text that is not valid Unicode"):
        read_table({"c": ["\ud800"]})


# ---- rows as dicts -----------------------------------------------------------------


def test_dicts_are_matched_by_name() -> None:
    schema = read_table({"c": ["a", "b"], "x": [0.5, 1.5]}).schema
    row = read_table({"x": 2.0, "c": "b"}, schema)
    np.testing.assert_array_equal(row.values, [[1.0, 2.0]])
    rows = read_table([{"x": 2.0, "c": "b"}, {"c": None, "x": 1}], schema)
    np.testing.assert_array_equal(rows.values, [[1.0, 2.0], [np.nan, 1.0]])
    with pytest.raises(DataError, match="now missing:\n- c"):
        read_table({"x": 2.0}, schema)
    with pytest.raises(DataError, match="unseen at fit time:\n- y"):
        read_table({"x": 2.0, "c": "b", "y": 1}, schema)
    with pytest.raises(DataError, match="column 'c' is missing from row 1"):
        read_table([{"x": 2.0, "c": "b"}, {"x": 1}], schema)
    with pytest.raises(DataError, match="column 'y' is new in row 1"):
        read_table([{"x": 2.0, "c": "b"}, {"x": 1, "c": "a", "y": 2}], schema)
    with pytest.raises(DataError, match="'a' has 1 values and 'b' has 2"):
        read_table({"a": [1], "b": [1, 2]})
    with pytest.raises(DataError, match=r"one axis, got shape .1, 1."):
        read_table({"a": np.ones((1, 1))})
    for empty in ({}, {"a": []}, [{}]):
        with pytest.raises(DataError, match=r"0 (sample|feature)"):
            read_table(empty)


# ---- numbers that are neither int nor float ----------------------------------------


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=5, min_value=-(10**20), max_value=10**20
    )
)
@example(Decimal("0.1"))
@example(Decimal("9007199254740993.00001"))
@example(Decimal("123456789.12345"))
def test_decimals_are_rounded_once(value: Decimal) -> None:
    exact = Fraction(value)
    for frame in (
        pa.table({"d": pa.array([value, None], pa.decimal128(38, 5))}),
        pl.DataFrame({"d": [value, None]}),
        pd.DataFrame({"d": [value, None]}),
        [{"d": value}, {"d": None}],
    ):
        table = read_table(frame)
        assert table.schema.kinds == ("float",)
        found = float(table.values[0, 0])
        assert np.isnan(table.values[1, 0])
        near = (found, np.nextafter(found, np.inf), np.nextafter(found, -np.inf))
        assert min(abs(Fraction(float(x)) - exact) for x in near) == abs(Fraction(found) - exact)


def test_times_and_dates_of_every_library() -> None:
    time, date = dt.time(1, 2, 3, 4), dt.datetime(2024, 2, 3, 4, 5, 6, 7)
    micros = 3_723_000_004
    ticks = int(np.datetime64(date, "us").astype(int))
    zoned = date.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))
    columns = {
        "t": [time, None],
        "d": [date, None],
        "z": [zoned, None],
        "e": [dt.timedelta(1), None],
    }
    expected = [micros, ticks, ticks - 7_200_000_000, 86_400_000_000]
    for frame in (
        pl.DataFrame(columns), pa.table(columns), pd.DataFrame(columns), columns,
        pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()}),
    ):  # fmt: skip
        table = read_table(frame)
        assert table.schema.kinds == ("int",) * 4
        assert table.values.tolist() == [expected, [MISSING_KEY] * 4]
    seconds = pa.table(
        {"t": pa.array([3723], pa.time32("s")), "n": pa.array([1001], pa.time64("ns"))}
    )
    assert read_table(seconds).values.tolist() == [[3_723_000_000, 1]]
    days = pd.DataFrame({"d": [dt.date(2024, 2, 3), None]})
    assert read_table(days).values[:, 0].tolist() == [1706918400000000, MISSING_KEY]


# ---- levels of the rows that count ---------------------------------------------------


@given(columns_of_text, st.data())
def test_levels_of_some_rows(values: Values, data: st.DataObject) -> None:
    table = read_table({"c": values, "x": np.arange(len(values))})
    rows = data.draw(st.lists(st.sampled_from(range(len(values))), min_size=1, unique=True))
    before = table.values.copy()
    part = drop_unused_levels(Table(table.values[rows], table.schema))
    expected = read_table({"c": [values[row] for row in rows], "x": np.array(rows)})
    assert part.schema.columns[0].levels == expected.schema.columns[0].levels
    np.testing.assert_array_equal(part.values[:, 0], expected.values[:, 0])
    whole = recode(table, part.schema)
    read = read_table({"c": values, "x": np.arange(len(values))}, part.schema)
    np.testing.assert_array_equal(whole.values, read.values)
    assert whole.unseen == read.unseen
    known_by_splits = replace(part.schema, unknown="split")
    read = read_table({"c": values, "x": np.arange(len(values))}, known_by_splits)
    np.testing.assert_array_equal(recode(table, known_by_splits).values, read.values)
    np.testing.assert_array_equal(table.values, before)


def test_nothing_is_copied_where_all_levels_stay() -> None:
    table = read_table({"c": ["a", "b"]})
    assert drop_unused_levels(table) is table
    assert recode(table, table.schema) is table


def test_the_type_of_numbers_is_that_of_the_rows_that_count() -> None:
    table = read_table({"c": [1.0, 2.5, 2.0]}, categorical=["c"])
    assert table.schema.columns[0].levels == (1.0, 2.0, 2.5)
    part = drop_unused_levels(Table(table.values[[0, 2]], table.schema))
    assert repr(part.schema.columns[0].levels) == "(1, 2)"
    np.testing.assert_array_equal(recode(table, part.schema).values[:, 0], [0, np.nan, 1])


def test_of_too_many_levels_the_most_frequent_stay() -> None:
    values = ["c", "a", "b", "a", "d", "c", "e"]
    table = drop_unused_levels(read_table({"c": values}), most=3)
    assert table.schema.columns[0].levels == ("a", "b", "c")  # of b, d and e the lowest
    np.testing.assert_array_equal(table.values[:, 0], [2, 0, 1, 0, np.nan, 2, np.nan])
    with pytest.raises(DataError, match="'c' has 5 categories, but a model can have 3"):
        drop_unused_levels(read_table({"c": values}, unknown="error"), most=3)


# ---- through a fit ----------------------------------------------------------------


def colours(n_rows: int = 400, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    names = np.array(["red", "green", "blue", "grey", "mauve"])
    code = rng.integers(0, 5, n_rows)
    frame = pd.DataFrame({"colour": names[code], "x": rng.normal(size=n_rows)})
    return frame, np.array([0.0, 3.0, 1.0, 5.0, 2.0])[code] + 0.1 * frame["x"].to_numpy()


SMALL = {"n_estimators": 10, "min_samples_leaf": 2, "min_data_per_group": 1, "cat_smooth": 1.0}


@pytest.mark.parametrize("unknown", ["missing", "error"])
def test_rows_set_aside_are_not_seen(unknown: Any) -> None:
    X, y = colours(60)
    X["colour"] = [f"colour {row}" for row in range(60)]
    options = {**SMALL, "early_stopping": True, "unknown_category": unknown}
    model = HedgerowRegressor(**options, validation_fraction=0.5).fit(X, y)
    assert len(model.booster_.model.schema.columns[0].levels) == 30
    if unknown != "error":
        model.predict(X)
        assert model.booster_.unseen_categories == {"colour": 30}
    else:
        with pytest.raises(DataError, match="'colour' holds 'colour"):
            model.predict(X)
        X_val = X.assign(colour=[*X["colour"][:59], "other"])
        with pytest.raises(DataError, match=r"'colour' holds 'other' .row 59."):
            HedgerowRegressor(**options).fit(X, y, X_val=X_val, y_val=y)


def test_a_column_without_any_value_has_no_part_in_the_trees() -> None:
    X, y = colours()
    empty = pl.from_pandas(X).with_columns(nothing=pl.lit(None, dtype=pl.String))
    a, b = HedgerowRegressor(**SMALL).fit(empty, y), HedgerowRegressor(**SMALL).fit(X, y)
    np.testing.assert_array_equal(a.predict(empty), b.predict(X))
    assert a.booster_.model.schema.columns[2] == Column("nothing", "category")
    again = pickle.loads(pickle.dumps(a))
    other = empty.with_columns(nothing=pl.lit(3))
    np.testing.assert_array_equal(again.predict(other), b.predict(X))


def test_counts_of_unseen_categories() -> None:
    X, y = colours()
    booster = train(SMALL, Dataset(X, y))
    new = X.assign(colour="new")
    before = booster.predict(new)
    assert booster.unseen_categories == {"colour": 400}
    calls = [threading.Thread(target=lambda: booster.predict(new)) for _ in range(8)]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    booster.leaves(new[:3])
    list(booster.staged_predict(new[:2]))
    booster.predict(X)
    assert booster.unseen_categories == {"colour": 9 * 400 + 5}
    np.testing.assert_array_equal(booster.predict(new), before)
    assert pickle.loads(pickle.dumps(booster)).unseen_categories == {}
    booster.reset_unseen_categories()
    assert booster.unseen_categories == {}


# ---- real data ------------------------------------------------------------------------


def test_columns_of_few_categories_need_few_lookups() -> None:
    """Prediction looks up each column once per row, for any number of nodes."""
    rng = np.random.default_rng(0)
    town = rng.integers(0, 5, 600)
    frame = pd.DataFrame({"town": [f"t{t}" for t in town], "x": rng.normal(size=600)})
    y = np.sin(7.0 * town) * frame["x"] + 0.1 * rng.normal(size=600)
    model = HedgerowRegressor(n_estimators=80, min_samples_leaf=5).fit(frame, y).booster_.model
    forest = model.forest
    n_nodes = int(forest.has_sets.sum())
    splits = find_splits(forest)
    assert n_nodes > 100
    assert np.sum(splits.slots < 0) <= 2**6  # sets of five levels, missing values on either side
    lookups = {}
    for node in np.flatnonzero(forest.has_sets).tolist():
        number = int(-1 - splits.slots[splits.slot[node]])
        sets = forest.categories.sets
        np.testing.assert_array_equal(sets[number], sets[forest.threshold[node]])
        lookups.setdefault(number, set()).add(int(forest.missing_left[node]))
    assert all(len(sides) == 1 for sides in lookups.values())
