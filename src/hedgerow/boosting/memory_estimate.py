"""How much memory a fit will take, before it begins.

::

    reading    a copy of the table, unless it is an array of one float type
    set aside  a copy of all rows, divided into training and validation rows
    cuts       up to about 200,000 rows, by column, while cuts are looked for
    matrix     bins of the training rows by row and by column, of validation rows by row
    gradients  of each row: g and h as integers, precise and packed, and its place
    scores     targets, raw scores, probabilities where a loss keeps them, weights
    histograms and trees

The cuts are let go before gradients are there, so the peak is below the sum.  Not
counted are the program itself, the user's own table, statistics of targets, and what a
user's loss, metric or callback makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hedgerow.boosting.rounds import threads_for
from hedgerow.boosting.stopping import StoppingParams
from hedgerow.data.bins import SMALLEST_STRIDE, rows_to_look_at
from hedgerow.data.matrix import PAD, tile_shape
from hedgerow.data.memory import shown_bytes
from hedgerow.errors import DataError, ParameterError, did_you_mean
from hedgerow.growing.grower import CELL_BYTES, most_slots
from hedgerow.growing.setup import most_leaves
from hedgerow.objectives import PARAMETERS, make_objective
from hedgerow.objectives.given import prepared_shape
from hedgerow.params import BOOST_PARAMETER_NAMES, BoostParams
from hedgerow.threads import resolve_threads

_ROW_BYTES = 24
"""Of the gradients: 8 of g and h, 8 packed, 4 of the place, 4 to move it."""

_NODE_BYTES = 150
"""A node in its tree, and in the model."""

_OTHERS = ("objective", "eval_metric", "n_jobs", "random_state", *PARAMETERS)


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes that a fit takes beside the program and the user's own table.

    Attributes
    ----------
    n_rows, n_features : int
    table : int
        Copies of the table: one to read it, one to set rows aside.
    cuts : int
        While cuts are looked for.
    matrix : int
        Bins of training and validation rows.
    gradients : int
    scores : int
        With targets and weights.
    histograms : int
    trees : int
        Of all rounds that are asked for.
    peak : int
        Most at one time.

    Examples
    --------
    >>> from hedgerow import estimate_memory
    >>> estimate = estimate_memory((1_000_000, 28), {"early_stopping": False})
    >>> estimate.peak == estimate.total - estimate.cuts
    True
    >>> print(estimate)  # doctest: +SKIP
    """

    n_rows: int
    n_features: int
    table: int
    cuts: int
    matrix: int
    gradients: int
    scores: int
    histograms: int
    trees: int

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return sum(getattr(self, name) for name in _PARTS)

    @property
    def peak(self) -> int:
        """Most at one time: cuts are let go before there are bins."""
        return max(self.table + self.cuts, self.total - self.cuts)

    def __str__(self) -> str:
        parts = [
            f"  {name:<10} {shown_bytes(getattr(self, name)):>9}" for name in (*_PARTS, "peak")
        ]
        return "\n".join([f"fit of {self.n_rows:,} rows, {self.n_features:,} features", *parts])


_PARTS = tuple(
    field.name for field in fields(MemoryEstimate) if field.name not in ("n_rows", "n_features")
)


