"""Memory estimate of a fit before it begins.

::

    reading    columns of a frame one by one, and the resulting table
    table      a copy, unless it is an array of one float type; early stopping adds one
               copy when it divides the rows into training and validation rows;
               ``early_stopping="cv"`` takes the rows of all folds from the bins instead
    cuts       up to about 200,000 rows, by column, during the search for cuts
    matrix     bins of the training rows by row and by column, of validation rows by row
    gradients  of each row: g and h as integers, precise and packed, and its row index; with
               vector leaves also g and h of each output
    scores     targets, raw scores, weights, and probabilities if the loss stores them
    histograms and trees

If ``tree_method`` sorts columns, "cuts" is the memory for sorting, and "matrix" is the sorted
rows of each column, twice.

The memory for cuts is released before gradients are allocated, so the peak is below the sum.
The estimate excludes the program itself, the user's own table, target statistics, and
memory used by user-defined losses, metrics or callbacks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hedgerow.argument_types import check_mapping
from hedgerow.boosting.loop.setup.resolved import resolve_strategy, threads_for
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data.binning.bins import SMALLEST_STRIDE, sampled_rows
from hedgerow.data.binning.matrix import PAD, tile_shape
from hedgerow.data.external.blocks import COLUMNS_AT_ONCE, ENTRY_BYTES, SORT_BYTES
from hedgerow.data.external.memory import shown_bytes
from hedgerow.data.reading.frames import as_frame
from hedgerow.errors import DataError, ParameterError, brief, did_you_mean
from hedgerow.growing.core.grower import CELL_BYTES, most_slots
from hedgerow.growing.core.setup import has_constant_hessian, holds_vectors, most_leaves
from hedgerow.kernels.histograms.vector_histogram import width_of
from hedgerow.kernels.prediction.slopes import TERMS
from hedgerow.notebook import Viewed
from hedgerow.objectives import PARAMETERS, make_objective
from hedgerow.objectives.precomputed import prepared_shape
from hedgerow.objectives.targets import several_targets
from hedgerow.params import BOOST_PARAMETER_NAMES, BoostParams, flat
from hedgerow.threads import resolve_threads

_ROW_BYTES = 24
"""Bytes of a row for gradients: 8 for g and h, 8 packed, 4 for its row index, 4 to move it."""

_NODE_BYTES = 150
"""Bytes of a node in its tree and in the model."""

_CODE_BYTES = 13
"""Bytes of a category during reading: codes in the frame's order and in sorted order."""

_ENCODED = ("Categorical", "Enum", "String", "Object")
_NARROW = (*_ENCODED, "Boolean", "Float32", "Int8", "Int16", "UInt8", "UInt16")
"""Types of columns that are read as float32."""

_OTHERS = ("objective", "eval_metric", "n_jobs", "random_state", *PARAMETERS)


@dataclass(frozen=True, slots=True, repr=False)
class MemoryEstimate(Viewed):
    """Memory in bytes of a fit, besides the program and the user's own table.

    Attributes
    ----------
    reading : int
        During reading of a frame, including its copy.
    table : int
        Copies of the table: one for reading, one for held-out rows.
    cuts : int
        During the search for cuts, or the sorting of columns.
    matrix : int
        Bins of training and validation rows, or sorted columns.
    scores : int
        Including targets and weights.
    trees : int
        Of all requested rounds.
    peak : int
        Largest memory at one time.

    Examples
    --------
    >>> from hedgerow import estimate_memory
    >>> estimate = estimate_memory((1_000_000, 28), {"early_stopping": False})
    >>> estimate.peak == estimate.total - estimate.cuts - estimate.reading
    True
    >>> print(estimate)  # doctest: +SKIP
    """

    n_rows: int
    n_features: int
    reading: int
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
        """Largest memory at one time; cuts are released before bins exist."""
        later = self.total - self.cuts - self.reading
        return max(self.reading, self.table + self.cuts, later)

    def _facts(self) -> dict[str, object]:
        size = f"{self.n_rows:,} rows, {self.n_features:,} features"
        return {"fit of": size, "peak": shown_bytes(self.peak)}

    def _more(self) -> list[tuple[str, str]]:
        return [(name, shown_bytes(getattr(self, name))) for name in _PARTS]

    def __str__(self) -> str:
        facts = self._facts()
        lines = (
            f"  {name:<10} {size:>9}" for name, size in (*self._more(), ("peak", facts["peak"]))
        )
        return "\n".join([f"fit of {facts['fit of']}", *lines])


_PARTS = tuple(
    field.name for field in fields(MemoryEstimate) if field.name not in ("n_rows", "n_features")
)


