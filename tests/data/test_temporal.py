"""Columns of dates, times and durations: a model distinguishes them from numbers."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import Booster, Dataset, HedgerowRegressor, load, train
from hedgerow.cli.main import main
from hedgerow.data import read_table
from hedgerow.errors import DataError, ModelFormatError
from hedgerow.io import model_from_bytes
from hedgerow.io.model_file import schema_of_text, schema_text

N_ROWS = 200
RNG = np.random.default_rng(0)
DAYS = RNG.integers(0, 500, N_ROWS)
FRAME = pd.DataFrame(
    {
        "size": RNG.normal(size=N_ROWS),
        "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(DAYS, unit="D"),
        "span": pd.to_timedelta(DAYS % 50, unit="h"),
        "clock": [dt.time(int(day) % 24, 30) for day in DAYS],
    }
)
Y = FRAME["size"].to_numpy() + DAYS / 100 + DAYS % 50
PARAMS = {"n_estimators": 5, "early_stopping": False}
TEMPORAL = (None, "dates", "durations", "times")
DATES_FOR_NUMBERS = "'size' holds dates, but held numbers, or nothing, when the model was trained"
NUMBERS_FOR_DATES = "'when' holds numbers, but held dates when the model was trained"


def ticks(name: str) -> np.ndarray:
    return read_table(FRAME[[name]]).values[:, 0]


NUMBERS = np.column_stack([FRAME["size"], *(ticks(name) for name in ("when", "span", "clock"))])
AS_NUMBERS = FRAME.assign(when=ticks("when"))
AS_DATES = FRAME.assign(size=FRAME.when)


@pytest.fixture(scope="module")
def model() -> HedgerowRegressor:
    return HedgerowRegressor(**PARAMS).fit(FRAME, Y)


def test_the_schema_knows_dates_times_and_durations(model: HedgerowRegressor) -> None:
    columns = model.booster_.model.schema.columns
    assert tuple(column.temporal for column in columns) == TEMPORAL
    loaded = Booster(model_from_bytes(model.booster_.to_bytes())[0])
    assert loaded.model.schema == model.booster_.model.schema


def test_older_readers_refuse_the_file(model: HedgerowRegressor) -> None:
    assert b'"schema_version":"10"' in model.booster_.to_bytes()
    plain = train(PARAMS, Dataset(FRAME[["size"]], Y))
    assert b'"schema_version":"1"' in plain.to_bytes()


def test_files_of_models_without_dates_have_no_key_for_them() -> None:
    schema = read_table(FRAME[["size"]]).schema
    assert "temporal" not in schema_text(schema)
    assert schema_of_text(schema_text(schema)) == schema


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        ("int", '{"days":[0]}'),
        ("int", '{"dates":0}'),
        ("int", '{"dates":[1]}'),
        ("int", '{"dates":[true]}'),
        ("int", '{"dates":[0,0]}'),
        ("int", '{"dates":[0],"times":[0]}'),
        ("int", '["dates"]'),
        ("float", '{"dates":[0]}'),
    ],
)
def test_forged_records_are_refused(kind: str, record: str) -> None:
    kinds = '{"int":[0]}' if kind == "int" else "{}"
    text = f'{{"kinds":{kinds},"named":true,"names":["when"],"temporal":{record}}}'
    with pytest.raises(ModelFormatError, match="schema"):
        schema_of_text(text)
    right = text.replace(kinds, '{"int":[0]}').replace(record, '{"times":[0]}')
    assert schema_of_text(right).columns[0].temporal == "times"


WRONG: dict[str, tuple[Any, str]] = {
    "integers": (AS_NUMBERS, NUMBERS_FOR_DATES),
    "floats": (AS_NUMBERS.astype({"when": float}), NUMBERS_FOR_DATES),
    "one row": (AS_NUMBERS[:1], NUMBERS_FOR_DATES),
    "dict": ({name: AS_NUMBERS[name].to_numpy() for name in FRAME}, NUMBERS_FOR_DATES),
    "rows": (AS_NUMBERS[:3].to_dict("records"), NUMBERS_FOR_DATES),
    "durations": (FRAME.assign(when=FRAME.span), "'when' holds durations, but held dates"),
    "dates for durations": (FRAME.assign(span=FRAME.when), "'span' holds dates, but held dur"),
    "durations for times": (FRAME.assign(clock=FRAME.span), "'clock' holds durations, but held t"),
    "dates for numbers": (AS_DATES, DATES_FOR_NUMBERS),
    "matrix of dates": (FRAME[["when"] * 4].to_numpy(), DATES_FOR_NUMBERS),
    "text": (
        FRAME.assign(when="tomorrow"),
        r"'when' holds text \('tomorrow', row 0\), but held da",
    ),
    "text for durations": (FRAME.assign(span="1 h"), "'span' holds text .*, but held durations"),
}


@pytest.mark.parametrize("name", WRONG)
def test_numbers_are_no_dates(name: str, model: HedgerowRegressor) -> None:
    X, message = WRONG[name]
    for ask in (model.predict, model.booster_.explain):
        with pytest.raises(DataError, match=message):
            ask(X)


def test_forms_of_the_same_dates(model: HedgerowRegressor) -> None:
    expected = model.predict(FRAME)
    texts = FRAME.assign(when=FRAME.when.astype(str), clock=FRAME.clock.astype(str))
    for X in (texts, FRAME.to_dict("records"), FRAME.to_dict("list")):
        np.testing.assert_array_equal(model.predict(X), expected)
    # An array has no column types: its numbers are microseconds.
    booster = model.booster_
    np.testing.assert_array_equal(booster.predict(NUMBERS), expected)
    np.testing.assert_array_equal(booster.predict(NUMBERS.tolist()), expected)


MOMENTS = FRAME.assign(when=FRAME.when.dt.tz_localize("Asia/Tokyo"))
"""The dates of ``FRAME`` in a zone: nine hours earlier in UTC."""
OTHER_ZONE = "'when' holds dates (with|without) a time zone, but held dates (with|without) one"
WAYS = {
    "pandas": lambda X: X,
    "polars": lambda X: pytest.importorskip("polars").from_pandas(X),
    "arrow": lambda X: pytest.importorskip("pyarrow").Table.from_pandas(X),
    "objects": lambda X: X.astype({"when": object}),
    "records": lambda X: X.to_dict("records"),
    "texts": lambda X: X.assign(when=[each.isoformat() for each in X.when]),
    "categories": lambda X: X.assign(when=X.when.astype("category")),
    "one row": lambda X: X[:1],
}


@pytest.fixture(scope="module")
def zoned() -> HedgerowRegressor:
    return HedgerowRegressor(**PARAMS).fit(MOMENTS, Y)


@pytest.mark.parametrize("way", WAYS)
def test_dates_with_a_zone_are_other_dates(
    model: HedgerowRegressor, zoned: HedgerowRegressor, way: str
) -> None:
    convert, n = WAYS[way], 1 if way == "one row" else N_ROWS
    for known, own, other in ((model, FRAME, MOMENTS), (zoned, MOMENTS, FRAME)):
        expected = known.predict(own)[:n]
        loaded = Booster.from_bytes(known.booster_.to_bytes())
        for ask in (known.predict, loaded.predict):
            np.testing.assert_array_equal(ask(convert(own)), expected)
            with pytest.raises(DataError, match=OTHER_ZONE):
                ask(convert(other))
    paris = MOMENTS.assign(when=MOMENTS.when.dt.tz_convert("Europe/Paris"))
    np.testing.assert_array_equal(zoned.predict(convert(paris)), zoned.predict(MOMENTS)[:n])


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_files_validation_rows_and_models_to_continue_have_the_same_zone(
    zoned: HedgerowRegressor, tmp_path: Path, suffix: str
) -> None:
    paths = {name: tmp_path / f"{name}.{suffix}" for name in ("plain", "zoned")}
    for name, table in (("plain", FRAME), ("zoned", MOMENTS)):
        rows = table[["size", "when"]].assign(y=Y)
        if suffix == "csv":
            rows["when"] = [each.isoformat() for each in rows.when]
        getattr(rows, f"to_{suffix}")(paths[name], index=False)
    first = train(PARAMS, Dataset(MOMENTS[["size", "when"]], Y))

    def data(name: str, kind: str) -> Dataset:
        table = (FRAME if name == "plain" else MOMENTS)[["size", "when"]]
        return (
            Dataset(table, Y) if kind == "memory" else Dataset.from_files(paths[name], target="y")
        )

    for kinds in (("memory", "memory"), ("file", "memory"), ("file", "file")):
        train(PARAMS, data("zoned", kinds[0]), data("zoned", kinds[1]))
        with pytest.raises(DataError, match=OTHER_ZONE):
            train(PARAMS, data("zoned", kinds[0]), data("plain", kinds[1]))
        with pytest.raises(DataError, match=OTHER_ZONE):
            train(PARAMS, data("plain", kinds[0]), init_model=first)
    first.predict_files([paths["zoned"]], tmp_path / "out.csv")
    with pytest.raises(DataError, match=OTHER_ZONE):
        first.predict_files([paths["plain"]], tmp_path / "out.csv")


def test_columns_without_values_are_of_any_sort(model: HedgerowRegressor) -> None:
    expected = model.predict(FRAME.assign(when=pd.NaT))
    for nothing in (np.nan, None, pd.NA):
        np.testing.assert_array_equal(model.predict(FRAME.assign(when=nothing)), expected)
    model.predict(FRAME.assign(size=pd.NaT))


def test_single_rows(model: HedgerowRegressor) -> None:
    booster, expected = model.booster_, model.predict(FRAME[:1])[0]
    row = FRAME.to_dict("records")[0]
    assert booster.predict_one(row) == expected
    assert booster.predict_one({**row, "when": str(row["when"])}) == expected
    assert booster.predict_one(NUMBERS[0].tolist()) == expected
    with pytest.raises(DataError, match=NUMBERS_FOR_DATES):
        booster.predict_one({**row, "when": int(NUMBERS[0, 1])})


def test_categories_of_dates() -> None:
    month = FRAME.when.dt.to_period("Q").dt.start_time
    for days, chosen in ((month, ["when"]), (month.astype("category"), "auto")):
        X = FRAME.assign(when=days)
        model = HedgerowRegressor(**PARAMS, categorical_features=chosen).fit(X, Y)
        schema = model.booster_.model.schema
        assert schema.columns[1].kind == "category"
        assert schema.columns[1].temporal == "dates"
        loaded = Booster(model_from_bytes(model.booster_.to_bytes())[0])
        expected = model.predict(X)
        for same in (month, month.astype("category"), month.astype(str)):
            np.testing.assert_array_equal(loaded.predict(X.assign(when=same)), expected)
        for number in (AS_NUMBERS.when, AS_NUMBERS.when.astype("category")):
            with pytest.raises(DataError, match=NUMBERS_FOR_DATES):
                loaded.predict(X.assign(when=number))


def test_validation_rows_and_continued_fits(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rows, path = Dataset(FRAME, Y), tmp_path / "rows.parquet"
    AS_NUMBERS.assign(y=Y).to_parquet(path)
    first = train(PARAMS, rows)
    with pytest.raises(DataError, match=NUMBERS_FOR_DATES):
        train(PARAMS, rows, Dataset(AS_NUMBERS, Y))
    for other in (Dataset(AS_NUMBERS, Y), Dataset.from_files(path, "y")):
        with pytest.raises(DataError, match=NUMBERS_FOR_DATES):
            train(PARAMS, other, init_model=first)


def test_text_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    model, out = str(tmp_path / "model"), str(tmp_path / "out.csv")
    dates, numbers = tmp_path / "dates.csv", tmp_path / "numbers.csv"
    columns = ["size", "when", "y"]
    FRAME.assign(y=Y)[columns].to_csv(dates, index=False)
    AS_NUMBERS.assign(y=Y)[columns].to_csv(numbers, index=False)
    more = ["--target", "y", "--set", "n_estimators=3"]
    assert main(["train", str(dates), "--model", model, *more]) == 0
    booster = load(model)
    assert booster.model.schema.types == (("float", None), ("int", "dates"))
    assert main(["predict", model, str(dates), "-o", out]) == 0
    np.testing.assert_array_equal(
        np.loadtxt(out, skiprows=1), booster.predict(FRAME[["size", "when"]])
    )
    with pytest.raises(DataError, match=r"numbers\.csv: .*" + NUMBERS_FOR_DATES):
        booster.predict_files(numbers, out)
    assert main(["predict", model, str(numbers), "-o", out]) != 0
    assert main(["evaluate", model, str(numbers), "--target", "y"]) != 0


def test_text_files_hold_durations_as_microseconds(
    tmp_path: Path, model: HedgerowRegressor
) -> None:
    path, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    FRAME.assign(span=ticks("span")).to_csv(path, index=False)
    model.booster_.predict_files(path, out)
    np.testing.assert_array_equal(np.loadtxt(out, skiprows=1), model.predict(FRAME))


@pytest.mark.parametrize(
    ("column", "low", "high", "shown"),
    [
        ("when", "2024-02-28", "2024-03-01", "2024-02-29"),
        ("when", "2024-02-28", "2024-03-02", "2024-02-29T12:00:00"),
        ("clock", "09:00:00", "10:00:00", "09:30:00"),
        ("span", "1 days", "3 days", "2 days, 0:00:00"),
    ],
)
def test_trees_show_cuts_as_dates(column: str, low: str, high: str, shown: str) -> None:
    convert: Any = {
        "when": pd.to_datetime,
        "span": pd.to_timedelta,
        "clock": lambda texts: list(map(dt.time.fromisoformat, texts)),
    }
    X = pd.DataFrame({column: convert[column]([low] * 5 + [high] * 5)})
    booster = train({"n_estimators": 1, "min_samples_leaf": 1}, Dataset(X, [0.0] * 5 + [1.0] * 5))
    assert f"{column} <= {shown}" in booster.to_text()
    for sign, rule in zip(("<=", ">"), sorted(booster.to_rules()), strict=True):
        assert f"{column} {sign} {shown}" in rule


def test_pictures_of_explained_dates(model: HedgerowRegressor) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    from hedgerow.plot import plot_beeswarm, plot_waterfall

    columns = {name: FRAME[name].to_numpy() for name in FRAME}
    for X in (FRAME, columns):
        explanation = model.booster_.explain(X)
        plot_beeswarm(explanation)
        texts = [text.get_text() for text in plot_waterfall(explanation, 0).get_yticklabels()]
        assert f"when = {FRAME.when[0]}" in texts