def estimate_memory(
    X: Any, params: Mapping[str, Any] | None = None, *, n_outputs: int = 1
) -> MemoryEstimate:
    """Estimate how much memory a fit of a table in memory takes.

    Nothing is allocated.  Rows in files take what ``memory_limit`` grants them.

    Parameters
    ----------
    X : array, data frame, or pair of ints
        The table, or its shape ``(n_rows, n_features)``, which stands for an array of
        float64.
    params : mapping, optional
        As for :func:`hedgerow.train`.  With early stopping rows are set aside, which
        copies the table.
    n_outputs : int, default=1
        Raw scores of a row: the number of classes, if there are more than two.

    Returns
    -------
    MemoryEstimate

    Raises
    ------
    ParameterError
        For unknown parameters, and for ``tree_method`` other than ``"hist"``.
    DataError
        If ``X`` has no shape, or is sparse: what its rows take depends on its bundles.

    Examples
    --------
    >>> from hedgerow import estimate_memory
    >>> estimate = estimate_memory((200_000, 50))
    >>> estimate.n_rows, estimate.n_features, estimate.peak > 50 * 200_000 * 8
    (200000, 50, True)
    """
    n_rows, n_features, item, reads = _shape_of(X)
    trees, stopping, objective, n_jobs = _read_params(params, n_outputs)
    sets_aside = stopping.is_on(n_rows, False) and not stopping.by_out_of_bag
    n_aside = round(stopping.validation_fraction * n_rows) if sets_aside else 0
    n_train = n_rows - n_aside
    n_tiles, _, width = tile_shape(n_features)
    n_looked_at = min(n_train, len(rows_to_look_at(min(n_train, _MOST_LOOKED_AT), 0)))
    n_bins = min(int(trees.max_bins), max(2, n_train))
    cells = n_features * max(SMALLEST_STRIDE, 1 << n_bins.bit_length())
    leaves = most_leaves(trees, n_train)
    n_threads = threads_for(resolve_threads(n_jobs), n_train, n_features)
    prepared = prepared_shape(objective, n_train)
    return MemoryEstimate(
        n_rows=n_rows,
        n_features=n_features,
        table=(reads + sets_aside) * n_rows * n_features * item,
        cuts=n_looked_at * (n_features * item + 8 * (1 + n_threads)),
        matrix=(n_train + PAD) * (n_tiles * width + n_features)
        + (n_aside + PAD if n_aside else 0) * n_tiles * width,
        gradients=_ROW_BYTES * n_train,
        scores=8 * (n_rows * (1 + sets_aside + n_outputs) + prepared[0] * prepared[1]),
        histograms=CELL_BYTES * cells * (most_slots(leaves, cells) + 2 + n_threads),
        trees=_NODE_BYTES * trees.n_estimators * n_outputs * (2 * leaves - 1),
    )


_MOST_LOOKED_AT = 10**7
"""Rows of which the sample for the cuts is drawn here: its size is about the same for more."""


def _shape_of(X: Any) -> tuple[int, int, int, bool]:
    """Rows, columns, bytes of a value, and whether reading copies the table."""
    if isinstance(X, tuple) and len(X) == 2 and all(_is_count(size) for size in X):
        return int(X[0]), int(X[1]), 8, False
    if hasattr(X, "tocsr"):
        raise DataError(
            "estimate_memory is for dense tables: what a row of a sparse one takes depends on "
            "which columns can share a bundle, which is known after the table is read."
        )
    shape = getattr(X, "shape", None)
    if not isinstance(shape, tuple) or len(shape) != 2 or not all(map(_is_count, shape)):
        raise DataError(
            "estimate_memory needs a table of rows and columns, or a pair (n_rows, n_features) of "
            f"numbers above 0; got {type(X).__name__} of shape {shape!r}."
        )
    if isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64):
        return int(shape[0]), int(shape[1]), X.dtype.itemsize, False
    return int(shape[0]), int(shape[1]), 8, True


def _is_count(size: object) -> bool:
    return isinstance(size, int | np.integer) and not isinstance(size, bool) and int(size) > 0


def _read_params(
    params: Mapping[str, Any] | None, n_outputs: int
) -> tuple[BoostParams, StoppingParams, Any, int | None]:
    given = dict(params or {})
    if not _is_count(n_outputs):
        raise ParameterError(f"n_outputs must be an integer above 0; got {n_outputs!r}.")
    for_stopping = [field.name for field in fields(StoppingParams) if field.name != "began"]
    known: Sequence[str] = (*BOOST_PARAMETER_NAMES, *for_stopping, *_OTHERS)
    for name in given:
        if name not in known:
            raise ParameterError(f"unknown parameter {name!r}.{did_you_mean(str(name), known)}")
    trees = BoostParams(**{name: given[name] for name in given if name in BOOST_PARAMETER_NAMES})
    if trees.tree_method != "hist":
        raise ParameterError(
            f"estimate_memory knows tree_method='hist' only; got {trees.tree_method!r}."
        )
    stopping = StoppingParams(**{name: given[name] for name in given if name in for_stopping})
    name = given.get("objective", "squared_error")
    asked = {name: given[name] for name in PARAMETERS if name in given}
    several = isinstance(name, str) and name in ("softmax", "one_vs_all")
    # A function of the user's keeps g and h of each row, as other losses do that are not built in.
    objective = (
        make_objective(name, n_outputs if several else 1, parameters=asked)
        if isinstance(name, str)
        else make_objective("huber")
    )
    return trees, stopping, objective, given.get("n_jobs")


__all__ = ["MemoryEstimate", "estimate_memory"]
