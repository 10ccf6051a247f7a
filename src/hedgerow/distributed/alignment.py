"""Alignment of collections that divide the same rows into different partitions.

Dask reads a single column of a Parquet data set in larger partitions than the complete table,
and keeps these partitions when the column is persisted or converted to an array.  Rows are
numbered in the order of the partitions, so targets match rows wherever partitions end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hedgerow.distributed.cluster import ready
from hedgerow.distributed.partition import row_count
from hedgerow.errors import DataError


def aligned(
    client: Any, columns: Mapping[str, Sequence[Any]], names: Mapping[str, str]
) -> dict[str, list[Any]]:
    """Divide all collections into the partitions of X."""
    import dask

    futures = {role: client.compute(list(parts)) for role, parts in columns.items()}
    for parts in futures.values():
        ready(client, parts)
    lengths = {
        role: client.gather(client.map(row_count, parts, pure=False))
        for role, parts in futures.items()
    }
    wanted = np.cumsum([0, *lengths["X"]])
    found = {"X": futures["X"]}
    cut = dask.delayed(rows_between, pure=False)
    for role in columns:
        if role == "X":
            continue
        ends = np.cumsum([0, *lengths[role]])
        if ends[-1] != wanted[-1]:
            raise DataError(
                f"X has {wanted[-1]} rows in {len(wanted) - 1} partitions, but {names[role]} has "
                f"{ends[-1]} in {len(ends) - 1}: pass collections of the same rows."
            )
        found[role] = [
            cut(futures[role][first:last], start - ends[first], stop - ends[first], X, names[role])
            for start, stop, X in zip(wanted, wanted[1:], futures["X"], strict=False)
            for first, last in [_pieces(ends, start, stop)]
        ]
    return found


def _pieces(ends: Any, start: int, stop: int) -> tuple[int, int]:
    """Return the range of the partitions with rows ``start .. stop``; it is not empty."""
    first = int(np.searchsorted(ends, start, side="right")) - 1
    first = min(first, len(ends) - 2)
    return first, max(int(np.searchsorted(ends, stop, side="left")), first + 1)


def rows_between(pieces: Sequence[Any], start: int, stop: int, X: Any, name: str) -> Any:
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
