"""Lazy prediction of Dask collections, one partition at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.booster import Booster
from hedgerow.distributed.collections import check_objects, is_array, is_collection
from hedgerow.errors import DataError, DataTypeError
from hedgerow.params import PredictionKind


def predict_lazily(
    method: Any, X: Any, dtype: Any, columns: Sequence[Any] | None = None, offset: Any = None
) -> Any:
    """Return the results of ``method(partition)`` for all partitions as one collection."""
    if offset is not None and (not is_collection(offset) or is_array(offset) != is_array(X)):
        kind = "array" if is_array(X) else "series or data frame"
        raise DataTypeError(
            f"offset must be a Dask {kind} with the partitions of X; got {type(offset).__name__}."
        )
    if is_array(X):
        return _predict_array(method, X, dtype, columns, offset)
    shape = 0 if columns is None else (0, len(columns))
    meta = _as_frame(np.zeros(shape, dtype=dtype), None, columns)
    check_objects(X, "X")
    return X.map_partitions(_predict_frame, offset, method, dtype, columns, meta=meta)


def _predict_array(
    method: Any, X: Any, dtype: Any, columns: Sequence[Any] | None, offset: Any
) -> Any:
    if X.ndim != 2:
        raise DataError(f"X must have two axes, rows and columns; got shape {X.shape}.")
    X = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
    if offset is not None:
        offset = offset[:, None] if offset.ndim == 1 else offset
        if offset.numblocks[0] != X.numblocks[0] or offset.shape[0] == X.shape[0]:
            offset = offset.rechunk((X.chunks[0], -1))
    width = None if columns is None else len(columns)
    shape: dict[str, Any] = {"drop_axis": 1}
    if width is not None:
        shape = {"chunks": (X.chunks[0], (width,))}
    return X.map_blocks(_predict_block, offset, method, dtype, width, dtype=dtype, **shape)


def _predict_block(rows: Any, offset: Any, method: Any, dtype: Any, width: int | None) -> AnyArray:
    if rows.shape[0] == 0:
        return np.zeros(0 if width is None else (0, width), dtype=dtype)
    return np.asarray(method(rows) if offset is None else method(rows, offset=offset))


def _predict_frame(
    rows: Any, offset: Any, method: Any, dtype: Any, columns: Sequence[Any] | None
) -> Any:
    found = _predict_block(rows, offset, method, dtype, None if columns is None else len(columns))
    return _as_frame(found, rows.index, columns)


def _as_frame(values: AnyArray, index: Any, columns: Sequence[Any] | None) -> Any:
    """Return a series, or a data frame if the values have columns."""
    import pandas as pd

    if columns is None:
        return pd.Series(values, index=index)
    return pd.DataFrame(values, index=index, columns=list(columns))


def predict(booster: Booster, X: Any, kind: PredictionKind = "value") -> Any:
    """Predict the rows of a Dask collection, lazily.

    Parameters
    ----------
    booster : Booster
    X : dask.dataframe.DataFrame or dask.array.Array
    kind : {"value", "raw", "probability", "leaf"}, default="value"
        As for :meth:`hedgerow.Booster.predict`.

    Returns
    -------
    dask.dataframe.Series, DataFrame or dask.array.Array
        Collection of the same kind as X.
    """
    if not is_collection(X):
        raise DataTypeError(
            f"X must be a Dask data frame or array; got {type(X).__name__}. For data in memory "
            "use the booster itself."
        )
    like = booster.predict(_one_row(booster), kind=kind)
    columns = range(like.shape[1]) if like.ndim == 2 else None
    return predict_lazily(partial(booster.predict, kind=kind, n_jobs=1), X, like.dtype, columns)


def _one_row(booster: Booster) -> dict[str, list[float]]:
    """Return a table with one row of missing values."""
    return {name: [math.nan] for name in booster.feature_names}
