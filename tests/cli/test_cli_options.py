"""Names of options: the usual ones work, and others get a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from hedgerow.cli.main import build_parser, main

pytest.importorskip("hedgerow.estimators", reason="needs the estimators")

ROWS = "a;y\n" + "".join(f"{k % 7};{k % 2}\n" for k in range(60))
FEW = ("--set", "n_estimators=2", "--no-score")


@pytest.mark.parametrize("option", ["-o", "--out", "--output", "--model"])
def test_each_name_of_the_output_writes_it(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text(ROWS)
    assert main(["train", "rows.csv", "--target", "y", option, "m.hedgerow", *FEW]) == 0
    if option != "--model":
        assert main(["predict", "m.hedgerow", "rows.csv", option, "out.csv", "--sep", ";"]) == 0
        assert len(Path("out.csv").read_text().splitlines()) == 61
    assert Path("m.hedgerow").exists()


@pytest.mark.parametrize("command", ["predict", "explain", "report"])
def test_output_is_no_abbreviation_of_another_option(command: str) -> None:
    """``--output`` was read as ``--outputs`` by explain."""
    options = build_parser().parse_args([command, "model", "data.csv", "--output", "out.csv"])
    assert options.out == "out.csv"


@pytest.mark.parametrize("option", ["--separator", "--sep", "--delimiter"])
def test_separators(option: str) -> None:
    options = build_parser().parse_args(["predict", "model", "data.csv", "-o", "x", option, ";"])
    assert options.separator == ";"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("train a.csv --max-leaves 7", "such as --set max_leaves=7 (see `hedgerow train --help`)"),
        ("train a.csv --learning_rate=0.1", "such as --set learning_rate=0.1 "),
        ("train a.csv --sketch local", "such as --set sketch=local "),
        ("train a.csv --num_leaves 7", "'num_leaves' is 'max_leaves' here. Parameters are given"),
        ("train a.csv --threads 2", "such as --set n_jobs=2 "),
        ("train a.csv --label y", "use '--target'"),
        ("train a.csv --tagret y", "Did you mean '--target'?"),
        ("train --data a.csv --target y", "DATA is given without an option, by its place"),
        ("serve m --prot 3", "Did you mean '--port'? (see `hedgerow serve --help`)"),
        ("predict m a.csv -o b.csv --zzz", "unrecognized arguments: --zzz (see `hedgerow predict"),
        ("inspect m n", "unrecognized arguments: n (see `hedgerow inspect --help`)"),
    ],
)
def test_hints(arguments: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments.split()) == 2
    assert hint in capsys.readouterr().err


def test_the_version_has_a_short_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["-V"])
    assert capsys.readouterr().out.startswith("hedgerow ")
