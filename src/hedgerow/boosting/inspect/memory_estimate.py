"""Memory estimate of a fit before it begins.

It excludes the program itself, the user's own table and its conversion, target statistics, and
memory used by user-defined losses, metrics or callbacks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hedgerow.argument_types import check_mapping
from hedgerow.boosting.loop.setup.resolved import resolve_strategy, threads_for
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data.binning.bins import SMALLEST_STRIDE
from hedgerow.data.binning.cut_sample import SAMPLE_ROWS
from hedgerow.data.binning.matrix import PAD, tile_shape
from hedgerow.data.external.blocks import COLUMNS_AT_ONCE, ENTRY_BYTES, SORT_BYTES
from hedgerow.data.external.memory import shown_bytes
from hedgerow.errors import DataError, ParameterError, brief, did_you_mean
from hedgerow.growing.core.grower import CELL_BYTES, most_slots
from hedgerow.growing.core.setup import has_constant_hessian, holds_vectors, most_leaves
from hedgerow.kernels.histograms.vector_histogram import width_of
from hedgerow.kernels.prediction.slopes import TERMS
from hedgerow.objectives import PARAMETERS, objective_for
from hedgerow.objectives.precomputed import prepared_shape
from hedgerow.objectives.targets import several_targets
from hedgerow.params import BOOST_PARAMETER_NAMES, BoostParams, Interval, flat
from hedgerow.shown import Viewed
from hedgerow.threads import resolve_threads

_ROW_BYTES = 24
"""Bytes of a row for gradients: 8 for g and h, 8 packed, 4 for its row index, 4 to move it."""

_NODE_BYTES = 150
"""Bytes of a node in its tree and in the model."""

_COUNT = Interval(1, math.inf, integer=True)


@dataclass(frozen=True, slots=True, repr=False)
class MemoryEstimate(Viewed):
    """Memory in bytes of a fit, besides the program and the user's own table.

    Attributes
    ----------
    table : int
        Copies of the table: one unless it is an array of floats, and one if early stopping
        divides its rows; folds take theirs from the bins.
    cuts : int
        Up to about 200,000 rows during the search for cuts, or the sorting of columns.
    matrix : int
        Bins of training rows by row and by column, and of validation rows by row; or two copies
        of sorted columns.
    gradients : int
        Of each row as integers, precise and packed, and its index; of each output for vectors.
    scores : int
        Including targets, weights, and probabilities if the loss stores them.
    trees : int
        Of all requested rounds.
    peak : int
        Largest memory at one time.

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
        return sum(self._parts().values())

    @property
    def peak(self) -> int:
        """Largest memory at one time; cuts are released before bins exist."""
        return max(self.table + self.cuts, self.total - self.cuts)

    def _parts(self) -> dict[str, int]:
        return {field.name: getattr(self, field.name) for field in fields(self)[2:]}

    def _facts(self) -> dict[str, object]:
        size = f"{self.n_rows:,} rows, {self.n_features:,} features"
        return {"fit of": size, "peak": shown_bytes(self.peak)}

    def __str__(self) -> str:
        sizes = self._parts() | {"peak": self.peak}
        lines = [f"  {name:<10} {shown_bytes(size):>9}" for name, size in sizes.items()]
        return "\n".join([f"fit of {self._facts()['fit of']}", *lines])


