"""The command line as a program: files, messages and exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.cli.main import main
from hedgerow.io.file_predictions import write_table
from tests.helpers.file_tables import columns_of

pytest.importorskip("hedgerow.estimators", reason="needs the estimators")

Run = Callable[..., tuple[int, str, str]]
SMALL = ("--set", "n_estimators=5", "--set", "min_samples_leaf=5", "--set", "early_stopping=false")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in this process, inside an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Return a table with a text target, a whole-number target and a real one."""
    rng = np.random.default_rng(0)
    age, hours = rng.integers(18, 80, 300), rng.normal(38, 6, 300)
    value = age * 0.1 + hours
    lines = ["age,hours,city,income,klass,value"]
    for i in range(300):
        gap = "" if i % 11 == 0 else f"{hours[i]:.3f}"
        income = "high" if value[i] > 43 else "low"
        klass = int(np.digitize(value[i], (40, 45)))
        lines.append(f"{age[i]},{gap},Oslo,{income},{klass},{value[i]:.4f}")
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def train(run: Run, data: Path, target: str, *more: str) -> str:
    others = {"income", "klass", "value"} - {target, *more}
    drops = [part for name in ("city", *sorted(others)) for part in ("--drop", name)]
    code, out, err = run(
        "train", str(data), "--target", target, "--model", "m.hedgerow", *drops, *SMALL, *more
    )
    assert code == 0, err
    return out


@pytest.mark.parametrize(
    ("target", "task", "columns"),
    [
        ("income", "classification", ["prediction", "probability_high", "probability_low"]),
        ("klass", "classification", ["prediction", *(f"probability_{k}" for k in range(3))]),
        ("value", "regression", ["prediction"]),
    ],
)
def test_train_predict_inspect(
    run: Run, people: Path, tmp_path: Path, target: str, task: str, columns: list[str]
) -> None:
    out = train(run, people, target)
    assert out.startswith(task)
    code, out, err = run("predict", "m.hedgerow", str(people), "-o", "p.csv")
    assert (code, err) == (0, "")
    result = columns_of("p.csv")
    assert list(result) == columns
    assert len(result["prediction"]) == 300
    truth = columns_of(str(people))[target]
    if task == "classification":
        assert np.mean(result["prediction"] == truth) > 0.6
        total = sum(result[name] for name in columns[1:])
        np.testing.assert_allclose(total, 1.0, atol=1e-12)
    else:
        assert np.corrcoef(result["prediction"], truth)[0, 1] > 0.8
    code, out, err = run("inspect", "m.hedgerow", "--json")
    facts = json.loads(out)
    assert facts["task"] == task
    assert facts["features"] == ["age", "hours"]
    code, out, err = run("inspect", "m.hedgerow")
    assert code == 0
    assert "hours" in out
    code, out, err = run("inspect", "m.hedgerow", "--tree", "0")
    assert code == 0
    assert "hours" in out or "age" in out
    assert {item.name for item in tmp_path.iterdir()} == {"people.csv", "p.csv", "m.hedgerow"}


def test_inspect_tells_what_the_folds_have_tried(run: Run) -> None:
    import hedgerow

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    model = hedgerow.HedgerowRegressor().fit(X, X[:, 0] + rng.normal(size=200))
    model.save("m.hedgerow")
    code, out, err = run("inspect", "m.hedgerow")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("folds "))
    assert lines[first].endswith("5 of 5 tested, each round for 3 of the model")
    assert lines[first + 1].endswith("as set or automatic")
    for line, entry in zip(lines[first + 1 :], model.chosen_params_["tried"], strict=False):
        assert line.startswith(f"  {entry['score']:.6g} after {entry['rounds']} rounds")
    facts = json.loads(run("inspect", "m.hedgerow", "--json")[1])
    assert facts["folds"]["tried"] == model.chosen_params_["tried"]


