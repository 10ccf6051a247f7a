"""Losses that compare rows train on chunks, files and ranks to the bytes of a table in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import Dataset, train
from hedgerow.boosting.external.dataset import resident
from hedgerow.boosting.loop.setup.loss_spec import needs_all_rows
from hedgerow.errors import DataError, LossError, ParameterError
from hedgerow.objectives import RowLoss, make_objective, objective_for
from tests.helpers.chunked import TableData

N = 400
RNG = np.random.default_rng(5)
FEATURES = RNG.normal(size=(N, 3))
FEATURES[::9, 1] = np.nan
TABLE = pd.DataFrame(FEATURES, columns=["a", "b", "c"]).assign(
    town=RNG.choice(list("uvwxyz"), N), floor=RNG.integers(-3, 2**60, N)
)
SCORE = FEATURES[:, 0] - (TABLE.town == "u") + RNG.normal(size=N) / 3
TIME = np.exp(-SCORE) * np.where(RNG.random(N) < 0.3, -1.0, 1.0)  # negative: censored
LABEL = np.clip(np.round(SCORE + 1.0), 0, 3)
QUERY = RNG.integers(0, 40, N)
WEIGHT = RNG.integers(0, 4, N) / 2.0
SMALL = {"n_estimators": 5, "min_samples_leaf": 8, "n_jobs": 2}


def squared(y: np.ndarray, raw: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss relative to the mean error of all rows, which needs all rows."""
    difference = raw - y
    return weight * (difference - difference.mean() / 2.0), weight * np.ones(len(y))


def squared_loss(y: np.ndarray, raw: np.ndarray) -> np.ndarray:
    return (raw - y) ** 2


squared.loss = squared_loss  # type: ignore[attr-defined]


