"""``hedgerow evaluate`` and ``--valid`` give the scores of the package, for all kinds of files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow import Dataset, load
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.cli.main import main

pytest.importorskip("sklearn")
pytest.importorskip("pyarrow", reason="several files are read by pyarrow")

N = 240
FEW = ["--set", "n_estimators=5", "--set", "min_samples_leaf=5"]
Evaluate = Callable[..., dict[str, float]]


def columns_of(seed: int) -> dict[str, Any]:
    """Return a column of text, one of numbers, and targets of all kinds."""
    rng = np.random.default_rng(seed)
    code, size = rng.choice(["1", "2", "03", "x"], N), rng.normal(size=N).round(3)
    value = (size + (code == "x") + rng.normal(size=N) / 4).round(3)
    happened = rng.random(N) < 0.7
    return {
        "code": code,
        "size": size,
        "value": value,
        "label": np.where(value > 1.0, "high", np.where(value > 0.0, "1", "02")),
        "event": happened.astype(int),
        "time": np.exp(value).round(3),
        "upper": np.where(happened, np.exp(value).round(3), np.inf),
        "weight": rng.integers(1, 4, N),
    }


TRAINING, OTHERS = columns_of(0), columns_of(1)
FEATURES = ("code", "size")
TARGETS = ("value", "label", "event", "time", "upper")


def write(path: str, columns: dict[str, Any], rows: Any = slice(None), **more: int) -> None:
    lines = [",".join([*columns, *more])]
    lines += [",".join(map(str, (*row, *more.values()))) for row in zip(
        *(column[rows] for column in columns.values()), strict=True
    )]  # fmt: skip
    Path(path).write_text("\n".join(lines) + "\n")


def train(*options: str, target: str | tuple[str, ...]) -> None:
    names = (target,) if isinstance(target, str) else target
    aside = [name for name in TARGETS if name not in names]
    given = [part for name in names for part in ("--target", name)]
    given += [part for name in aside for part in ("--drop", name)]
    given += [] if "--weight" in options else ["--drop", "weight"]
    assert main(["train", "train.csv", *given, *FEW, *options, "--model", "m"]) == 0


@pytest.fixture
def evaluate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Evaluate:
    monkeypatch.chdir(tmp_path)
    write("train.csv", TRAINING)

    def call(*files: str, target: str | tuple[str, ...], metrics: tuple[str, ...] = ()) -> Any:
        names = (target,) if isinstance(target, str) else target
        options = [part for name in names for part in ("--target", name)]
        options += [part for name in metrics for part in ("--metric", name)]
        capsys.readouterr()
        code = main(["evaluate", "m", *files, *options, "--json"])
        out, err = capsys.readouterr()
        assert code == 0, err
        return json.loads(out)

    return call


def read_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the commands treat every table as larger than memory."""
    monkeypatch.setattr(FileDataset, "bytes_of_table", 10**12)


PLACES = pytest.mark.parametrize("in_batches", [False, True], ids=["memory", "batches"])


@pytest.mark.parametrize("target", ["value", "label"])
def test_text_stays_text_where_all_values_look_like_numbers(
    evaluate: Evaluate, target: str
) -> None:
    train(target=target)
    numbers = np.flatnonzero((OTHERS["code"] != "x") & (OTHERS["label"] != "high"))
    write("all.csv", OTHERS, numbers)
    write("1.csv", OTHERS, numbers[:50])
    write("2.csv", OTHERS, numbers[50:])
    booster = load("m")
    rows = Dataset({n: OTHERS[n][numbers] for n in FEATURES}, OTHERS[target][numbers])
    expected = pytest.approx(booster.eval(rows, "loss"), rel=1e-12)
    for files in (["all.csv"], ["1.csv", "2.csv"]):
        assert evaluate(*files, target=target, metrics=("loss",)) == expected


def test_wrong_requests_are_named(evaluate: Evaluate, capsys: pytest.CaptureFixture[str]) -> None:
    train(target="value")
    for options, words in (((), "--target"), (("--target", "value", "--metric", "no"), "'no'")):
        assert main(["evaluate", "m", "train.csv", *options]) == 2
        assert words in capsys.readouterr().err


def test_columns_that_the_model_does_not_use_may_differ(evaluate: Evaluate) -> None:
    train(target="value")
    used = {name: OTHERS[name] for name in ("size", "value", "code")}
    write("one.csv", OTHERS)
    write("1.csv", OTHERS, slice(0, 90), note=1)
    write("2.csv", used, slice(90, N))
    expected = pytest.approx(evaluate("one.csv", target="value"), rel=1e-12)
    for files in (["1.csv", "2.csv"], ["2.csv", "1.csv"]):
        assert evaluate(*files, target="value") == expected


