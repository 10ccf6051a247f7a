"""Training on several ranks: the bytes of the model of the whole table in memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import train
from hedgerow.boosting.loop import scored
from hedgerow.distributed.partition import Partition
from hedgerow.errors import DataError, LossError
from hedgerow.io import model_from_bytes
from tests.helpers.chunked import Rows, divided_into
from tests.helpers.rank_trainings import cut, rank_of, train_ranks
from tests.helpers.ranks import rank_outcomes

N = 403
CLASSES = {"logistic": 2, "exponential": 2, "softmax": 3}
SMALL = {"n_estimators": 4, "max_leaves": 6, "min_samples_leaf": 8, "max_bins": 15, "n_jobs": 1}


def make(objective: str = "squared_error", n: int = N, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[rng.random((n, 4)) < 0.1] = np.nan
    signal = np.nan_to_num(X[:, 0]) + 0.5 * np.nan_to_num(X[:, 1]) ** 2
    y = signal + 0.3 * rng.normal(size=n)
    if objective in CLASSES:
        y = np.digitize(y, [0.2, 0.9][: CLASSES[objective] - 1]).astype(float)
    return Rows.of_arrays(X, y, rng.integers(0, 4, n) / 3.0)


def partitions(rows: Rows, *borders: int) -> list[Partition]:
    known = {role: rows.table[name] for role, name in rows.roles.items()}
    return cut(borders, rows.table[rows.features], rows.table["y"], **known)


@pytest.mark.parametrize("mode", ["data", "features"])
@pytest.mark.parametrize("name", ["softmax", "absolute_error"])
def test_ranks_have_validation_rows(name: str, mode: Any, tmp_path: Path) -> None:
    params = SMALL | {"objective": name, "subsample": 0.7, "early_stopping": True}
    rows, unseen = make(name), make(name, 120, 1)
    expected = train(params, rows.in_memory(), unseen.in_memory()).to_bytes()
    for borders in ([], [24], [24, 108]):  # ranks without validation rows, and with more
        parts = partitions(rows, 120, 120), tmp_path, partitions(unseen, *borders)
        with divided_into(41):
            assert train_ranks(3, *parts, mode=mode, **params) == expected


def test_a_callback_on_one_rank_ends_the_fit_on_all(tmp_path: Path) -> None:
    found = train_ranks(
        2, partitions(make(), 200), tmp_path,
        callback_of=lambda rank: (lambda state: state.round == 2) if rank else None, **SMALL,
    )  # fmt: skip
    assert model_from_bytes(found)[0].forest.n_rounds == 2


def errors_of_ranks(*arguments: Any, **params: Any) -> list[str]:
    return [str(end.error) for end in rank_outcomes(3, rank_of(3, *arguments, **params))]


def test_all_ranks_tell_of_the_first_wrong_target(tmp_path: Path) -> None:
    rows = make().without("weight")
    rows.table["y"] = 0.0
    rows.table.loc[[310, 390], "y"] = 5.0
    found = errors_of_ranks(partitions(rows, 100, 320), tmp_path, objective="logistic", **SMALL)
    assert ["row 310 holds 5.0" in error for error in found] == [True] * 3, found


# -- what cannot be done, and what goes wrong ----------------------------------


def test_metrics_that_need_all_rows_have_a_limit(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(scored, "MOST_GATHERED", 100)
    params = {"objective": "logistic", "eval_metric": "auc", "train_scores": True}
    found = errors_of_ranks(partitions(make("logistic"), 90, 210), tmp_path, **params, **SMALL)
    message = r"eval_metric .auc. needs .* \d+ rows .*.logloss"
    assert [bool(re.search(message, error)) for error in found] == [True] * 3, found


def test_errors_of_a_metric_name_the_round() -> None:
    def broken(y, prediction, weight):
        raise ValueError("no")

    with pytest.raises(LossError, match="round 1: eval_metric 'broken' raised"):
        train(SMALL | {"eval_metric": broken}, make().in_batches())


def test_validation_in_batches_needs_training_rows_in_batches() -> None:
    rows = Rows(pd.DataFrame({"a": np.arange(9.0), "y": np.arange(9.0)}), ["a"])
    with pytest.raises(DataError, match="read in batches"):
        train(SMALL, rows.in_memory(), rows.in_batches())


def test_offsets_on_one_side_only() -> None:
    table = pd.DataFrame({"a": np.arange(9.0), "y": np.arange(9.0), "o": np.ones(9)})
    bare, known = Rows(table, ["a"]), Rows(table, ["a"], roles={"offset": "o"})
    with pytest.raises(DataError, match="X has no column 'o', which is the offset"):
        train(SMALL, known.in_batches(), bare.in_memory())
    with pytest.raises(DataError, match="training rows have no offset"):
        train(SMALL, bare.in_batches(), known.in_memory())
