"""How much memory a fit will take, before it begins.

::

    reading    columns of a frame one by one, and the table that they become
    table      a copy, unless it is an array of one float type; early stopping divides
               all rows into training and validation rows, which is one more;
               ``early_stopping="cv"`` takes the rows of all folds of the bins instead
    cuts       up to about 200,000 rows, by column, while cuts are looked for
    matrix     bins of the training rows by row and by column, of validation rows by row
    gradients  of each row: g and h as integers, precise and packed, and its place
    scores     targets, raw scores, probabilities where a loss keeps them, weights
    histograms and trees

Where ``tree_method`` sorts columns, "cuts" is what sorting takes, and "matrix" the sorted
rows of each column, twice.

The cuts are let go before gradients are there, so the peak is below the sum.  Not
counted are the program itself, the user's own table, statistics of targets, and what a
user's loss, metric or callback makes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hedgerow.advanced import flat
from hedgerow.boosting.loop.rounds import threads_for
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data.binning.bins import SMALLEST_STRIDE, sampled_rows
from hedgerow.data.binning.matrix import PAD, tile_shape
from hedgerow.data.external.blocks import COLUMNS_AT_ONCE, ENTRY_BYTES
from hedgerow.data.external.memory import shown_bytes
from hedgerow.data.reading.frames import as_frame
from hedgerow.errors import DataError, ParameterError, did_you_mean
from hedgerow.growing.core.grower import CELL_BYTES, most_slots
from hedgerow.growing.core.setup import most_leaves
from hedgerow.kernels.prediction.slopes import TERMS
from hedgerow.objectives import PARAMETERS, make_objective
from hedgerow.objectives.precomputed import prepared_shape
from hedgerow.params import BOOST_PARAMETER_NAMES, BoostParams
from hedgerow.threads import resolve_threads

_ROW_BYTES = 24
"""Of the gradients: 8 of g and h, 8 packed, 4 of the place, 4 to move it."""

_NODE_BYTES = 150
"""A node in its tree, and in the model."""

_SORT_BYTES = 48
"""Of a value while its column is sorted: keys, rows and both as one number, before and after."""

_CODE_BYTES = 13
"""Of a category while its column is read: codes in the frame's order and in that of the values."""

_ENCODED = ("Categorical", "Enum", "String", "Object")
_NARROW = (*_ENCODED, "Boolean", "Float32", "Int8", "Int16", "UInt8", "UInt16")
"""Kinds of columns that are read as float32."""

