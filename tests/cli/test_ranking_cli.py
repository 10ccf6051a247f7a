"""``hedgerow train --qid``."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow import HedgerowRanker
from hedgerow.cli.main import main

RNG = np.random.default_rng(0)
X, QID = RNG.normal(size=(300, 2)), np.repeat(np.arange(30), 10)
Y = np.clip(np.round(X[:, 0] + 1.0), 0, 3).astype(int)


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{a:.6f},{b:.6f},{y},q{q}" for (a, b), y, q in zip(X, Y, QID, strict=True)]
    path = tmp_path / "lists.csv"
    path.write_text("\n".join(["a,b,grade,query", *lines]) + "\n")
    return path


def test_trains_a_ranking(table, capsys) -> None:
    more = ("--set", "n_estimators=4", "--set", "eval_metric=ndcg@5", "--valid", str(table))
    assert main(["train", str(table), "--target", "grade", "--qid", "query", *more]) == 0
    said = capsys.readouterr().out
    assert "ranking (by --qid): 300 rows, 2 columns" in said
    assert "validation ndcg@5" in said
    loaded = HedgerowRanker.load("model.hedgerow")
    assert loaded.feature_names_in_.tolist() == ["a", "b"]
    rounded = {name: np.round(X[:, k], 6) for k, name in enumerate("ab")}
    assert loaded.score(rounded, Y, qid=QID) > 0.9
    assert main(["predict", "model.hedgerow", str(table), "--out", "scores.csv"]) == 0
    assert main(["inspect", "model.hedgerow"]) == 0
    assert "task           ranking\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--qid", "nobody"), "nobody"),
        (
            ("--qid", "query", "--task", "regression"),
            "--qid trains a ranking model, not a regression",
        ),
    ],
)
def test_wrong_use_is_an_error(table, more, message, capsys) -> None:
    assert main(["train", str(table), "--target", "grade", *more]) != 0
    assert message in capsys.readouterr().err
