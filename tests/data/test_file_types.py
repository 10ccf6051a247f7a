"""Types of columns in files equal those of a table in memory."""

from __future__ import annotations

import codecs
import gzip
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from hedgerow import Dataset, HedgerowClassifier, load, train
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.cli.main import main
from hedgerow.data.reading.texts import microseconds, parse
from hedgerow.errors import DataError, DataTypeError, HedgerowWarning
from hedgerow.io import model_to_bytes

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

SMALL: dict[str, Any] = {"n_estimators": 3, "early_stopping": False, "min_samples_leaf": 2}
N = 120


def random() -> np.random.Generator:
    return np.random.default_rng(4)


CATEGORIES: dict[str, Any] = {
    "int": pd.Categorical(random().integers(0, 4, N) * 10),
    "ordered": pd.Categorical(random().integers(0, 4, N), ordered=True),
    "unused": pd.Categorical(random().integers(0, 3, N), categories=[5, 2, 1, 0]),
    "missing": pd.Categorical(
        np.where(random().random(N) < 0.2, np.nan, random().integers(0, 3, N))
    ),
    "float": pd.Categorical(random().choice([0.5, 1.5], N)),
    "bool": pd.Categorical(random().choice([True, False], N)),
    "date": pd.Categorical(pd.to_datetime(random().choice(["2020-01-01", "2021-01-01"], N))),
    "text": pd.Categorical(random().choice(list("abc"), N)),
}


@pytest.mark.fast(8)
@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize("kind", CATEGORIES)
def test_a_categorical_is_a_category_from_files_too(tmp_path: Path, kind: str, ending: str) -> None:
    rows = pd.DataFrame({"c": CATEGORIES[kind], "x": random().normal(size=N)})
    rows["y"] = rows["x"] + rows["c"].cat.codes
    path = tmp_path / f"rows.{ending}"
    getattr(rows, f"to_{ending}")(path)
    expected = train(SMALL, Dataset(rows[["c", "x"]], rows["y"]))
    found = train(SMALL, Dataset.from_files(path, target="y"))
    assert found.model.schema.kinds == ("category", "float")
    assert model_to_bytes(found.model) == model_to_bytes(expected.model)
    out = tmp_path / "out.csv"
    found.predict_files(path, out)
    np.testing.assert_array_equal(
        pd.read_csv(out, float_precision="round_trip").iloc[:, 0],
        expected.predict(rows[["c", "x"]]),
    )


def test_a_target_may_be_a_categorical_of_numbers(tmp_path: Path) -> None:
    rows = pd.DataFrame({"x": np.arange(50.0), "y": pd.Categorical(np.arange(50) % 3)})
    rows.to_parquet(tmp_path / "rows.parquet")
    found = train(SMALL, Dataset.from_files(tmp_path / "rows.parquet", target="y"))
    expected = train(SMALL, Dataset(rows[["x"]], rows["y"].astype(float)))
    assert model_to_bytes(found.model) == model_to_bytes(expected.model)


def test_an_odd_note_of_pandas_is_no_error(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"x": np.arange(50.0), "y": np.arange(50.0)})
    expected = train(SMALL, Dataset({"x": np.arange(50.0)}, np.arange(50.0)))
    for note in (b"{", b"[1]", b'{"columns": 3}', b'{"columns": [{"pandas_type": "categorical"}]}'):
        pq.write_table(table.replace_schema_metadata({b"pandas": note}), tmp_path / "rows.parquet")
        found = train(SMALL, Dataset.from_files(tmp_path / "rows.parquet", target="y"))
        assert model_to_bytes(found.model) == model_to_bytes(expected.model)


# -- times with a zone ------------------------------------------------------------------------

ZONES = {"Z": "Z", "ahead": "+09:00", "behind": "-0330", "hours": "+09"}


@pytest.mark.parametrize("zone", ZONES)
def test_times_with_a_zone_are_times_in_utc(zone: str) -> None:
    text = f"2026-03-01T12:30:15.25{ZONES[zone]}"
    expected = pd.Timestamp(text).tz_convert("UTC").tz_localize(None)
    assert microseconds([text, None])[0] == expected.to_datetime64()
    assert np.isnat(microseconds([text, None])[1])
    kind, column = parse(pa.array([text, None]))
    assert kind == "zoned"
    assert column.to_pylist() == [expected.tz_localize("UTC").to_pydatetime(), None]
    assert parse(pa.array(["2026-03-01T12:30"]))[0] == "date"


