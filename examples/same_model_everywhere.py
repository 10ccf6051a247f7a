"""The same model on a laptop, from files, on Dask, on Spark and on Ray: one digest.

Run it with ``python examples/same_model_everywhere.py``.  Engines that are not installed are left
out; Spark needs Java, too.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hedgerow import Booster, Dataset, HedgerowRegressor, train

FEATURES = ["size", "city"]
PARAMS: dict[str, Any] = {"n_estimators": 30, "learning_rate": 0.1, "early_stopping": False}


def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"size": rng.normal(size=4000), "city": rng.choice(["Oslo", "Rome"], 4000)}
    )
    return table.assign(price=table["size"] + (table["city"] == "Rome") * np.sin(3 * table["size"]))


def laptop(table: pd.DataFrame, folder: Path) -> Booster:
    return HedgerowRegressor(**PARAMS).fit(table[FEATURES], table["price"]).booster_


def files(table: pd.DataFrame, folder: Path) -> Booster:
    table[:1000].to_parquet(folder / "1.parquet")
    table[1000:].to_parquet(folder / "2.parquet")
    data = Dataset.from_files(folder, target="price", memory_limit="100 MB")
    return train(PARAMS, data)


def dask(table: pd.DataFrame, folder: Path) -> Booster:
    import dask.dataframe as dd

    from distributed import Client, LocalCluster
    from hedgerow import DaskHedgerowRegressor

    parts = dd.from_pandas(table, npartitions=5)
    with LocalCluster(2, processes=False, dashboard_address=None) as cluster, Client(cluster):
        return DaskHedgerowRegressor(**PARAMS).fit(parts[FEATURES], parts["price"]).booster_


def spark(table: pd.DataFrame, folder: Path) -> Booster:
    from pyspark.sql import SparkSession

    from hedgerow.spark import SparkHedgerowRegressor

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.master("local[2]").getOrCreate()
    estimator = SparkHedgerowRegressor(
        features_col=FEATURES, label_col="price", num_workers=2, **PARAMS
    )
    model = estimator.fit(session.createDataFrame(table)).booster
    session.stop()
    return model


def ray(table: pd.DataFrame, folder: Path) -> Booster:
    import ray.data
    import ray.train

    from hedgerow.ray import HedgerowTrainer, RayTrainReportCallback, fit

    def train_loop_per_worker() -> None:
        shard = ray.train.get_dataset_shard("train")
        fit(HedgerowRegressor(**PARAMS), shard, label="price", features=FEATURES)

    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    trainer = HedgerowTrainer(
        train_loop_per_worker,
        scaling_config=ray.train.ScalingConfig(num_workers=2),
        run_config=ray.train.RunConfig(storage_path=str(folder)),
        datasets={"train": ray.data.from_pandas(table)},
    )
    model = RayTrainReportCallback.get_model(trainer.fit().checkpoint)
    ray.shutdown()
    return model.booster_


PLACES: dict[str, tuple[Callable[[pd.DataFrame, Path], Booster], str | None]] = {
    "laptop": (laptop, None),
    "files": (files, "pyarrow"),
    "Dask": (dask, "distributed"),
    "Spark": (spark, "pyspark"),
    "Ray": (ray, "ray"),
}


def main() -> None:
    table = rows()
    for name, (trained, needed) in PLACES.items():
        if needed is not None and find_spec(needed) is None:
            print(f"{name + ':':8}{needed} is not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            model = trained(table, Path(folder))
        digest = hashlib.sha256(model.to_bytes()).hexdigest()[:16]
        print(f"{name + ':':8}{digest}")


if __name__ == "__main__":
    main()
