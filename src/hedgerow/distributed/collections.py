"""Dask collections of the user as partitions that lie on workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.data.sources.batches import not_one_axis
from hedgerow.distributed.alignment import aligned
from hedgerow.distributed.cluster import Parts, present_workers, ready
from hedgerow.distributed.partition import (
    Description,
    check_descriptions,
    describe,
    make_partition,
    rows_agree,
)
from hedgerow.errors import DataError, DataTypeError

NAMES = {"X": "X", "y": "y", "weight": "sample_weight", "query": "qid"}
"""What the user calls the parts of a partition."""


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
        One value for each row of X, in its order; weight may be None.
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
    columns = {"X": partitions_of(X, "X", 2), "y": partitions_of(y, "y", 1)}
    for role, given in (("weight", weight), ("query", query)):
        if given is not None:
            columns[role] = partitions_of(given, NAMES[role], 1)
    if len({len(parts) for parts in columns.values()}) > 1:
        columns = aligned(client, columns, NAMES)
    futures, described = _put_together(client, columns, workers)
    if not all(map(rows_agree, described)):
        columns = aligned(client, columns, NAMES)
        futures, described = _put_together(client, columns, workers)
    check_descriptions(described)
    lengths = [one.n_rows for one in described]
    if sum(lengths) == 0:
        raise DataError(f"X has no rows in any of its {len(lengths)} partitions.")
    return Parts(futures, lengths), described


def _put_together(
    client: Any, columns: Mapping[str, Sequence[Any]], workers: Sequence[str]
) -> tuple[list[Any], list[Description]]:
    """The partitions of a training on the workers, and what the client has to know of them."""
    import dask

    delayed = []
    make = dask.delayed(make_partition, pure=False)
    n_parts = len(columns["X"])
    for number in range(n_parts):
        place = workers[number * len(workers) // n_parts]
        with dask.annotate(workers=[place], allow_other_workers=True):
            delayed.append(make(**{role: parts[number] for role, parts in columns.items()}))
    futures = client.compute(delayed)
    ready(client, futures)
    return futures, client.gather(client.map(describe, futures, pure=False))


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
    return _parts_of_frame(collection)


def _parts_of_frame(frame: Any) -> list[Any]:
    """As many partitions as the frame says that it has, from files the needed columns only.

    What Dask does to a frame besides when it computes it may join partitions: more for a single
    column than for a whole table, so that target and rows would not be divided alike.
    """
    needed = frame.simplify() if hasattr(frame, "simplify") else frame
    if needed.npartitions != frame.npartitions:
        needed = frame
    parts = needed.to_delayed(optimize_graph=False)
    # Some columns of a Parquet data set, persisted: Dask joins partitions and still counts those
    # from before, the last of which nothing makes.  The rows are all in the first ones.
    return [part for part in parts if part.key in part.dask]


def is_collection(value: Any) -> bool:
    """Whether this is a Dask array, data frame or series."""
    return hasattr(value, "__dask_graph__") and hasattr(value, "to_delayed")


def is_array(value: Any) -> bool:
    """Whether a collection is an array: data frames have partitions."""
    return hasattr(value, "chunks") and not hasattr(value, "divisions")


__all__ = ["Tables", "is_array", "is_collection", "partitions_of", "persist_tables"]
