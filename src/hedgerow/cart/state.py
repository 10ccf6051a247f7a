"""The state of a growing single tree: arrays and records that its kernels share.

Glossary
--------
see :mod:`hedgerow.cart.grow`
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.cart.search import Least, Rows

# Columns of ``table``.
(
    NODE_START,
    NODE_COUNT,
    NODE_DEPTH,
    NODE_PURE,  # 1: all targets are equal
    NODE_FEATURE,  # -1: no split found
    NODE_N_LEFT,
    NODE_LAST_LEFT,  # rank of the last value that goes left
    NODE_FIRST_RIGHT,  # rank of the next value; -1: only missing values go right
    NODE_MISSING_LEFT,
    NODE_LEFT,  # left child, the right one follows; 0 without split
    NODE_EXPANDED,  # how many splits were made before its own; -1 in a leaf
    NODE_FIELDS,
) = range(12)

# Columns of ``numbers``.
(NUMBER_WEIGHT, NUMBER_IMPURITY, NUMBER_VALUE, NUMBER_DECREASE, NUMBERS) = range(5)

# Cells of ``progress``.
(
    AT_PHASE,
    AT_NODE,
    AT_SIBLING,
    AT_NODES,
    AT_LEAVES,
    AT_FRONTIER,
    AT_EXPANSIONS,
    AT_CHOSEN,
    AT_FIELDS,
) = range(9)


class CartRules(NamedTuple):
    """Parameters of growth, as the compiled code needs them."""

    criterion: np.int64
    n_classes: np.int64  # 0 in regression
    max_depth: np.int64
    max_leaf_nodes: np.int64
    best_first: np.int64
    min_samples_split: np.int64
    min_weight_leaf: np.float64
    min_impurity_decrease: np.float64
    max_features: np.int64
    seed: np.uint64
    large: np.int64  # rows from which on the caller searches and divides
    least: Least


class Samples(NamedTuple):
    """Targets and weights of the rows.

    code    uint32: class; empty in regression
    target  float64: empty in classification
    weight  float64: empty if all are 1
    """

    code: kt.UInt32_1D
    target: kt.ReadOnly[kt.Float64_1D]
    weight: kt.Float64_1D


class Columns(NamedTuple):
    """Cells of all features, one feature after another, and what the features are.

    cells        uint64
    categorical  uint8, one per feature
    """

    cells: kt.UInt64_1D
    n_rows: np.int64
    n_features: np.int64
    categorical: kt.UInt8_1D


class Work(NamedTuple):
    """Arrays that growth writes to.

    rows    uint32: row ids, node by node, ascending
    spare   uint32: for their division
    flags   uint8, one per row
    read    what the criteria read, by row
    totals  float64 (2 + n_classes,): mass, sum of shares and class masses of the node at hand
    counts  float64 (n_classes,)
    chosen  int64, one per feature: first those that the node at hand is to be split by
    """

    rows: kt.UInt32_1D
    spare: kt.UInt32_1D
    flags: kt.UInt8_1D
    read: Rows
    totals: kt.Float64_1D
    counts: kt.Float64_1D
    chosen: kt.Int64_1D


class Tree(NamedTuple):
    """Nodes in the order in which they were made."""

    table: kt.Int64_2D
    numbers: kt.Float64_2D
    frontier: kt.Int64_1D


class Found(NamedTuple):
    """Best cut of each chosen feature."""

    score: kt.Float64_1D
    n_first: kt.Int64_1D
    missing_left: kt.Int64_1D


class Growth(NamedTuple):
    """A growing tree; kernels are handed its address."""

    samples: Samples
    columns: Columns
    rules: CartRules
    work: Work
    tree: Tree
    progress: kt.Int64_1D
    found: Found
