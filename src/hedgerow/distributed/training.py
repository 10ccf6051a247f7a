"""Training on a Dask cluster with :func:`train`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from hedgerow.argument_types import is_one_of
from hedgerow.booster import Booster, initial_model
from hedgerow.boosting.row_data.row_values import given_values
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data.categories.columns import CategoricalFeatures
from hedgerow.data.schema import UnknownCategory
from hedgerow.distributed.cluster import Resilience, run_on_workers
from hedgerow.distributed.collections import Tables, persist_tables
from hedgerow.distributed.work import TrainWork
from hedgerow.errors import ParameterError, brief
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.io import model_from_bytes
from hedgerow.model.model import Model
from hedgerow.params import BOOST_PARAMETER_NAMES, boost_params
from hedgerow.training import loss_of, read_settings, stopping_of


def train(
    client: Any,
    params: Mapping[str, Any] | None,
    X: Any,
    y: Any,
    weight: Any = None,
    *,
    X_val: Any = None,
    y_val: Any = None,
    weight_val: Any = None,
    qid: Any = None,
    qid_val: Any = None,
    offset: Any = None,
    offset_val: Any = None,
    groups: Any = None,
    time: Any = None,
    categorical_features: CategoricalFeatures = "auto",
    unknown_category: UnknownCategory = "missing",
    parallelism: GrowMode = "data",
    memory_limit: int | None = None,
    resilience: Resilience | None = None,
    init_model: Any = None,
) -> Booster:
    """Train a model on the workers of a Dask cluster.

    The model has the same bytes as the model of :func:`hedgerow.train` on the same rows in
    memory, for any number of workers, any partitions, and any faults during training.  Options that
    need all rows at once (exact search and a few others, see docs/clusters.md) are errors.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster whose workers hold the rows.
    params : mapping or None
        As for :func:`hedgerow.train`; ``n_jobs`` is the number of threads of each worker, by
        default all.
    X : dask.dataframe.DataFrame or dask.array.Array, shape (n_rows, n_features)
    y : dask.dataframe.Series or dask.array.Array, shape (n_rows,)
        One value per row of X, in the same order; or several columns (docs/several-targets.md).
    weight : like y, optional
    X_val, y_val, weight_val : like X, y and weight, optional
        Rows for learning curves and early stopping.
    qid, qid_val : like y, optional
        For ranking, the query of each row; the rows of a query may be in any partitions.
    offset, offset_val : like y, or with a column for each output, optional
        Initial raw scores; see docs/training-control.md.
    groups : like y, optional
        Rows of a group stay together in folds and held-out rows; see :class:`hedgerow.Dataset`.
    time : like y, optional
        Number or date of each row: the latest rows are held out.
    categorical_features, unknown_category
        As for :class:`hedgerow.Dataset`.
    parallelism : {"data", "features"}, default="data"
        The division of work between workers, of the same model: each has its rows, or all rows and
        searches its features, for few rows of many columns; see docs/distributed.md.
    memory_limit : int, optional
        Memory for binned rows on each worker in bytes; other rows go to its local directory.
        By default 40% of the worker's memory limit.
    resilience : Resilience, optional
        Timeouts and limit of restarts.
    init_model : Booster, fitted estimator, or path of a model file, optional
        The model to continue, as for :func:`hedgerow.train`.

    Returns
    -------
    Booster

    Raises
    ------
    CommunicationError
        If workers are lost or stall too often.
    DataError, DataTypeError
        If data are invalid; the message names partition and column.
    ParameterError
        For an unknown parameter, a value out of range, or an option that needs all rows at once.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> from distributed import Client
    >>> from hedgerow.distributed import train
    >>> client = Client("tcp://scheduler:8786")                          # doctest: +SKIP
    >>> table = dd.read_parquet("s3://bucket/rows/")                     # doctest: +SKIP
    >>> X, y = table.drop(columns="price"), table["price"]               # doctest: +SKIP
    >>> booster = train(client, {"n_estimators": 500}, X, y)             # doctest: +SKIP
    """
    rows = {"X": X, "y": y, **given_values(locals())}
    valid = {"X": X_val, "y": y_val, **given_values(locals(), "_val")}
    check_parallelism(parallelism)
    given = read_settings(params)
    if "random_state" in given:
        if "seed" in given:
            raise ParameterError("seed and random_state are the same parameter: give one of them.")
        given["seed"] = given.pop("random_state")
    trees = boost_params({name: given[name] for name in given if name in BOOST_PARAMETER_NAMES})
    tables = persist_tables(client, rows, valid)
    start = None if init_model is None else Booster(initial_model(init_model)[0]).to_bytes()
    loss = loss_of(given, qid is not None)
    work = TrainWork(
        loss=replace(loss, labelled="DaskHedgerowClassifier"),
        params=trees,
        stopping=stopping_of(given),
        eval_metric=given.get("eval_metric"),
        categorical=categorical_features,
        unknown=unknown_category,
        memory_limit=memory_limit,
        n_jobs=given.get("n_jobs"),
        start=start,
    )
    return Booster(train_on_workers(client, work, tables, parallelism, resilience))


def train_on_workers(
    client: Any,
    work: TrainWork,
    tables: Tables,
    parallelism: GrowMode,
    resilience: Resilience | None,
) -> Model:
    """Train on computed partitions; see :func:`train`."""
    everywhere, validation = parallelism == "features", tables.validation
    resilience = resilience or Resilience()
    content = run_on_workers(
        client,
        replace(
            work,
            stopping=_with_time_left(work.stopping),
            mode=parallelism,
            has_validation=validation is not None,
            checkpoint_every=resilience.checkpoint_every,
            checksums=tables.checksums,
            **tables.columns,
        ),
        replace(tables.train, everywhere=everywhere),
        more=None if validation is None else replace(validation, everywhere=everywhere),
        resilience=resilience,
    )
    return model_from_bytes(content)[0]


def check_parallelism(value: object) -> None:
    """Raise ``ParameterError`` for an unknown division of work."""
    if not is_one_of(value, get_args(GrowMode)):
        known = " or ".join(map(repr, get_args(GrowMode)))
        raise ParameterError(f"parallelism must be {known}; got {brief(value)}.")


def _with_time_left(stopping: StoppingParams) -> StoppingParams:
    """Return parameters with the remaining time budget, because clocks of machines differ."""
    if stopping.time_budget is None:
        return stopping
    left = stopping.time_budget - (time.monotonic() - stopping.began)
    return replace(stopping, time_budget=max(left, sys.float_info.min))
