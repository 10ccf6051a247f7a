"""Standard input and output, text dialects, ``evaluate``, additional scores, text on the ladder."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from hedgerow import HedgerowClassifier, load
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.cli.main import build_parser, main

pytest.importorskip("pyarrow")


def make_columns(n_rows: int = 120) -> dict[str, np.ndarray]:
    r = np.random.default_rng(0)
    size = r.normal(size=n_rows).round(3)
    city = r.choice(["Bonn", "Köln", "Ulm"], n_rows)
    price = (3.0 * size + (city == "Ulm") + r.normal(scale=0.2, size=n_rows)).round(3)
    return {"size": size, "city": city, "price": price}


def written(
    columns: dict[str, np.ndarray],
    separator: str = ",",
    decimal: str = ".",
    encoding: str = "utf-8",
) -> bytes:
    def text(value: object) -> str:
        return str(value).replace(".", decimal) if isinstance(value, float) else str(value)

    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines = [separator.join(columns), *(separator.join(map(text, row)) for row in rows)]
    return ("\n".join(lines) + "\n").encode(encoding)


COLUMNS = make_columns()
TRAIN = ["--target", "price", "--set", "n_estimators=5"]


def trained(tmp_path: Path, name: str, content: bytes, *more: str) -> bytes:
    file = tmp_path / name
    file.write_bytes(content)
    model = tmp_path / "model"
    assert main(["train", str(file), *TRAIN, "--model", str(model), *more]) == 0
    return model.read_bytes()


@pytest.mark.fast(4)
@pytest.mark.parametrize(
    ("separator", "decimal", "encoding"),
    [
        (";", ".", "utf-8"),
        (";", ",", "utf-8"),
        ("\t", ",", "utf-8-sig"),
        ("|", ".", "utf-8"),
        (",", ".", "utf-16"),
        (";", ",", "utf-16"),
        (";", ",", "utf-32"),
    ],
)
def test_dialects_are_recognised(
    tmp_path: Path, separator: str, decimal: str, encoding: str
) -> None:
    plain = trained(tmp_path, "rows.csv", written(COLUMNS))
    odd = trained(tmp_path, "rows.csv", written(COLUMNS, separator, decimal, encoding))
    assert odd == plain
    packed = tmp_path / "rows.csv.gz"
    packed.write_bytes(gzip.compress(written(COLUMNS, separator, decimal, encoding)))
    assert main(["train", str(packed), *TRAIN, "--model", str(tmp_path / "other")]) == 0
    assert (tmp_path / "other").read_bytes() == plain


def test_an_encoding_that_cannot_be_known_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = written(COLUMNS, encoding="cp1252")
    file = tmp_path / "rows.csv"
    file.write_bytes(content)
    assert main(["train", str(file), *TRAIN, "--model", str(tmp_path / "m")]) == 2
    error = capsys.readouterr().err
    assert "--encoding cp1252" in error
    assert "column 2, row " in error
    plain = trained(tmp_path, "rows.csv", written(COLUMNS))
    assert trained(tmp_path, "rows.csv", content, "--encoding", "cp1252") == plain


def test_options_say_what_is_not_seen(tmp_path: Path) -> None:
    plain = trained(tmp_path, "rows.csv", written(COLUMNS))
    odd = written(COLUMNS, " ", ",")
    assert trained(tmp_path, "rows.csv", odd, "--separator", "space", "--decimal", ",") == plain


@pytest.mark.parametrize(
    ("option", "value"), [("--encoding", "utf-99"), ("--separator", "ab"), ("--decimal", ";")]
)
def test_wrong_options(tmp_path: Path, option: str, value: str) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(written(COLUMNS))
    assert main(["train", str(file), *TRAIN, option, value]) == 2


def test_text_with_commas_stays_text(tmp_path: Path) -> None:
    code = np.array(["1,5", "x"] * 60)
    content = written({**COLUMNS, "code": code}, "\t", ",")
    trained(tmp_path, "rows.tsv", content)
    schema = load(tmp_path / "model").model.schema
    assert schema.columns[0].kind == "float"
    assert schema.columns[2].levels == ("1,5", "x")


def standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_standard_input_and_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    model, file = tmp_path / "model", tmp_path / "rows.csv"
    plain = trained(tmp_path, "rows.csv", written(COLUMNS))
    standard_input(monkeypatch, written(COLUMNS, ";", ","))
    assert main(["train", "-", *TRAIN, "--model", str(model)]) == 0
    assert model.read_bytes() == plain
    assert main(["predict", str(model), str(file), "-o", str(tmp_path / "out.csv")]) == 0
    capfdbinary.readouterr()
    standard_input(monkeypatch, written(COLUMNS))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.FileIO(1, "w", closefd=False)))
    assert main(["predict", str(model), "-", "-o", "-", "--columns", "city"]) == 0
    out, err = capfdbinary.readouterr()
    assert b"120 predictions written to standard output" in err
    lines = out.decode().splitlines()
    assert lines[0] == "city,prediction"
    expected = (tmp_path / "out.csv").read_text().splitlines()[1:]
    assert [line.partition(",")[2] for line in lines[1:]] == expected


def test_standard_input_of_other_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    plain = trained(tmp_path, "rows.csv", written(COLUMNS))
    pyarrow.parquet.write_table(pa.table(COLUMNS), tmp_path / "rows.parquet")
    for content in ((tmp_path / "rows.parquet").read_bytes(), gzip.compress(written(COLUMNS))):
        standard_input(monkeypatch, content)
        assert main(["train", "-", *TRAIN, "--model", str(tmp_path / "m")]) == 0
        assert (tmp_path / "m").read_bytes() == plain


def test_errors_name_standard_input(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for content, words in (
        (b"", "standard input is empty"),
        (b"a,b\n1,2\n", "standard input has no column 'price'"),
    ):
        standard_input(monkeypatch, content)
        assert main(["train", "-", *TRAIN, "--model", str(tmp_path / "m")]) == 2
        error = capsys.readouterr().err
        assert words in error
        assert "/hedgerow-" not in error
    standard_input(monkeypatch, written(COLUMNS))
    command = ["train", "-", "--valid", "-", *TRAIN, "--model", str(tmp_path / "m")]
    assert main(command) == 2
    assert "give - only once" in capsys.readouterr().err


@pytest.mark.fast(1)
@pytest.mark.parametrize("target", ["price", "city"])
def test_train_prints_the_score_of_its_folds(
    tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(written(COLUMNS))
    assert main(["train", str(file), "--target", target, "--model", str(tmp_path / "m")]) == 0
    assert "loss of rows not trained on, by 5 folds" in capsys.readouterr().out


def test_evaluate_classes_and_rankings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    y = np.where(COLUMNS["price"] > 0, "dear", "cheap")
    table = {name: COLUMNS[name] for name in ("size", "city")}
    model = HedgerowClassifier(n_estimators=5).fit(table, y)
    model.save(tmp_path / "m")
    (tmp_path / "rows.csv").write_bytes(written({**table, "y": y}))
    command = ["evaluate", str(tmp_path / "m"), str(tmp_path / "rows.csv"), "--target", "y"]
    assert main([*command, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    expected = roc_auc_score(y == "dear", model.predict_proba(table)[:, 1])
    assert scores["auc"] == pytest.approx(expected)
    assert scores["accuracy"] == pytest.approx(model.score(table, y))
    assert main([*command, "--qid", "size"]) == 2
    capsys.readouterr()
    grades = {"a": COLUMNS["size"], "g": np.arange(120) % 3, "q": np.arange(120) // 10}
    (tmp_path / "rank.csv").write_bytes(written(grades))
    rank = ["--target", "g", "--qid", "q"]
    file = str(tmp_path / "rank.csv")
    assert main(["train", file, *rank, "--model", str(tmp_path / "r")]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "r"), file, *rank, "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"ndcg", "ndcg@10"}


@pytest.mark.fast(1)
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_ladder_takes_text(tmp_path: Path, task: str, capsys: pytest.CaptureFixture[str]) -> None:
    columns = make_columns(80)
    if task == "classification":
        columns["price"] = np.where(columns["price"] > 0, "dear", "cheap")
    file = tmp_path / "rows.csv"
    file.write_bytes(written(columns))
    assert main(["ladder", str(file), "--target", "price"]) == 0
    out = capsys.readouterr().out
    assert "1 text column(s)" in out
    assert "leaf-wise" in out


def _run_all(folder: Path, separator: str, decimal: str) -> dict[str, bytes]:
    """Run every command that reads tables; return the files and texts that they write."""
    folder.mkdir()
    file, model = str(folder / "rows.csv"), str(folder / "model")
    (folder / "rows.csv").write_bytes(written(COLUMNS, separator, decimal))
    background = ["--background", file]
    found = {}
    for name, arguments in {
        "model": ["train", file, *TRAIN, "--valid", file, "--model", model],
        "predictions.csv": ["predict", model, file, "-o", str(folder / "predictions.csv")],
        "evaluation": ["evaluate", model, file, "--target", "price", "--json"],
        "values.csv": ["explain", model, file, *background, "-o", str(folder / "values.csv")],
        "page.html": ["report", model, file, "-o", str(folder / "page.html")],
        "tree.txt": ["convert", model, str(folder / "tree.txt"), "--check", file],
        "ladder": ["ladder", file, "--target", "price"],
    }.items():
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            assert main(arguments) == 0, name
        written_file = folder / name
        seen = written_file.read_bytes() if written_file.exists() else text.getvalue().encode()
        found[name] = seen.replace(str(folder).encode(), b"")
    found["ladder"] = found["ladder"].splitlines()[0]  # the other lines have times
    return found


@pytest.mark.usefixtures("without_drawing")  # the texts of a page have the same numbers
def test_every_command_reads_other_dialects(tmp_path: Path) -> None:
    plain, other = _run_all(tmp_path / "plain", ",", "."), _run_all(tmp_path / "other", ";", ",")
    assert other == plain


def test_every_command_that_reads_tables_has_the_options_of_text_files() -> None:
    (commands,) = (
        action
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    reading = set()
    for name, parser in commands.choices.items():
        if any(action.metavar == "DATA" for action in parser._actions):
            assert "--separator" in parser._option_string_actions, name
            reading.add(name)
    assert reading >= {"train", "predict", "evaluate", "explain", "report", "convert", "ladder"}


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("target", ["two", "three", "number"])
def test_train_scores_validation_rows(
    target: str,
    in_memory: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    price, size = COLUMNS["price"], COLUMNS["size"]
    y = {"two": np.array(["no", "yes"])[(price > 0) * 1], "three": np.digitize(price, [-2, 2])}
    y = {"number": price, **y}[target]
    weight = np.arange(120) % 3 + 1
    for name, part in (("rows", slice(80)), ("held", slice(80, None))):
        columns = {"size": size[part], "w": weight[part], "y": y[part]}
        (tmp_path / f"{name}.csv").write_bytes(written(columns))
    if not in_memory:
        monkeypatch.setattr(FileDataset, "bytes_of_table", 10**12)
    paths = [str(tmp_path / name) for name in ("rows.csv", "held.csv", "m")]
    given = ["--target", "y", "--weight", "w", "--set", "n_estimators=5", "-o", paths[2]]
    assert main(["train", paths[0], "--valid", paths[1], *given]) == 0
    found = dict(re.findall(r"(?m)^validation (\w+): ([-\d.]+)$", capsys.readouterr().out))
    metrics = {"two": ["accuracy", "auc"], "three": ["accuracy"], "number": ["r2"]}[target]
    assert list(found) == metrics
    options = [word for name in metrics for word in ("--metric", name)]
    command = ["evaluate", paths[2], paths[1], "--target", "y", "--weight", "w", "--json", *options]
    assert main(command) == 0
    for name, score in json.loads(capsys.readouterr().out).items():
        assert float(found[name]) == pytest.approx(score, abs=1e-4)


def test_train_says_what_validation_rows_would_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(written({"size": COLUMNS["size"], "y": (COLUMNS["price"] > 0) * 1}))
    train = ["train", str(file), "--target", "y", "-o", str(tmp_path / "m")]
    hint = "validation rows (--valid FILE) would also show accuracy and auc"
    assert main(train) == 0
    assert hint in capsys.readouterr().out