@pytest.mark.parametrize("kind", ["raw", "leaf", "probability"])
@pytest.mark.parametrize("target", ["income", "klass", "value"])
def test_kinds_of_prediction(run: Run, people: Path, target: str, kind: str) -> None:
    train(run, people, target)
    code, _, err = run("predict", "m.hedgerow", str(people), "-o", "p.csv", "--kind", kind)
    if kind == "probability" and target == "value":
        assert code == 2
        assert "classification" in err
        return
    assert code == 0, err
    assert all(name.startswith(kind) for name in columns_of("p.csv"))


SIZES = ("01", "1", "1.0", "NA", "x")


def write_sizes(path: str, sizes: tuple[str, ...]) -> None:
    lines = ["size,age,value"]
    for row in range(200):
        size = sizes[row % len(sizes)]
        lines.append(f"{size},{row},{len(size) + (row % 7) / 100}")
    Path(path).write_text("\n".join(lines) + "\n")


def test_text_columns_are_categories(run: Run) -> None:
    write_sizes("t.csv", SIZES)
    write_sizes("numbers.csv", ("01", "1", "1.0", "NA", "2"))
    code, _, err = run(
        "train", "t.csv", "--target", "value", "--model", "m.hedgerow", "--valid", "numbers.csv",
        "--set", "min_samples_leaf=5", "--set", "min_data_per_group=1",
    )  # fmt: skip
    assert (code, err) == (0, "")
    code, out, _ = run("inspect", "m.hedgerow")
    assert code == 0
    assert "  size: category, 4 level(s): '01', '1', '1.0', 'x'\n  age: float" in out
    facts = json.loads(run("inspect", "m.hedgerow", "--json")[1])
    assert facts["columns"][0]["n_levels"] == 4
    # A file whose sizes all look like numbers: they are the texts of training none the less.
    code, out, err = run("predict", "m.hedgerow", "numbers.csv", "-o", "p.csv")
    assert (code, err) == (0, "")
    assert "column 'size': 40 row(s) with a category that no training row had" in out
    assert run("predict", "m.hedgerow", "t.csv", "-o", "q.csv")[1].count("\n") == 1
    p, q = (columns_of(name)["prediction"] for name in ("p.csv", "q.csv"))
    known = np.arange(200) % 5 < 4
    np.testing.assert_array_equal(p[known], q[known])
    assert np.ptp(q) > 1.0


def test_policy_of_unknown_categories_is_in_the_model(run: Run) -> None:
    write_sizes("t.csv", SIZES)
    write_sizes("new.csv", ("1", "zz"))
    arguments = ("train", "t.csv", "--target", "value", "--model", "m.hedgerow", *SMALL)
    assert run(*arguments, "--set", "unknown_category=error")[0] == 0
    code, _, err = run("predict", "m.hedgerow", "new.csv", "-o", "p.csv")
    assert code == 2
    assert "column 'size' holds 'zz' (row 1), which is none of the 4 categories" in err
    assert not Path("p.csv").exists()


def test_numbers_are_categories_where_named(run: Run, people: Path) -> None:
    train(run, people, "value", "--set", "categorical_features=['age']")
    columns = json.loads(run("inspect", "m.hedgerow", "--json")[1])["columns"]
    assert [column["kind"] for column in columns] == ["category", "float"]
    assert columns[0]["first_levels"] == [18, 19, 20, 21, 22]
    assert run("predict", "m.hedgerow", str(people), "-o", "p.csv")[0] == 0


