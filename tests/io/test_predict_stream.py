"""Predictions of files and batches have the bits of those of the whole table."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import Booster, Dataset, train
from hedgerow.cli import engine
from hedgerow.cli.main import main
from hedgerow.data.reading.model_rows import as_column
from hedgerow.data.reading.texts import parse
from hedgerow.data.schema import Column
from hedgerow.data.sources.opening import open_parts
from hedgerow.errors import DataError, DataTypeError, HedgerowError, ParameterError, StorageError
from hedgerow.io.file_predictions import ProgressLine, write_table
from tests.helpers.examples import examples
from tests.helpers.file_tables import columns_of, write
from tests.helpers.terminals import Terminal

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

N_ROWS = 120
KINDS = ("value", "raw", "leaf", "probability")
PARAMS = {"n_estimators": 4, "min_samples_leaf": 3, "min_data_per_group": 1, "max_leaves": 8}


def people() -> dict[str, list[Any]]:
    """Return columns of every kind, with gaps; some texts look like numbers."""
    rng = np.random.default_rng(3)
    key = rng.integers(0, 40, N_ROWS) + 2**60
    city = [["01", "1", "1.0", "x,\n y"][k] for k in rng.integers(0, 4, N_ROWS)]
    size = rng.normal(size=N_ROWS).astype(np.float64)
    return {
        "size": [None if i % 9 == 0 else float(size[i]) for i in range(N_ROWS)],
        "whole": [None if 30 <= i < 60 else float(rng.integers(0, 9)) for i in range(N_ROWS)],
        "key": [None if 60 <= i < 70 else int(key[i]) for i in range(N_ROWS)],
        "city": [None if i % 7 == 0 else city[i] for i in range(N_ROWS)],
        "flag": [bool(i % 3) for i in range(N_ROWS)],
        "day": [
            np.datetime64("2024-01-01", "us") + np.timedelta64(i * i, "h") for i in range(N_ROWS)
        ],
    }


def arrow_table(columns: dict[str, list[Any]]) -> Any:
    types = {
        "size": pa.float64(),
        "whole": pa.float64(),
        "key": pa.int64(),
        "city": pa.string(),
        "flag": pa.bool_(),
        "day": pa.timestamp("us"),
    }
    return pa.table(
        {
            name: pa.array(columns[name], types[name])
            if name != "day"
            else pa.array(np.array(columns[name]), types[name])
            for name in types
        }
    )


@pytest.fixture(scope="session")
def table() -> Any:
    return arrow_table(people())


def target(table: Any) -> np.ndarray:
    size = np.nan_to_num(table["size"].to_numpy(), nan=-1.0)
    key = table["key"].fill_null(2**60).to_numpy() - 2**60
    city = np.array([len(item or "") for item in table["city"].to_pylist()])
    return size + key / 20 + city + 0.3 * np.nan_to_num(table["whole"].to_numpy())


@pytest.fixture(scope="session")
def booster(table: Any) -> Booster:
    y = target(table)
    return train(PARAMS | {"objective": "softmax"}, Dataset(table, np.digitize(y, (1.5, 3.0))))


@pytest.fixture(scope="session")
def regressor(table: Any) -> Booster:
    return train(PARAMS, Dataset(table, target(table)))


def fresh(booster: Booster) -> Booster:
    """Return a copy of the booster with its own counters."""
    return Booster(booster.model)


def put_together(parts: Iterator[np.ndarray]) -> np.ndarray:
    return np.concatenate(list(parts))


def same(a: np.ndarray, b: np.ndarray) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


# ---- texts ---------------------------------------------------------------------

TEXTS = st.lists(
    st.none()
    | st.sampled_from(["7", "-3", "+5", " 2", "1e3", "0.5", "inf", "-0", "9007199254740993"])
    | st.sampled_from(["true", "FALSE", "0x1F", "1_0", "a", "9223372036854775808", "-nan"])
    | st.sampled_from(["2024-01-05", "2024-01-05 01:02", "2024-02-30", "2024-01-05T01:02:03.25"]),
    min_size=1,
    max_size=6,
)


def numbers(texts: list[str | None], kind: Any) -> list[Any] | None:
    column = pa.array(texts, pa.string())
    sort, found = parse(column)
    if sort not in ("int", "float", "nothing"):
        return None
    return as_column(column, sort, found, Column("x", kind)).to_pylist()


@settings(max_examples=examples(100), deadline=None)
@given(TEXTS, st.sampled_from(["float", "int"]))
def test_a_text_is_the_same_number_whatever_stands_beside_it(
    texts: list[str | None], kind: Any
) -> None:
    """A text is converted independently of the other rows, and as Python converts it."""
    together = numbers(texts, kind)
    for text, number in zip(texts, together or (), strict=together is not None):
        one = (numbers([text], kind) or [None])[0]
        if one is None or np.isnan(one):
            assert number is None or np.isnan(number)
        elif kind == "float":
            assert number == one == float(str(text))
        else:  # the next whole number counts
            assert keys(number) == keys(one)


def keys(number: Any) -> float | int:
    if not np.isfinite(number):  # as reading a column of whole numbers takes an infinity
        return 2**63 - 1 if number > 0 else 1 - 2**63
    return min(max(int(np.ceil(number)), 1 - 2**63), 2**63 - 1)


def test_words_for_no_number_stay_missing_beside_large_whole_numbers() -> None:
    reported = numbers(["9007199254740993", "-nan", "nan", None, "inf", "-inf"], "int")
    assert reported == [9007199254740993, None, None, None, 2**63 - 1, 1 - 2**63]


# ---- batches -------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 7, 50, 1000])
def test_batches_are_the_whole(booster: Booster, table: Any, kind: Any, rows: int) -> None:
    whole = booster.predict(table, kind=kind)
    parts = [table.slice(start, rows) for start in range(0, N_ROWS, rows)]
    same(put_together(booster.predict_batches(iter(parts), kind)), whole)
    same(put_together(booster.predict_batches(table, kind, batch_rows=rows)), whole)


def test_batches_of_many_libraries(booster: Booster, table: Any) -> None:
    polars = pytest.importorskip("polars")
    whole = booster.predict(table)
    frame = table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    coded = frame.assign(city=frame["city"].astype("category"))
    for source in (
        frame,
        coded,
        polars.from_arrow(table),
        polars.from_arrow(table).with_columns(polars.col("city").cast(polars.Categorical)),
        table.to_reader(9),
        [frame[:50], polars.from_arrow(table.slice(50, 20)), table.slice(70)],
        (coded[i : i + 30] for i in range(0, N_ROWS, 30)),
    ):
        same(put_together(booster.predict_batches(source, batch_rows=13)), whole)


def test_anything_that_streams_arrow_is_taken(booster: Booster, table: Any) -> None:
    class Relation:
        """An object with the Arrow stream only, like a DuckDB relation."""

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return table.__arrow_c_stream__(requested_schema)

    same(put_together(booster.predict_batches(Relation(), batch_rows=11)), booster.predict(table))


def test_types_come_from_the_model(booster: Booster, table: Any) -> None:
    """Columns of nulls, other integer types and other dictionaries give the same predictions."""
    whole = booster.predict(table, kind="raw")
    batches = []
    for start in range(0, N_ROWS, 10):
        part = table.slice(start, 10)
        columns = {name: part[name] for name in part.column_names}
        for name, column in columns.items():
            if column.null_count == 10:
                columns[name] = pa.nulls(10)
        if columns["whole"].null_count == 0:
            columns["whole"] = columns["whole"].cast(pa.int64())
        if start % 20:
            columns["city"] = columns["city"].combine_chunks().dictionary_encode()
        else:
            values = ["x,\n y", "unused", "1", "01", "1.0"]
            places = [None if c is None else values.index(c) for c in columns["city"].to_pylist()]
            columns["city"] = pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), values)
        batches.append(pa.table(columns))
    same(put_together(booster.predict_batches(batches, "raw")), whole)
    nullable = table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    parts = (nullable[i : i + 10] for i in range(0, N_ROWS, 10))
    same(put_together(booster.predict_batches(parts, "raw")), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_without_rows(booster: Booster, table: Any, kind: Any) -> None:
    parts = list(booster.predict_batches([table.slice(0, 5), table.slice(0, 0)], kind))
    assert len(parts[1]) == 0
    assert parts[0].dtype == parts[1].dtype
    assert parts[0].shape[1:] == parts[1].shape[1:]


def test_unseen_categories_add_up(booster: Booster, table: Any, tmp_path: Path) -> None:
    place = table.column_names.index("city")
    strange = table.set_column(place, "city", pa.array(["?!"] * N_ROWS))
    copy = fresh(booster)
    put_together(copy.predict_batches(strange, batch_rows=7))
    assert copy.unseen_categories == {"city": N_ROWS}
    write_file(tmp_path / "t.parquet", strange)
    copy.predict_files(tmp_path / "t.parquet", tmp_path / "o.csv", batch_rows=9)
    assert copy.unseen_categories == {"city": 2 * N_ROWS}


def test_first_rounds_only(booster: Booster, table: Any) -> None:
    for kind in ("raw", "leaf"):
        parts = booster.predict_batches(table, kind, batch_rows=50, n_rounds=2)  # type: ignore[arg-type]
        same(put_together(parts), booster.predict(table, kind=kind, n_rounds=2))  # type: ignore[arg-type]


def test_what_is_no_iterator_of_tables(booster: Booster, table: Any, tmp_path: Path) -> None:
    for one in (np.ones((3, 6)), {"size": [1.0]}, 3, None):
        with pytest.raises(DataTypeError, match="use predict"):
            booster.predict_batches(one)
    with pytest.raises(DataTypeError, match="use predict_files"):
        booster.predict_batches(tmp_path)
    for batch_rows in (0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="batch_rows"):
            booster.predict_batches(table, batch_rows=batch_rows)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="kind"):
        booster.predict_batches(table, "values")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="batch 1: "):
        put_together(booster.predict_batches([table, table.drop_columns(["day"])]))


# ---- files ---------------------------------------------------------------------


def write_file(path: Path, table: Any) -> Path:
    """Write a table in the format of the suffix; missing values are empty in CSV."""
    if ".csv" not in path.name and ".tsv" not in path.name:
        return write(table, path, 17)
    plain = path.with_suffix("") if path.name.endswith(".gz") else path
    write_table(str(plain), [{name: table[name] for name in table.column_names}])
    if plain != path:
        path.write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    return path


ENDINGS = ("parquet", "feather", "arrow", "csv", "tsv", "csv.gz")


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_are_the_whole(regressor: Booster, table: Any, tmp_path: Path, ending: str) -> None:
    extra = table.append_column("unused", pa.array(["é"] * N_ROWS))
    for number, start in enumerate(range(0, N_ROWS, 50)):
        write_file(tmp_path / f"part-{number}.{ending}", extra.slice(start, 50))
    whole = regressor.predict(table)
    for rows in (1, 7, 50, 1000):
        output = tmp_path / f"_out{rows}.parquet"
        assert regressor.predict_files(tmp_path, output, batch_rows=rows) == N_ROWS
        same(columns_of(output)["prediction"], whole)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "arrow", "feather"])
@pytest.mark.parametrize("kind", KINDS)
def test_outputs(booster: Booster, table: Any, tmp_path: Path, kind: Any, ending: str) -> None:
    write_file(tmp_path / "in.parquet", table)
    output = tmp_path / f"out.{ending}"
    booster.predict_files(
        tmp_path / "in.parquet", output, kind, columns=["key", "city"], batch_rows=13
    )
    columns = columns_of(output)
    assert columns.pop("city").tolist() == table["city"].to_pylist()
    keys = table["key"].cast(pa.float64(), safe=False).to_numpy()
    np.testing.assert_array_equal(columns.pop("key"), keys)
    whole = booster.predict(table, kind=kind)
    names = ["prediction"] if kind == "value" else [f"{kind}_{k}" for k in range(whole.shape[1])]
    assert list(columns) == names
    np.testing.assert_array_equal(
        np.column_stack(list(columns.values())).reshape(whole.shape), whole
    )
    assert sorted(os.listdir(tmp_path)) == sorted(["in.parquet", output.name])


def test_keys_of_csv_stay_as_they_are(regressor: Booster, table: Any, tmp_path: Path) -> None:
    names = [f"{number:04d}" for number in range(N_ROWS)]
    write_file(tmp_path / "in.csv", table.append_column("id", pa.array(names)))
    regressor.predict_files(tmp_path / "in.csv", tmp_path / "out.csv", columns=["id"])
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert [line.partition(",")[0] for line in lines[1:]] == names


def test_columns_that_folders_name(table: Any, tmp_path: Path) -> None:
    import pyarrow.parquet

    y = target(table)
    years = [2020 + (k % 2) for k in range(N_ROWS)]
    named = table.append_column("year", pa.array(years, pa.int32()).dictionary_encode())
    booster = train(PARAMS, Dataset(named, y + 3.0 * np.array(years)))
    pyarrow.parquet.write_to_dataset(named, tmp_path / "in", partition_cols=["year"])
    order = np.argsort(years, kind="stable")
    booster.predict_files(tmp_path / "in", tmp_path / "o.parquet", columns=["year"], batch_rows=9)
    columns = columns_of(tmp_path / "o.parquet")
    np.testing.assert_array_equal(columns["prediction"], booster.predict(named)[order])
    np.testing.assert_array_equal(columns["year"], np.array(years)[order])


def test_columns_without_names_go_by_position(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    booster = train(PARAMS, Dataset(X, X[:, 0]))
    columns = {"id": np.arange(60), "a": X[:, 0], "b": X[:, 1]}
    write_table(str(tmp_path / "t.csv"), [columns])
    booster.predict_files(tmp_path / "t.csv", tmp_path / "o.parquet", columns=["id"], batch_rows=7)
    same(columns_of(tmp_path / "o.parquet")["prediction"], booster.predict(X))
    with pytest.raises(DataError, match="has 3 columns, but the model"):
        booster.predict_files(tmp_path / "t.csv", tmp_path / "o.parquet")


# ---- what goes wrong -----------------------------------------------------------

Alter = Callable[[Path, Any], None]


def _rewrite(name: str, change: Callable[[Any], Any]) -> Alter:
    return lambda folder, table: write_file(folder / name, change(table)) and None


def _bytes(name: str, change: Callable[[bytes], bytes]) -> Alter:
    return lambda folder, table: (
        (folder / name).write_bytes(change((folder / name).read_bytes())) and None
    )


BAD_FILES: dict[str, tuple[str, Alter, str]] = {
    "cut Parquet": (
        "parquet",
        _bytes("1.parquet", lambda b: b[:-20]),
        r"1\.parquet cannot be read",
    ),
    "damaged Parquet": (
        "parquet",
        _bytes("1.parquet", lambda b: b[:8] + b"\xff" * 400 + b[408:]),
        r"1\.parquet cannot be read as Parquet",
    ),
    "not Arrow": ("arrow", _bytes("1.arrow", lambda b: b"hello"), r"1\.arrow cannot be read"),
    "cut gzip": ("csv.gz", _bytes("1.csv.gz", lambda b: b[:-30]), r"1\.csv\.gz cannot be read"),
    "not UTF-8": ("csv", _bytes("1.csv", lambda b: b + b"\xff\xfe,1,1,a,true,\n"), r"1\.csv"),
    "short row": ("csv", _bytes("1.csv", lambda b: b + b"1,2\n"), r"1\.csv"),
    "missing column": (
        "csv",
        _rewrite("1.csv", lambda t: t.rename_columns([*t.column_names[:-1], "days"])),
        r"1\.csv lacks 1 column\(s\) of the model: 'day'\. Did you mean 'days'",
    ),
    "missing column in Parquet": (
        "parquet",
        _rewrite("1.parquet", lambda t: t.drop_columns(["key"])),
        r"1\.parquet lacks 1 column\(s\) of the model: 'key'",
    ),
    "text for numbers": (
        "csv",
        _rewrite("1.csv", lambda t: t.set_column(0, "size", pa.array(["1", "big"] * 20))),
        r"1\.csv: column 'size' holds text, .* 'big' in row 2 is none of them",
    ),
    "dates after numbers": (
        "csv",
        _rewrite("1.csv", lambda t: t.set_column(0, "size", pa.array(["2024-01-01"] * 40))),
        r"1\.csv: column 'size' holds dates, but held numbers",
    ),
    "text for numbers in Parquet": (
        "parquet",
        _rewrite("1.parquet", lambda t: t.set_column(0, "size", pa.array(["1", "big"] * 20))),
        r"1\.parquet: column 'size' holds text",
    ),
    "no header": ("csv", _bytes("1.csv", lambda b: b""), r"1\.csv.* [Ee]mpty"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_in_the_middle_is_named(
    regressor: Booster, table: Any, tmp_path: Path, case: str
) -> None:
    ending, alter, message = BAD_FILES[case]
    for number in range(3):
        write_file(tmp_path / f"{number}.{ending}", table.slice(40 * number, 40))
    alter(tmp_path, table.slice(40, 40))
    before = sorted(os.listdir(tmp_path))
    for output in ("_o.csv", "_o.parquet"):
        with pytest.raises(HedgerowError, match=message):
            regressor.predict_files(tmp_path, tmp_path / output, batch_rows=11)
        assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(regressor: Booster, table: Any, tmp_path: Path) -> None:
    path = write_file(tmp_path / "t.csv", table)
    path.chmod(0)
    with pytest.raises(StorageError, match=r"t\.csv cannot be read.*Permission denied"):
        regressor.predict_files(path, tmp_path / "o.csv")


def test_arguments(regressor: Booster, table: Any, tmp_path: Path) -> None:
    path = write_file(tmp_path / "t.csv", table)
    folder = tmp_path / "folder"
    folder.mkdir()
    good = tmp_path / "o.csv"
    cases: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
        ((path, path), {}, ParameterError, "is one of the files to predict"),
        (([path, path], good), {}, DataError, "given twice"),
        (([], good), {}, DataError, "no files are given"),
        ((folder, good), {}, DataError, "holds no files"),
        (
            (tmp_path / "tt.csv", good),
            {},
            StorageError,
            "no such file or folder. Did you mean 't.csv'",
        ),
        ((path, tmp_path / "o.xls"), {}, ParameterError, "written as"),
        ((path, folder), {}, ParameterError, "written as|is a folder"),
        ((path, folder / "no" / "o.csv"), {}, ParameterError, "does not exist"),
        ((path, good), {"columns": ["citi"]}, DataError, "no column 'citi'.*Did you mean 'city'"),
        ((path, good), {"columns": "city"}, ParameterError, "list of names"),
        ((path, good), {"batch_rows": 0}, ParameterError, "batch_rows"),
        ((path, good, "value"), {"n_rounds": 99}, ParameterError, "n_rounds"),
        ((path, good, "probability"), {}, ParameterError, "classifier"),
    ]
    for arguments, options, error, message in cases:
        with pytest.raises(error, match=message):
            regressor.predict_files(*arguments, **options)
    assert not good.exists()


def test_a_key_named_like_a_prediction(regressor: Booster, table: Any, tmp_path: Path) -> None:
    path = write_file(tmp_path / "t.csv", table.append_column("prediction", table["key"]))
    with pytest.raises(ParameterError, match="'prediction' would be written twice"):
        regressor.predict_files(path, tmp_path / "o.csv", columns=["prediction"])


def test_keys_of_other_types(regressor: Booster, table: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "0.parquet", table.append_column("id", pa.array(range(N_ROWS))))
    write_file(tmp_path / "1.parquet", table.append_column("id", pa.array(["a"] * N_ROWS)))
    with pytest.raises(DataError, match="column 'id' is string, but int64 in the first file"):
        regressor.predict_files(tmp_path, tmp_path / "_o.parquet", columns=["id"])


def test_files_without_rows(regressor: Booster, table: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "0.csv", table.slice(0, 0))
    with pytest.raises(DataError, match="no rows"):
        regressor.predict_files(tmp_path, tmp_path / "_o.csv")
    write_file(tmp_path / "1.csv", table)
    assert regressor.predict_files(tmp_path, tmp_path / "_o.csv") == N_ROWS


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_a_full_disk_leaves_the_old_file(
    regressor: Booster, table: Any, tmp_path: Path, ending: str, share: float
) -> None:
    resource = pytest.importorskip("resource", reason="this system has no limits of files")
    write_file(tmp_path / "in.parquet", table)
    output = tmp_path / f"out.{ending}"
    regressor.predict_files(tmp_path / "in.parquet", output)
    most = int(share * (output.stat().st_size - 1))
    output.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        with pytest.raises(StorageError, match=rf"out\.{ending}: .*File too large"):
            regressor.predict_files(tmp_path / "in.parquet", output, batch_rows=10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert sorted(os.listdir(tmp_path)) == sorted(["in.parquet", output.name])
    assert output.read_bytes() == b"old"


def test_an_interrupt_leaves_nothing(
    regressor: Booster, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path / "in.csv", table)
    calls = iter(range(100))
    predict = Booster.predict

    def interrupted(self: Booster, *arguments: Any, **named: Any) -> Any:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return predict(self, *arguments, **named)

    monkeypatch.setattr(Booster, "predict", interrupted)
    for output in ("o.csv", "o.parquet"):
        with contextlib.suppress(KeyboardInterrupt):
            regressor.predict_files(tmp_path / "in.csv", tmp_path / output, batch_rows=10)
            assert next(calls) > 3, "was not interrupted"
        calls = iter(range(100))
        assert os.listdir(tmp_path) == ["in.csv"]


def test_files_are_found_in_order(tmp_path: Path) -> None:
    for name in ("b/1.csv", "a.csv", "b/_x.csv", ".h.csv", "b/.c/2.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n1\n")
    files = open_parts(tmp_path)
    assert [os.path.relpath(file.name, tmp_path) for file in files] == [
        "a.csv",
        os.path.join("b", "1.csv"),
    ]
    assert files[0].column_names() == ("x",)


# ---- the command line ----------------------------------------------------------


@pytest.fixture(scope="session")
def saved(booster: Booster, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("model") / "m.hedgerow")
    booster.save(path)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_writes_what_the_whole_table_gives(
    saved: str, table: Any, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_file(tmp_path / "t.csv", table)
    model = engine.open_model(saved)
    write_table(str(tmp_path / "whole.csv"), [engine.prediction_columns(model, table, kind)])
    for number in range(2):
        write_file(tmp_path / f"part{number}.csv", table.slice(60 * number, 60))
    for name, data in {"a.csv": ["t.csv"], "b.csv": ["part0.csv", "part1.csv"]}.items():
        paths = [str(tmp_path / item) for item in data]
        options = ["-o", str(tmp_path / name), "--kind", kind, "--batch-rows", "7"]
        assert main(["predict", saved, *paths, *options]) == 0, capsys.readouterr().err
        assert (tmp_path / name).read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_the_command_takes_a_folder(saved: str, table: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(2):
        write_file(folder / f"{number}.parquet", table.slice(60 * number, 60))
    output = str(tmp_path / "o.parquet")
    assert main(["predict", saved, str(folder), "-o", output, "--columns", "key,city"]) == 0
    columns = columns_of(output)
    assert list(columns)[:3] == ["key", "city", "prediction"]
    model = engine.open_model(saved)
    np.testing.assert_array_equal(columns["prediction"], model.booster.predict(table))


def test_progress_is_drawn_on_a_terminal_only() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        line = ProgressLine(2, shown=True, stream=stream)
        line.add("a/x.csv", 1000)
        line.add("a/y.csv", 500)
        line.close()
    assert pipe.getvalue() == ""
    assert "1,500 rows  2/2 files  y.csv" in terminal.getvalue()
    assert terminal.getvalue().endswith("\n")


# ---- memory --------------------------------------------------------------------

BOUNDED = """
import resource, sys
import hedgerow
booster = hedgerow.load(sys.argv[1])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
booster.predict_files(sys.argv[2], sys.argv[4], batch_rows=20_000)
before = peak()
booster.predict_files(sys.argv[3], sys.argv[4], batch_rows=20_000)
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_memory_is_bounded(tmp_path: Path, ending: str) -> None:
    """A file of 2 million rows takes hardly more memory than one of 40,000."""
    rng = np.random.default_rng(0)
    block = {f"c{j}": rng.normal(size=40_000).astype(np.float32) for j in range(10)}
    train(PARAMS, Dataset(block, block["c0"])).save(tmp_path / "m")
    write_table(str(tmp_path / f"small.{ending}"), [block])
    write_table(str(tmp_path / f"large.{ending}"), (block for _ in range(50)))
    arguments = [tmp_path / "m", *(tmp_path / f"{n}.{ending}" for n in ("small", "large"))]
    result = subprocess.run(
        [sys.executable, "-c", BOUNDED, *map(str, arguments), str(tmp_path / "o.parquet")],
        capture_output=True,
        text=True,
        check=True,
    )
    held = 2_000_000 * 10 * 4 / 2**20
    assert float(result.stdout) < 0.8 * held
