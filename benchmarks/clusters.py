"""Measure fits on Dask and Spark, and predictions on Spark, on this machine.

::

    python benchmarks/clusters.py fit          # Dask and Spark, one worker and two
    python benchmarks/clusters.py transform    # Spark, beside xgboost.spark in the same session
    python benchmarks/clusters.py fit --rows 100000 --runs 1

Workers are processes with one thread; those of Dask have a session of their own, because Linux
gives the processes of a session one share of a busy processor (``sched_autogroup_enabled``),
however many they are, while workers on machines of their own have one each.

``fit`` is a whole call, from Parquet files to the model; the first of a session also starts Python
on the workers.  ``transform`` predicts all rows, which Spark holds in memory, and stores nothing.
Seconds are elapsed, then of the processors of all processes.
Needs ``hedgerow[dask,spark,files]``, xgboost, psutil and Java.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

N_FEATURES = 28
NAMES = [f"x{number}" for number in range(N_FEATURES)]
SETTINGS: dict[str, Any] = {"n_estimators": 100, "max_leaves": 31, "early_stopping": False}


def write_rows(folder: Path, n_rows: int, n_files: int) -> str:
    """Write a table with two classes; return the folder."""
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=n_rows) for name in NAMES}
    noise = 0.5 * rng.normal(size=n_rows)
    label = columns["x0"] * columns["x1"] + columns["x2"] + noise > 0
    table = pa.table({**columns, "label": label.astype(np.float64)})
    folder.mkdir()
    # The first file is larger: Spark numbers the partitions of files by their size.
    more = n_rows // 100
    ends = [0, *(n_rows * number // n_files + more for number in range(1, n_files)), n_rows]
    for number, (first, end) in enumerate(itertools.pairwise(ends)):
        pq.write_table(table.slice(first, end - first), folder / f"part-{number}.parquet")
    return str(folder)


def processor_seconds() -> float:
    own = psutil.Process()
    found = 0.0
    for process in (own, *own.children(recursive=True)):
        try:
            found += sum(process.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return found


def timed(name: str, call: Callable[[], Any]) -> Any:
    """Print the seconds of a call."""
    before, began = processor_seconds(), time.perf_counter()
    result = call()
    elapsed = time.perf_counter() - began
    print(f"{name:36}{elapsed:7.2f}{processor_seconds() - before:9.2f}", flush=True)
    return result


@contextmanager
def spark_session(n_workers: int) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master(f"local-cluster[{n_workers},1,3072]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.files.minPartitionNum", str(n_workers))
        .config("spark.sql.files.maxPartitionBytes", "1g")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.executorEnv.PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


def fit_on_dask(client: Any, rows: str) -> bytes:
    import dask.dataframe as dd

    from hedgerow import DaskHedgerowClassifier
    from hedgerow.distributed.tables import file_of

    # Files as they are: Dask would join small ones.
    table = dd.read_parquet(rows, split_row_groups=False, aggregate_files=False)
    model = DaskHedgerowClassifier(**SETTINGS)
    model.fit(table[NAMES], table["label"], client=client, parallelism="data")
    return file_of(model.to_local())


def fit_on_spark(spark: Any, rows: str, n_workers: int) -> bytes:
    from hedgerow.distributed.tables import file_of
    from hedgerow.spark import SparkHedgerowClassifier

    model = SparkHedgerowClassifier(features_col=NAMES, num_workers=n_workers, **SETTINGS)
    return file_of(model.fit(spark.read.parquet(rows)).to_estimator())


def measure_fits(folder: Path, n_rows: int, runs: int) -> None:
    import distributed

    models = set()
    for n_workers in (1, 2):
        rows = write_rows(folder / f"rows-{n_workers}", n_rows, n_workers)
        workers = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}
        with distributed.Client(**workers) as client:
            client.run(os.setsid)
            for run in range(runs):
                fit = partial(fit_on_dask, client, rows)
                models.add(timed(f"Dask, workers: {n_workers}, fit {run}", fit))
        with spark_session(n_workers) as spark:
            for run in range(runs):
                fit = partial(fit_on_spark, spark, rows, n_workers)
                models.add(timed(f"Spark, workers: {n_workers}, fit {run}", fit))
    print(f"different models: {len(models)}")


def measure_transform(folder: Path, n_rows: int, runs: int) -> None:
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions
    from xgboost.spark import SparkXGBClassifier

    from hedgerow.spark import SparkHedgerowClassifier

    path = write_rows(folder / "rows", n_rows, 2)
    with spark_session(2) as spark:
        columns = spark.read.parquet(path).cache()
        vector = array_to_vector(functions.array(*NAMES)).alias("features")
        vectors = columns.select("label", vector).cache()
        print(f"{columns.count():,} and {vectors.count():,} rows")
        models = {}
        for kind, rows, features in (("vectors", vectors, "features"), ("columns", columns, NAMES)):
            few = rows.limit(20_000).repartition(1)
            own = SparkHedgerowClassifier(features_col=features, num_workers=1, **SETTINGS)
            other = SparkXGBClassifier(
                features_col=features,
                n_estimators=SETTINGS["n_estimators"],
                max_leaves=SETTINGS["max_leaves"],
                max_depth=0,
                grow_policy="lossguide",
                num_workers=1,
            )
            models[f"hedgerow, {kind}"] = own.fit(few), rows
            models[f"xgboost, {kind}"] = other.fit(few), rows
        for run in range(runs):
            for name, (model, rows) in models.items():
                found = model.transform(rows).write.format("noop").mode("overwrite")
                timed(f"{name}, transform {run}", found.save)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["fit", "transform"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    return parser


def main() -> None:
    options = build_parser().parse_args()
    SETTINGS["n_estimators"] = options.trees
    load = os.getloadavg()[0]
    print(
        f"{options.rows:,} rows, {N_FEATURES} features, {options.trees} trees; "
        f"{os.cpu_count()} cores, load {load:.1f}"
    )
    measure = measure_fits if options.what == "fit" else measure_transform
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), options.rows, options.runs)


if __name__ == "__main__":
    main()
