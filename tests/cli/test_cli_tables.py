"""Reading and writing tables on the command line."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

from hedgerow import Dataset, train
from hedgerow.cli.commands.training import parse_settings, parse_value
from hedgerow.cli.main import main
from hedgerow.cli.usage import UsageError
from hedgerow.data import read_table
from hedgerow.data.reading.columns import floats_of
from hedgerow.errors import HedgerowError
from hedgerow.io.file_predictions import write_table
from tests.helpers.file_tables import columns_of, read_whole

pytest.importorskip("pyarrow")

TABLE = """\
whole,real,flag,text,gaps,big,empty,day,time,nearly
1,0.5,true,a,,9007199254740993,,2024-01-05,2024-01-05 01:02,2024-01-05
-2,1e3,false,"b, c",3,1,,2024-02-01,2024-02-01T00:00:00.25,2024-02-30
3,NaN,True,,NA,2,?,,2024-02-01,
"""


@pytest.fixture(params=["csv", "tsv", "csv.gz"])
def table_file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / f"table.{request.param}"
    text = TABLE
    if request.param == "tsv":
        text = text.replace('"b, c"', "b; c").replace(",", "\t").replace("b; c", "b, c")
    data = text.encode()
    path.write_bytes(gzip.compress(data) if request.param == "csv.gz" else data)
    return path


def test_types_of_text(table_file: Path) -> None:
    table = read_table(read_whole(table_file))
    assert ",".join(table.schema.names) == TABLE.splitlines()[0]
    levels = {column.name: column.levels for column in table.schema.columns if column.levels}
    assert levels == {"text": ("a", "b, c"), "nearly": ("2024-01-05", "2024-02-30")}
    columns = floats_of(table.values, table.schema.kinds).T
    values = dict(zip(table.schema.names, columns, strict=True))
    expected = {
        "whole": [1.0, -2.0, 3.0],
        "real": [0.5, 1000.0, np.nan],
        "flag": [1.0, 0.0, 1.0],
        "gaps": [np.nan, 3.0, np.nan],
        "empty": [np.nan] * 3,
        "day": [1704412800e6, 1706745600e6, np.nan],
        "time": [1704416520e6, 1706745600.25e6, 1706745600e6],
        "text": [0.0, 1.0, np.nan],
        "nearly": [0.0, 1.0, np.nan],
    }
    for name, column in expected.items():
        np.testing.assert_array_equal(values[name], column)
    big = table.schema.names.index("big")
    assert table.values[:, big].tolist() == [9007199254740993, 1, 2]


def test_numbers_are_read_back_to_the_bit(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((500, 3)) * 10.0 ** np.arange(-200, 201, 200)
    path = tmp_path / "t.csv"
    columns = {f"c{j}": values[:, j] for j in range(3)}
    write_table(str(path), [columns])
    for name, column in columns_of(str(path)).items():
        np.testing.assert_array_equal(column, columns[name])


@pytest.mark.parametrize(
    "words", [("0x1F", "2"), ("0X1F", "-3"), ("１", "2"), ("\N{NO-BREAK SPACE}1", "2")]
)
def test_numbers_of_other_languages_are_text(tmp_path: Path, words: tuple[str, str]) -> None:
    rows = [f"{words[k % 2]},{k % 7},{k % 2 + k / 100}" for k in range(40)]
    for name, part in (("all", rows), ("two/1", rows[:25]), ("two/2", rows[25:])):
        (tmp_path / "two").mkdir(exist_ok=True)
        content = "\n".join(["x,size,y", *part]) + "\n"
        (tmp_path / f"{name}.csv").write_text(content, encoding="utf-8")
    path, models = str(tmp_path / "all.csv"), []
    assert sorted(set(columns_of(path)["x"].tolist())) == sorted(words)
    for data in (path, str(tmp_path / "two")):
        model = tmp_path / "model"
        fit = ["--target", "y", "--set", "n_estimators=2", "--model", str(model)]
        assert main(["train", data, *fit]) == 0
        models.append(model.read_bytes())
        assert main(["predict", str(model), path, "-o", str(tmp_path / "out.csv")]) == 0
    assert models[0] == models[1]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet"])
def test_written_tables_are_read_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    columns = {"value": np.array([0.1, 1e-300, -3.0]), "label": np.array(["x", "y z", "ü,"])}
    write_table(str(path), [columns])
    found = columns_of(str(path))
    np.testing.assert_array_equal(found["value"], columns["value"])
    assert found["label"].tolist() == columns["label"].tolist()
    assert [item.name for item in tmp_path.iterdir()] == [name]


BAD_TABLES = {
    "empty": ("t.csv", b"", "is empty"),
    "header only": ("t.csv", b"a,b\n", "no rows"),
    "repeated name": ("t.csv", b"a,a\n1,2\n", "two columns are called 'a'"),
    "short row": ("t.csv", b"a,b\n1,2\n3\n", "row 2 has 1 values, but .* 2 columns"),
    "not text": ("t.csv", b"a,b\n1,2\n3,\xfe\n", "column 2, row 2: this is not text in UTF-8"),
    "open quote": ("t.csv", b'a,b\n1,"2\n' + b"3,4\n" * (10 << 20) + b'"\n', "double quote"),
    "not gzip": ("t.csv.gz", b"a,b\n1,2\n", "cannot be read as CSV"),
    "cut gzip": ("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 1000)[:30], "cannot be read"),
    "unknown ending": ("t.xlsx", b"", "unknown kind of file"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables(case: str, tmp_path: Path) -> None:
    name, data, message = BAD_TABLES[case]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(HedgerowError, match=f"(?s){re.escape(name)}.*{message}"):
        train({}, Dataset.from_files(tmp_path / name, "a"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-1e-3", -1e-3),
        ("none", None),
        ("None", None),
        ("True", True),
        ("false", False),
        ("leafwise", "leafwise"),
        ("'quoted'", "quoted"),
        ("[1, 0, -1]", [1, 0, -1]),
        ("", ""),
        ("__import__('os')", "__import__('os')"),
    ],
)
def test_values_of_settings(text: str, value: object) -> None:
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_settings() -> None:
    assert parse_settings(["max_leaves=7", "learning_rate = 0.5"], "auto") == {
        "max_leaves": 7,
        "learning_rate": 0.5,
    }
    for pairs, message in {
        ("max_leavs=7",): "Did you mean 'max_leaves'",
        ("max_leaf=7",): "LightGBM's 'max_leaf' is 'max_leaves' here",
        ("max_leaves",): "name=value",
        ("=3",): "name=value",
        ("max_leaves=7", "max_leaves=8"): "already set",
    }.items():
        with pytest.raises(UsageError, match=message):
            parse_settings(pairs, "regression")


def test_inspect_shows_columns_of_dates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"2024-01-{1 + row % 28:02},{row % 7}.5,{row % 28}" for row in range(84)]
    (tmp_path / "days.csv").write_text("\n".join(["day,size,y", *lines]) + "\n")
    given = ["--target", "y", "--task", "regression", "--set", "n_estimators=2"]
    model = str(tmp_path / "model")
    assert main(["train", str(tmp_path / "days.csv"), *given, "--model", model]) == 0
    capsys.readouterr()
    assert main(["inspect", model]) == 0
    assert "\n  day: dates\n  size: float\n" in capsys.readouterr().out
    assert main(["inspect", model, "--json"]) == 0
    day, size = json.loads(capsys.readouterr().out)["columns"]
    assert day == {"name": "day", "kind": "int", "holds": "dates"}
    assert size == {"name": "size", "kind": "float"}
