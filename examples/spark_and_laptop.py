"""Train on Spark and in one process, and compare the files of the models.

Run it with ``python examples/spark_and_laptop.py``; it needs Java and ``hedgerow[spark]``.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from hedgerow import HedgerowRegressor
from hedgerow.spark import SparkHedgerowRegressor

FEATURES = ["size", "city"]
PARAMS = {"n_estimators": 30, "learning_rate": 0.1, "early_stopping": False}


def digest_of(model: Any) -> str:
    """Return the digest of the file that an estimator saves."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        model.save(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"size": rng.normal(size=4000), "city": rng.choice(["Oslo", "Rome"], 4000)})
    rows["price"] = rows["size"] + (rows["city"] == "Rome") * np.sin(3 * rows["size"])
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    estimator = SparkHedgerowRegressor(
        features_col=FEATURES, label_col="price", num_workers=2, **PARAMS
    )
    model = estimator.fit(spark.createDataFrame(rows))
    local = HedgerowRegressor(**PARAMS).fit(rows[FEATURES], rows["price"])
    print("Spark: ", digest_of(model.to_estimator()))  # noqa: T201
    print("laptop:", digest_of(local))  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main()
