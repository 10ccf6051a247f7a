"""What the threads of a fit share: arrays allocated once, used by every tree.

Glossary
--------
table     one row of integers per node of the tree being grown (``NODE_...``)
scalars   integers that thread 0 writes and all read after a barrier (``IS_...``)
fixed     g and h of every row as 31-bit integers in units of a power of two
packed    the same, coarser, one int64 a row: what histograms add up
slot      place of one node's histogram in the wide sums
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.kernels.barrier import Crew
from hedgerow.kernels.histogram import Bins, Columns, Wide
from hedgerow.kernels.split import SplitRules, SplitScratch
from hedgerow.objectives.derivatives import LossData

# Columns of ``table``.
(
    NODE_START,  # first place of the node's rows in ``rows``
    NODE_COUNT,  # number of rows
    NODE_DEPTH,
    NODE_SLOT,  # -1: no histogram kept
    NODE_G,  # sums over its rows, in histogram units
    NODE_H,
    NODE_OPEN,  # 1: a leaf with a split worth making
    NODE_FEATURE,  # best split; -1 in a leaf for good
    NODE_BIN,
    NODE_MISSING_LEFT,
    NODE_G_LEFT,
    NODE_H_LEFT,
    NODE_N_LEFT,
    NODE_LEFT,  # children; 0 in a leaf
    NODE_RIGHT,
    NODE_FIELDS,
) = range(16)

# Cells of ``scalars``.
(
    IS_TREE,  # number of the tree in the fit: the random stream
    IS_OUTPUT,  # raw score that it adds to
    IS_N_ROWS,  # rows it is grown on (fewer than all with subsample < 1)
    IS_N_NODES,
    IS_N_LEAVES,
    IS_PARENT,  # node being split; -1: the tree is finished
    IS_SMALL,  # child whose histogram is built from rows; -1: none needed
    IS_LARGE,  # its sibling, by subtraction
    IS_SMALL_SLOT,
    IS_LARGE_SLOT,
    IS_SUBTRACT,  # 1: the large child's histogram is parent - small
    IS_SEARCH_SMALL,  # 1: look for a split of this child
    IS_SEARCH_LARGE,
    IS_G_EXPONENT,  # |g| <= 2**exponent, |fixed g| <= 2**30
    IS_H_EXPONENT,
    IS_DROPPED_BITS,  # packed = fixed >> dropped bits
    IS_COUNT_BITS,
    IS_HESSIAN_BITS,
    IS_LIMB_BITS,
    IS_N_LIMBS,
    IS_REDO,  # gradients must be rounded again with the new exponents
    IS_N_FREE,  # free histogram slots
    N_SCALARS,
) = range(23)

# Columns of ``found``: a thread's best split of the small (0) and large (1) child.
FOUND_FIELDS = 6  # feature, bin, missing_left, g_left, h_left, n_left


class Settings(NamedTuple):
    """Parameters of the fit, as the compiled code needs them."""

    loss: np.int64
    n_rows: np.int64
    n_columns_total: np.int64
    max_leaves: np.int64
    max_depth: np.int64
    depthwise: np.int64
    learning_rate: np.float64
    seed: np.uint64
    subsample: np.float64
    columns_by_level: np.float64
    columns_by_node: np.float64
    constant_hessian: np.int64
    n_slots: np.int64


class Rows(NamedTuple):
    """Arrays with one entry (or limb) per row.

    rows     uint32 (n_rows + padding,): row ids, the rows of a node side by side
    scratch  uint32 (n_rows,)
    fixed    int32 (2 * n_rows,): g and h of a row side by side
    packed   int64 (2 * limb_size,): see ``kernels.histogram``
    """

    rows: RowArray
    scratch: RowArray
    fixed: np.ndarray
    packed: IntArray


class Threads(NamedTuple):
    """Arrays with one row per thread, so that threads do not meet."""

    cells: IntArray  # packed sums of one tile
    g_block: FloatArray
    h_block: FloatArray
    counts: IntArray
    largest: FloatArray
    leaf_sums: IntArray  # (threads, 2, nodes)
    found: IntArray  # (threads, 2, FOUND_FIELDS)
    found_score: FloatArray  # (threads, 2)


class Tree(NamedTuple):
    """The tree being grown."""

    table: IntArray  # (nodes, NODE_FIELDS)
    gain: FloatArray
    value: FloatArray
    cover: FloatArray
    allowed: np.ndarray  # uint8 (2, n_features): columns of the small and large child
    shuffled: np.ndarray  # int32 (n_features,): scratch space for drawing them
    free_slots: IntArray


class State(NamedTuple):
    """Everything; one signature for every stage."""

    crew: Crew
    settings: Settings
    rules: SplitRules
    bins: Bins
    loss_data: LossData
    columns: Columns
    n_columns: IntArray  # (1,): how many of ``columns`` this tree uses
    rows: Rows
    threads: Threads
    scratch: SplitScratch  # arrays of (threads * stride,): a part for each thread
    wide: Wide
    tree: Tree
    scalars: IntArray