_OTHERS = ("objective", "eval_metric", "n_jobs", "random_state", *PARAMETERS)


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes that a fit takes beside the program and the user's own table.

    Attributes
    ----------
    n_rows, n_features : int
    reading : int
        While a frame is read, the copy that it becomes among it.
    table : int
        Copies of the table: one to read it, one to set rows aside.
    cuts : int
        While cuts are looked for, or columns sorted.
    matrix : int
        Bins of training and validation rows, or sorted columns.
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
        """Most at one time: cuts are let go before there are bins."""
        later = self.total - self.cuts - self.reading
        return max(self.reading, self.table + self.cuts, later)

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
    X : array, data frame, sparse matrix, or pair of ints
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
        For unknown parameters, and for ``tree_method="exact"`` or ``"approx"`` of a
        sparse table or of categories, which a fit refuses, too.
    DataError
        If ``X`` has no shape; if it is sparse, unless ``bundle_features=False``: what its
        rows take depends on the bundles that are found.

    Examples
    --------
    >>> from hedgerow import estimate_memory
    >>> estimate = estimate_memory((200_000, 50))
    >>> estimate.n_rows, estimate.n_features, estimate.peak > 50 * 200_000 * 8
    (200000, 50, True)
    """
    given = _shape_of(X)
    trees, stopping, objective, n_jobs = _read_params(params, n_outputs)
    given.check(trees)
    n_rows, n_aside, n_at_once = given.n_rows, 0, 1
    sets_aside = stopping.is_on(n_rows, False) and not stopping.by_out_of_bag
    if stopping.by_folds:
        n_folds, n_at_once = stopping.folds
        n_aside = n_rows // n_folds
    elif sets_aside:
        n_aside = round(stopping.validation_fraction * n_rows)
    n_train = n_rows - n_aside
    leaves = most_leaves(trees, n_train)
    # Of trees with one output a leaf there may be fewer threads.
    n_threads = threads_for(resolve_threads(n_jobs), n_train, given.n_features, n_outputs)
    prepared = prepared_shape(objective, n_train)
    form = _binned if trees.tree_method == "hist" else _sorted
    form_bytes = form(given, trees, n_train, n_aside, leaves, n_threads)
    scores = 8 * (n_rows * (1 + sets_aside + n_outputs) + prepared[0] * prepared[1])
    # Rows of folds are taken of the bins of all rows, or of the table if it is sorted.
    n_copies = given.copies + (n_at_once if form is _sorted else not stopping.by_folds) * sets_aside
    matrix = form_bytes["matrix"] * n_at_once
    if trees.linear_leaves:  # values as floats, once for all rows, and again for each fold
        matrix += 8 * given.n_features * n_rows * (1 + stopping.by_folds * n_at_once)
        matrix += 8 * (2 + TERMS) * n_train * n_at_once
    if stopping.by_folds and form is _binned:
        matrix += _binned(given, trees, n_rows, 0, leaves, n_threads)["matrix"]
    return MemoryEstimate(
        n_rows=n_rows,
        n_features=given.n_features,
        reading=n_rows * given.reading,
        table=n_copies * n_rows * given.bytes_of_row,
        cuts=form_bytes["cuts"],
        matrix=matrix,
        gradients=_ROW_BYTES * n_train * n_at_once,
        scores=scores * n_at_once,
        histograms=form_bytes["histograms"] * n_at_once,
        trees=_NODE_BYTES
        * trees.n_estimators
        * trees.num_parallel_tree
        * n_outputs
        * (2 * leaves - 1)
        * n_at_once,
    )


def _binned(
    given: _Given, trees: BoostParams, n_train: int, n_aside: int, leaves: int, n_threads: int
) -> dict[str, int]:
    """Cuts, bins and histograms."""
    n_tiles, _, width = tile_shape(given.n_features)
    n_looked_at = min(n_train, len(sampled_rows(min(n_train, _MOST_LOOKED_AT), 0)))
    n_bins = min(int(trees.max_bins), max(2, n_train))
    cells = given.n_features * max(SMALLEST_STRIDE, 1 << n_bins.bit_length())
    return {
        "cuts": n_looked_at * (given.bytes_of_row + 8 * (1 + n_threads)),
        "matrix": (n_train + PAD) * (n_tiles * width + given.n_features)
        + (n_aside + PAD if n_aside else 0) * n_tiles * width,
        "histograms": CELL_BYTES * cells * (most_slots(leaves, cells) + 2 + n_threads),
    }


def _sorted(
    given: _Given, trees: BoostParams, n_train: int, n_aside: int, leaves: int, n_threads: int
) -> dict[str, int]:
    """Sorting and sorted columns; there are no histograms, but the places of nodes in lists."""
    entries = ENTRY_BYTES * n_train * given.n_features
    at_once = min(COLUMNS_AT_ONCE, -(-given.n_features // n_threads))
    sorting = n_threads * n_train * (at_once * given.item + _SORT_BYTES)
    return {
        "cuts": entries + max(sorting, entries),
        "matrix": 2 * entries + n_threads * ENTRY_BYTES * n_train,
        "histograms": 16 * leaves * given.n_features,
    }


_MOST_LOOKED_AT = 10**7
"""Rows of which the sample for the cuts is drawn here: its size is about the same for more."""


@dataclass(frozen=True, slots=True)
class _Given:
    """What is known of a table.

    Attributes
    ----------
    n_rows, n_features : int
    item : int
        Bytes of a value.
    copies : bool
        Whether reading copies it.
    reading : int
        Bytes of a row while it is read.
    entries : float or None
        Recorded entries of a row, if it is sparse.
    category : str or None
        Name of the first column of categories or text.
    """

    n_rows: int
    n_features: int
    item: int = 8
    copies: bool = False
    reading: int = 0
    entries: float | None = None
    category: str | None = None

    @property
    def bytes_of_row(self) -> int:
        """Of a copy."""
        if self.entries is not None:
            return math.ceil(self.entries * (self.item + 4)) + 8
        return self.n_features * self.item

    def check(self, trees: BoostParams) -> None:
        """Raise for trees of which the memory is not known."""
        if trees.tree_method != "hist":
            for what, found in (("sparse tables", self.entries), ("categories", self.category)):
                if found is not None:
                    raise ParameterError(
                        f"tree_method={trees.tree_method!r} sorts columns of numbers, not {what}: "
                        "use tree_method='hist'."
                    )
        elif self.entries is not None and trees.bundle_features is not False:
            raise DataError(
                "what a row of a sparse table takes depends on which columns can share a bundle, "
                "which is known after the table is read: with bundle_features=False "
                "estimate_memory tells what it takes without bundles, which is the most."
            )


def _shape_of(X: Any) -> _Given:
    """What is known of a table before it is read."""
    if isinstance(X, tuple) and len(X) == 2 and all(_is_count(size) for size in X):
        return _Given(int(X[0]), int(X[1]))
    shape = getattr(X, "shape", None)
    if not isinstance(shape, tuple) or len(shape) != 2 or not all(map(_is_count, shape)):
        raise DataError(
            "estimate_memory needs a table of rows and columns, or a pair (n_rows, n_features) of "
            f"numbers above 0; got {type(X).__name__} of shape {shape!r}."
        )
    n_rows, n_features = int(shape[0]), int(shape[1])
    if hasattr(X, "tocsr"):
        return _Given(n_rows, n_features, entries=int(X.nnz) / n_rows)
    if isinstance(X, np.ndarray):
        if X.dtype in (np.float32, np.float64):
            return _Given(n_rows, n_features, X.dtype.itemsize)
        return _Given(n_rows, n_features, copies=True, reading=8 * n_features)
    frame = as_frame(X)
    if frame is None:
        return _Given(n_rows, n_features, copies=True, reading=16 * n_features)
    types = [str(dtype) for dtype in frame.native.schema.dtypes()]
    if len(set(types)) == 1 and types[0] in ("Float32", "Float64"):
        item = 4 if types[0] == "Float32" else 8
        copies = not hasattr(X, "iloc")  # pandas holds such columns as one block
        return _Given(n_rows, n_features, item, copies, item * n_features * copies)
    names = [name.partition("(")[0] for name in types]
    item = 4 if all(name in _NARROW for name in names) else 8
    encoded = [name in _ENCODED for name in names]
    read = sum(_CODE_BYTES if is_code else item for is_code in encoded) + item * n_features
    category = frame.names[encoded.index(True)] if any(encoded) else None
    return _Given(n_rows, n_features, item, True, read, category=category)


def _is_count(size: object) -> bool:
    return isinstance(size, int | np.integer) and not isinstance(size, bool) and int(size) > 0


def _read_params(
    params: Mapping[str, Any] | None, n_outputs: int
) -> tuple[BoostParams, StoppingParams, Any, int | None]:
    if not _is_count(n_outputs):
        raise ParameterError(f"n_outputs must be an integer above 0; got {n_outputs!r}.")
    for_stopping = [field.name for field in fields(StoppingParams) if field.name != "began"]
    known: Sequence[str] = (*BOOST_PARAMETER_NAMES, *for_stopping, *_OTHERS)
    given = flat(params or {}, known)
    for name in given:
        if name not in known:
            raise ParameterError(f"unknown parameter {name!r}.{did_you_mean(str(name), known)}")
    trees = BoostParams(**{name: given[name] for name in given if name in BOOST_PARAMETER_NAMES})
    stopping = StoppingParams(**{name: given[name] for name in given if name in for_stopping})
    name = given.get("objective", "squared_error")
    requested = {name: given[name] for name in PARAMETERS if name in given}
    several = isinstance(name, str) and name in ("softmax", "one_vs_all")
    # A function of the user's keeps g and h of each row, as other losses do that are not built in.
    objective = (
        make_objective(name, n_outputs if several else 1, parameters=requested)
        if isinstance(name, str)
        else make_objective("huber")
    )
    return trees, stopping, objective, given.get("n_jobs")


__all__ = ["MemoryEstimate", "estimate_memory"]
