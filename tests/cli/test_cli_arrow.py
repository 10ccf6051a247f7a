"""Parquet and Arrow files on the command line: types, unreadable columns, single files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.cli.main import main
from tests.helpers.file_tables import columns_of

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")

N = 40
Y = pa.array(np.arange(N) % 7 + 0.5)
SIZE = pa.array(np.random.default_rng(0).normal(size=N))
NESTED = pa.array([{"a": 1}] * N)
FEW = ["--target", "y", "--set", "n_estimators=2", "--set", "early_stopping=false"]


def write(path: Path, columns: dict[str, Any]) -> str:
    table = pa.table(columns)
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    elif path.suffix == ".arrows":
        with pa.ipc.new_stream(str(path), table.schema) as stream:
            stream.write_table(table)
    else:
        feather.write_feather(table, str(path), compression="uncompressed")
    return str(path)


def test_columns_that_cannot_be_read_matter_only_if_they_are_used(tmp_path: Path, capsys) -> None:
    far = pa.array([2_000_000_000] * N, pa.date32())
    others = {"tags": NESTED, "blob": pa.array([b"a"] * N), "far": far}
    path = write(tmp_path / "t.parquet", {**others, "size": SIZE, "y": Y})
    model = str(tmp_path / "model")
    train = ["train", path, *FEW, "--model", model]
    drop = [word for name in others for word in ("--drop", name)]
    for given, words in (
        ([], "column 'tags' has type Struct({'a': Int64}), but columns must hold numbers"),
        (["--drop", "tags", "--drop", "far"], "column 'blob' has type Binary"),
        (["--drop", "tags", "--drop", "blob"], "column 'far' holds 5477784"),
        (["--drop", "tags", "--drop", "far", "--weight", "blob"], "column 'blob' has type Binary"),
        ([*drop, "--drop", "labels"], "no column 'labels' (drop)"),
    ):
        assert main([*train, *given]) == 2
        assert words in capsys.readouterr().err
    assert main([*train, *drop, "--valid", path]) == 0
    assert main(["evaluate", model, path, "--target", "y"]) == 0
    assert "rmse" in capsys.readouterr().out
    assert main(["evaluate", model, path, "--target", "tags"]) == 2
    assert "column 'tags' has type Struct" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:Feather V1:DeprecationWarning")
def test_the_first_version_of_feather_files(tmp_path: Path) -> None:
    path = str(tmp_path / "t.feather")
    feather.write_feather(pa.table({"x": [1, None, 3], "t": ["a", None, "b"]}), path, version=1)
    columns = columns_of(path)
    np.testing.assert_array_equal(columns["x"], [1.0, np.nan, 3.0])
    assert columns["t"].tolist() == ["a", None, "b"]


@pytest.mark.parametrize("suffix", [".feather", ".arrow", ".ipc", ".arrows"])
def test_all_kinds_of_arrow_files(tmp_path: Path, suffix: str) -> None:
    columns = {"size": SIZE, "y": Y}
    models = []
    for name in ("t.parquet", f"t{suffix}"):
        path, model = write(tmp_path / name, columns), tmp_path / "model"
        assert main(["train", path, *FEW, "--valid", path, "--model", str(model)]) == 0
        models.append(model.read_bytes())
    assert models[0] == models[1]


@pytest.mark.parametrize(
    "given", [["--weight", "y"], ["--drop", "y"], ["--weight", "size", "--offset", "size"]]
)
def test_a_column_has_one_role_in_one_file_and_in_several(tmp_path: Path, given, capsys) -> None:
    (tmp_path / "two").mkdir()
    for name in ("t.parquet", "two/1.parquet", "two/2.parquet"):
        write(tmp_path / name, {"size": SIZE, "age": SIZE, "y": Y})
    for name in ("t.parquet", "two"):
        train = ["train", str(tmp_path / name), *FEW, "--model", str(tmp_path / "model")]
        assert main([*train, *given]) == 2
        assert f"column {given[1]!r} is given two roles" in capsys.readouterr().err
