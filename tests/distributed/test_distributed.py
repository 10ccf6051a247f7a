"""Estimators on a real cluster give the bytes of local ones, also if workers fail."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import (
    DaskHedgerowClassifier,
    DaskHedgerowRegressor,
    Dataset,
    HedgerowClassifier,
    HedgerowRegressor,
    train,
)
from hedgerow.distributed import Resilience, cluster, ranks
from hedgerow.distributed import predict as predict_collection
from hedgerow.distributed import train as train_on_cluster
from hedgerow.errors import CommunicationError, DataError, DataTypeError, ParameterError
from hedgerow.io import model_to_bytes
from tests.helpers.clocks import wait_until
from tests.helpers.ranks import blocked_address

distributed = pytest.importorskip(
    "distributed", reason="distributed is not installed (hedgerow[dask])"
)
dd = pytest.importorskip(
    "dask.dataframe", reason="dask.dataframe is not installed (hedgerow[dask])"
)
da = pytest.importorskip("dask.array", reason="dask.array is not installed (hedgerow[dask])")

N_ROWS = 600
LIMIT = 240.0
SMALL: dict[str, Any] = {"n_estimators": 5, "max_leaves": 6, "random_state": 3}
QUICK = Resilience(timeout=120.0, connect_timeout=20.0)


def table() -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    rng = np.random.default_rng(1)
    X = pd.DataFrame(
        {
            "a": rng.standard_normal(N_ROWS),
            "b": rng.integers(0, 9, N_ROWS),
            "c": rng.choice(["x", "y", "z", "long"], N_ROWS, p=[0.6, 0.3, 0.09, 0.01]),
            "d": np.where(rng.random(N_ROWS) < 0.2, np.nan, rng.random(N_ROWS)),
        }
    )
    y = X["a"] + (X["c"] == "x") * X["b"] / 5 + rng.standard_normal(N_ROWS) / 9
    weight = pd.Series(rng.choice([0.0, 0.5, 1.0, 2.0], N_ROWS))
    return X, y, weight


def named(y: pd.Series) -> pd.Series:
    """Return three labels; those of the first rows are all the same."""
    labels = pd.cut(y, [-9, 0, 1, 9], labels=["low", "middle", "high"]).astype(str)
    labels.iloc[:150] = "low"
    return labels


def divided(n_partitions: int, *parts: Any) -> list[Any]:
    return [dd.from_pandas(part, npartitions=n_partitions, sort=False) for part in parts]


def in_file(model: Any, path: Path) -> bytes:
    model.save(path)
    return path.read_bytes()


def test_a_classifier_is_the_local_one(client: Any, tmp_path: Path) -> None:
    X, y, weight = table()
    labels = named(y)
    settings = {**SMALL, "class_weight": "balanced", "early_stopping": True}
    local = HedgerowClassifier(**settings).fit(X, labels, weight)
    X_parts, y_parts, w_parts = divided(4, X, labels, weight)
    model = DaskHedgerowClassifier(**settings).fit(X_parts, y_parts, w_parts, resilience=QUICK)

    assert in_file(model, tmp_path / "a") == in_file(local, tmp_path / "b")
    assert model.classes_.tolist() == ["high", "low", "middle"]
    assert (model.n_features_in_, model.n_iter_) == (4, local.n_iter_)
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.evals_result_ == local.evals_result_

    predicted, probability = model.predict(X_parts), model.predict_proba(X_parts)
    assert isinstance(predicted, dd.Series)
    assert predicted.npartitions == 4
    pd.testing.assert_index_equal(predicted.compute().index, X.index)
    np.testing.assert_array_equal(predicted.compute(), local.predict(X))
    np.testing.assert_array_equal(probability.compute(), local.predict_proba(X))
    assert list(probability.columns) == ["high", "low", "middle"]
    np.testing.assert_array_equal(model.predict(X), local.predict(X))
    assert model.score(X_parts, y_parts) == local.score(X, labels)

    again = DaskHedgerowClassifier.load(tmp_path / "b")
    np.testing.assert_array_equal(again.predict(X_parts).compute(), local.predict(X))
    assert isinstance(again.to_local(), HedgerowClassifier)
    np.testing.assert_array_equal(again.to_local().predict(X), local.predict(X))


@pytest.mark.parametrize(
    "rows", [(50, 0, 500, 50), (N_ROWS,)], ids=["skewed", "fewer partitions than workers"]
)
def test_a_regressor_on_arrays_is_the_local_one(
    client: Any, tmp_path: Path, rows: tuple[int, ...]
) -> None:
    X, y, _ = table()
    array, target = X[["a", "b", "d"]].to_numpy(), y.to_numpy()
    local = HedgerowRegressor(**SMALL).fit(array, target, X_val=array[:90], y_val=target[:90])
    chunked = da.from_array(array, chunks=(rows, (2, 1)))
    targets = da.from_array(target, chunks=(rows,))
    model = DaskHedgerowRegressor(**SMALL).fit(
        chunked,
        targets,
        X_val=da.from_array(array[:90], chunks=(60, 3)),
        y_val=da.from_array(target[:90], chunks=60),
        client=client,
        resilience=QUICK,
    )
    assert in_file(model, tmp_path / "a") == in_file(local, tmp_path / "b")
    predicted = model.predict(chunked)
    assert isinstance(predicted, da.Array)
    np.testing.assert_array_equal(predicted.compute(), local.predict(array))
    assert model.score(chunked, targets) == local.score(array, target)


@pytest.mark.parametrize(
    "settings", [{"objective": "aft"}, {"objective": "quantile", "quantile": [0.2, 0.8]}], ids=str
)
def test_scores_of_other_losses_are_the_local_ones(client: Any, settings: dict[str, Any]) -> None:
    X, y, weight = table()
    times = y.abs() + 1.0
    local = HedgerowRegressor(**SMALL, **settings).fit(X, times, weight)
    parts = divided(3, X, times, weight)
    model = DaskHedgerowRegressor(**SMALL, **settings).fit(*parts, resilience=QUICK)
    assert model.score(*parts) == local.score(X, times, weight)


def test_a_killed_worker_costs_time_only(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    X, y, weight = table()
    settings = {**SMALL, "n_estimators": 400}
    expected = train(settings, Dataset(X, y, weight))
    victim = sorted(client.nthreads())[-1]
    pid = client.run(os.getpid)[victim]

    def kill() -> None:
        wait_until(lambda: client.run_on_scheduler(has_a_checkpoint), LIMIT)
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    caplog.set_level(logging.INFO, "hedgerow")
    often = replace(QUICK, checkpoint_every=0.05)
    booster = train_on_cluster(client, settings, *divided(3, X, y, weight), resilience=often)
    killer.join(LIMIT)
    assert "attempt 0 of a training failed: " in caplog.text
    found = re.search(r"attempt 1 continues from (\d+) checkpoints", caplog.text)
    assert found is not None
    assert int(found[1]) > 0
    assert model_to_bytes(booster.model) == model_to_bytes(expected.model)
    client.wait_for_workers(2, timeout=LIMIT)


def has_a_checkpoint(dask_scheduler: Any) -> bool:
    kept = dask_scheduler.extensions["variables"].variables
    return any(str(name).startswith("hedgerow-") for name in kept)


def test_what_cannot_be_used_is_an_error(client: Any) -> None:
    X, y, _ = table()
    X_parts, y_parts = divided(3, X, y)
    with pytest.raises(DataTypeError, match="X must be a Dask data frame"):
        DaskHedgerowRegressor().fit(X, y)
    with pytest.raises(DataError, match="X has 600 rows in 3 partitions, but y has 599 in 2"):
        DaskHedgerowRegressor().fit(X_parts, divided(2, y[1:])[0])
    with pytest.raises(ParameterError, match="progress=True would be called"):
        DaskHedgerowRegressor(progress=True).fit(X_parts, y_parts)
    with pytest.raises(DataError, match="y has only one class, 'one'"):
        DaskHedgerowClassifier().fit(X_parts, *divided(3, pd.Series(["one"] * N_ROWS)))
    with pytest.raises(DataError, match="X_val is given without y_val"):
        DaskHedgerowRegressor().fit(X_parts, y_parts, X_val=X_parts)
    with pytest.raises(DataError, match=r"partition 2.*y"):
        DaskHedgerowRegressor(**SMALL).fit(X_parts, *divided(3, y.where(y.index < N_ROWS - 1)))
    with pytest.raises(ParameterError, match="parallelism must be 'data' or 'features'"):
        train_on_cluster(client, None, X_parts, y_parts, parallelism="rows")  # type: ignore[arg-type]
    mixed = dd.from_map(part_of_kind, range(3), meta=part_of_kind(0)[:0])
    with pytest.raises(DataTypeError, match=r"column 'a' holds .*partition [01].*partition 2"):
        DaskHedgerowRegressor(**SMALL).fit(mixed[["a"]], mixed["y"])
    renamed = dd.from_map(
        part_of_names, range(3), meta=part_of_names(0)[:0], enforce_metadata=False
    )
    with pytest.raises(DataError, match=r"partition 2 has no column 'a', but partition 0 does"):
        DaskHedgerowRegressor(**SMALL).fit(renamed, mixed["y"])


def part_of_kind(number: int) -> pd.DataFrame:
    """Return a third of 120 rows."""
    values = [f"text {row}" for row in range(40)] if number == 2 else np.arange(40.0)
    return pd.DataFrame({"a": values, "y": np.arange(40.0)})


def part_of_names(number: int) -> pd.DataFrame:
    return pd.DataFrame({"b" if number == 2 else "a": np.arange(40.0)})


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse callers of a full queue")
def test_a_blocked_port_is_named(shared_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = table()
    quick = Resilience(timeout=20.0, connect_timeout=2.0, max_restarts=0)
    with blocked_address() as blocked:

        def join(token: bytes, rank: int) -> str:
            own = ranks.join(token, rank)
            return own if rank else blocked

        monkeypatch.setattr(cluster, "join", join)
        with pytest.raises(CommunicationError, match=f"at {blocked} .*is the port blocked"):
            train_on_cluster(shared_client, SMALL, *divided(2, X, y), resilience=quick)


@pytest.mark.parametrize("parallelism", ["data", "features"])
def test_train_gives_the_bytes_of_train(client: Any, parallelism: Any) -> None:
    X, y, weight = table()
    expected = train(SMALL, Dataset(X, y, weight))
    booster = train_on_cluster(
        client, SMALL, *divided(3, X, y, weight), parallelism=parallelism, resilience=QUICK
    )
    assert model_to_bytes(booster.model) == model_to_bytes(expected.model)
    found = predict_collection(booster, dd.from_pandas(X, npartitions=2), "raw").compute()
    np.testing.assert_array_equal(found, expected.predict(X, "raw"))
