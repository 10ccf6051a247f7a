"""Early stopping by folds of rows in files and chunks: the bytes of a table in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from hedgerow import Dataset, HedgerowRegressor, train
from hedgerow.boosting.external import folds
from hedgerow.boosting.external.dataset import resident
from hedgerow.boosting.loop.training_loop import INTERRUPTS
from hedgerow.boosting.row_data import row_keys
from hedgerow.errors import DataError, InterruptedFitWarning, ParameterError
from tests.helpers.chunked import never_join_chunks

N = 600
RNG = np.random.default_rng(5)
ROWS = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "b": RNG.integers(0, 9, N).astype(float),
        "d": np.where(RNG.random(N) < 0.1, np.nan, RNG.random(N)),
        "town": RNG.choice(list("uvwxyz"), N),
    }
)
Y = (ROWS.a * ROWS.b + (ROWS.town == "u") + RNG.normal(size=N)).to_numpy()
CLASSES = np.clip(Y // 3, 0, 2)
SMALL = {
    "early_stopping": "cv", "patience": 2, "n_estimators": 8, "learning_rate": 0.9,
    "max_leaves": 7, "n_jobs": 2,
}  # fmt: skip
"""Large steps, so that cross-validation stops some fits early."""


@pytest.fixture(autouse=True, params=[False, True], ids=["one chunk", "chunks"])
def division(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Split the rows into one chunk, or chunks of 128 rows; fail if they are read as a table."""
    monkeypatch.setattr(resident, "in_memory", None)
    if request.param:
        never_join_chunks(monkeypatch)


def batches_of(X: pd.DataFrame, **columns: Any) -> Dataset:
    names = {k: v for k, v in columns.items() if k != "y"}
    several = isinstance(columns["y"], pd.DataFrame)
    known = {name: columns["y"][name] for name in columns["y"]} if several else {"y": columns["y"]}
    table = X.assign(**names, **known)

    def batches() -> Iterator[pd.DataFrame]:
        for start in range(0, len(X), 170):
            yield table[start : start + 170]

    return Dataset.from_batches(batches, target=list(known), **{name: name for name in names})


def same(params: dict[str, Any], X: pd.DataFrame, y: Any, **columns: Any) -> Any:
    """Check that files give the same bytes as memory; return the model."""
    params = SMALL | params
    if params.get("grow_policy") == "symmetric":
        del params["max_leaves"]
    if params.get("boosting") == "rf":
        del params["learning_rate"]
    offset = columns.get("offset")
    roles = {name: values for name, values in columns.items() if name != "offset"}
    table, more = X, {}
    if offset is not None:
        table, more = X.assign(offset=offset), {"offset": "offset"}
    expected = train(params, Dataset(table, y, **roles, **more))
    assert train(params, batches_of(X, y=y, **columns)).to_bytes() == expected.to_bytes()
    return expected


@pytest.mark.parametrize(
    "params",
    [
        {"eval_metric": ["mae", "median_error"], "train_scores": True},
        {"objective": "quantile", "grow_policy": "symmetric", "max_depth": 3},
        {"linear_leaves": True, "feature_crosses": [("a", "b", "product")]},
        {"boosting": "dart", "sampling": "goss"},
        {"boosting": "rf", "subsample": 0.6, "oob_score": True},
        {"monotone_constraints": {"a": 1}, "subsample": 0.7, "colsample_bynode": 0.5},
        {"objective": "huber", "leaf_estimation": "line_search", "num_parallel_tree": 2},
        {"min_samples_leaf": 250},
        {"patience": 100, "n_estimators": 6},
    ],
    ids=str,
)
def test_files_give_the_bytes_of_memory(params: dict[str, Any]) -> None:
    found = same(params, ROWS, Y)
    assert found.model.training["folds"]["folds"] == [5, 5]


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "softmax"},
        {"objective": "softmax", "multi_strategy": "multi_output_tree"},
    ],
    ids=str,
)
def test_classes_are_spread_over_folds(params: dict[str, Any]) -> None:
    rare = np.where(np.arange(N) == 17, 3.0, CLASSES)  # the only row of a class is not tested
    same(params, ROWS, rare)
    same(params | {"eval_metric": "auc"}, ROWS, CLASSES, weight=RNG.random(N))


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_several_targets_and_offsets(strategy: str) -> None:
    y = pd.DataFrame({"one": Y, "two": ROWS.b - ROWS.a})
    same({"multi_strategy": strategy}, ROWS, y)
    same({}, ROWS, Y, offset=ROWS.a.to_numpy() / 2.0)


def test_groups_stay_together() -> None:
    group = RNG.integers(0, 40, N)
    with_groups = same({}, ROWS, Y, groups=group)
    assert with_groups.to_bytes() != same({}, ROWS, Y).to_bytes()
    with pytest.raises(DataError, match="only one group"):
        train(SMALL, batches_of(ROWS, y=Y, groups=np.zeros(N)))


