"""``hedgerow train --target A --target B``: several targets, and several labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hedgerow import HedgerowClassifier, HedgerowRegressor, load
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.cli.main import main

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2)).round(6)
PRICE, SALES = X.sum(axis=1).round(6), (X[:, 0] * X[:, 1]).round(6)
COLUMNS = {"a": X[:, 0], "b": X[:, 1]}
BOTH = ("--target", "price", "--target", "sales")
PLAIN = ("--set", "n_estimators=6", "--set", "early_stopping=false")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    rows = zip(*COLUMNS.values(), PRICE, SALES, PRICE > 0, SALES > 0, strict=True)
    lines = [f"{a},{b},{p},{s},{int(dear)},{int(hot)}" for a, b, p, s, dear, hot in rows]
    path = tmp_path / "houses.csv"
    path.write_text("\n".join(["a,b,price,sales,dear,hot", *lines]) + "\n")
    return str(path)


def train(table: str, *more: str) -> int:
    return main(["train", table, *more])


@pytest.mark.parametrize("in_files", [False, True])
def test_several_targets_are_trained_as_by_the_estimator(
    table: str, in_files: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if in_files:
        monkeypatch.setattr(FileDataset, "bytes_of_table", 10**12)
    aside = ("--drop", "dear", "--drop", "hot")
    assert train(table, *BOTH, *aside, *PLAIN, "--valid", table) == 0
    assert "regression (2 targets): 300 rows, 2 columns" in capsys.readouterr().out
    y = {"price": PRICE, "sales": SALES}
    model = HedgerowRegressor(n_estimators=6, early_stopping=False)
    expected = model.fit(COLUMNS, y, X_val=COLUMNS, y_val=y)
    found = load("model.hedgerow")
    assert found.target_names == ("price", "sales")
    assert (found.predict(COLUMNS) == expected.predict(COLUMNS)).all()


@pytest.mark.usefixtures("without_drawing")
def test_commands_know_the_targets(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(table, *BOTH, "--drop", "dear", "--drop", "hot", "--set", "n_estimators=40") == 0
    assert main(["inspect", "model.hedgerow"]) == 0
    assert "targets        price, sales\n" in capsys.readouterr().out
    assert main(["predict", "model.hedgerow", table, "-o", "out.csv"]) == 0
    assert Path("out.csv").read_text().startswith("prediction_price,prediction_sales\n")
    scores = []
    for order in (BOTH, ("--target", "sales", "--target", "price")):
        capsys.readouterr()
        assert main(["evaluate", "model.hedgerow", table, *order, "--metric", "rmse"]) == 0
        scores.append(capsys.readouterr().out)
    assert scores[0] == scores[1]
    pages = []
    for order in ((), BOTH[2:] + BOTH[:2]):
        capsys.readouterr()
        assert main(["report", "model.hedgerow", table, "-o", "page.html", *order]) == 0
        pages.append(capsys.readouterr().out)
    assert pages[0] == pages[1]
    assert "r2: " in pages[0]
    assert main(["report", "model.hedgerow", table, "-o", "page.html", "--target", "price"]) != 0
    assert main(["evaluate", "model.hedgerow", table, "--target", "price"]) != 0
    assert "y has 1 column(s), but the model predicts 2" in capsys.readouterr().err


@pytest.mark.fast(1)
@pytest.mark.usefixtures("without_drawing")
@pytest.mark.parametrize("in_files", [False, True])
def test_several_labels(
    table: str, in_files: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if in_files:
        monkeypatch.setattr(FileDataset, "bytes_of_table", 10**12)
    labels = ("--target", "dear", "--target", "hot", "--task", "classification")
    assert train(table, *labels, "--drop", "price", "--drop", "sales", *PLAIN) == 0
    y = {"dear": PRICE > 0, "hot": SALES > 0}
    expected = HedgerowClassifier(n_estimators=6, early_stopping=False).fit(COLUMNS, y)
    found = HedgerowClassifier.load("model.hedgerow")
    assert found.classes_.tolist() == ["dear", "hot"]
    assert (found.predict_proba(COLUMNS) == expected.predict_proba(COLUMNS)).all()
    assert main(["report", "model.hedgerow", table, "-o", "page.html"]) == 0
    assert "accuracy: " in capsys.readouterr().out
    assert train(table, *labels[:2], "--target", "price", "--task", "classification") != 0
    assert "label of 0 and 1" in capsys.readouterr().err


def test_models_of_several_targets_are_continued(table: str) -> None:
    aside = ("--drop", "dear", "--drop", "hot")
    assert train(table, *BOTH, *aside, *PLAIN) == 0
    more = ("--init-model", "model.hedgerow", "--model", "more.hedgerow")
    assert train(table, *BOTH, *aside, *PLAIN, *more) == 0
    y = {"price": PRICE, "sales": SALES}
    whole = HedgerowRegressor(n_estimators=12, early_stopping=False).fit(COLUMNS, y)
    assert (load("more.hedgerow").predict(COLUMNS) == whole.predict(COLUMNS)).all()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--target", "price", "--target", "price"), "--target price is given twice"),
        ((*BOTH, "--task", "classification"), "must be a label of 0 and 1"),
        (("--target", "price", "--target", "nobody"), "no column 'nobody'"),
    ],
)
def test_wrong_use_is_an_error(
    table: str, more: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(table, *more) != 0
    assert message in capsys.readouterr().err
