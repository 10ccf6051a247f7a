"""The ladder runs on every task, prints its results, and writes a complete page."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.metrics import accuracy_score, log_loss, r2_score, root_mean_squared_error

from hedgerow.cli.main import main
from hedgerow.errors import DataError, ParameterError
from hedgerow.report import climb, ladder_page, ladder_text, rungs_for, split_table
from tests.report.test_report import Page


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return split_table(X, y, "regression", [f"f{j}" for j in range(10)])


def iris():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"], dtype=object)[y]
    return split_table(X, names, "classification", list("abcd"))


@pytest.fixture(scope="module", params=[diabetes, iris], ids=["regression", "three classes"])
def climbed(request):
    split = request.param()
    return split, list(climb(split))


def test_scores_are_those_of_scikit_learn(climbed) -> None:
    split, results = climbed
    for result in results[1:]:
        for X, y, score, loss in (
            (split.X_train, split.y_train, result.train_score, result.train_loss),
            (split.X_test, split.y_test, result.test_score, result.test_loss),
        ):
            model = result.estimator
            if split.task == "regression":
                assert score == pytest.approx(r2_score(y, model.predict(X)))
                assert loss == pytest.approx(root_mean_squared_error(y, model.predict(X)))
            else:
                probability = np.clip(model.predict_proba(X), 1e-15, None)
                assert score == pytest.approx(accuracy_score(y, model.predict(X)))
                shown = log_loss(y, probability / probability.sum(axis=1, keepdims=True))
                assert loss == pytest.approx(shown, abs=1e-6)


def test_rungs_are_what_they_say(climbed) -> None:
    split, results = climbed
    by_name = {result.rung.name: result for result in results}
    assert [result.rung.name for result in results] == [r.name for r in rungs_for(split)]
    assert ("AdaBoost's loss" in by_name) == (split.n_classes == 2)
    assert by_name["base rate"].n_trees == 0
    assert by_name["one tree"].train_score == 1.0
    assert by_name["pruned tree"].n_leaves < by_name["one tree"].n_leaves
    # Boosting beats one tree on rows that it has not seen, or is as good.
    assert by_name["Newton"].test_score >= by_name["one tree"].test_score - 0.04
    parameters = by_name["leaf-wise"].estimator.booster_.model.training["parameters"]
    assert (parameters["grow_policy"], parameters["tree_method"]) == ("leafwise", "hist")


def test_table_has_a_line_for_each_rung(climbed) -> None:
    split, results = climbed
    lines = ladder_text(results, split.task).splitlines()
    assert len(lines) == 2 + len(results)
    assert len({len(line) for line in lines[2:]}) == 1
    assert lines[2].startswith("base rate")


def test_page_is_whole_and_fetches_nothing(climbed) -> None:
    split, results = climbed
    text = ladder_page(results, split, "a <b> & c")
    page = Page(text)
    assert all(link.startswith("#") for link in page.links)
    assert page.headings[0] == "The ladder on a <b> & c"
    assert text.count("<svg") == 4  # scores, curves, two trees
    (table,) = page.tables
    for result, row in zip(results, table[1:], strict=True):
        assert f"{result.test_loss:.3f}" in " ".join(row)


def test_trees_of_the_page_keep_the_kinds_of_their_columns(monkeypatch) -> None:
    """Thresholds of 64-bit integers are integers, and names are those of the split columns."""
    pytest.importorskip("matplotlib")
    from hedgerow.report import ladder

    shown = []
    real = ladder.plot_tree

    def spy(tree, *, schema):
        shown.append(schema)
        return real(tree, schema=schema)

    monkeypatch.setattr(ladder, "plot_tree", spy)
    keys = np.array([[2**60 + i] for i in range(100)], dtype=object)
    split = split_table(keys, np.arange(100.0), "regression", ["key"])
    results = list(climb(split, [r for r in rungs_for(split) if r.name == "leaf-wise"]))
    ladder_page(results, split, "keys")
    assert [(schema.names, schema.kinds) for schema in shown] == [(("key",), ("int",))]


def test_split_is_disjoint_and_follows_the_seed() -> None:
    X = np.arange(100.0)[:, None]
    a = split_table(X, X[:, 0] % 2, "classification", ["x"])
    b = split_table(X, X[:, 0] % 2, "classification", ["x"], seed=1)
    rows = np.concatenate([a.X_train[:, 0], a.X_test[:, 0]])
    assert sorted(rows) == list(range(100))
    assert len(a.X_test) == 20
    assert set(a.X_test[:, 0]) != set(b.X_test[:, 0])


def test_wrong_splits_are_named() -> None:
    X = np.arange(10.0)[:, None]
    with pytest.raises(ParameterError, match=r"test_share must be between 0 and 1; got 1\.5"):
        split_table(X, X[:, 0], "regression", ["x"], 1.5)
    with pytest.raises(DataError, match="two classes"):
        split_table(X, np.zeros(10), "classification", ["x"])
    with pytest.raises(ParameterError, match="task must be"):
        split_table(X, X[:, 0], "ranking", ["x"])


@pytest.mark.usefixtures("without_drawing")
def test_command_climbs_a_file_and_writes_the_page(tmp_path, capsys) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)).round(2)
    label = np.where(X[:, 0] + 0.3 * rng.normal(size=120) > 0, "yes", "no")
    data, page = tmp_path / "people.csv", tmp_path / "ladder.html"
    rows = [",".join([*map(str, x), y]) for x, y in zip(X, label, strict=True)]
    data.write_text("a,b,c,bought\n" + "\n".join(rows) + "\n")
    code = main(["ladder", str(data), "--target", "bought", "--report", str(page)])
    out = capsys.readouterr().out
    assert code == 0
    assert "people.csv: classification, 96 rows to train on, 24 to test, 3 columns." in out
    assert "AdaBoost's loss" in out
    assert "people.csv" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data.csv"], "give both DATA and --target"),
        (["--report", "page.pdf"], "the page must be a .html file"),
        (["--report", "nowhere/page.html"], "does not exist"),
        (["--test", "0"], "test_share must be between 0 and 1"),
        (["missing.csv", "--target", "y"], "there is no such file or folder"),
    ],
)
def test_wrong_commands_say_what_to_do(arguments, words, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["ladder", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.fast(1)
@pytest.mark.usefixtures("without_drawing")
@pytest.mark.parametrize("name", ["a rare class", "ten rows", "sorted by label"])
def test_awkward_tables_are_climbed_to_the_end(name, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)).round(3)
    y = {
        "sorted by label": np.where(np.arange(400) < 200, "a", "b"),
        "ten rows": X[:10, 0],
        "a rare class": np.array(["x"] * 58 + ["rare"] * 2),
    }[name]
    lines = [f"{p},{q},{label}" for (p, q), label in zip(X, y, strict=False)]
    (tmp_path / "data.csv").write_text("p,q,y\n" + "\n".join(lines) + "\n")
    arguments = ["ladder", "data.csv", "--target", "y", "--seed", "2", "--report", "page.html"]
    assert main(arguments) == 0, capsys.readouterr().err
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