@pytest.mark.parametrize("size", [1, 1 << 50])
def test_classes_of_a_continuous_target_are_refused(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(FileDataset, "bytes_of_table", size)
    arguments = ("--target", "value", "--task", "classification", "--drop", "city")
    code, _, err = run("train", str(people), *arguments)
    assert code == 2
    assert re.search(
        r"people.csv: target 'value' holds \d.*, which is no class; .*--task regr", err
    )


def test_columns_named_in_utf8_where_the_locale_is_ascii(people: Path, tmp_path: Path) -> None:
    people.write_text(people.read_text().replace("value", "größe"), encoding="utf-8")
    # Python reads arguments as UTF-8 in the C locale by default.
    ascii_locale = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    # One process, as each takes a second or two to load the libraries.
    program = (
        "import sys, itertools; from hedgerow.cli.main import main\n"
        "for ends, command in itertools.groupby(sys.argv[1:], '--then'.__eq__):\n"
        "    if not ends and main(list(command)): sys.exit(1)\n"
    )
    settings = ["--set", "n_estimators=2", "--set", "early_stopping=false"]
    model = tmp_path / "größe.hedgerow"
    commands = (
        *("train", people, "--target", "größe", "--drop", "city", "--model", model, *settings),
        *("--then", "evaluate", model, people, "--target", "größe"),
        *("--then", "predict", model, people, "--columns", "größe,age"),
        *("--out", tmp_path / "out.csv"),
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, *commands],
        env=ascii_locale, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "\r" not in ended.stdout  # a pipe shows no progress
    first = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("größe,age,")


BAD_COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "no command": ((), "required"),
    "unknown command": (("trian",), "trian"),
    "no target": (("train", "people.csv"), "--target"),
    "no file": (("train", "peple.csv", "--target", "value"), "Did you mean 'people.csv'"),
    "folder": (("train", ".", "--target", "value"), "folder"),
    "ending": (("train", "people.xls", "--target", "value"), "known endings"),
    "no column": (("train", "people.csv", "--target", "valeu"), "Did you mean 'value'"),
    "no drop column": (
        ("train", "people.csv", "--target", "value", "--drop", "citty"),
        "Did you mean 'city'",
    ),
    "text column": (
        ("train", "people.csv", "--target", "value", "--set", "categorical_features=none"),
        "column 'city'",
    ),
    "text column that is not named": (
        ("train", "people.csv", "--target", "value", "--set", "categorical_features=['age']"),
        "column 'city' has type string, but is not among categorical_features",
    ),
    "unknown category column": (
        ("train", "people.csv", "--target", "value", "--set", "categorical_features=['citty']"),
        "Did you mean 'city'",
    ),
    "unknown policy": (
        ("train", "people.csv", "--target", "value", "--set", "unknown_category=eror"),
        "Did you mean 'error'",
    ),
    "text for regression": (
        ("train", "people.csv", "--target", "income", "--task", "regression", "--drop", "city"),
        "--task classification",
    ),
    "unknown parameter": (
        ("train", "people.csv", "--target", "value", "--set", "max_leafs=3"),
        "Did you mean 'max_leaves'",
    ),
    "parameter without value": (
        ("train", "people.csv", "--target", "value", "--set", "max_leaves"),
        "name=value",
    ),
    "parameter out of range": (
        ("train", "num.csv", "--target", "value", "--set", "learning_rate=-1"),
        "learning_rate",
    ),
    "parameter of a wrong type": (
        ("train", "num.csv", "--target", "value", "--set", "max_leaves=many"),
        "max_leaves",
    ),
    "missing target": (("train", "gaps.csv", "--target", "y"), "row 2"),
    "only a target": (("train", "single.csv", "--target", "y"), "no column is left"),
    "one class": (("train", "single2.csv", "--target", "y"), "class"),
    "no folder for the model": (
        ("train", "num.csv", "--target", "value", "--model", "no/where/m.hedgerow"),
        "does not exist",
    ),
    "model is a folder": (
        ("train", "num.csv", "--target", "value", "--model", "sub"),
        "is a folder",
    ),
    "model is the table": (
        ("train", "num.csv", "--target", "value", "--model", "num.csv"),
        "is the table itself",
    ),
    "no model": (("predict", "none.hedgerow", "num.csv", "-o", "o.csv"), "none.hedgerow"),
    "model is a folder to read": (("predict", "sub", "num.csv", "-o", "o.csv"), "sub"),
    "not a model": (("predict", "num.csv", "num.csv", "-o", "o.csv"), "num.csv"),
    "no output": (("predict", "m.hedgerow", "num.csv"), "--out"),
    "output ending": (("predict", "m.hedgerow", "num.csv", "-o", "o.xls"), "written as"),
    "output folder": (("predict", "m.hedgerow", "num.csv", "-o", "no/o.csv"), "does not exist"),
    "output is the input": (("predict", "m.hedgerow", "num.csv", "-o", "num.csv"), "replace"),
    "missing column": (("predict", "m.hedgerow", "gaps.csv", "-o", "o.csv"), "lacks"),
    "bad kind": (("predict", "m.hedgerow", "num.csv", "-o", "o.csv", "--kind", "x"), "--kind"),
    "inspect nothing": (("inspect", "none.hedgerow"), "none.hedgerow"),
    "inspect a table": (("inspect", "num.csv"), "num.csv"),
    "inspect no such tree": (("inspect", "m.hedgerow", "--tree", "99"), "trees 0 to 4"),
    "inspect tree and json": (
        ("inspect", "m.hedgerow", "--tree", "0", "--json"),
        "cannot be combined",
    ),
    "demo into a file": (("demo", "--out", "num.csv"), "name a folder"),
}