def estimate_memory(
    X: Any, params: Mapping[str, Any] | None = None, *, n_outputs: int = 1
) -> MemoryEstimate:
    """Estimate the memory of a fit on a table in memory.

    Nothing is allocated.  Rows in files use at most their ``memory_limit``.

    Parameters
    ----------
    X : array, data frame, sparse matrix, Dataset, or pair of ints
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
        For parameters that a fit rejects: unknown ones, ``tree_method="exact"`` or ``"approx"``
        with a sparse table or categories, vector leaves for one output or with monotone
        constraints.
    DataError
        If ``X`` has no shape, or is a Dataset of rows in files; if it is sparse, unless
        ``bundle_features=False``, because the memory of a row depends on the bundles.

    Examples
    --------
    >>> from hedgerow import estimate_memory
    >>> estimate = estimate_memory((200_000, 50))
    >>> estimate.n_rows, estimate.n_features, estimate.peak > 50 * 200_000 * 8
    (200000, 50, True)
    """
    shape = _shape_of(X)
    trees, stopping, objective, n_jobs = _read_params(params, n_outputs)
    shape.check(trees)
    n_outputs = objective.n_outputs
    n_rows, n_aside, n_at_once = shape.n_rows, 0, 1
    sets_aside = stopping.is_on(False)
    if stopping.by_folds:
        n_folds, n_at_once = stopping.folds
        n_aside = n_rows // n_folds
    elif sets_aside:
        n_aside = round(stopping.validation_fraction * n_rows)
    n_train = n_rows - n_aside
    leaves = most_leaves(trees, n_train)
    # Trees with one output for each leaf may use fewer threads.
    n_threads = threads_for(resolve_threads(n_jobs), n_train, shape.n_features, n_outputs)
    prepared, bins = prepared_shape(objective, n_train), trees.tree_method == "hist"
    row_bytes, cell_bytes, node_bytes = _ROW_BYTES, CELL_BYTES, _NODE_BYTES * n_outputs
    if holds_vectors(trees):
        width = width_of(n_outputs, has_constant_hessian(objective, None, trees))
        row_bytes += 8 * n_outputs + 4 * width
        cell_bytes = 4 * (width + 1)
        node_bytes = _NODE_BYTES + 16 * n_outputs  # in the tree and in the model
    if bins:
        sizes = _binned(shape, trees, n_train, n_aside, leaves, n_threads, cell_bytes)
    else:  # node offsets in place of histograms
        entries = ENTRY_BYTES * n_train * shape.n_features
        at_once = min(COLUMNS_AT_ONCE, -(-shape.n_features // n_threads))
        sorting = n_threads * n_train * (at_once * shape.item + SORT_BYTES)
        sizes = {
            "cuts": entries + sorting,
            "matrix": 2 * entries + n_threads * ENTRY_BYTES * n_train,
            "histograms": 16 * leaves * shape.n_features,
        }
    scores = 8 * (n_rows * (1 + sets_aside + n_outputs) + prepared[0] * prepared[1])
    # Rows of folds are taken from the bins of all rows, or from the table if it is sorted.
    n_copies = shape.copies + (not stopping.by_folds if bins else n_at_once) * sets_aside
    matrix = sizes["matrix"] * n_at_once
    if trees.linear_leaves:  # values as floats, once for all rows, and again for each fold
        matrix += 8 * shape.n_features * n_rows * (1 + stopping.by_folds * n_at_once)
        matrix += 8 * (2 + TERMS) * n_train * n_at_once
    if stopping.by_folds and bins:
        matrix += _binned(shape, trees, n_rows, 0, leaves, n_threads)["matrix"]
    return MemoryEstimate(
        n_rows=n_rows,
        n_features=shape.n_features,
        reading=n_rows * shape.reading,
        table=n_copies * n_rows * shape.bytes_of_row,
        cuts=sizes["cuts"],
        matrix=matrix,
        gradients=row_bytes * n_train * n_at_once,
        scores=scores * n_at_once,
        histograms=sizes["histograms"] * n_at_once,
        trees=node_bytes * trees.n_estimators * trees.num_parallel_tree * (2 * leaves - 1)
        * n_at_once,
    )  # fmt: skip


def _binned(
    shape: _TableShape,
    trees: BoostParams,
    n_train: int,
    n_aside: int,
    leaves: int,
    n_threads: int,
    cell_bytes: int = CELL_BYTES,
) -> dict[str, int]:
    """Return the memory of cuts, bins and histograms."""
    n_tiles, _, width = tile_shape(shape.n_features)
    n_looked_at = min(n_train, len(sampled_rows(min(n_train, _MOST_LOOKED_AT), 0)))
    n_bins = min(int(trees.max_bins), max(2, n_train))
    cells = shape.n_features * max(SMALLEST_STRIDE, 1 << n_bins.bit_length())
    return {
        "cuts": n_looked_at * (shape.bytes_of_row + 8 * (1 + n_threads)),
        "matrix": (n_train + PAD) * (n_tiles * width + shape.n_features)
        + (n_aside + PAD if n_aside else 0) * n_tiles * width,
        "histograms": cell_bytes * cells * (most_slots(leaves, cells, cell_bytes) + 2 + n_threads),
    }


_MOST_LOOKED_AT = 10**7
"""Largest number of rows from which the estimate draws the sample for cuts; with more rows the
sample has about the same size."""


@dataclass(frozen=True, slots=True)
class _TableShape:
    """Bytes of a value and of a row while it is read; entries of a row if sparse; a text column."""

    n_rows: int
    n_features: int
    item: int = 8
    copies: bool = False
    reading: int = 0
    entries: float | None = None
    category: str | None = None

    @property
    def bytes_of_row(self) -> int:
        """Bytes of a row in a copy."""
        if self.entries is not None:
            return math.ceil(self.entries * (self.item + 4)) + 8
        return self.n_features * self.item

    def check(self, trees: BoostParams) -> None:
        """Raise an error for trees whose memory cannot be estimated."""
        if trees.tree_method != "hist":
            for what, found in (("sparse tables", self.entries), ("categories", self.category)):
                if found is not None:
                    raise ParameterError(
                        f"tree_method={trees.tree_method!r} sorts columns of numbers, not {what}: "
                        "use tree_method='hist'."
                    )
        elif self.entries is not None and trees.bundle_features is not False:
            raise DataError(
                "the memory of a sparse table depends on which columns can share a bundle, which "
                "is known only after the table is read: with bundle_features=False "
                "estimate_memory returns the memory without bundles, which is the most."
            )


def _shape_of(X: Any) -> _TableShape:
    """Return the properties of a table before it is read."""
    if isinstance(X, Dataset):
        if X.reads_batches:
            raise DataError(
                "a fit of rows in files takes at most the memory_limit of its Dataset, so nothing "
                "is estimated; estimate_memory((n_rows, n_features)) tells what the same rows "
                "take in memory."
            )
        return _shape_of(X.X)
    if isinstance(X, tuple) and len(X) == 2 and all(_is_count(size) for size in X):
        return _TableShape(int(X[0]), int(X[1]))
    shape = getattr(X, "shape", None)
    if not isinstance(shape, tuple) or len(shape) != 2 or not all(map(_is_count, shape)):
        raise DataError(
            "estimate_memory needs a table of rows and columns, or a pair (n_rows, n_features) of "
            f"numbers above 0; got {type(X).__name__} of shape {shape!r}."
        )
    n_rows, n_features = int(shape[0]), int(shape[1])
    if hasattr(X, "tocsr"):
        return _TableShape(n_rows, n_features, entries=int(X.nnz) / n_rows)
    if isinstance(X, np.ndarray):
        if X.dtype in (np.float32, np.float64):
            return _TableShape(n_rows, n_features, X.dtype.itemsize)
        return _TableShape(n_rows, n_features, copies=True, reading=8 * n_features)
    frame = as_frame(X)
    if frame is None:
        return _TableShape(n_rows, n_features, copies=True, reading=16 * n_features)
    types = [str(dtype) for dtype in frame.native.schema.dtypes()]
    if len(set(types)) == 1 and types[0] in ("Float32", "Float64"):
        item = 4 if types[0] == "Float32" else 8
        copies = not hasattr(X, "iloc")  # pandas holds such columns as one block
        return _TableShape(n_rows, n_features, item, copies, item * n_features * copies)
    names = [name.partition("(")[0] for name in types]
    item = 4 if all(name in _NARROW for name in names) else 8
    encoded = [name in _ENCODED for name in names]
    read = sum(_CODE_BYTES if is_code else item for is_code in encoded) + item * n_features
    category = frame.names[encoded.index(True)] if any(encoded) else None
    return _TableShape(n_rows, n_features, item, True, read, category=category)


def _is_count(size: object) -> bool:
    return isinstance(size, int | np.integer) and not isinstance(size, bool) and int(size) > 0


def _read_params(
    params: Mapping[str, Any] | None, n_outputs: int
) -> tuple[BoostParams, StoppingParams, Any, int | None]:
    if not _is_count(n_outputs):
        raise ParameterError(f"n_outputs must be an integer above 0; got {brief(n_outputs)}.")
    for_stopping = [field.name for field in fields(StoppingParams) if field.name != "began"]
    known: Sequence[str] = (*BOOST_PARAMETER_NAMES, *for_stopping, *_OTHERS)
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
    # A user-defined loss stores g and h of each row, like other losses without a kernel.
    objective = (
        make_objective(name, n_outputs if several else 1, parameters=requested)
        if isinstance(name, str)
        else make_objective("huber")
    )
    if objective.n_outputs == 1 and n_outputs > 1:
        single = objective
        objective = several_targets(single, n_outputs)
    return resolve_strategy(trees, objective), stopping, objective, given.get("n_jobs")
