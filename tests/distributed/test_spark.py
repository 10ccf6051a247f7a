"""Estimators of Spark give the bytes of local ones, or one clear error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowRanker, HedgerowRegressor
from hedgerow.distributed.tables import file_of
from hedgerow.errors import DataError, DataTypeError, ParameterError

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed (hedgerow[spark])")

from pyspark.ml import Pipeline, PipelineModel  # noqa: E402
from pyspark.ml.evaluation import MulticlassClassificationEvaluator  # noqa: E402
from pyspark.ml.feature import VectorAssembler  # noqa: E402
from pyspark.ml.functions import array_to_vector  # noqa: E402
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402

import hedgerow.spark as module  # noqa: E402
from hedgerow.spark import (  # noqa: E402
    SparkHedgerowClassificationModel,
    SparkHedgerowClassifier,
    SparkHedgerowRanker,
    SparkHedgerowRegressionModel,
    SparkHedgerowRegressor,
)

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.engines]

N_ROWS = 600
NAMES = ["a", "b", "c", "d"]
SMALL: dict[str, Any] = {"n_estimators": 5, "max_leaves": 6, "random_state": 3}


def session_of(master: str) -> Any:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(
            str(folder) for folder in (Path(hedgerow.__file__).parents[1], Path.cwd())
        ),
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    session = session_of("local-cluster[2,1,1024]")  # executors are processes of their own
    yield session
    session.stop()


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {
            "a": rng.standard_normal(N_ROWS),
            "b": rng.integers(0, 9, N_ROWS),
            "c": rng.choice(["x", "y", "z", "long"], N_ROWS, p=[0.6, 0.3, 0.09, 0.01]),
            "d": np.where(rng.random(N_ROWS) < 0.2, np.nan, rng.random(N_ROWS)),
            "weight": rng.choice([0.0, 0.5, 1.0, 2.0], N_ROWS),
            "query": [f"query {number // 12}" for number in range(N_ROWS)],
            "valid": rng.random(N_ROWS) < 0.2,
        }
    )
    rows["y"] = rows["a"] + (rows["c"] == "x") * rows["b"] / 5 + rng.standard_normal(N_ROWS) / 9
    rows["name"] = pd.cut(rows["y"], [-9, 0, 1, 9], labels=["low", "mid", "high"]).astype(str)
    rows.loc[:250, "name"] = "low"  # no other class in the first partition
    rows["grade"] = np.clip(np.round(rows["y"] + 1), 0, 3)
    return rows


@pytest.fixture(scope="module")
def frame(spark: Any, table: pd.DataFrame) -> Any:
    found = spark.createDataFrame(table)
    assert found.rdd.getNumPartitions() == 2
    return found.cache()


def test_a_regressor_is_the_local_one(frame: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    local = HedgerowRegressor(**SMALL).fit(table[NAMES], table["y"], table["weight"])
    regressor = SparkHedgerowRegressor(
        features_col=NAMES, label_col="y", weight_col="weight", num_workers=2, **SMALL
    )
    model = regressor.fit(frame)
    assert file_of(model.to_estimator()) == file_of(local)
    assert model.booster.num_rounds == 5
    found = model.transform(frame).toPandas()
    np.testing.assert_array_equal(found["prediction"], local.predict(table[NAMES]))
    assert list(found.columns) == [*table.columns, "prediction"]

    model.write().overwrite().save(str(tmp_path / "model"))
    again = SparkHedgerowRegressionModel.load(str(tmp_path / "model"))
    assert file_of(again.to_estimator()) == file_of(local)
    assert (again.uid, again.getOrDefault("features_cols")) == (model.uid, NAMES)
    regressor.write().overwrite().save(str(tmp_path / "estimator"))
    same = SparkHedgerowRegressor.load(str(tmp_path / "estimator"))
    assert same.to_local().get_params() == regressor.to_local().get_params()
    assert same.getOrDefault("num_workers") == 2


def test_a_classifier_with_validation_rows_is_the_local_one(
    frame: Any, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**SMALL, "class_weight": "balanced", "early_stopping": True}
    own, other = table[~table["valid"]], table[table["valid"]]
    local = HedgerowClassifier(**settings).fit(
        own[NAMES], own["name"], own["weight"],
        X_val=other[NAMES], y_val=other["name"], sample_weight_val=other["weight"],
    )  # fmt: skip
    model = SparkHedgerowClassifier(
        features_col=NAMES, label_col="name", weight_col="weight",
        validation_indicator_col="valid", num_workers=2, **settings,
    ).fit(frame)  # fmt: skip
    assert file_of(model.to_estimator()) == file_of(local)
    found = model.transform(frame).toPandas()
    assert found["prediction"].tolist() == local.predict(table[NAMES]).tolist()
    probability = np.array([row.toArray() for row in found["probability"]])
    np.testing.assert_array_equal(probability, local.predict_proba(table[NAMES]))
    raw = np.array([row.toArray() for row in found["rawPrediction"]])
    np.testing.assert_array_equal(raw, local.decision_function(table[NAMES]))
    monkeypatch.delattr(F, "arrow_udf", raising=False)  # as before pyspark 4.1
    same = model.transform(frame).toPandas()
    for name in ("prediction", "probability", "rawPrediction"):
        assert same[name].tolist() == found[name].tolist()


def test_rankings_are_the_local_ones(frame: Any, table: pd.DataFrame) -> None:
    names = ["a", "b", "d"]
    local = HedgerowRanker(**SMALL).fit(table[names], table["grade"], qid=table["query"])
    model = SparkHedgerowRanker(
        features_col=names, label_col="grade", qid_col="query", num_workers=2, **SMALL
    ).fit(frame)
    assert file_of(model.to_estimator()) == file_of(local)


def test_pipelines_and_searches(
    frame: Any, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = frame.withColumn("label", (F.col("y") > 0.5).cast("double"))
    label = (table["y"] > 0.5).astype(float).to_numpy()
    vectors = VectorAssembler(inputCols=["a", "b"], outputCol="features")
    classifier = SparkHedgerowClassifier(num_workers=2, **SMALL)
    pipeline = Pipeline(stages=[vectors, classifier]).fit(rows)
    local = HedgerowClassifier(**SMALL).fit(table[["a", "b"]].to_numpy(dtype=float), label)
    assert file_of(pipeline.stages[1].to_estimator()) == file_of(local)
    pipeline.write().save(str(tmp_path / "pipeline"))
    found = PipelineModel.load(str(tmp_path / "pipeline")).transform(rows).toPandas()
    np.testing.assert_array_equal(
        found["prediction"], local.predict(table[["a", "b"]].to_numpy(dtype=float))
    )
    raw = np.array([row.toArray() for row in found["rawPrediction"]])
    np.testing.assert_array_equal(raw[:, 0], -raw[:, 1])
    monkeypatch.delattr(F, "arrow_udf", raising=False)  # as before pyspark 4.1
    same = pipeline.transform(rows).toPandas()
    assert same["rawPrediction"].tolist() == found["rawPrediction"].tolist()

    arrays = rows.withColumn("features", F.array(F.col("a"), F.col("b")))
    search = CrossValidator(
        estimator=classifier,
        estimatorParamMaps=ParamGridBuilder().addGrid(classifier.max_leaves, [2, 6]).build(),
        evaluator=MulticlassClassificationEvaluator(metricName="accuracy"),
        numFolds=2,
        seed=1,
    ).fit(arrays)
    assert isinstance(search.bestModel, SparkHedgerowClassificationModel)
    best = [2, 6][int(np.argmax(search.avgMetrics))]
    assert search.bestModel.getOrDefault("max_leaves") == best
    assert search.bestModel.to_estimator().max_leaves == best


def test_partitions_of_any_sizes(
    spark: Any, table: pd.DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    regressor = SparkHedgerowRegressor(features_col=NAMES, label_col="y", num_workers=2, **SMALL)
    local = HedgerowRegressor(**SMALL).fit(table[NAMES], table["y"])
    one = spark.createDataFrame(table)
    model = regressor.copy({regressor.num_workers: 1}).fit(one.coalesce(1).repartition(1))
    assert file_of(model.to_estimator()) == file_of(local)
    halves: Any = [[], table.itertuples(index=False, name=None)]
    rows = spark.sparkContext.parallelize([list(half) for half in halves], 2).flatMap(list)
    skewed = spark.createDataFrame(rows, one.schema)  # an empty partition, and all rows
    assert skewed.rdd.getNumPartitions() == 2
    assert file_of(regressor.fit(skewed).to_estimator()) == file_of(local)
    assert "divided unevenly" in caplog.text
    model = regressor.fit(one.coalesce(1))  # fewer partitions than workers: divided anew
    assert model.booster.num_rounds == 5
    # No barrier stage can read them, so they are divided anew.
    assert regressor.fit(one.repartition(3).coalesce(2)).booster.num_rounds == 5
    assert regressor.fit(one.coalesce(1).union(one.coalesce(1))).booster.num_rounds == 5


def test_what_cannot_be_used_is_an_error(frame: Any) -> None:
    def fit(**given: Any) -> Any:
        return SparkHedgerowRegressor(
            **{"features_col": NAMES, "label_col": "y", "num_workers": 2, **SMALL, **given}
        ).fit(frame)

    with pytest.raises(DataError, match="no column 'e' in the data frame"):
        fit(features_col=["a", "e"])
    with pytest.raises(DataTypeError, match="features_col 'c' must be a vector"):
        fit(features_col="c")
    with pytest.raises(ParameterError, match=r"no parameter 'max_leafs'.*max_leaves"):
        fit(max_leafs=3)
    with pytest.raises(ParameterError, match="n_estimators"):
        fit(n_estimators=-1)
    weighted = SparkHedgerowRegressor(
        features_col=NAMES, label_col="y", weight_col="bad", num_workers=2, **SMALL
    )
    bad = frame.withColumn("bad", F.when(F.col("query") == "query 3", -1.0).otherwise(1.0))
    with pytest.raises(DataError, match="weight"):  # on one rank only
        weighted.fit(bad)
    with pytest.raises(DataError, match="there are no rows"):
        weighted.fit(bad.filter("false"))
    longer = F.when(F.col("query") == "query 3", F.array("a", "b", "weight"))
    vectors = array_to_vector(longer.otherwise(F.array("a", "b")))  # other columns on one rank
    with pytest.raises(DataError, match="all rows must have the same number of features"):
        SparkHedgerowRegressor(label_col="y", num_workers=2, **SMALL).fit(
            frame.withColumn("features", vectors)
        )


@pytest.mark.parametrize("killed", ["task", "executor"])
def test_a_lost_process_costs_time_only(
    killed: str, frame: Any, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of a rank or its executor dies in the middle: Spark starts the stage again."""
    marker = tmp_path / "killed"
    marker.touch()
    run_of = module._rank_of_task

    def with_fault(*arguments: Any) -> Any:
        run = run_of(*arguments)

        def run_with_fault(batches: Any) -> Any:
            import psutil

            from hedgerow.distributed.work import TrainWork

            plain = TrainWork.__call__

            def failing(work: Any, ranks: Any, shard: Any) -> bytes:
                ranks.barrier()
                if ranks.rank == 1 and os.path.exists(marker):
                    os.unlink(marker)
                    java = psutil.Process().parent().parent()  # the parent starts the tasks
                    os.kill(os.getpid() if killed == "task" else java.pid, signal.SIGKILL)
                    time.sleep(30)
                return plain(work, ranks, shard)

            TrainWork.__call__ = failing  # type: ignore[method-assign]
            try:
                yield from run(batches)
            finally:
                TrainWork.__call__ = plain  # type: ignore[method-assign]

        return run_with_fault

    monkeypatch.setattr(module, "_rank_of_task", with_fault)
    model = SparkHedgerowRegressor(features_col=NAMES, label_col="y", num_workers=2, **SMALL).fit(
        frame
    )
    assert not marker.exists()
    local = HedgerowRegressor(**SMALL).fit(table[NAMES], table["y"])
    assert file_of(model.to_estimator()) == file_of(local)