def few_values(n_rows: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"p": rng.integers(0, 5, n_rows), "q": rng.integers(0, 4, n_rows)})
    X["r"] = rng.integers(0, 60, n_rows)
    return X, X["p"].to_numpy() * 1.0 + X["r"].to_numpy() % 3


@pytest.mark.parametrize("weight", [None, "counts"])
def test_repeated_rows_are_copies_or_observations(
    weight: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = few_values()
    noisy = y + RNG.normal(size=len(y))
    monkeypatch.setattr(folds, "_COLUMN_SHARE", 1e-9)  # a pass for each column
    columns = {} if weight is None else {"weight": RNG.integers(0, 4, len(y)).astype(float)}
    copies = pd.concat([ROWS[:200]] * 3, ignore_index=True)
    same({}, copies, np.tile(Y[:200], 3), **({} if weight is None else {"weight": np.ones(N)}))
    for target in (y, noisy, (noisy > 2.0) * 1.0):
        same({}, X, target, **columns)


def test_values_that_are_too_many_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (row_keys, folds):
        monkeypatch.setattr(module, "MOST_CELLS", 500)
    X, y = few_values()
    same({}, X, y + RNG.normal(size=len(y)))


def test_sparse_rows() -> None:
    dense = RNG.normal(size=(300, 12)) * (RNG.random((300, 12)) < 0.2)
    dense[150:] = dense[:150]
    X, y = csr_array(dense), dense.sum(axis=1)

    def batches() -> Iterator[Any]:
        for start in range(0, 300, 100):
            yield X[start : start + 100], y[start : start + 100]

    found = train(SMALL, Dataset.from_batches(batches)).to_bytes()
    assert found == train(SMALL, Dataset(X, y)).to_bytes()


def test_a_checkpoint_is_continued(tmp_path: Path) -> None:
    class Killed(Exception):
        """An error that ends the fit like a killed process."""

    def killed(seen: Any) -> None:
        if seen.round == 3:
            raise Killed

    rows, params = batches_of(ROWS, y=Y), {**SMALL, "learning_rate": 0.3}
    expected = train(params, Dataset(ROWS, Y)).to_bytes()
    with pytest.raises(Killed):
        train(params, rows, callbacks=[killed], checkpoint=tmp_path, checkpoint_every=0.0)
    assert train(params, rows, checkpoint=tmp_path).to_bytes() == expected


def test_an_interrupt_ends_the_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    def metric_of(most: int) -> Callable[..., float]:
        seen: list[float] = []

        def metric(y: np.ndarray, prediction: np.ndarray, weight: Any) -> float:
            seen.append(float(np.abs(y - prediction).mean()))
            if len(seen) == most:
                raise KeyboardInterrupt
            return seen[-1]

        return metric

    found = []
    for rows in (Dataset(ROWS, Y), batches_of(ROWS, y=Y)):
        monkeypatch.setattr(INTERRUPTS, "last", -math.inf)
        params = {**SMALL, "n_jobs": 1, "patience": 20, "eval_metric": metric_of(23)}
        with pytest.warns(InterruptedFitWarning, match="first 4 rounds of the folds"):
            found.append(train(params, rows))
    assert found[0].num_rounds == found[1].num_rounds <= 4
    assert found[0].model.training["history"] == found[1].model.training["history"]
    assert found[1].model.training["stopped_by"] == "interrupt"


def test_a_time_budget_ends_the_folds() -> None:
    params = {**SMALL, "time_budget": 1e-3, "n_estimators": 10_000, "patience": 10_000}
    assert train(params, batches_of(ROWS, y=Y)).num_rounds < 100


def test_estimators(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="files need pyarrow")
    ROWS.assign(y=Y).to_parquet(tmp_path / "rows.parquet")
    params = {"n_estimators": 10, "learning_rate": 0.2, "early_stopping": "cv"}
    found = train(params, Dataset.from_files(tmp_path / "rows.parquet", "y"))
    local = HedgerowRegressor(**params).fit(ROWS, Y)
    assert found.num_rounds == local.booster_.num_rounds


def test_what_folds_cannot_do(monkeypatch: pytest.MonkeyPatch) -> None:
    valid = batches_of(ROWS, y=Y)
    with pytest.raises(ParameterError, match="validation rows have no effect"):
        train(SMALL, batches_of(ROWS, y=Y), valid)
    first = train({"n_estimators": 1}, Dataset(ROWS, Y))
    with pytest.raises(ParameterError, match="have seen the rows of all folds"):
        train(SMALL, batches_of(ROWS, y=Y), init_model=first)
    monkeypatch.setattr(folds, "_DRAW_SHARE", 1e-9)
    with pytest.raises(ParameterError, match="64 bytes of each of 600 rows"):
        train(SMALL, batches_of(ROWS, y=Y))
    monkeypatch.undo()
    monkeypatch.setattr(folds, "_STORE_SHARE", 1e-9)
    with pytest.raises(ParameterError, match="grows 5 folds side by side, and needs at least"):
        train(SMALL, batches_of(ROWS, y=Y))
