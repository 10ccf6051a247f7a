"""The state that the threads of a fit share: arrays allocated once, used by every tree.

Glossary
--------
table     one row of integers per node of the tree being grown (``NODE_...``)
numbers   one row of floats per node (``NUMBER_...``)
scalars   integers that thread 0 writes and all read after a barrier (``IS_...``)
quantized  g and h of every row as 31-bit integers in units of a power of two
packed    the same, coarser, one int64 a row: what histograms add up
slot      place of one node's histogram in the wide sums
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.kernels.cuda.commands import GpuCommands
from hedgerow.kernels.histograms.histogram import Bins, Columns, HistogramSums, RowLists
from hedgerow.kernels.histograms.vector_histogram import Sums
from hedgerow.kernels.presorted.exact import CutBuffer
from hedgerow.kernels.primitives.barrier import ThreadTeam
from hedgerow.kernels.simd.lanes import WIDTH
from hedgerow.kernels.splits.category_search import Groups
from hedgerow.kernels.splits.category_split import CategoryRules
from hedgerow.kernels.splits.constraints import Constraints
from hedgerow.kernels.splits.split import SplitRules
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
    NODE_G_LEFT,
    NODE_H_LEFT,
    NODE_N_LEFT,
    # These stand side by side: they are copied together after each tree.
    NODE_FEATURE,  # best split; -1 in a leaf for good
    NODE_BIN,
    NODE_MISSING_LEFT,
    NODE_COLUMN,  # column of bins that its rows are divided by
    NODE_LEFT,  # children; 0 in a leaf
    NODE_RIGHT,
    NODE_PATH,  # the way from the root, left or right at each step, as a number
    NODE_SET,  # SET_WORDS words: bit b is set if bin b goes left
) = range(18)
SET_WORDS = 4
NODE_FIELDS = NODE_SET + SET_WORDS

# Cells of ``scalars``.
(
    IS_TREE,  # number of the tree in the fit: the random stream
    IS_ROUND,  # number of its row sample: that of its round, where a round has one
    IS_OUTPUT,  # raw score that it adds to
    IS_N_ROWS,  # rows it is grown on (fewer than all with subsample < 1)
    IS_N_NODES,
    IS_N_LEAVES,
    IS_N_JOBS,  # jobs of the batch; 0: the tree is finished
    IS_N_SEARCHED,  # nodes of the batch of which a split is looked for
    IS_G_EXPONENT,  # |g| <= 2**exponent, |fixed g| <= 2**30
    IS_H_EXPONENT,
    IS_DROPPED_BITS,  # packed = fixed >> dropped bits
    IS_COUNT_BITS,
    IS_HESSIAN_BITS,
    IS_G_APART,
    IS_REDO,  # gradients must be rounded again with the new exponents
    IS_N_FREE,  # free histogram slots
    IS_N_COLUMNS,  # columns that the tree may use
    IS_UNIT_SCALE,  # bits of a float64: the units of a sample are multiplied by it
    IS_N_FEATURES,  # features that it may use: as many, except with bundles
    IS_FIRST_ROW,  # rows before these, in chunks before: random draws count from the first of all
    IS_PREFIX,  # first digits of the threshold of a sample by gradients
    IS_ABOVE,  # number of keys whose first digits are larger
    IS_BELOW,  # sum of the keys whose first digits are not
    IS_THRESHOLD,  # GOSS: smallest key that may be kept for sure; MVS: mu; bits of a float64
    IS_TIES,  # GOSS: rows with this key that are kept for sure, the first ones of this rank
    N_SCALARS,
) = range(26)

# Columns of ``numbers``.
NUMBER_GAIN, NUMBER_VALUE, NUMBER_COVER, NUMBERS = range(4)

# Columns of ``counts``.
(
    COUNT_G_MOST,  # bits of the largest |g|
    COUNT_H_MOST,
    COUNT_G_SUM,  # sums of |fixed g| and fixed h
    COUNT_H_SUM,
    COUNT_SAMPLED,  # rows in the sample
    COUNT_TIES,  # rows at the threshold of the sample
    COUNT_LEFT,  # rows that go left
    COUNTS,
) = range(8)

# Last axis of ``found``.
(
    FOUND_SCORE,  # bits of a float64
    FOUND_FEATURE,
    FOUND_COLUMN,
    FOUND_BIN,
    FOUND_MISSING_LEFT,
    FOUND_G_LEFT,
    FOUND_H_LEFT,
    FOUND_N_LEFT,
    FOUND_OWN,  # bits: several outputs, score of the node, or of those of a level, as leaves
    FOUND_SET,  # SET_WORDS words
) = range(10)
FOUND_FIELDS = FOUND_SET + SET_WORDS


# Cells of a job of a batch (:mod:`hedgerow.growing.core.batch`).
(
    JOB_PARENT,  # node whose rows are divided, or -1
    JOB_SMALL,  # child with fewer rows, or the node itself; -1: neither child is searched
    JOB_LARGE,  # its sibling, or -1
    JOB_SMALL_SLOT,  # of its histogram
    JOB_LARGE_SLOT,
    JOB_SEARCH_SMALL,  # 1: look for a split of this child
    JOB_SEARCH_LARGE,
    JOB_HISTOGRAMS,  # how the histograms are made
    JOB_FIELDS,
) = range(9)

BUILT = 0  # from the rows of each child that is searched
SUBTRACTED = 1  # of the smaller child from its rows, of the larger one by subtraction
KEPT = 2  # it is there


class Settings(NamedTuple):
    """Parameters of the fit, as the compiled code needs them."""

    loss: np.int64
    n_rows: np.int64
    n_columns: np.int64  # of the binned matrix
    max_leaves: np.int64
    max_depth: np.int64
    depthwise: np.int64
    learning_rate: np.float64
    longest_step: np.float64  # of a leaf, before the rate, for losses whose hessians vanish
    seed: np.uint64
    subsample: np.float64  # expected share of the rows in a sample
    columns_by_level: np.float64
    columns_by_node: np.float64
    constant_hessian: np.int64
    first_order: np.int64  # 1: every hessian is the row's weight
    adds_scores: np.int64  # 1: the tree is added to the raw scores of its rows
    packs_all: np.int64  # 1: the gradient pass packs every row
    n_slots: np.int64


class Rows(NamedTuple):
    """Arrays with one entry (or more) per row.

    rows     uint32 (n_rows + padding,): row ids, the rows of a node side by side
    scratch  uint32 (n_rows,)
    quantized  int32 (2 * n_rows,): g and h of a row side by side
    packed   int64 (2 * n_rows,): one or two words a row, see ``kernels.histogram``
    """

    rows: kt.UInt32_1D
    scratch: kt.UInt32_1D
    quantized: kt.Int32_1D
    packed: kt.Int64_1D


class Threads(NamedTuple):
    """Arrays with one part per thread, so that threads do not meet.

    cells      int64 (threads, cells of a tile): packed sums
    blocks     float64 (threads, 2, block): g and h of a block of rows
    counts     int64 (threads, COUNTS)
    leaf_sums  int64 (threads, 2, nodes): g and h of each leaf
    """

    cells: kt.Int64_2D
    blocks: kt.Float64_3D
    counts: kt.Int64_2D
    leaf_sums: kt.Int64_3D


class Search(NamedTuple):
    """Space for the search of splits.

    lanes    int64 (threads, 2, 8): the columns searched side by side, and where
             their bins start
    found    int64 (threads, 2, FOUND_FIELDS): best split of the small and large child
    allowed  int32 (3, n_features): 1, at first for all, for columns in which the small (0) and the
             large (1) child is searched; scratch space for drawing them (2)
    """

    lanes: kt.Int64_3D
    found: kt.Int64_3D
    allowed: kt.Int32_2D


UNIFORM, GOSS, MVS = range(3)


class Sampler(NamedTuple):
    """The parameters and arrays of row sampling.

    method    GOSS or MVS; UNIFORM: the rest is empty
    top_rate  GOSS: share of the rows that are kept for sure
    rate      GOSS: chance of each other row; MVS: expected share of the rows
    packs     1: histograms will be built of the sample
    tallies   int64 (threads, 3, 2, cells): number and sum of the keys with a digit
    weights   float64 (n_rows,), those of the last sample; empty if not wanted
    """

    method: np.int64
    top_rate: np.float64
    rate: np.float64
    packs: np.int64
    tallies: kt.Int64_4D
    weights: kt.Float64_1D


class Tree(NamedTuple):
    """The tree being grown.

    table       int64 (nodes, NODE_FIELDS)
    numbers     float64 (nodes, NUMBERS)
    free_slots  int64: histogram slots that are not taken
    batch       int64 (jobs, JOB_FIELDS), see :mod:`hedgerow.growing.core.batch`
    """

    table: kt.Int64_2D
    numbers: kt.Float64_2D
    free_slots: kt.Int64_1D
    batch: kt.Int64_2D


class Categories(NamedTuple):
    """The arrays of the search of category columns.

    chosen   uint8 (n_features,): 1 for category columns; there may be none
    rules    see :mod:`hedgerow.kernels.splits.category_split`
    places   int64 (threads, CATEGORY_PLACES, 256): scratch
    """

    chosen: kt.UInt8_1D
    rules: CategoryRules
    places: kt.Int64_3D


USABLE_ONES, USABLE_OWN, USABLE_SIZE = 256, 512, 800


class Bundles(NamedTuple):
    """The features that the columns hold (:class:`hedgerow.data.binning.bundles.Layout`).

    used           1: columns may hold several features; 0: each holds its feature, and what
                   only bundles have is empty
    alone          int32 (n_columns,): the only feature of a column, or -1
    column         int32 (n_features,): column of each feature
    first          int32 (n_features,): its first cell in a bundle
    count          int32 (n_features,): its cells in a bundle
    default_bin    int32 (n_features,): its code at rest
    members        int32: features of column 0, 1, ...
    member_start   int64 (n_columns + 1,)
    n_single       int32 (n_columns,): members from the front that are indicators
    usable         int64 (threads, USABLE_SIZE): 256 ones, 256 zeros, and scratch from
                   USABLE_OWN on
    scratch_start  int64: behind all slots of the wide sums, eight columns a thread
    sampled        int64: 1 if some tree, level or node may use a part of the features only
    """

    used: np.int64
    alone: kt.Int32_1D
    column: kt.Int32_1D
    first: kt.Int32_1D
    count: kt.Int32_1D
    default_bin: kt.Int32_1D
    members: kt.Int32_1D
    member_start: kt.Int64_1D
    n_single: kt.Int32_1D
    usable: kt.Int64_2D
    scratch_start: np.int64
    sampled: np.int64


class Options(NamedTuple):
    """Arrays that not every fit needs; they are always there, empty or with ``used`` 0.

    ``features``, int32 (n_features,), are those that the tree may use, IS_N_FEATURES of them.
    """

    features: kt.Int32_1D
    categories: Categories
    bundles: Bundles
    lists: RowLists
    constraints: Constraints
    sampler: Sampler


class Outputs(NamedTuple):
    """Arrays with a part for each output.

    target    float64 (n_outputs, n_rows), or (1, n_rows) if all outputs have the same
    quantized  int32 (n_outputs, 2 * n_rows), see ``growing.state.Rows``
    words     int32 (n_rows * width,), see :mod:`hedgerow.kernels.histograms.vector_histogram`
    sums      the histograms
    measured  int64 (threads, n_outputs, 2): sums of |fixed g| and fixed h
    dropped   int64 (n_outputs, 2): bits of fixed g and h that words do without
    scalars   int64 (n_outputs, N_SCALARS): those of the first output hold the tree's, too
    vectors   float64 (nodes, n_outputs): values of the nodes
    cover     float64 (nodes,): scratch, sums of hessians over the outputs
    """

    target: kt.ReadOnly[kt.Float64_2D]
    quantized: kt.Int32_2D
    words: kt.Int32_1D
    sums: Sums
    measured: kt.Int64_3D
    dropped: kt.Int64_2D
    scalars: kt.Int64_2D
    vectors: kt.Float64_2D
    cover: kt.Float64_1D


class Trial(NamedTuple):
    """Space for the search, a part for each thread; see ``VectorNode``.

    totals  int64 (threads, n_outputs, 2)
    units   float64 (threads, n_outputs, 2)
    lanes   float64 (threads, LANE_ROWS * outputs and those that fill up the lanes)
    filled  int64 (threads, FILLED_SIZE)
    cuts    float64 (threads, 2, FILLED_SIZE * N_LANES)
    groups  for category columns, each array with a first axis of threads
    """

    totals: kt.Int64_3D
    units: kt.Float64_3D
    lanes: kt.Float64_2D
    filled: kt.Int64_2D
    cuts: kt.Float64_3D
    groups: Groups


class Vectors(NamedTuple):
    """The arrays of trees with vector leaves; with ``used`` 0 they are empty."""

    used: np.int64
    outputs: Outputs
    trial: Trial


class Lists(NamedTuple):
    """Sorted entries and where those of each node lie.

    entries    uint32 (n_entries + padding,): the blocks, never written
    work       same: the lists of all nodes but, mostly, the root
    starts     int64 (n_features + 1,): blocks in ``entries``; lists stay within
    segments   int64 (slots, n_features, 2): start and stop of a node's lists
    slot_of    int64 (nodes,): slot under which a node was searched
    edges      uint32 (nodes, 2): rows just below and just above a node's cut
    sides      uint8 (n_rows,)
    scratch    uint32 (threads, longest block + padding)
    cuts       a buffer for each thread: (threads, its size or more)
    """

    entries: kt.UInt32_1D
    work: kt.UInt32_1D
    starts: kt.Int64_1D
    segments: kt.Int64_3D
    slot_of: kt.Int64_1D
    edges: kt.UInt32_2D
    sides: kt.UInt8_1D
    scratch: kt.UInt32_2D
    cuts: CutBuffer


class Sorted(NamedTuple):
    """The arrays of exact and approximate trees, instead of bins and histograms.

    used    0: other trees, whose arrays are empty
    lists
    sketch  which cuts are scored (:mod:`hedgerow.growing.exact.stages`)
    eps     weight between two candidates
    """

    used: np.int64
    lists: Lists
    sketch: np.int64
    eps: np.float64


class Sets(NamedTuple):
    """Category columns, each with the order of its categories in this tree.

    number      int32 (n_features,): place of a category column among them, -1 for others
    places      int64 (columns, CATEGORY_PLACES, 256), see ``kernels.symmetric_split``
    info        int64 (columns, INFO)
    gains       float64 (columns, 256)
    """

    number: kt.Int32_1D
    places: kt.Int64_3D
    info: kt.Int64_2D
    gains: kt.Float64_2D


# Cells of ``Level.counts``.
(
    LEVEL,  # number of the level that is searched, from 0
    N_NODES,
    N_SLOTLESS,  # nodes whose histogram is not kept
    LEVEL_COUNTS,
) = range(4)

# Cells of a group of columns in ``Level.groups``, behind its features.
(
    GROUP_BINS,  # most bins of a feature
    GROUP_LACKS,  # 1: a row of the tree has no value in one of them
    GROUP_GAINS,  # where the gains of its cuts begin
    GROUP_CELLS,
) = range(WIDTH, WIDTH + 4)


class Level(NamedTuple):
    """The arrays of symmetric trees, in which one split divides all nodes of a level.

    used       1: the trees are symmetric; 0: the arrays are empty
    gains      float64 (threads, cells): gains of all cuts of the thread's columns
    groups     int64 (threads, cells): its groups of ``WIDTH`` columns, GROUP_CELLS each
    lacks      int32 (n_features,): 1 if a row of the tree has no value
    nodes      int64 (nodes,): those of the level, from left to right
    choice     int64 (FOUND_FIELDS,): the split of the level
    counts     int64 (LEVEL_COUNTS,)
    penalty    float64 (1,): what the split adds to lambda on both sides; -1: one of numbers
    sets       for category columns
    slot_size  cells of a histogram
    before     first cell of slot 0, less those of the columns before the ones that are kept
    """

    used: np.int64
    gains: kt.Float64_2D
    groups: kt.Int64_2D
    lacks: kt.Int32_1D
    nodes: kt.Int64_1D
    choice: kt.Int64_1D
    counts: kt.Int64_1D
    penalty: kt.Float64_1D
    sets: Sets
    slot_size: np.int64
    before: np.int64


class State(NamedTuple):
    """Everything.

    An option that a fit does not use is there with empty arrays, and its ``used`` is 0: stages ask
    for it once a batch, node or column, never once a row.  So there is one type of state, and the
    loop is compiled once.  With ``vectors``, ``scalars`` are those of the first output; with
    ``sorted_columns``, ``bins``, ``columns`` and ``histograms`` are empty.
    """

    team: ThreadTeam
    settings: Settings
    rules: SplitRules
    bins: Bins
    loss_data: LossData
    columns: Columns
    rows: Rows
    threads: Threads
    search: Search
    histograms: HistogramSums
    tree: Tree
    scalars: kt.Int64_1D
    options: Options
    vectors: Vectors
    sorted_columns: Sorted
    level: Level
    gpu: GpuCommands
