"""Training on the workers of a Dask cluster: the same model as on one machine.

::

    Dask collections -- persist_tables --> partitions on workers (collections.py, partition.py)
          |
          |   cluster.py: attempts, each with one long-running task per worker (ranks.py)
          v
    TrainWork on each rank (work.py): first pass, bins and rounds
          |
          v
    the same bytes on all ranks --> Booster, estimators (training.py, estimators.py)

Prediction is lazy, one partition at a time (prediction.py).
"""

from __future__ import annotations

from hedgerow.distributed.cluster import Resilience
from hedgerow.distributed.estimators import (
    DaskHedgerowClassifier,
    DaskHedgerowRanker,
    DaskHedgerowRegressor,
)
from hedgerow.distributed.prediction import predict
from hedgerow.distributed.training import train

__all__ = [
    "DaskHedgerowClassifier",
    "DaskHedgerowRanker",
    "DaskHedgerowRegressor",
    "Resilience",
    "predict",
    "train",
]
