"""Dask collections of the user as partitions that lie on workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.data.sources.batches import not_one_axis
from hedgerow.distributed.cluster import Parts, present_workers, ready
from hedgerow.distributed.partition import (
    Description,
    check_descriptions,
    describe,
    make_partition,
)
from hedgerow.errors import DataError, DataTypeError


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """What a training reads.

    Attributes
    ----------
    train : Parts
    validation : Parts or None
    n_features : int
    checksums : two tuples of int
        Of the partitions of both.
    """

    train: Parts
    validation: Parts | None
    n_features: int
    checksums: tuple[tuple[int, ...], tuple[int, ...]]


def persist_tables(
    client: Any,
    train: tuple[Any, Any, Any],
    validation: tuple[Any, Any, Any],
    queries: tuple[Any, Any] = (None, None),
) -> Tables:
    """Compute the partitions of ``(X, y, weight)`` and, unless X is None, those for validation.

    ``queries`` are those of the rows of both, for rankings.

    Raises
    ------
    DataError, DataTypeError
        If they do not belong together; the message names partition and column.
    """
    X_val, y_val, weight_val = validation
    if (X_val is None) != (y_val is None):
        given, missing = ("X_val", "y_val") if y_val is None else ("y_val", "X_val")
        raise DataError(f"{given} is given without {missing}: give both or neither.")
    if X_val is None and weight_val is not None:
        raise DataError("weights of validation rows are given without X_val and y_val.")
    if X_val is None and queries[1] is not None:
        raise DataError("qid_val is given without X_val and y_val.")
    if X_val is not None and (queries[0] is None) != (queries[1] is None):
        given, missing = ("qid", "qid_val") if queries[1] is None else ("qid_val", "qid")
        raise DataError(
            f"{given} is given without {missing}: give the queries of training and validation "
            "rows, or of neither."
        )
    workers = present_workers(client)
    parts, found = persist_partitions(client, *train, workers, queries[0])
    more: Parts | None = None
    others: list[Description] = []
    if X_val is not None:
        more, others = persist_partitions(client, *validation, workers, queries[1])
        check_descriptions([found[0], others[0]])
    checksums = tuple(one.checksum for one in found), tuple(one.checksum for one in others)
    return Tables(parts, more, found[0].n_features, checksums)


def persist_partitions(
    client: Any, X: Any, y: Any, weight: Any, workers: Sequence[str], query: Any = None
) -> tuple[Parts, list[Description]]:
    """Compute all partitions, neighbouring ones on the same worker.

    Dask may put them elsewhere, and makes them again from their graph where a worker is
    lost.

    Parameters
    ----------
    client : distributed.Client
    X : dask.dataframe.DataFrame or dask.array.Array
    y, weight : dask.dataframe.Series or dask.array.Array
        Divided as X; weight may be None.
    workers : sequence of str
        Addresses.
    query : like y, optional

    Returns
    -------
    Parts
    list of Description
        Of the partitions.

    Raises
    ------
    DataError, DataTypeError
        If they do not belong together.
    """
    import dask

    columns = {"X": partitions_of(X, "X", 2), "y": partitions_of(y, "y", 1)}
    for role, name, given in (("weight", "sample_weight", weight), ("query", "qid", query)):
        if given is not None:
            columns[role] = partitions_of(given, name, 1)
    n_parts = len(columns["X"])
    for role, name in (("y", "y"), ("weight", "sample_weight"), ("query", "qid")):
        if role in columns and len(columns[role]) != n_parts:
            raise DataError(
                f"X has {n_parts} partitions, but {name} has {len(columns[role])}: divide all "
                "collections in the same way (repartition, rechunk)."
            )
    delayed = []
    make = dask.delayed(make_partition, pure=False)
    for number in range(n_parts):
        place = workers[number * len(workers) // n_parts]
        with dask.annotate(workers=[place], allow_other_workers=True):
            delayed.append(make(**{role: parts[number] for role, parts in columns.items()}))
    futures = client.compute(delayed)
    ready(client, futures)
    described = client.gather(client.map(describe, futures, pure=False))
    check_descriptions(described)
    lengths = [one.n_rows for one in described]
    if sum(lengths) == 0:
        raise DataError(f"X has no rows in any of its {len(lengths)} partitions.")
    return Parts(futures, lengths), described


def partitions_of(collection: Any, name: str, n_axes: int) -> list[Any]:
    """The partitions of a collection, as delayed objects.

    Raises
    ------
    DataTypeError
        If it is no Dask data frame, series or array.
    DataError
        If it has the wrong number of axes.
    """
    if not is_collection(collection):
        raise DataTypeError(
            f"{name} must be a Dask data frame, series or array; got {type(collection).__name__}. "
            "Data in memory are turned into one by dask.dataframe.from_pandas or "
            "dask.array.from_array, or trained on by hedgerow.train."
        )
    if is_array(collection):
        if collection.ndim == 2 and n_axes == 1 and collection.shape[1] == 1:
            collection = collection[:, 0]
        if collection.ndim != n_axes and n_axes == 1:
            raise not_one_axis(name, collection.shape)
        if collection.ndim != n_axes:
            raise DataError(f"{name} must have {n_axes} axes, got shape {collection.shape}.")
        if n_axes == 2 and len(collection.chunks[1]) > 1:
            collection = collection.rechunk({1: -1})
        return list(np.ravel(collection.to_delayed()))
    return list(collection.to_delayed())


def is_collection(value: Any) -> bool:
    """Whether this is a Dask array, data frame or series."""
    return hasattr(value, "__dask_graph__") and hasattr(value, "to_delayed")


def is_array(value: Any) -> bool:
    """Whether a collection is an array: data frames have partitions."""
    return hasattr(value, "chunks") and not hasattr(value, "divisions")


__all__ = ["Tables", "is_array", "is_collection", "partitions_of", "persist_tables"]