@pytest.fixture(scope="session")
def model_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("model")
    write_table(str(folder / "num.csv"), [numbers()])
    arguments = ["train", str(folder / "num.csv"), "--target", "value", *SMALL]
    assert main([*arguments, "--model", str(folder / "m.hedgerow")]) == 0
    return (folder / "m.hedgerow").read_bytes()


def numbers() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 100))
    return {"a": a, "b": b, "value": a + b**2}


@pytest.mark.parametrize("case", BAD_COMMANDS)
def test_bad_commands_end_in_one_line(
    case: str, run: Run, people: Path, tmp_path: Path, model_bytes: bytes
) -> None:
    write_table("num.csv", [numbers()])
    Path("gaps.csv").write_text("x,y\n1,2.5\n2,\n3,4\n")
    Path("single.csv").write_text("y\n1\n2\n")
    Path("single2.csv").write_text("x,y\n1,a\n2,a\n3,a\n")
    Path("people.xls").write_text("")
    Path("m.hedgerow").write_bytes(model_bytes)
    Path("sub").mkdir()
    before = {item: item.read_bytes() for item in tmp_path.iterdir() if item.is_file()}
    arguments, message = BAD_COMMANDS[case]
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err
    assert err.startswith("hedgerow: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    after = {item: item.read_bytes() for item in tmp_path.iterdir() if item.is_file()}
    assert after == before


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv.gz"])
def test_files_without_pyarrow_name_the_extra(
    run: Run, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    Path(f"t.{ending}").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = run("train", f"t.{ending}", "--target", "y")
    assert code == 2
    assert "pip install 'hedgerow[files]'" in err


def test_damaged_models(run: Run, model_bytes: bytes) -> None:
    write_table("num.csv", [numbers()])
    for damaged in (b"", model_bytes[:40], model_bytes[:-1], model_bytes[:200] + b"\xff" * 50):
        Path("m.hedgerow").write_bytes(damaged)
        code, _, err = run("predict", "m.hedgerow", "num.csv", "-o", "o.csv")
        assert code == 2
        assert "m.hedgerow" in err
        assert not Path("o.csv").exists()


def test_failing_write_leaves_nothing(run: Run, model_bytes: bytes, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="this system has no limits of files")
    write_table("num.csv", [numbers()])
    Path("m.hedgerow").write_bytes(model_bytes)
    Path("o.csv").write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        code, _, err = run("predict", "m.hedgerow", "num.csv", "-o", "o.csv")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == 2
    assert err == (
        "hedgerow: o.csv: the predictions could not be written (File too large); the file is as it "
        "was.\n"
    )
    assert Path("o.csv").read_text() == "old"
    assert {item.name for item in tmp_path.iterdir()} == {"num.csv", "m.hedgerow", "o.csv"}


def test_unexpected_errors_are_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("hedgerow.atomic.check_place", fail)
    code, _, err = run("train", "x.csv", "--target", "y")
    assert code == 1
    assert err.count("\n") == 1
    assert "two lines" in err
    monkeypatch.setenv("HEDGEROW_DEBUG", "1")
    with pytest.raises(RuntimeError):
        run("train", "x.csv", "--target", "y")


def test_interrupt(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hedgerow.atomic.check_place", interrupt)
    code, _, err = run("train", "x.csv", "--target", "y")
    assert code == 130
    assert err == "hedgerow: interrupted\n"


class WithoutPyarrow:
    """A finder of modules for which pyarrow is not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_demo(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyarrow", raising=False)
    monkeypatch.setattr(sys, "meta_path", [WithoutPyarrow(), *sys.meta_path])
    code, out, err = run("demo", "--out", "shown")
    assert code == 0, err
    assert err == ""
    lines = {
        line[:16].strip(): [*map(float, line[16:].split())]
        for line in out.splitlines()
        if re.match(r"(base rate|a single tree|hedgerow) .*\d$", line)
    }
    assert list(lines) == ["base rate", "a single tree", "hedgerow"]
    # Columns: accuracy train and test, logloss train and test.
    assert lines["hedgerow"][1] > lines["base rate"][1]
    assert lines["hedgerow"][3] < lines["base rate"][3]
    assert lines["hedgerow"][3] < lines["a single tree"][3]
    written = {item.name for item in (tmp_path / "shown").iterdir()}
    assert {"model.hedgerow", "tree.txt"} <= written
    assert "Glucose" in (tmp_path / "shown" / "tree.txt").read_text()
    code, out, _ = run("inspect", "shown/model.hedgerow")
    assert code == 0
    assert "Glucose" in out


def test_warmup(run: Run) -> None:
    code, out, err = run("warmup")
    assert code == 0, err
    assert "kernels ready" in out or "nothing to compile" in out


def start_process(*arguments: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hedgerow.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    """A command that reads a model does not import scikit-learn."""
    code = (
        "import sys; from hedgerow.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numba', 'sklearn', 'numpy', 'pyarrow'} & set(sys.modules)))\n"
        "assert main(['inspect', 'none']) == 2\n"
        "print(sorted({'numba', 'sklearn', 'pandas', 'pyarrow'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-2:] == ["[]", "[]"]
    assert "demo" in result.stdout


def test_the_package_is_a_program() -> None:
    command = [sys.executable, "-m", "hedgerow", "inspect", "none"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (2, "hedgerow: none: No such file or directory\n")


def test_a_pipe_may_close(tmp_path: Path) -> None:
    path, model = tmp_path / "num.csv", tmp_path / "model.hedgerow"
    write_table(str(path), [numbers()])
    assert main(["train", str(path), "--target", "value", *SMALL, "--model", str(model)]) == 0
    with start_process("inspect", str(model), "--json", cwd=tmp_path) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(timeout=300) == 0


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_ends_with_130(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {f"c{j}": rng.standard_normal(20_000) for j in range(20)}
    write_table(str(tmp_path / "t.csv"), [columns])
    arguments = ("--target", "c0", "--set", "n_estimators=100000", "--set", "early_stopping=false")
    with start_process("train", "t.csv", *arguments, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("regression")
        time.sleep(4.0)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    # It comes between two rounds, or before the first: then there is no model to write.
    written = sorted(item.name for item in tmp_path.iterdir())
    if err == "hedgerow: interrupted\n":
        assert written == ["t.csv"]
    else:
        assert err.startswith("hedgerow: interrupted: the model of the first ")
        assert written == ["model.hedgerow", "t.csv"]
