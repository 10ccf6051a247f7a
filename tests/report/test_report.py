"""The report page of a model: its contents, and no external resources."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, mean_absolute_error, ndcg_score, r2_score, roc_auc_score

from hedgerow import (
    DataError,
    HedgerowClassifier,
    HedgerowRanker,
    HedgerowRegressor,
    ParameterError,
)
from hedgerow.cli.main import main
from hedgerow.data.reading.frames import make_frame
from hedgerow.report import find, model_page
from hedgerow.report.findings import shifts_of
from hedgerow.report.predictions import survivors

PLAIN: dict[str, Any] = {"n_estimators": 30, "early_stopping": False, "min_samples_leaf": 5}
LONG = "a very long column name <script>alert(1)</script> with $ signs $"


def table(n_rows: int = 600, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "age": rng.integers(18, 80, n_rows).astype(float), LONG: rng.normal(size=n_rows),
        "city": rng.choice(["Oslo", "Rome", "Ulm"], n_rows), "noise": rng.normal(size=n_rows),
    })  # fmt: skip
    frame.loc[rng.random(n_rows) < 0.1, "noise"] = np.nan
    y = frame["age"] / 20 + frame[LONG] + frame["city"].eq("Rome") + rng.normal(size=n_rows)
    return frame, y.to_numpy()


def columns(frame: pd.DataFrame) -> dict[str, Any]:
    return {name: frame[name].to_numpy() for name in frame}


def classifier(**more: Any) -> Any:
    frame, y = table()
    return HedgerowClassifier(**PLAIN, **more).fit(frame, np.where(y > 3, "yes", "no"))


class Page(HTMLParser):
    """Headings, tables, figures, and elements that could load resources."""

    void = frozenset({"meta", "br", "img", "hr", "link", "path", "use", "rect"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.captions: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.open: list[str] = []
        self.links: list[str] = []
        self.styles = ""
        self.warnings: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag not in ("script", "link", "iframe", "object", "embed")
        for name, value in attrs:
            assert not name.startswith("on"), name
            if name in ("src", "href", "xlink:href"):
                self.links.append(value)
        if tag not in ("meta", "br", "hr"):
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag in ("h1", "h2"):
            self.headings.append("")
        if tag == "figcaption":
            self.captions.append("")
        if tag == "li":
            self.warnings.append("")

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in ("meta", "br", "hr"):
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside in ("td", "th"):
            self.tables[-1][-1][-1] += data
        elif inside in ("h1", "h2"):
            self.headings[-1] += data
        elif inside == "figcaption":
            self.captions[-1] += data
        elif inside == "li":
            self.warnings[-1] += data
        elif inside == "style":
            self.styles += data


def test_page_of_a_classifier() -> None:
    model = classifier()
    frame, y = table(seed=1)
    labels = np.where(y > 3, "yes", "no")
    found = find(model.booster_, columns(frame), labels)
    text = model_page(found, "credit <b>", rows_name="test.csv")
    page = Page(text)
    assert page.headings == [
        "credit <b>", "Scores", "Calibration and confusion", "Importances",
        "Effects of the strongest columns", "The most surprising rows",
        "Drift between training and test", "The model and its parameters", "The data",
    ]  # fmt: skip
    assert "<script" not in text
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert not re.search(r"url\((?!#)", text)
    assert "@import" not in text
    assert "width=device-width" in text
    assert "@media print" in page.styles
    assert "@media (max-width" in page.styles
    last = found.permutation.top(9).names[-1][:10]
    assert any(caption.startswith(last) for caption in page.captions)
    assert page.captions[-1].startswith("Row ")
    assert text == model_page(found, "credit <b>", rows_name="test.csv")
    probability = model.predict_proba(frame)[:, 1]
    scores = {score.name: score for score in found.scores}
    assert scores["auc"].value == pytest.approx(roc_auc_score(labels, probability))
    assert scores["logloss"].value == pytest.approx(log_loss(labels == "yes", probability))
    base = np.full(len(labels), (labels == "yes").mean())
    assert scores["logloss"].constant == pytest.approx(log_loss(labels == "yes", base))
    for score in found.scores:
        assert score.low < score.value < score.high
    shown = page.tables[0]
    assert [row[0] for row in shown[1:]] == ["auc ↑", "logloss ↓", "accuracy ↑"]


def test_intervals_hold_the_score_of_many_rows() -> None:
    model = classifier()
    frame, y = table(20_000, seed=5)
    truth = roc_auc_score(y > 3, model.predict_proba(frame)[:, 1])
    inside = 0
    for seed in range(10):
        some, own = table(300, seed=100 + seed)
        found = find(model.booster_, columns(some), np.where(own > 3, "yes", "no"))
        inside += found.scores[0].low <= truth <= found.scores[0].high
    assert inside >= 8


@pytest.mark.fast(1)
@pytest.mark.usefixtures("without_drawing")
@pytest.mark.parametrize("labels", [["yes"], ["yes", "yes", "no", "no"]])
def test_few_rows_have_the_scores_that_there_are(labels: list[str]) -> None:
    # Of one class there is no AUC; of four rows many resamples have one class.
    found = find(classifier().booster_, columns(table(len(labels))[0]), np.array(labels))
    names = [score.name for score in found.scores]
    assert names == ["auc", "logloss", "accuracy"][len(set(labels)) < 2 :]
    assert all(np.isfinite([score.value, score.low, score.high]).all() for score in found.scores)
    assert f"Few rows: {len(labels)}." in " ".join(found.warnings)
    assert "<h2>Scores</h2>" in model_page(found, "few")


@pytest.mark.slow
def test_page_of_a_regression_with_lines_and_weights() -> None:
    frame, y = table()
    model = HedgerowRegressor(**PLAIN, linear_leaves=True).fit(frame, y)
    test, target = table(300, seed=2)
    weight = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    found = find(model.booster_, columns(test), target, sample_weight=weight)
    scores = {score.name: score.value for score in found.scores}
    predicted = model.predict(test)
    assert scores["r2"] == pytest.approx(r2_score(target, predicted, sample_weight=weight))
    assert scores["mae"] == pytest.approx(
        mean_absolute_error(target, predicted, sample_weight=weight)
    )
    page = Page(model_page(found, "prices"))
    assert "Predictions" in page.headings
    worst = np.argsort(-((predicted - target) ** 2), kind="stable")[:4]
    assert [surprise.row for surprise in found.surprises] == worst.tolist()
    table_of_rows = next(t for t in page.tables if t[0][:3] == ["row", "true", "predicted"])
    assert [row[0] for row in table_of_rows[1:]] == [str(row) for row in worst]


@pytest.mark.fast(2)
@pytest.mark.usefixtures("without_drawing")
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "array"])
def test_every_kind_of_table_has_the_findings_of_its_columns(kind: str) -> None:
    frame, y = table()
    test, target = table(250, seed=5)
    own: Any = test
    if kind == "array":
        numbers = [name for name in frame if frame[name].dtype.kind in "if"]
        frame, test = frame[numbers], test[numbers]
        own = test.to_numpy()
        frame = frame.to_numpy()
    elif kind != "pandas":
        own = make_frame({name: column.tolist() for name, column in test.items()}, kind)
    booster = HedgerowRegressor(**PLAIN).fit(frame, y).booster_
    by_name = {name: test.iloc[:, j].to_numpy() for j, name in enumerate(booster.feature_names)}
    expected, found = find(booster, by_name, target), find(booster, own, target)
    assert found.scores == expected.scores
    assert found.shifts == expected.shifts
    assert found.surprises == expected.surprises
    assert Page(model_page(found, "m")).headings == Page(model_page(expected, "m")).headings


def test_a_table_of_another_width_is_named() -> None:
    booster = (
        HedgerowRegressor(**PLAIN).fit(np.arange(60.0).reshape(30, 2), np.arange(30.0)).booster_
    )
    for wrong in (np.zeros((30, 3)), np.zeros(30), None):
        with pytest.raises(DataError, match="an array of 2 columns"):
            find(booster, wrong, np.arange(30.0))


@pytest.mark.usefixtures("without_drawing")
def test_warns_of_a_leak_unseen_categories_and_drift() -> None:
    frame, y = table()
    frame["leak"] = y + 0.001
    model = HedgerowRegressor(**PLAIN, linear_leaves=False).fit(frame, y)
    test, target = table(400, seed=3)
    test["leak"] = target + 0.001
    test["age"] += 15
    test.loc[:30, "city"] = "Atlantis"
    found = find(model.booster_, columns(test), target)
    text = " | ".join(found.warnings)
    assert "Leakage? Column 'leak' alone has" in text
    assert "31 of 400 rows (7.8%) hold a value of column 'city'" in text
    quiet, own = table(400, seed=4)
    quiet["leak"] = own + 0.001
    calm = find(model.booster_, columns(quiet), own).warnings
    assert [warning.split()[0] for warning in calm] == ["Leakage?"]
    assert Page(model_page(found, "m")).warnings == list(found.warnings)


def test_shift_is_measured_without_training_rows() -> None:
    frame, y = table(2000)
    booster = HedgerowRegressor(**PLAIN, linear_leaves=False).fit(frame, y).booster_
    same, _ = table(2000, seed=9)
    other = same.assign(age=same["age"] + 20, city="Rome")
    calm, moved = shifts_of(booster, columns(same)), shifts_of(booster, columns(other))
    assert max(calm.values()) < 0.1
    assert moved["age"] > 0.5
    assert moved["city"] > 0.5
    assert list(moved.values()) == sorted(moved.values(), reverse=True)


def test_says_what_is_doubtful() -> None:
    rng = np.random.default_rng(0)
    X = {"a": rng.normal(size=300), "b": rng.normal(size=300)}
    labels = rng.choice(["x", "y"], 300)
    model = HedgerowClassifier(**PLAIN).fit(X, labels)
    test = {"a": rng.normal(size=100), "b": rng.normal(size=100)}
    found = find(model.booster_, test, rng.choice(["x", "y"], 100))
    text = " | ".join(found.warnings)
    assert "Few rows: 100" in text
    assert "No better than a constant" in text
    more = {"a": rng.normal(size=1000), "b": rng.normal(size=1000)}
    found = find(model.booster_, more, rng.choice(["x", "y"], 1000))
    assert any(text.startswith("Probabilities of class 'y'") for text in found.warnings)


@pytest.mark.fast(1)
@pytest.mark.parametrize("n_classes", [3, 12])
def test_page_of_several_classes(n_classes: int) -> None:
    frame, y = table()
    cuts = np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1])
    model = HedgerowClassifier(**{**PLAIN, "n_estimators": 5}).fit(frame, np.digitize(y, cuts))
    found = find(model.booster_, columns(frame), np.digitize(y, cuts))
    page = Page(model_page(found, "several"))
    assert "Calibration and confusion" in page.headings
    assert len(page.captions) >= 4


@pytest.mark.parametrize("objective", ["logistic", "exponential", "focal", "softmax", "one_vs_all"])
def test_scores_are_those_of_probabilities_without_class_weights(objective: str) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2))
    signal = X[:, 0] + rng.normal(size=400)
    y = np.digitize(signal, [0.5, 1.5] if objective in ("softmax", "one_vs_all") else [1.0])
    settings = {"n_estimators": 10, "early_stopping": False, "class_weight": "balanced"}
    model = HedgerowClassifier(objective=objective, **settings).fit(X, y)
    found = find(model.booster_, {"x0": X[:, 0], "x1": X[:, 1]}, y)
    (score,) = (score for score in found.scores if score.name == "logloss")
    assert score.value == pytest.approx(log_loss(y, model.predict_proba(X)))
    assert score.value == pytest.approx(log_loss(y, found.probability))
    assert score.low < score.value < score.high
    shares = np.tile(np.bincount(y) / len(y), (len(y), 1))
    if objective != "focal":  # whose best constant is not the share
        assert score.constant == pytest.approx(log_loss(y, shares), abs=0.02)


@pytest.mark.usefixtures("without_drawing")
def test_model_without_splits() -> None:
    X = {"a": np.zeros(50), "b": np.zeros(50)}
    model = HedgerowRegressor(**PLAIN).fit(X, np.arange(50.0))
    page = Page(model_page(find(model.booster_, X, np.arange(50.0)), "empty"))
    assert "Importances" not in page.headings
    assert "Effects of the strongest columns" not in page.headings


@pytest.mark.fast(1)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_surprising_rows_are_explained(n_classes: int) -> None:
    frame, y = table()
    labels = np.digitize(y, [3.0, 4.0][: n_classes - 1])
    model = HedgerowClassifier(**{**PLAIN, "n_estimators": 5}).fit(frame, labels)
    found = find(model.booster_, columns(frame), labels)
    page = Page(model_page(found, "explained"))
    assert any(caption.startswith("Mean absolute SHAP") for caption in page.captions)
    beeswarms = [caption for caption in page.captions if caption.startswith("SHAP values of")]
    assert len(beeswarms) == (1 if n_classes == 2 else 0)
    rows = [caption for caption in page.captions if caption.startswith("Row ")]
    assert len(rows) == 4
    assert rows[0].startswith(f"Row {found.surprises[0].row}: true ")


def page_of(model: Any, y: Any, **more: Any) -> tuple[Any, Page]:
    """Train on some rows and test on others; return the findings and the page."""
    frame, _ = table()
    if "qid" in more:
        model.fit(frame, y, qid=more["qid"])
    else:
        model.fit(frame, y)
    found = find(model.booster_, columns(frame), y, **more)
    return found, Page(model_page(found, "model", rows_name="rows"))


@pytest.mark.slow
def test_page_of_several_targets() -> None:
    _, y = table()
    found, page = page_of(HedgerowRegressor(**PLAIN), np.column_stack((y, -(y**2))))
    assert [score.name for score in found.scores] == ["r2", "rmse", "mae"]
    drawn = [caption for caption in page.captions if caption.startswith("Target y")]
    assert [caption[:9] for caption in drawn] == ["Target y0", "Target y1"]
    assert any("for output y0" in caption for caption in page.captions)
    row = page.tables[1][1]
    assert row[1].count(", ") == row[2].count(", ") == 1
    with pytest.raises(DataError, match=r"y has 1 column.*predicts 2"):
        find(found.booster, columns(table()[0]), y)


@pytest.mark.slow
def test_page_of_labels() -> None:
    _, y = table()
    both = np.column_stack((y > 3, y > 5)).astype(int)
    found, page = page_of(HedgerowClassifier(**PLAIN), both)
    assert found.probability.shape == (600, 2)
    assert page.headings[2] == "Calibration"
    assert sum(caption.startswith("Label y") for caption in page.captions) == 2


@pytest.mark.slow
def test_page_of_quantiles() -> None:
    _, y = table()
    model = HedgerowRegressor(**PLAIN, objective="quantile", quantile=[0.1, 0.9])
    found, page = page_of(model, y)
    below = (y[:, None] <= found.predicted).mean(axis=0)
    assert [row[:2] for row in page.tables[1][1:]] == [
        ["0.1", f"{below[0]:.1%}"], ["0.9", f"{below[1]:.1%}"],
    ]  # fmt: skip


@pytest.mark.slow
def test_page_of_a_distribution() -> None:
    _, y = table()
    found, page = page_of(HedgerowRegressor(**PLAIN, objective="normal"), y)
    ends = found.booster.predict_interval(found.X, 0.8)
    inside = ((ends[:, 0] <= y) & (y <= ends[:, 1])).mean()
    assert page.tables[1][2][:2] == ["80%", f"{inside:.1%}"]


@pytest.mark.fast(1)
@pytest.mark.parametrize("objective", ["cox", "aft"])
def test_page_of_times(objective: str) -> None:
    _, y = table()
    times = np.exp(y / 3) * np.where(np.arange(600) % 3 == 0, -1, 1)
    found, page = page_of(HedgerowRegressor(**PLAIN, objective=objective), times)
    assert found.scores[0].name == "concordance"
    assert found.scores[0].low < found.scores[0].value < found.scores[0].high
    assert "Predicted risk and events" in page.headings
    assert ("The most surprising rows" in page.headings) == (objective == "aft")


def test_survivors_by_hand() -> None:
    at, share = survivors(np.array([3.0, 1.0, 2.0, 2.0]), np.array([True, True, True, False]))
    np.testing.assert_array_equal(at, [0.0, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(share, [1.0, 3 / 4, 3 / 4 * 2 / 3, 0.0])


def test_page_of_a_ranking() -> None:
    _, y = table()
    query = np.repeat(np.arange(30), 20)
    grades = np.digitize(y, np.quantile(y, [0.5, 0.9]))
    found, page = page_of(HedgerowRanker(**PLAIN), grades, qid=query)
    assert [score.name for score in found.scores] == ["ndcg", "map", "loss"]
    expected = np.mean([
        ndcg_score(2.0 ** grades[None, k : k + 20] - 1, found.predicted[None, k : k + 20])
        for k in range(0, 600, 20)
    ])  # fmt: skip
    assert found.scores[0].value == pytest.approx(expected, abs=1e-9)
    assert "Order of the rows" in page.headings
    with pytest.raises(ParameterError, match="needs qid"):
        find(found.booster, columns(table()[0]), grades)


def test_queries_are_for_rankings() -> None:
    frame, y = table()
    model = HedgerowRegressor(**PLAIN).fit(frame, y)
    with pytest.raises(ParameterError, match="qid is for rankings"):
        find(model.booster_, columns(frame), y, qid=np.zeros(600))


@pytest.mark.usefixtures("without_drawing")
def test_command_for_a_ranking(tmp_path: Path) -> None:
    frame, y = table()
    query, grades = np.repeat(np.arange(30), 20), np.digitize(y, np.quantile(y, [0.5, 0.9]))
    HedgerowRanker(**PLAIN).fit(frame, grades, qid=query).save(tmp_path / "model.hedgerow")
    frame.assign(grade=grades, query=query).to_csv(tmp_path / "test.csv", index=False)
    out = str(tmp_path / "r.html")
    assert report(tmp_path, str(tmp_path / "test.csv"), "--qid", "query", "-o", out) == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frame, y = table()
    model = HedgerowClassifier(**PLAIN).fit(frame, np.where(y > 3, "yes", "no"))
    model.save(tmp_path / "model.hedgerow")
    test, own = table(250, seed=1)
    test["bought"] = np.where(own > 3, "yes", "no")
    test.to_csv(tmp_path / "test.csv", index=False)
    test.assign(extra=1).to_csv(tmp_path / "more.csv", index=False)
    test.drop(columns="bought").to_csv(tmp_path / "blind.csv", index=False)
    return tmp_path


def report(folder: Path, *more: str) -> int:
    return main(["report", str(folder / "model.hedgerow"), *more])


@pytest.mark.usefixtures("without_drawing")
def test_command_finds_the_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(folder / "report.html")
    assert report(folder, str(folder / "test.csv"), "-o", out) == 0
    page = Page(Path(out).read_text(encoding="utf-8"))
    assert page.headings[0] == "model.hedgerow"
    printed = capsys.readouterr().out
    assert printed.startswith("auc: ")
    assert f"report written to {out}" in printed
    assert report(folder, str(folder / "more.csv"), "--target", "bought", "-o", out) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["more.csv", "-o", "r.html"], "does not know: 'bought', 'extra'"),
        (["blind.csv", "-o", "r.html"], "does not know: none"),
        (["test.csv", "--target", "sold", "-o", "r.html"], "no column 'sold'"),
        (["test.csv", "-o", "r.pdf"], "must be a .html file"),
        (["nowhere.csv", "-o", "r.html"], "there is no such file or folder"),
        (["test.csv", "-o", "no/where/r.html"], "no/where"),
        (["test.csv", "--target", "city", "-o", "r.html"], "labels that the model lacks"),
    ],
)
def test_wrong_commands(
    folder: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(folder)
    assert report(folder, *arguments) == 2
    assert words in capsys.readouterr().err


@pytest.mark.usefixtures("without_drawing")
def test_classes_of_numbers(tmp_path: Path) -> None:
    frame, y = table()
    model = HedgerowClassifier(**PLAIN).fit(frame, (y > 3).astype(int))
    model.save(tmp_path / "model.hedgerow")
    frame.assign(target=(y > 3).astype(int)).to_csv(tmp_path / "test.csv", index=False)
    out = str(tmp_path / "r.html")
    assert report(tmp_path, str(tmp_path / "test.csv"), "-o", out) == 0


def test_the_data_of_dates_are_dates() -> None:
    rng = np.random.default_rng(0)
    day = np.datetime64("2024-01-01", "us") + rng.integers(0, 400, 300) * np.timedelta64(1, "D")
    zoned = pd.Series(pd.DatetimeIndex(day).tz_localize("Asia/Tokyo"))
    X = pd.DataFrame(
        {"day": day, "zoned": zoned, "wait": day - day.min(), "x": rng.normal(size=300)}
    )
    X.loc[::10, "day"] = pd.NaT
    model = HedgerowRegressor(n_estimators=3).fit(X, X["x"])
    page = model_page(find(model.booster_, X, X["x"]), "dates")
    data = re.sub(r"<[^>]+>", " ", page[page.index("<h2>The data") :])
    for column in (r"day +dates +10\.0% ", r"zoned +zoned dates +0\.0% "):
        assert re.search(column + r" 202\d-[0-9T:Z-]+ … 202\d-[0-9T:Z-]+ … 2025-", data), data
    assert re.search(r"wait +durations +0\.0% +0:00:00 … ", data), data