def softmax(y: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    p = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    return p - np.eye(raw.shape[1])[y.astype(int)], p * (1.0 - p)


softmax.n_classes = 4  # type: ignore[attr-defined]


class Quartic(RowLoss):
    def losses(self, target, raw):
        return (raw[0] - target) ** 4

    def slopes(self, target, raw):
        return 4.0 * (raw - target) ** 3, 12.0 * (raw - target) ** 2


class WithLoss(Quartic):
    """An objective whose loss is rounded differently from an exact mean."""

    def loss(self, target, raw, weight):
        return float(np.average(self.losses(target, raw), weights=weight))


class WithStart(Quartic):
    def initial_score(self, target, weight):
        return np.array([float(np.max(target))])


class Coupled(RowLoss):
    """An objective with two raw scores that are pulled towards each other."""

    coupled = True
    n_outputs = 2

    def losses(self, target, raw):
        return (raw[0] - target) ** 2 + (raw[1] - target) ** 2

    def derivatives(self, rows, output, g, h):
        g[:] = rows.raw[output] - rows.target + 0.1 * (rows.raw[output] - rows.raw[1 - output])
        h[:] = 1.1

    def initial_score(self, target, weight):
        return np.zeros(2)


LOSSES: dict[str, tuple[dict[str, Any], np.ndarray]] = {
    "cox": ({"objective": "cox"}, TIME),
    "cox, sampled": ({"objective": "cox", "subsample": 0.6, "sampling": "mvs"}, TIME),
    "cox, GOSS": ({"objective": "cox", "sampling": "goss"}, TIME),
    "cox, DART": ({"objective": "cox", "boosting": "dart"}, TIME),
    "cox, forest": ({"objective": "cox", "boosting": "rf", "subsample": 0.6}, TIME),
    "cox, out of bag": ({"objective": "cox", "subsample": 0.6, "oob_score": True}, TIME),
    "cox, cut off": (
        {"objective": "cox", "reg_lambda": 0.0, "min_child_weight": 0.0, "learning_rate": 1.0},
        np.abs(TIME) ** 9.0,
    ),
    "cox, symmetric": ({"objective": "cox", "grow_policy": "symmetric"}, TIME),
    "own gradient": ({"objective": squared}, SCORE),
    "own gradient of classes": ({"objective": softmax, "eval_metric": "logloss"}, LABEL),
    "own loss": ({"objective": WithLoss()}, SCORE),
    "own start": ({"objective": WithStart()}, SCORE),
    "own, coupled": ({"objective": Coupled()}, SCORE),
}
RANKINGS: dict[str, dict[str, Any]] = {
    "lambdarank": {"objective": "lambdarank"},
    "lambdarank, GOSS": {"objective": "lambdarank", "sampling": "goss"},
    "rank_xendcg": {"objective": "rank_xendcg"},
    "rank_pairwise": {"objective": "rank_pairwise", "subsample": 0.7},
    "symmetric": {"objective": "lambdarank", "grow_policy": "symmetric"},
}


def sized(params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters in which the depth limits a symmetric tree, not the leaves."""
    small = {"max_depth": 3} if params.get("grow_policy") == "symmetric" else {"max_leaves": 6}
    return SMALL | small | params


def known_of(rows: slice = slice(None), **more: Any) -> dict[str, Any]:
    return {name: value[rows] for name, value in more.items() if value is not None}


def model(params: dict[str, Any], rows: Any, valid: Any = None, **more: Any) -> bytes:
    return train(sized(params), rows, valid, **more).to_bytes()


@pytest.mark.parametrize("size", [37, N])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weights"])
@pytest.mark.parametrize("name", LOSSES)
def test_chunks_give_the_bytes_of_memory(name: str, weight: Any, size: int) -> None:
    params, target = LOSSES[name]
    rows = Dataset(TABLE, target, weight=weight)
    assert model(params, TableData(rows, size)) == model(params, rows)


@pytest.mark.parametrize("size", [53, N])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weights"])
@pytest.mark.parametrize("name", RANKINGS)
def test_rankings_in_chunks_give_the_bytes_of_memory(name: str, weight: Any, size: int) -> None:
    rows = Dataset(TABLE, LABEL, weight=weight, qid=QUERY)
    params = RANKINGS[name]
    assert model(params, TableData(rows, size)) == model(params, rows)


@pytest.mark.parametrize("early_stopping", [True, "auto"])
@pytest.mark.parametrize("name", ["cox", "own gradient", "own loss", "lambdarank"])
def test_early_stopping(name: str, early_stopping: Any) -> None:
    ranks = name in RANKINGS
    params, target = (RANKINGS[name], LABEL) if ranks else LOSSES[name]
    params = {**params, "early_stopping": early_stopping, "patience": 2, "n_estimators": 12}
    qid = QUERY if ranks else None
    rows = Dataset(TABLE, target, qid=qid)
    assert model(params, TableData(rows, 60)) == model(params, rows)
    parts = [
        Dataset(TABLE[some], target[some], **known_of(some, qid=qid))
        for some in (slice(0, 260), slice(260, None))
    ]
    found = model(params, *(TableData(part, 60) for part in parts))
    assert found == model(params, *parts) == model(params, TableData(parts[0], 60), parts[1])


@pytest.mark.parametrize("name", ["cox", "own gradient"])
def test_offsets(name: str) -> None:
    params, target = LOSSES[name]
    rows = Dataset(TABLE, target, offset=FEATURES[:, 0] / 2)
    assert model(params, TableData(rows, 60)) == model(params, rows)


@pytest.mark.parametrize("name", ["cox", "own gradient"])
def test_learning_curves_of_the_training_rows(name: str) -> None:
    params, target = LOSSES[name]
    rows, params = Dataset(TABLE, target), {**params, "train_scores": True}
    found, expected = (train(sized(params), each) for each in (TableData(rows, 60), rows))
    assert len(found.model.training["history"]["train"]["loss"]) == 5
    assert found.to_bytes() == expected.to_bytes()


# -- files ------------------------------------------------------------------------------


def batches_of(target: np.ndarray, size: int, **more: np.ndarray) -> Dataset:
    def batches() -> Iterator[pd.DataFrame]:
        for start in range(0, N, size):
            some = slice(start, start + size)
            yield TABLE[some].assign(y=target[some], **known_of(some, **more))

    return Dataset.from_batches(batches, target="y", **{name: name for name in more})


@pytest.mark.parametrize("stops", [False, True])
def test_rankings_of_batches(stops: bool) -> None:
    params = {"objective": "lambdarank", "early_stopping": stops, "patience": 2}
    names = np.array([f"query {number}" for number in QUERY])
    found = model(params, batches_of(LABEL, 70, qid=names))
    assert found == model(params, Dataset(TABLE, LABEL, qid=QUERY))


def test_weights_of_zero_leave_queries_out() -> None:
    params = {"objective": "lambdarank", "early_stopping": True}
    weight = np.where(QUERY < 12, 0.0, WEIGHT)
    found = model(params, batches_of(LABEL, 70, qid=QUERY, weight=weight))
    assert found == model(params, Dataset(TABLE, LABEL, qid=QUERY, weight=weight))


@pytest.mark.parametrize("name", ["cox", "lambdarank"])
def test_rows_that_do_not_fit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bins of all rows exceed the memory limit; their scores do not."""
    monkeypatch.setattr(resident, "in_memory", None)
    n_rows = 300_000
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 8)).astype(np.float32)
    y = np.exp(X[:, 0]).astype(np.float64) if name == "cox" else np.clip(X[:, 0].round(), 0, 3)
    qid = None if name == "cox" else np.arange(n_rows) // 20
    columns = [f"x{j}" for j in range(8)]

    def batches() -> Iterator[pd.DataFrame]:
        for start in range(0, n_rows, 40_000):
            some = slice(start, start + 40_000)
            part = pd.DataFrame(X[some], columns=columns).assign(y=y[some])
            yield part if qid is None else part.assign(qid=qid[some])

    roles = {} if qid is None else {"qid": "qid"}
    files = Dataset.from_batches(batches, target="y", memory_limit="50 MB", **roles)
    params = {"objective": name, "n_estimators": 2}
    found = model(params, files)
    table = pd.DataFrame(X, columns=columns)
    assert found == model(params, Dataset(table, y, **({} if qid is None else {"qid": qid})))