@pytest.mark.parametrize(
    "texts",
    [
        ["2026-01-01T00:00Z", "2026-01-01T00:00"],
        ["2026-01-01T00:00", "2026-01-01T00:00Z"],
        ["2026-01-01Z"],
        ["2026-02-30T00:00Z"],
        ["2026-01-01T00:00+24:00"],
        ["2026-01-01T00:00+09:60"],
        ["2026-01-01T00:00 Z"],
        ["2026-01-01T00:00z"],
    ],
)
def test_what_is_no_time_stays_text(texts: list[str]) -> None:
    assert parse(pa.array(texts))[0] == "text"


@pytest.mark.parametrize("zone", ["Z", "+09:00"])
def test_files_with_zones_are_trained_on_and_predicted(tmp_path: Path, zone: str) -> None:
    start = np.datetime64("2026-01-01T00:00:00") + np.arange(N) * np.timedelta64(61, "m")
    y = np.arange(N) % 24 + 0.0
    path, local = tmp_path / "rows.csv", tmp_path / "local.csv"
    texts = [f"{each}{zone}" for each in start.astype(str)]
    path.write_text("t,y\n" + "".join(f"{t},{v}\n" for t, v in zip(texts, y, strict=True)))
    local.write_text("t,y\n" + "".join(f"{t},{v}\n" for t, v in zip(start, y, strict=True)))
    settings = ["--set", "n_estimators=4", "--set", "early_stopping=False", "--target", "y"]
    model, out = str(tmp_path / "model"), str(tmp_path / "out.csv")
    assert main(["train", str(path), "--model", model, *settings]) == 0
    assert main(["predict", model, str(path), "-o", out]) == 0
    booster = load(model)
    assert booster.model.schema.types == (("int", "zoned dates"),)
    in_utc = pd.to_datetime(pd.Series(texts), utc=True)
    as_frame = pd.DataFrame({"t": in_utc})
    predicted = pd.read_csv(out, float_precision="round_trip").iloc[:, 0]
    np.testing.assert_array_equal(predicted, booster.predict(as_frame))
    limit = ["--memory-limit", "50MB"]
    assert main(["train", str(path), "--model", f"{model}2", *settings, *limit]) == 0
    assert Path(f"{model}2").read_bytes() == Path(model).read_bytes()
    found = train(SMALL, Dataset.from_files(path, target="y"))
    expected = train(SMALL, Dataset.from_files(local, target="y"))
    assert len(found.model.forest.feature) == len(expected.model.forest.feature)
    with pytest.raises(DataError, match=r"dates without a time zone, but held dates with one"):
        booster.predict_files([path, local], out)


