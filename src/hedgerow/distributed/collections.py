"""Conversion of the user's Dask collections to partitions on workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.boosting.row_data.row_values import ROW_VALUES, WEIGHT
from hedgerow.data.sources.batches import not_one_axis
from hedgerow.distributed.cluster import Parts, naming_lost_scheduler, present_workers, ready
from hedgerow.distributed.partition import (
    Description,
    check_descriptions,
    columns_of,
    describe,
    make_partition,
    row_count,
)
from hedgerow.errors import DataError, DataTypeError

NAMES = {"X": "X", "y": "y"} | {value.name: value.of_fit for value in ROW_VALUES}
"""The user's names for the parts of a partition."""


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """The tables of a training."""

    train: Parts
    validation: Parts | None
    # Checksums of the partitions of the training and validation rows
    checksums: tuple[tuple[int, ...], tuple[int, ...]]
    n_targets: int
    columns: Mapping[str, Any]  # names and roles of the columns


def persist_tables(client: Any, train: Mapping[str, Any], validation: Mapping[str, Any]) -> Tables:
    """Compute the partitions of the training rows and of optional validation rows."""
    train, validation = _present(train), _present(validation)
    _check_both(train, validation)
    if not hasattr(client, "submit"):
        raise DataTypeError(
            f"client must be a distributed.Client; got {type(client).__name__}: create one with "
            "distributed.Client(address)."
        )
    more: Parts | None = None
    others: list[Description] = []
    with naming_lost_scheduler(client):
        workers = present_workers(client)
        parts, found = persist_partitions(client, train, workers)
        if validation:
            more, others = persist_partitions(client, validation, workers)
            check_descriptions([found[0], others[0]])
            if len({(one.n_targets, one.target_names) for one in (found[0], *others)}) > 1:
                raise DataError("y_val has other columns than y, or the same in another order.")
    return Tables(
        parts,
        more,
        (tuple(one.checksum for one in found), tuple(one.checksum for one in others)),
        found[0].n_targets,
        columns_of(found[0], train),
    )