def test_a_checkpoint_continues_with_the_same_queries(tmp_path: Path) -> None:
    params = {"objective": "lambdarank", "n_estimators": 6}
    rows = batches_of(LABEL, 70, qid=QUERY)
    whole = model(params, batches_of(LABEL, 70, qid=QUERY))
    model({**params, "n_estimators": 3}, rows, checkpoint=tmp_path, checkpoint_every=0.0)
    assert model(params, rows, checkpoint=tmp_path) == whole
    with pytest.raises(ParameterError, match="qid has changed"):
        model(params, batches_of(LABEL, 70, qid=QUERY // 2), checkpoint=tmp_path)


# -- what cannot be done -----------------------------------------------------------------


def test_queries_are_for_rankings_and_rankings_need_them() -> None:
    rows = Dataset(TABLE, LABEL, qid=QUERY)
    with pytest.raises(ParameterError, match="qid has no effect with objective 'squared_error'"):
        model({}, TableData(rows, 60))
    with pytest.raises(DataError, match="'lambdarank' ranks the rows of each query, but qid"):
        model({"objective": "lambdarank"}, TableData(Dataset(TABLE, LABEL), 60))
    with pytest.raises(DataError, match="qid of the validation rows is missing"):
        model({"objective": "lambdarank"}, TableData(rows, 60), Dataset(TABLE, LABEL))


def test_a_loss_without_curvature_is_refused_as_in_memory() -> None:
    def flat(y: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return raw - y, np.zeros(len(y))

    for rows in (Dataset(TABLE, SCORE), TableData(Dataset(TABLE, SCORE), 60)):
        with pytest.raises(LossError, match="no positive second"):
            model({"objective": flat}, rows)


# -- parts -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_which_losses_need_all_rows(name: str) -> None:
    params, target = LOSSES[name]
    given = params["objective"]
    n_classes = getattr(given, "n_classes", 1)
    named = isinstance(given, str)
    loss = make_objective(given) if named else objective_for(given, np.asarray(target), n_classes)
    assert needs_all_rows(loss)


@pytest.mark.parametrize("name", ["squared_error", "poisson", "lambdarank"])
def test_which_losses_do_not(name: str) -> None:
    assert not needs_all_rows(make_objective(name))
    assert not needs_all_rows(objective_for(Quartic(), SCORE))


@pytest.mark.parametrize("size", [30, N])
def test_chunks_without_an_event(size: int) -> None:
    order = np.argsort(TIME > 0.0, kind="stable")  # the censored rows come first
    rows = Dataset(TABLE.iloc[order], TIME[order])
    params = {"objective": "cox", "early_stopping": True, "patience": 2}
    expected = model(params, rows)
    assert model(params, TableData(rows, size)) == expected
    alone = Dataset(TABLE, -np.abs(TIME))
    for given in (alone, TableData(alone, size)):
        with pytest.raises(DataError, match="needs events, but all 400 rows are censored"):
            model(params, given)


def test_validation_rows_are_not_kept_by_the_loss() -> None:
    """The loss of all rows needs memory for training rows only."""

    def batches(n_batches: int) -> Any:
        def read() -> Iterator[Any]:
            for seed in range(n_batches):
                X = np.random.default_rng(seed).normal(size=(100_000, 2))
                yield X, np.exp(X[:, 0])

        return read

    seen = Dataset.from_batches(batches(1), memory_limit="32 MB")
    unseen = Dataset.from_batches(batches(3), memory_limit="32 MB")
    booster = train({"objective": "cox", "n_estimators": 1}, seen, unseen)
    assert booster.num_rounds == 1
