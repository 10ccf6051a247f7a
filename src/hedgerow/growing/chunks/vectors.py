"""Arrays for vector leaves on rows in chunks.

The arrays are those of :class:`hedgerow.growing.vectors.grower.VectorGrower`, except gradients
and words of rows, which are those of a chunk in each stage.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.errors import DataError
from hedgerow.growing.chunks.stages.nodes import FOUND_OWN
from hedgerow.growing.core import state as layout
from hedgerow.growing.sampling.goss import follows_gradients, weighs_sample
from hedgerow.growing.speculative.tree import SpeculativeTree
from hedgerow.growing.vectors.bounds import bounds_of_outputs
from hedgerow.growing.vectors.gradients import MOST_ROWS
from hedgerow.growing.vectors.grower import make_sets, make_trial, numbers_of_node, scalars_of
from hedgerow.growing.vectors.sampling import scale_of_vectors
from hedgerow.kernels.histograms.vector_histogram import Sums
from hedgerow.kernels.splits.monotone import HIGH, LOW, TOWARD
from hedgerow.params import BoostParams

OF_TREE = [layout.IS_TREE, layout.IS_ROUND, layout.IS_N_COLUMNS]


def make_vectors(
    nodes: SpeculativeTree, params: BoostParams, sums: Sums, n_outputs: int, n_threads: int
) -> layout.Vectors:
    """Return arrays for trees of ``n_outputs`` outputs; the tree gets the first one's scalars."""
    # ``n_threads`` is the number of threads, or that of ranks if it is larger.
    if follows_gradients(params):
        scale = np.float64(scale_of_vectors(params, n_outputs))
        nodes.scalars[layout.IS_UNIT_SCALE] = scale.view(np.int64)
    scalars, max_nodes = scalars_of(nodes.scalars, n_outputs), len(nodes.table)
    nodes.scalars = scalars[0]
    outputs = layout.Outputs(
        target=np.zeros((0, 0)),
        quantized=np.zeros((n_outputs, 0), dtype=np.int32),
        words=np.zeros(0, dtype=np.int32),
        sums=sums,
        measured=np.zeros((1, n_outputs, 2), dtype=np.int64),
        dropped=np.zeros((n_outputs, 2), dtype=np.int64),
        scalars=scalars,
        vectors=np.zeros((max_nodes, numbers_of_node(params, n_outputs))),
        cover=np.zeros(0),
    )
    sets = make_sets(nodes.options.categories, n_outputs, n_threads)
    return layout.Vectors(
        1, outputs, make_trial(sets, outputs.vectors.shape[1], n_outputs, n_threads)
    )


def fields_found(nodes: SpeculativeTree, vectors: layout.Vectors | None) -> int:
    """Return the number of fields of a node's best split."""
    if vectors is None:
        return layout.FOUND_FIELDS
    n_outputs, n_kept = len(vectors.outputs.scalars), vectors.outputs.vectors.shape[1]
    keeps = nodes.options.constraints.growth.smooth > 0.0 or n_kept > n_outputs
    return FOUND_OWN + (n_kept if keeps else 0)


def weighs_rows(params: BoostParams, n_vectors: int) -> bool:
    """Return whether the weights of sampled rows are kept: several outputs share them."""
    return weighs_sample(params) or (n_vectors > 1 and follows_gradients(params))


def check_rows(n_rows: int) -> None:
    """Raise ``DataError`` if sums over this many rows could overflow."""
    if 2 * n_rows > MOST_ROWS:
        raise DataError(
            f"{n_rows:,} rows are too many for vectors in leaves, whose sums hold at most "
            f"{MOST_ROWS // 2:,}: use multi_strategy='one_output_per_tree', or a sample of the "
            "rows."
        )


def finish_vectors(
    nodes: SpeculativeTree, outputs: layout.Outputs, leaf_sums: IntArray
) -> tuple[layout.Tree, FloatArray]:
    """Return the nodes that the tree takes, and the values of all outputs: (n_nodes, n_outputs)."""
    # ``leaf_sums`` are the exact sums of the leaves, int64 (n_outputs, n_leaves, 2).
    tree, options = nodes.taken()
    n_nodes, n_outputs = len(tree.table), len(outputs.scalars)
    own, vectors = outputs.vectors[nodes.found], np.empty((n_nodes, n_outputs))
    inner = np.flatnonzero(nodes.left)
    above = np.zeros(n_nodes, dtype=np.int64)
    above[nodes.left[inner]] = above[nodes.left[inner] + 1] = inner
    cover = np.zeros(n_nodes)
    bounds = bounds_of_outputs(tree.table, own, options.constraints, n_outputs)
    for output, sums in enumerate(leaf_sums):
        if bounds is not None:
            options.constraints.bounds[:, [LOW, HIGH]] = bounds[:, :, output]
        if options.constraints.growth.smooth > 0.0:
            options.constraints.bounds[1:, TOWARD] = own[above[1:], output]
        nodes.set_values(tree, options, sums, outputs.scalars[output])
        cover += tree.numbers[:, layout.NUMBER_COVER]
        vectors[:, output] = tree.numbers[:, layout.NUMBER_VALUE]
    tree.numbers[:, layout.NUMBER_COVER] = cover / n_outputs
    return tree, vectors