@pytest.mark.parametrize("objective", ["cox", "aft"])
def test_times_of_events_in_two_columns(evaluate: Evaluate, objective: str) -> None:
    train("--set", f"objective={objective}", target=("time", "event"))
    write("one.csv", OTHERS)
    times = {name: OTHERS[name] for name in ("event", "time")}
    rows = Dataset({name: OTHERS[name] for name in FEATURES}, times)
    expected = pytest.approx(load("m").eval(rows, ["loss", "concordance"]), rel=1e-12)
    for target in (("time", "event"), ("event", "time")):  # loss and concordance are usual
        assert evaluate("one.csv", target=target) == expected


def test_the_end_of_an_interval_may_be_infinite(evaluate: Evaluate) -> None:
    write("train.csv", {name.replace("time", "lower"): TRAINING[name] for name in TRAINING})
    dropped = [p for n in ("value", "label", "event", "weight") for p in ("--drop", n)]
    both = ("--target", "lower", "--target", "upper")
    chosen = (*FEW, "--set", "objective=aft", "--valid", "train.csv")
    assert main(["train", "train.csv", *both, *dropped, *chosen, "--model", "m"]) == 0
    found = evaluate("train.csv", target=("upper", "lower"), metrics=("loss",))
    censored = {name: TRAINING[name] for name in ("event", "time")}
    rows = Dataset({name: TRAINING[name] for name in FEATURES}, censored)
    assert found == pytest.approx(load("m").eval(rows, "loss"), rel=1e-12)


def test_usual_metrics_suit_the_model(evaluate: Evaluate) -> None:
    write("one.csv", OTHERS)
    train("--set", "objective=quantile", "--set", "quantile=[0.1,0.9]", target="value")
    assert list(evaluate("one.csv", target="value")) == ["loss"]
    train(target=("value", "time"))
    assert list(evaluate("one.csv", target=("value", "time"))) == ["loss"]
    train(target="event")
    assert list(evaluate("one.csv", target="event")) == ["accuracy", "loss", "auc"]
    train(target="label")
    assert list(evaluate("one.csv", target="label")) == ["accuracy", "loss"]


@PLACES
def test_labels_of_validation_rows_stay_text(
    evaluate: Evaluate, in_batches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("valid.csv", OTHERS, np.flatnonzero(OTHERS["label"] != "high"))
    if in_batches:
        read_in_batches(monkeypatch)
    train("--valid", "valid.csv", target="label")
    found = evaluate("valid.csv", target="label", metrics=("loss",))
    curve = load("m").evals_result["validation"]["loss"]
    assert found == {"loss": pytest.approx(min(curve), rel=1e-12)}


@PLACES
def test_validation_rows_have_weights(
    evaluate: Evaluate, in_batches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("valid.csv", OTHERS)
    if in_batches:
        read_in_batches(monkeypatch)
    train("--valid", "valid.csv", "--weight", "weight", target="value")
    booster = load("m")
    X = {name: OTHERS[name] for name in FEATURES}
    weighted, plain = Dataset(X, OTHERS["value"], OTHERS["weight"]), Dataset(X, OTHERS["value"])
    found = min(booster.evals_result["validation"]["loss"])
    assert found == pytest.approx(booster.eval(weighted)["loss"], rel=1e-12)
    assert found != pytest.approx(booster.eval(plain)["loss"], rel=1e-3)
    write("valid.csv", {name: OTHERS[name] for name in OTHERS if name != "weight"})
    options = ("--target", "value", "--weight", "weight", "--valid", "valid.csv", *FEW)
    dropped = [part for name in TARGETS[1:] for part in ("--drop", name)]
    assert main(["train", "train.csv", *options, *dropped, "--model", "m"]) == 2


def test_a_column_that_no_file_has_is_named(
    evaluate: Evaluate, capsys: pytest.CaptureFixture[str]
) -> None:
    write("1.csv", OTHERS, slice(0, 90))
    write("2.csv", OTHERS, slice(90, N))
    assert main(["train", "1.csv", "2.csv", "--target", "value", "--drop", "sise"]) == 2
    assert "the data has no column 'sise' (drop). Did you mean 'size'?" in capsys.readouterr().err