def estimate_memory(
    X: Any, params: Mapping[str, Any] | None = None, *, n_outputs: int = 1
) -> MemoryEstimate:
    """Estimate the memory of a fit on a table in memory.

    Nothing is allocated.  Rows in files use at most their ``memory_limit``, and sparse tables
    less than dense ones of their shape.

    Parameters
    ----------
    X : array, data frame, Dataset, or pair of ints
        The table, or its shape ``(n_rows, n_features)``, which means an array of
        float64.
    params : mapping, optional
        As for :func:`hedgerow.train`.  With early stopping, rows are held out, which
        copies the table.
    n_outputs : int, default=1
        Number of raw scores of a row: the number of classes if more than two, or of targets.

    Returns
    -------
    MemoryEstimate

    Raises
    ------
    ParameterError
        For parameters that a fit rejects, such as unknown ones.
    DataError
        If ``X`` has no shape, is sparse, or is a Dataset of rows in files.

    Examples
    --------
    >>> from hedgerow import estimate_memory
    >>> estimate = estimate_memory((200_000, 50))
    >>> estimate.n_rows, estimate.n_features, estimate.peak > 50 * 200_000 * 8
    (200000, 50, True)
    """
    n_rows, n_features, item, n_copies = _size_of(X)
    trees, stopping, objective, n_jobs = _read_params(params, n_outputs)
    n_outputs, table = objective.n_outputs, n_rows * n_features * item
    by_folds, bins = stopping.by_folds, trees.tree_method == "hist"
    sets_aside = stopping.is_on(False)
    n_aside, n_at_once = 0, 1
    if by_folds:
        n_folds, n_at_once = stopping.search.folds
        n_aside = n_rows // n_folds
    elif sets_aside:
        n_aside = round(stopping.validation_fraction * n_rows)
    n_train = n_rows - n_aside
    leaves = most_leaves(trees, n_train)
    # Trees with one output for each leaf may use fewer threads.
    n_threads = threads_for(resolve_threads(n_jobs), n_train, n_features, n_outputs)
    row_bytes, cell_bytes, node_bytes = _ROW_BYTES, CELL_BYTES, _NODE_BYTES * n_outputs
    if holds_vectors(trees):
        width = width_of(n_outputs, has_constant_hessian(objective, None, trees))
        row_bytes += 8 * n_outputs + 4 * width
        cell_bytes = 4 * (width + 1)
        node_bytes = _NODE_BYTES + 16 * n_outputs  # in the tree and in the model
    if bins:
        cuts = min(n_train, SAMPLE_ROWS) * (n_features * item + 8 * (1 + n_threads))
        n_tiles, _, width = tile_shape(n_features)
        by_row = n_tiles * width
        matrix = (n_train + PAD) * (by_row + n_features) + (n_aside + PAD) * by_row * sets_aside
        matrix *= n_at_once
        if by_folds:
            matrix += (n_rows + PAD) * (by_row + n_features)
        n_bins = min(int(trees.max_bins), max(2, n_train))
        cells = n_features * max(SMALLEST_STRIDE, 1 << n_bins.bit_length())
        slots = most_slots(leaves, cells, cell_bytes) + 2 + n_threads
        histograms = cell_bytes * cells * slots
        n_copies += sets_aside and not by_folds  # rows of folds are taken from the bins
    else:  # node offsets in place of histograms
        entries = ENTRY_BYTES * n_train * n_features
        columns = min(COLUMNS_AT_ONCE, -(-n_features // n_threads))
        cuts = entries + n_threads * n_train * (columns * item + SORT_BYTES)
        matrix = (2 * entries + n_threads * ENTRY_BYTES * n_train) * n_at_once
        histograms = 16 * leaves * n_features
        n_copies += sets_aside * n_at_once  # and here from the table
    if trees.linear_leaves:  # values as floats, once for all rows, and again for each fold
        matrix += 8 * n_features * n_rows * (1 + by_folds * n_at_once)
        matrix += 8 * (2 + TERMS) * n_train * n_at_once
    n_prepared = math.prod(prepared_shape(objective, n_train))
    scores = 8 * (n_rows * (1 + sets_aside + n_outputs) + n_prepared)
    n_nodes = trees.n_estimators * trees.num_parallel_tree * (2 * leaves - 1)
    return MemoryEstimate(
        n_rows=n_rows,
        n_features=n_features,
        table=n_copies * table,
        cuts=cuts,
        matrix=matrix,
        gradients=row_bytes * n_train * n_at_once,
        scores=scores * n_at_once,
        histograms=histograms * n_at_once,
        trees=node_bytes * n_nodes * n_at_once,
    )


def _size_of(X: Any) -> tuple[int, int, int, int]:
    """Return rows, columns, bytes of a value, and copies of a table by a fit without folds."""
    X = X.X if isinstance(X, Dataset) and not X.reads_batches else X
    if isinstance(X, Dataset) or hasattr(X, "tocsr"):
        raise DataError(
            "a fit of rows in files takes at most the memory_limit of its Dataset, and one of a "
            "sparse table depends on its values, so nothing is estimated; "
            "estimate_memory((n_rows, n_features)) tells what a dense table in memory takes."
        )
    shape = X if isinstance(X, tuple) else getattr(X, "shape", None)
    if not isinstance(shape, tuple) or len(shape) != 2 or not all(n in _COUNT for n in shape):
        raise DataError(
            "estimate_memory needs a table of rows and columns, or a pair (n_rows, n_features) of "
            f"numbers above 0; got {type(X).__name__} of shape {shape!r}."
        )
    of_floats = isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64)
    item = X.dtype.itemsize if of_floats else 8
    return int(shape[0]), int(shape[1]), item, int(not of_floats and X is not shape)


def _read_params(
    params: Mapping[str, Any] | None, n_outputs: int
) -> tuple[BoostParams, StoppingParams, Any, int | None]:
    if n_outputs not in _COUNT:
        raise ParameterError(f"n_outputs must be {_COUNT}; got {brief(n_outputs)}.")
    for_stopping = ("early_stopping", "validation_fraction", "patience", "min_delta", "time_budget")
    others = ("objective", "eval_metric", "n_jobs", "random_state", "train_scores", *PARAMETERS)
    known = (*BOOST_PARAMETER_NAMES, *for_stopping, *others)
    check_mapping(params)
    given = flat(params or {}, known)
    for name in given:
        if name not in known:
            raise ParameterError(f"unknown parameter {name!r}.{did_you_mean(name, known)}")
    trees = BoostParams(**{name: given[name] for name in given if name in BOOST_PARAMETER_NAMES})
    stopping = StoppingParams(**{name: given[name] for name in given if name in for_stopping})
    name = given.get("objective", "squared_error")
    requested = {name: given[name] for name in PARAMETERS if name in given}
    several = isinstance(name, str) and name in ("softmax", "one_vs_all")
    objective = objective_for(name, n_outputs if several else 1, requested)
    if objective.n_outputs == 1 and n_outputs > 1:
        objective = several_targets(objective, n_outputs)
    return resolve_strategy(trees, objective), stopping, objective, given.get("n_jobs")