def test_zones_in_some_rows_only_are_text_wherever_batches_begin(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows = [f"2026-01-01T00:{n % 60:02}:00{'Z' if n < 5_000 else ''},{n % 7}" for n in range(9_000)]
    path.write_text("t,y\n" + "\n".join(rows) + "\n")
    found = train(SMALL, Dataset.from_files(path, target="y", memory_limit="40 MB"))
    assert found.model.schema.kinds == ("category",)


# -- marks before the first byte --------------------------------------------------------------

CSV = "größe,y\n1,2\n2,3\n3,4\n4,6\n"


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_a_mark_before_csv_is_no_part_of_a_name(tmp_path: Path, ending: str) -> None:
    put: Any = gzip.compress if ending.endswith(".gz") else bytes
    path, model = tmp_path / f"rows{ending}", str(tmp_path / "model")
    path.write_bytes(put(codecs.BOM_UTF8 + CSV.encode()))
    assert main(["train", str(path), "--target", "y", "--model", model]) == 0
    assert load(model).feature_names == ("größe",)
    assert main(["predict", model, str(path), "-o", str(tmp_path / "out.csv")]) == 0
    assert Dataset.from_files(path, target="y").feature_names == ("größe",)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_named(tmp_path: Path, capsys: Any, encoding: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(CSV.encode(encoding))
    code = main(["train", str(path), "--model", str(tmp_path / "m"), "--target", "y"])
    if encoding in ("utf-16", "utf-32"):  # which say so in their first bytes
        assert code == 0
        return
    assert code == 2
    shown = capsys.readouterr().err
    assert f"{path}" in shown
    assert "UTF-" in shown, shown


# -- numbers with a bad cell ------------------------------------------------------------------

ODD = [f"{n * 1.5}" for n in range(60)] + ["n/k"]
SAYS = r"60 of 61 values are numbers"


@pytest.mark.parametrize(
    "column", [pd.Series(ODD), pd.Series(ODD, dtype=object), np.array(ODD), ODD, pa.array(ODD)]
)
def test_a_column_of_numbers_with_an_odd_text_is_named(column: Any) -> None:
    table = pa.table({"a": column}) if isinstance(column, pa.Array) else {"a": column}
    said = rf"column 'a' is read as categories.*{SAYS}; the 61st row has 'n/k'"
    with pytest.warns(HedgerowWarning, match=said):
        Dataset(table, np.arange(61.0)).table()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Dataset(table, np.arange(61.0), categorical_features=["a"]).table()


@pytest.mark.parametrize("texts", [["1", "x"] * 30, ["1st", "2nd"], ["1"] * 9 + ["a"], ["1", "2"]])
def test_categories_are_no_numbers_with_an_odd_text(texts: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Dataset({"a": np.array(texts)}, np.arange(len(texts))).table()


@pytest.mark.parametrize("limit", [None, "40MB"])
def test_files_with_an_odd_text(
    tmp_path: Path, limit: str | None, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, model = tmp_path / "rows.csv", str(tmp_path / "m")
    lines = [f"{text},{row},{row % 7}" for row, text in enumerate(ODD)]
    path.write_text("\n".join(["a,b,c", *lines]) + "\n")
    more = ["--model", model, "--set", "n_estimators=2"]
    if limit is not None:
        monkeypatch.setattr(FileDataset, "bytes_of_table", 10**12)
        path.write_text("\n".join(["a,b,c", *(lines * 50)]) + "\n")
        more += ["--memory-limit", limit]
    assert main(["train", str(path), "--target", "a", *more]) == 2
    error = capsys.readouterr().err
    assert f"{path}: target 'a' is text, but" in error
    assert "values are numbers; " in error
    assert "row 61 has 'n/k'" in error
    assert main(["train", str(path), "--target", "a", "--task", "classification", *more]) in (0, 2)
    with pytest.warns(HedgerowWarning, match=r"column 'a' is read as categories.*'n/k'"):
        assert main(["train", str(path), "--target", "b", *more]) == 0


def test_targets_with_an_odd_text(tmp_path: Path) -> None:
    X = np.arange(61.0)[:, None]
    with pytest.raises(DataError, match=rf"must hold classes, but {SAYS}; row 60 has 'n/k'"):
        HedgerowClassifier().fit(X, ODD)
    labels = [f"{n}" for n in range(60)] + ["60a"]  # labels of classes may look so
    assert len(HedgerowClassifier(n_estimators=1).fit(X, labels).classes_) == 61
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["a,b", *(f"{text},1" for text in ODD)]) + "\n")
    with pytest.raises(
        DataTypeError, match=rf"'a' has type .* hold numbers\. {SAYS}, but not 'n/k'"
    ):
        train(SMALL, Dataset.from_files(path, "a"))


# -- sparse rows of many columns --------------------------------------------------------------


def test_columns_of_sparse_rows_count_against_the_limit() -> None:
    X = csr_array(([1.0, 2.0], ([0, 1], [1, 2**31 - 2])), shape=(20, 2**31 - 1))
    said = r"has the column 2,147,483,646, and all columns up to it take about 966 GB"
    with pytest.raises(DataError, match=f"X {said}"):
        train(SMALL, Dataset(X, np.arange(20) % 2))
    said = r"a batch of 20 sparse rows with 2,147,483,647 columns takes 344 GB: give smaller"
    with pytest.raises(DataError, match=said):
        train(SMALL, Dataset.from_batches(lambda: iter([(X, np.arange(20) % 2)])))
