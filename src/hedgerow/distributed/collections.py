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
    client: Any, train: tuple[Any, Any, Any], validation: tuple[Any, Any, Any]
) -> Tables:
    """Compute the partitions of ``(X, y, weight)`` and, unless X is None, those for validation.

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
    workers = present_workers(client)
    parts, found = persist_partitions(client, *train, workers)
    more: Parts | None = None
    others: list[Description] = []
    if X_val is not None:
        more, others = persist_partitions(client, *validation, workers)
        check_descriptions([found[0], others[0]])
    checksums = tuple(one.checksum for one in found), tuple(one.checksum for one in others)
    return Tables(parts, more, found[0].n_features, checksums)


def persist_partitions(
    client: Any, X: Any, y: Any, weight: Any, workers: Sequence[str]
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

    columns = [partitions_of(X, "X", 2), partitions_of(y, "y", 1)]
    if weight is not None:
        columns.append(partitions_of(weight, "sample_weight", 1))
    for found, name in zip(columns[1:], ("y", "sample_weight"), strict=False):
        if len(found) != len(columns[0]):
            raise DataError(
                f"X has {len(columns[0])} partitions, but {name} has {len(found)}: divide all "
                "collections in the same way (repartition, rechunk)."
            )
    delayed = []
    make = dask.delayed(make_partition, pure=False)
    for number, parts in enumerate(zip(*columns, strict=True)):
        place = workers[number * len(workers) // len(columns[0])]
        with dask.annotate(workers=[place], allow_other_workers=True):
            delayed.append(make(*parts))
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