PROGRAM = """
import sys

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession
from hedgerow import HedgerowClassifier
from hedgerow.distributed.tables import file_of
from hedgerow.spark import SparkHedgerowClassificationModel, SparkHedgerowClassifier

spark = SparkSession.builder.remote("local[2]").getOrCreate()
rng = np.random.default_rng(0)
table = pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(["x", "y"], 300)})
table["y"] = np.where(table["a"] + (table["b"] == "x") > 0, "p", "q")
given = {"n_estimators": 5, "max_leaves": 6}
classifier = SparkHedgerowClassifier(features_col=["a", "b"], label_col="y", num_workers=1, **given)
rows = spark.createDataFrame(table)
model = classifier.fit(rows)
local = HedgerowClassifier(**given).fit(table[["a", "b"]], table["y"])
assert file_of(model.to_estimator()) == file_of(local)
two = classifier.copy({classifier.num_workers: 2}).fit(rows)
assert two.booster.num_rounds == 5
found = model.transform(rows).select("prediction", "probability").toPandas()
assert found["prediction"].tolist() == local.predict(table[["a", "b"]]).tolist()
for _ in range(2):  # the second writes over the first
    model.write().overwrite().save(sys.argv[1])
    classifier.write().overwrite().save(sys.argv[2])
again = SparkHedgerowClassificationModel.load(sys.argv[1])
assert file_of(again.to_estimator()) == file_of(local)
assert SparkHedgerowClassifier.load(sys.argv[2]).getOrDefault("max_leaves") == 6
print("same model")
"""


def test_spark_connect(tmp_path: Path) -> None:
    """In a process of its own: a process has one kind of session."""
    for name in ("grpc", "grpc_status", "zstandard"):
        pytest.importorskip(name, reason="pyspark[connect] is not installed")
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "model"), str(tmp_path / "estimator")],
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(Path(hedgerow.__file__).parents[1]),
        },
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert "same model" in found.stdout, found.stderr[-4000:]
