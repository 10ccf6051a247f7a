"""Names of options: the usual ones work, and others get a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from hedgerow.cli.main import build_parser, main

pytest.importorskip("hedgerow.estimators", reason="needs the estimators")

ROWS = "a;y\n" + "".join(f"{k % 7};{k % 2}\n" for k in range(60))
FEW = ("--set", "n_estimators=2")


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


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("train a.csv --max-leaves 7", "such as --set max_leaves=7 (see `hedgerow train --help`)"),
        ("train a.csv --learning_rate=0.1", "such as --set learning_rate=0.1 "),
        ("train a.csv --sketch local", "such as --set sketch=local "),
        ("train a.csv --num_leaves 7", "'num_leaves' is 'max_leaves' here. Parameters are given"),
        ("train a.csv --threads 2", "such as --set n_jobs=2 "),
        ("train a.csv --label y", "use '--target'"),
        ("train a.csv --ignore b", "use '--drop'"),
        ("train a.csv --exclude b", "use '--drop'"),
        ("train a.csv --ignore-column b", "use '--drop'"),
        ("train a.csv --ignore_columns b", "use '--drop'"),
        ("ladder a.csv --skip=b", "use '--drop'"),
        ("predict m a.csv -o x.csv --ignore b", "columns that the model does not use are ignored"),
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


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with a model, its table, and the table as pandas writes it by default."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{k % 7},{k % 5},{k % 2}" for k in range(60)]
    Path("rows.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    Path("indexed.csv").write_text("\n".join([",a,b,y", *(f"{k},{r}" for k, r in enumerate(rows))]))
    Path("values.csv").write_text("\n".join(rows))
    assert main(["train", "rows.csv", "--target", "y", "-o", "m.hedgerow", *FEW]) == 0
    return tmp_path


@pytest.mark.usefixtures("people")
def test_an_index_without_a_name_is_left_out_unless_it_would_be_trained_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in ("predict m.hedgerow {} -o out.csv", "explain m.hedgerow {} -o out.csv"):
        found = []
        for name in ("rows.csv", "indexed.csv"):
            assert main(command.format(name).split()) == 0
            found.append(Path("out.csv").read_bytes())
        assert found[0] == found[1]
    for command in ("evaluate m.hedgerow {} --target y", "convert m.hedgerow m.json --check {}"):
        said = []
        for name in ("rows.csv", "indexed.csv"):
            capsys.readouterr()
            assert main(command.format(name).split()) == 0
            said.append(capsys.readouterr().out)
        assert said[0] == said[1]
    train = ["train", "indexed.csv", "--target", "y", "-o", "n.hedgerow", *FEW]
    assert main(train) == 2
    assert "column 1 has no name" in capsys.readouterr().err
    assert main([*train, "--drop", ""]) == 0
    assert Path("n.hedgerow").read_bytes() == Path("m.hedgerow").read_bytes()


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    "command",
    [
        "train values.csv --target y",
        "predict m.hedgerow values.csv -o out.csv",
        "evaluate m.hedgerow values.csv --target y",
        "report m.hedgerow values.csv --target y -o out.html",
        "ladder values.csv --target y",
        "convert m.hedgerow m.json --check values.csv",
    ],
)
def test_a_file_without_names_gets_a_hint(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("values.csv").write_text("2.5,1,0\n" + Path("values.csv").read_text())
    assert main(command.split()) == 2
    assert "All these names are numbers: if the first line holds" in capsys.readouterr().err


@pytest.mark.usefixtures("people")
def test_suffixes_of_models(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("m.onx", "m.pkl", "m.bin", "m.ubj"):
        assert main(["convert", "m.hedgerow", name]) == 2
        error = capsys.readouterr().err
        assert f"the suffix {Path(name).suffix} is unknown" in error
        assert ".hedgerow hedgerow, " in error
        assert ".onnx onnx" in error
        assert not Path(name).exists()
    assert main(["convert", "m.hedgerow", "m.bin", "--to", "hedgerow"]) == 0
    for name in ("n.onnx", "n.json", "n.pkl", "n.ubj"):
        assert main(["train", "rows.csv", "--target", "y", "-o", name, *FEW]) == 2
        assert "suffix of another format" in capsys.readouterr().err
        assert not Path(name).exists()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("max_leavs=3", "Did you mean 'max_leaves'?"),
        ("max_leaves=-3", "max_leaves must be an integer at least 2"),
        ("objective=poison", "objective of a HedgerowClassifier must be one of"),
        ("early_stopping=maybe", "early_stopping"),
        ("learning_rate=-1", "learning_rate"),
        ("eval_metric=auk", "Did you mean 'auc'?"),
        ("eval_metric=['accuracy', 'ndcg@5']", "'ndcg@5' is for ranking, but this model is for"),
    ],
)
@pytest.mark.parametrize("task", ["auto", "classification"])
def test_a_wrong_setting_is_found_before_a_file_is_read(
    setting: str, words: str, task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "none.csv", "--target", "y", "--task", task, "--set", setting]) == 2
    assert words in capsys.readouterr().err


def test_a_setting_of_one_task_waits_for_the_task(capsys: pytest.CaptureFixture[str]) -> None:
    for setting in ("class_weight=balanced", "quantile=0.5", "objective=poisson", "eval_metric=r2"):
        assert main(["train", "none.csv", "--target", "y", "--set", setting]) == 2
        assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        ("trian a.csv", "Did you mean 'train'?"),
        ("predcit m a.csv -o x.csv", "Did you mean 'predict'?"),
        ("train a.csv --target y --task clasification", "Did you mean 'classification'?"),
        ("convert m n --to onx", "Did you mean 'onnx'?"),
        ("predict m a.csv -o x.csv --kind probabilities", "Did you mean 'probability'?"),
    ],
)
def test_wrong_choices_get_the_nearest(
    arguments: str, nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments.split()) == 2
    error = capsys.readouterr().err
    assert nearest in error
    assert "choose from " in error


@pytest.mark.usefixtures("people")
def test_a_background_may_come_in_several_pieces() -> None:
    """Text of more than 16 MB is read in pieces, which were called several files."""
    lines = Path("rows.csv").read_text().splitlines()
    Path("parts").mkdir()
    for name, part in (("1.csv", lines[1:20]), ("2.csv", lines[20:])):
        Path("parts", name).write_text("\n".join([lines[0], *part]) + "\n")
    found = []
    for background in ("rows.csv", "parts"):
        explain = ["explain", "m.hedgerow", "rows.csv", "-o", "out.csv"]
        assert main([*explain, "--background", background]) == 0
        found.append(Path("out.csv").read_bytes())
    assert found[0] == found[1]


@pytest.mark.usefixtures("people")
def test_training_on_a_file_without_names_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    Path("values.csv").write_text("2.5,1,0\n" + Path("values.csv").read_text())
    assert main(["train", "values.csv", "--target", "0", "-o", "n.hedgerow", *FEW]) == 0
    assert "note: values.csv: All these names are numbers" in capsys.readouterr().err
    Path("numbered.csv").write_text("0,1,2\n" + Path("values.csv").read_text())
    assert main(["train", "numbered.csv", "--target", "2", "-o", "n.hedgerow", *FEW]) == 0
    assert capsys.readouterr().err == ""
