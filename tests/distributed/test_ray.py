"""Ray's workers fit what one process fits, also if a worker is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hedgerow import HedgerowClassifier, HedgerowRanker, HedgerowRegressor
from hedgerow.distributed.tables import file_of
from hedgerow.errors import CommunicationError, DataTypeError

ray = pytest.importorskip("ray", reason="ray is not installed (hedgerow[ray])")
pytest.importorskip("ray.train", reason="ray.train is not installed (hedgerow[ray])")

from ray import data as ray_data  # noqa: E402

import hedgerow.ray as module  # noqa: E402
from hedgerow.ray import HedgerowTrainer, RayTrainReportCallback, fit  # noqa: E402

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]

N_ROWS = 600
NAMES = ["a", "b", "c", "d"]
SMALL: dict[str, Any] = {"max_leaves": 6, "random_state": 3}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(num_cpus=3, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
        ray_data.DataContext.get_current().enable_progress_bars = False
        yield
        ray.shutdown()


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    second = np.arange(N_ROWS) >= N_ROWS // 2
    rows = pd.DataFrame(
        {
            "a": rng.standard_normal(N_ROWS),
            "b": rng.integers(0, 9, N_ROWS),
            "c": np.where(second, rng.choice(["x", "y", "z"], N_ROWS), "x"),
            "d": pd.Series(np.where(second, rng.choice(["u", "v"], N_ROWS), None), dtype=object),
            "w": rng.choice([0.0, 0.5, 1.0, 2.0], N_ROWS),
            "query": np.arange(N_ROWS) // 7,
        }
    )
    rows["y"] = rows["a"] + (rows["c"] == "x") * rows["b"] / 5 + (rows["d"] == "u")
    rows["name"] = np.where(~second, "first", np.where(rows["a"] > 0, "p", "q"))
    rows["grade"] = np.clip(np.round(rows["y"]), 0, 3)
    return rows


def trained(function: Any, folder: Path, rows: Any = None, failures: int = 0) -> Any:
    return HedgerowTrainer(
        function,
        scaling_config=ray.train.ScalingConfig(num_workers=2),
        run_config=ray.train.RunConfig(
            storage_path=str(folder), failure_config=ray.train.FailureConfig(max_failures=failures)
        ),
        datasets=rows,
    ).fit()


def shard(name: str) -> Any:
    return ray.train.get_dataset_shard(name)


def test_a_classifier_is_the_local_one(cluster: None, table: pd.DataFrame, tmp_path: Path) -> None:
    """One block for two workers; a class and categories are missing on the first worker."""
    train, valid = table[table.index % 6 > 0], table[table.index % 6 == 0]
    parts = {"train": train, "valid": valid}
    settings = {**SMALL, "n_estimators": 5, "class_weight": "balanced", "early_stopping": True}

    def loop() -> None:
        found = fit(
            HedgerowClassifier(**settings), shard("train"),
            label="name", features=NAMES, weight="w", validation=shard("valid"),
            callback=RayTrainReportCallback(frequency=2),
        )  # fmt: skip
        assert (found is None) == (ray.train.get_context().get_world_rank() == 1)

    data = {name: ray_data.from_pandas(part) for name, part in parts.items()}
    result = trained(loop, tmp_path, data)
    local = HedgerowClassifier(**settings).fit(
        train[NAMES], train["name"], train["w"],
        X_val=valid[NAMES], y_val=valid["name"], sample_weight_val=valid["w"],
    )  # fmt: skip
    assert file_of(RayTrainReportCallback.get_model(result.checkpoint)) == file_of(local)
    scores = local.evals_result_["validation"].items()
    wanted = {"rounds": 5, **{f"validation-{name}": curve[-1] for name, curve in scores}}
    assert {name: result.metrics[name] for name in wanted} == wanted


def test_a_killed_worker_goes_on_from_the_checkpoint(
    cluster: None, table: pd.DataFrame, tmp_path: Path
) -> None:
    """Features in one column of arrays; the block of each worker has an own file."""
    marker, resumed = tmp_path / "killed", tmp_path / "resumed"
    marker.touch()
    X, y = table[["a", "b", "w"]].to_numpy(np.float64), table["y"].to_numpy()
    settings = {**SMALL, "n_estimators": 20, "early_stopping": False}

    def loop() -> None:
        save = RayTrainReportCallback._save

        def failing(callback: Any, part: bytes) -> None:
            save(callback, part)
            rank = ray.train.get_context().get_world_rank()
            if rank == 1 and len(callback._parts) == 13 and marker.exists():
                marker.unlink()
                os.kill(os.getpid(), signal.SIGKILL)

        RayTrainReportCallback._save = failing  # type: ignore[method-assign]
        callback = RayTrainReportCallback(frequency=5)
        fit(HedgerowRegressor(**settings), shard("train"), label="y", callback=callback)
        if not marker.exists() and ray.train.get_checkpoint() is not None:
            resumed.touch()

    blocks = [{"x": X[part], "y": y[part]} for part in np.split(np.arange(N_ROWS), [100, 250])]
    data = ray_data.from_blocks([pd.DataFrame({**one, "x": list(one["x"])}) for one in blocks])
    result = trained(loop, tmp_path, {"train": data}, failures=2)
    assert not marker.exists()
    assert resumed.exists()
    local = HedgerowRegressor(**settings).fit(X, y)
    assert file_of(RayTrainReportCallback.get_model(result.checkpoint)) == file_of(local)


def test_a_worker_without_rows(cluster: None, table: pd.DataFrame, tmp_path: Path) -> None:
    """The other one has all of them."""
    names = ["a", "b"]

    def loop() -> None:
        rank = ray.train.get_context().get_world_rank()
        rows = pa.Table.from_pandas(table[[*names, "grade", "query"]], preserve_index=False)
        fit(HedgerowRanker(**SMALL, n_estimators=4), rows[: rank * N_ROWS],
            label="grade", qid="query", features=names)  # fmt: skip

    result = trained(loop, tmp_path)
    local = HedgerowRanker(**SMALL, n_estimators=4)
    local.fit(table[names], table["grade"], qid=table["query"])
    assert file_of(RayTrainReportCallback.get_model(result.checkpoint)) == file_of(local)


def test_skewed_blocks_and_tables(cluster: None, table: pd.DataFrame, tmp_path: Path) -> None:
    """Ray divides blocks of any sizes evenly; tables of workers may differ as much as they like."""
    names, settings = ["a", "b", "c"], {**SMALL, "n_estimators": 5, "early_stopping": False}
    rows = table[[*names, "y"]]

    def by_blocks() -> None:
        fit(HedgerowRegressor(**settings), shard("train"), label="y")

    def by_tables() -> None:
        rank = ray.train.get_context().get_world_rank()
        own = pa.Table.from_pandas(rows[[slice(0, 7), slice(7, None)][rank]], preserve_index=False)
        fit(HedgerowRegressor(**settings), own, label="y")

    local = HedgerowRegressor(**settings).fit(rows[names], rows["y"])
    blocks = ray_data.from_blocks([rows[:550], rows[550:551], rows[551:551], rows[551:]])
    for function, data in ((by_blocks, {"train": blocks}), (by_tables, None)):
        result = trained(function, tmp_path / function.__name__, data)
        assert file_of(RayTrainReportCallback.get_model(result.checkpoint)) == file_of(local)


def test_what_cannot_be_used_is_an_error(
    cluster: None, table: pd.DataFrame, tmp_path: Path
) -> None:
    def loop() -> None:
        fit(HedgerowRegressor(**SMALL, n_estimators=2), shard("train"), label="z")

    with pytest.raises(ray.train.TrainingFailedError, match="no column 'z'"):
        trained(loop, tmp_path, {"train": ray_data.from_pandas(table)})

    def other_columns() -> None:  # on the second worker
        name = "b" if ray.train.get_context().get_world_rank() else "a"
        rows = pa.table({name: np.arange(200.0), "y": np.arange(200.0)})
        fit(HedgerowRegressor(**SMALL, n_estimators=2), rows, label="y")

    with pytest.raises(ray.train.TrainingFailedError, match="partition 1 has no column 'a'"):
        trained(other_columns, tmp_path)
    with pytest.raises(CommunicationError, match="in the function of a HedgerowTrainer"):
        fit(HedgerowRegressor(), table, label="y")
    with pytest.raises(DataTypeError, match="an Arrow table; got DataFrame"):
        module._table_of(table)