def _present(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {role: part for role, part in parts.items() if part is not None}


def _check_both(train: Mapping[str, Any], validation: Mapping[str, Any]) -> None:
    """Raise if validation rows have fewer or more parts than the training rows."""
    if ("X" in validation) != ("y" in validation):
        given, missing = ("X_val", "y_val") if "X" in validation else ("y_val", "X_val")
        raise DataError(f"{given} is given without {missing}: give both or neither.")
    for role in validation:
        if "X" not in validation:
            raise DataError(f"{NAMES[role]}_val is given without X_val and y_val.")
    for value in ROW_VALUES:
        if value.of_training or value is WEIGHT:
            continue
        if validation and (value.name in train) != (value.name in validation):
            name = value.of_fit
            given, missing = f"{name}_val", name
            if value.name in train:
                given, missing = missing, given
            raise DataError(
                f"{given} is given without {missing}: give it for training and validation rows, "
                "or for neither."
            )


def persist_partitions(
    client: Any, parts: Mapping[str, Any], workers: Sequence[str]
) -> tuple[Parts, list[Description]]:
    """Compute all partitions, with consecutive partitions on the same worker."""
    # Dask may move partitions, and computes them again from their graph if a worker is lost.
    columns = {
        role: partitions_of(part, NAMES[role], _axes_of(role, part)) for role, part in parts.items()
    }
    if len({len(parts) for parts in columns.values()}) > 1:
        columns = _aligned(client, columns)
    futures, described = _put_together(client, columns, workers)
    if not all(set(one.n_values) <= {one.n_rows} for one in described):
        columns = _aligned(client, columns)
        futures, described = _put_together(client, columns, workers)
    check_descriptions(described)
    lengths = [one.n_rows for one in described]
    if sum(lengths) == 0:
        raise DataError(f"X has no rows in any of its {len(lengths)} partitions.")
    return Parts(futures, lengths), described


def _aligned(client: Any, columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Divide all collections into the partitions of X."""
    import dask

    # Dask reads a single column of Parquet in larger partitions than the complete table, and keeps
    # these when it is persisted or converted to an array.
    futures = {role: client.compute(list(parts)) for role, parts in columns.items()}
    for parts in futures.values():
        ready(client, parts)
    lengths = {
        role: client.gather(client.map(row_count, parts, pure=False))
        for role, parts in futures.items()
    }
    wanted = np.cumsum([0, *lengths["X"]])
    found = {"X": futures["X"]}
    cut = dask.delayed(_rows_between, pure=False)
    for role in columns:
        if role == "X":
            continue
        ends = np.cumsum([0, *lengths[role]])
        if ends[-1] != wanted[-1]:
            raise DataError(
                f"X has {wanted[-1]} rows in {len(wanted) - 1} partitions, but {NAMES[role]} has "
                f"{ends[-1]} in {len(ends) - 1}: pass collections of the same rows."
            )
        found[role] = [
            cut(futures[role][first:last], start - ends[first], stop - ends[first], X, NAMES[role])
            for start, stop, X in zip(wanted, wanted[1:], futures["X"], strict=False)
            for first, last in [_pieces(ends, start, stop)]
        ]
    return found


def _pieces(ends: Any, start: int, stop: int) -> tuple[int, int]:
    """Return the range of the partitions with rows ``start .. stop``; it is not empty."""
    first = int(np.searchsorted(ends, start, side="right")) - 1
    first = min(first, len(ends) - 2)
    return first, max(int(np.searchsorted(ends, stop, side="left")), first + 1)


def _rows_between(pieces: Sequence[Any], start: int, stop: int, X: Any, name: str) -> Any:
    """Return some rows of consecutive partitions."""
    if not hasattr(pieces[0], "iloc"):
        is_masked = any(isinstance(piece, np.ma.MaskedArray) for piece in pieces)
        join = np.ma.concatenate if is_masked else np.concatenate
        return join([np.asanyarray(piece) for piece in pieces])[start:stop]
    import pandas as pd

    rows = pd.concat(list(pieces)).iloc[start:stop]
    if hasattr(X, "index") and not rows.index.equals(X.index):
        raise DataError(
            f"X and {name} have different partitions, and different indexes for the same rows: "
            "take both from the same collection, or divide them in the same way (repartition)."
        )
    return rows


def _axes_of(role: str, part: Any) -> int:
    """Return the number of axes of a part: y and offset may have several columns."""
    if role == "X":
        return 2
    if role not in ("y", "offset") or getattr(part, "ndim", 1) != 2:
        return 1
    return 2 if part.shape[1] > 1 else 1


def _put_together(
    client: Any, columns: Mapping[str, Sequence[Any]], workers: Sequence[str]
) -> tuple[list[Any], list[Description]]:
    """Return the partitions on the workers, and their descriptions on the client."""
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
    """Return the partitions of a collection as delayed objects."""
    if not is_collection(collection):
        raise DataTypeError(
            f"{name} must be a Dask data frame, series or array; got {type(collection).__name__}. "
            "Convert data in memory with dask.dataframe.from_pandas or "
            "dask.array.from_array, or train with hedgerow.train."
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
    check_objects(collection, name)
    return _parts_of_frame(collection)


def _parts_of_frame(frame: Any) -> list[Any]:
    """Return the original partitions of a frame, which read only the needed columns of files."""
    # Computing a frame may join partitions: more for a target than for a table.
    needed = frame.simplify() if hasattr(frame, "simplify") else frame
    if needed.npartitions != frame.npartitions:
        needed = frame
    parts = needed.to_delayed(optimize_graph=False)
    # For persisted columns of a Parquet data set, Dask joins partitions but keeps the old
    # count.  All rows are in the first partitions, and the last partitions do not exist.
    return [part for part in parts if part.key in part.dask]


def is_collection(value: Any) -> bool:
    """Return whether an object is a Dask array, data frame or series."""
    return hasattr(value, "__dask_graph__") and hasattr(value, "to_delayed")


def is_array(value: Any) -> bool:
    """Return whether a collection is an array; only data frames have partitions."""
    return hasattr(value, "chunks") and not hasattr(value, "divisions")


def check_objects(frame: Any, name: str) -> None:
    """Raise ``DataTypeError`` if Dask turned Python objects of a pandas frame into text."""
    import pandas as pd

    # By default Dask does so with all objects: dates and numbers would become categories.
    steps = frame.expr.walk() if hasattr(getattr(frame, "expr", None), "walk") else ()
    for step in steps:
        if type(step).__name__ != "FromPandas" or not step.pyarrow_strings_enabled:
            continue
        source = getattr(step.frame, "_data", step.frame)
        columns = source.items() if isinstance(source, pd.DataFrame) else [(source.name, source)]
        kept = frame.columns if frame.ndim == 2 else [frame.name]
        for column, values in columns:
            some = values.dropna().head(1) if values.dtype == object else ()
            if column in kept and any(not isinstance(value, str) for value in some):
                raise DataTypeError(
                    f"column {column!r} of {name} holds Python objects that are no text, and Dask "
                    "turned them into text: set dask.config.set({'dataframe.convert-string': "
                    "False}) before the frame is made, or convert the column, for example by "
                    "pandas.to_datetime."
                )
