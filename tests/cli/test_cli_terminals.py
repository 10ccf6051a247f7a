"""Names and values of untrusted files cannot control the terminal."""

from __future__ import annotations

import ast
import csv
import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

import hedgerow
from hedgerow import DataError, HedgerowClassifier
from hedgerow.cli.main import main
from hedgerow.errors import StorageError, printable, shown_name

EVIL = "\x1b]0;title\x07\x1b[31mred\x7f\n\x9bsecond: line\u202e\u2028"
SOURCE = Path(hedgerow.__file__).parent


def evil_table(path: Path, n_rows: int = 80) -> Path:
    rng = np.random.default_rng(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([f"x{EVIL}", f"c{EVIL}", f"y{EVIL}", "w"])
        for _ in range(n_rows):
            letter = rng.choice(["a", "b"])
            writer.writerow([rng.normal(), letter + EVIL, f"{letter}{EVIL}", EVIL])
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return evil_table(tmp_path / "table.csv")


@pytest.fixture
def model(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    path = str(tmp_path / "model")
    assert main(["train", str(table), "--target", f"y{EVIL}", "--model", path]) == 0
    assert_harmless(capsys)
    return path


def assert_harmless(capsys: pytest.CaptureFixture[str]) -> str:
    shown = "".join(capsys.readouterr())
    assert shown
    assert all(each.isprintable() or each == "\n" for each in shown), ascii(shown)
    return shown


def test_a_model_is_inspected(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", model]) == 0
    shown = assert_harmless(capsys)
    assert "\\x1b]0;title\\x07" in shown
    assert not any(
        line.lstrip().startswith(("second", "\\x9bsecond")) for line in shown.split("\n")
    )
    assert main(["inspect", model, "--tree", "0"]) == 0
    assert_harmless(capsys)
    assert main(["inspect", model, "--json"]) == 0
    facts = json.loads(assert_harmless(capsys))
    assert facts["features"][:2] == [f"x{EVIL}", f"c{EVIL}"]


WRONG = {
    "target that is not there": ["train", "TABLE", "--target", "nope", "--model", "MODEL"],
    "text of weights": ["train", "TABLE", "--target", f"y{EVIL}", "--weight", "w", "--model", "M"],
    "name of file": ["train", f"no{EVIL}.csv", "--target", "y", "--model", "MODEL"],
    "name of model": ["inspect", f"no{EVIL}"],
    "columns of other names": ["predict", "MODEL", "ODD", "-o", "OUT"],
    "rows too long": ["train", "LONG", "--target", f"y{EVIL}", "--model", "MODEL"],
    "one column twice": ["train", "TWICE", "--target", f"y{EVIL}", "--model", "MODEL"],
    "settings": ["train", "TABLE", "--target", f"y{EVIL}", "--set", f"a{EVIL}=1", "--model", "M"],
    "command": [f"train{EVIL}"],
}


@pytest.mark.fast(4)
@pytest.mark.parametrize("name", WRONG)
def test_errors(
    name: str, table: Path, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "ODD": f"x{EVIL[:8]},c\n1,2\n",
        "LONG": f"y{EVIL.splitlines()[0]},b\n1,2\n1,2,{EVIL[:8]}\n",
        "TWICE": f"x{EVIL[:8]},x{EVIL[:8]}\n1,2\n",
    }
    names = {"TABLE": str(table), "MODEL": model, "OUT": str(tmp_path / "out.csv")}
    for key, content in files.items():
        names[key] = str(tmp_path / f"{key}.csv")
        Path(names[key]).write_text(content, encoding="utf-8")
    assert main([names.get(word, word) for word in WRONG[name]]) == 2
    assert assert_harmless(capsys).count("\n") == 1


def test_errors_of_the_library_show_no_control_characters() -> None:
    error = DataError(f"column {EVIL}: wrong")
    assert str(error) == f"column {printable(EVIL)}: wrong"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert "\x1b" not in str(StorageError(2, "no such file", f"a{EVIL}"))
    labels = np.array([f"a{EVIL}"] * 5)
    with pytest.raises(DataError) as caught:
        HedgerowClassifier().fit(np.zeros((5, 1)), labels)
    assert printable(str(caught.value)) == str(caught.value)


def test_printable_keeps_what_can_be_seen() -> None:
    for text in ("größe 价格\nсвет, price = 3 €", "", " "):
        assert printable(text) == text
    assert printable("a\tb\r\x00\x85\ud800") == r"a\tb\r\x00\x85\ud800"
    assert shown_name("a\nb") == r"'a\nb'"


def test_warnings_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    from hedgerow.cli.usage import printable_warnings

    before = warnings.formatwarning
    with printable_warnings():
        assert "\x1b" not in warnings.formatwarning(EVIL, UserWarning, "file", 1, "")
    assert warnings.formatwarning is before


def test_nothing_else_prints() -> None:
    """Only ``say`` and ``remark`` in ``cli/usage.py`` print: they survive failing streams."""
    found = [
        file.relative_to(SOURCE).as_posix()
        for file in sorted(SOURCE.rglob("*.py"))
        if file.parent.name != "compile"  # programs of the build
        if "print(" in (text := file.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert found == []
