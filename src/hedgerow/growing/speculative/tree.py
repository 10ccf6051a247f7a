"""The nodes of a tree that is split speculatively: many nodes in each pass over the rows.

Where a pass over the rows is expensive, a pass splits all nodes that the tree may still take,
and :class:`~hedgerow.growing.speculative.order.Order` finds out afterwards which splits the
tree has::

    begin, open_root        root opened; the learner searches its split
    batches                 nodes to be split in the next pass
    open_children           their children; the learner divides the rows and searches the splits
    finish                  nodes of the tree, numbered and valued as in growth in memory

How splits are searched and rows are divided is up to the learner
(:mod:`hedgerow.growing.chunks.tree`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.batch import JOB_FIELDS
from hedgerow.growing.core.setup import (
    begin_tree,
    draw_columns,
    split_rules,
    start_scalars,
    tree_arrays,
)
from hedgerow.growing.core.stages.frontier import open_children, start_tree
from hedgerow.growing.core.stages.leaves import set_values
from hedgerow.growing.speculative.order import Order
from hedgerow.kernels.splits.monotone import Constraints
from hedgerow.kernels.splits.split import SplitRules
from hedgerow.params import BoostParams


@kernel
def open_batch(
    settings: layout.Settings,
    rules: SplitRules,
    tree: layout.Tree,
    scalars: IntArray,
    parents: IntArray,
    is_full: int,
    jobs: IntArray,
    options: layout.Options,
) -> None:
    """Make the children of ``parents``; ``is_full``: 1 if the tree is full with the last ones."""
    last = len(parents) - 1
    for k in range(len(parents)):
        is_last = is_full == 1 and k == last
        open_children(settings, rules, tree, scalars, parents[k], is_last, jobs[k], options)


class SpeculativeTree:
    """The tree that a learner grows; one object for all trees of a fit.

    Parameters
    ----------
    params : BoostParams
    settings : Settings
    options : Options
        For ``max_nodes`` nodes.
    max_nodes : int
        Room for nodes, those that are split in vain included.
    child_share : float
        See :class:`~hedgerow.growing.speculative.order.Order`.

    Attributes
    ----------
    settings : Settings
    rules : SplitRules
    options : Options
    arrays : Tree
        Nodes as they are found.
    scalars : int64 (N_SCALARS,)
    found, left : int64 (n_nodes,)
        For each node of the last finished tree its found number, and the number of its left
        child or 0.
    """

    def __init__(
        self,
        params: BoostParams,
        settings: layout.Settings,
        options: layout.Options,
        max_nodes: int,
        child_share: float,
    ) -> None:
        self._params, self._child_share = params, child_share
        self.settings, self.rules, self.options = settings, split_rules(params), options
        self.arrays = tree_arrays(max_nodes, int(settings.n_slots))
        n_features = len(options.features)
        self.scalars = start_scalars(n_features, n_features, params)
        self.found: IntArray = np.zeros(1, dtype=np.int64)
        self.left: IntArray = np.zeros(1, dtype=np.int64)

    @property
    def table(self) -> IntArray:
        """Nodes as they are found: int64 (max_nodes, NODE_FIELDS)."""
        return self.arrays.table

    @property
    def n_nodes(self) -> int:
        """Nodes that were found."""
        return int(self.scalars[layout.IS_N_NODES])

    @property
    def features(self) -> npt.NDArray[np.int32]:
        """Features that the tree may use, ascending."""
        return self.options.features[: self.scalars[layout.IS_N_FEATURES]]

    @property
    def leaves(self) -> IntArray:
        """Numbers of the leaves of the last finished tree, ascending."""
        return np.flatnonzero(self.left == 0)

    @property
    def found_leaves(self) -> IntArray:
        """Found numbers of the same leaves."""
        return self.found[self.leaves]

    def set_rate(self, rate: float) -> None:
        """Set the factor on the values of the trees to come."""
        self.settings = self.settings._replace(learning_rate=rate)

    def begin(self, tree: int, output: int, n_outputs: int) -> int:
        """Draw the features of a tree; return its number among the trees of its output."""
        if self._params.colsample_bytree < 1.0:
            draw_columns(self._params, tree, self.options.features, self.scalars)
        return begin_tree(self.scalars, tree, output, n_outputs)

    def open_root(self, n_rows: int, g: int, h: int) -> bool:
        """Reset the tree to a root with these sums; return whether it needs a search."""
        self.scalars[layout.IS_N_ROWS] = n_rows
        start_tree(self.settings, self.rules, self.arrays, self.scalars, self.options)
        self.table[0, [layout.NODE_G, layout.NODE_H]] = g, h
        return bool(self.scalars[layout.IS_N_SEARCHED] > 0)

    def batches(self, most: int) -> Iterator[tuple[IntArray, bool]]:
        """Yield what to split in each pass, at most ``most`` nodes, until the tree is finished."""
        # The root must be searched.  Some of the nodes, the first ones, must be split, and their
        # children searched, before the next batch is asked for.
        max_leaves = int(self.settings.max_leaves)
        depthwise = bool(self.settings.depthwise)
        order = Order(self.arrays, max_leaves, depthwise, self._child_share)
        while True:
            order.advance()
            # Room for the splits that will be taken is kept free of those that may be.  The
            # first node is taken for sure.
            left = max_leaves - order.n_leaves
            spare = max(0, (len(self.table) - self.n_nodes) // 2 - left)
            nodes, is_full = order.wanted(min(most, 1 + spare))
            if not nodes:
                self.found, self.left = order.nodes()
                return
            yield np.array(nodes, dtype=np.int64), is_full

    def last_open(self) -> IntArray:
        """Return nodes with a known split that is not applied, the last in order first."""
        nodes = np.flatnonzero(self.table[: self.n_nodes, layout.NODE_OPEN])
        gain = self.arrays.numbers[nodes, layout.NUMBER_GAIN]
        level = self.settings.depthwise * self.table[nodes, layout.NODE_DEPTH]
        return nodes[np.lexsort((nodes, -gain, level, -self.table[nodes, layout.NODE_OPEN]))[::-1]]

    def open_children(self, parents: IntArray, is_full: bool) -> IntArray:
        """Make the children of ``parents``; return the jobs: int64 (parents, JOB_FIELDS)."""
        jobs = np.zeros((len(parents), JOB_FIELDS), dtype=np.int64)
        open_batch(
            self.settings, self.rules, self.arrays, self.scalars, parents, int(is_full), jobs,
            self.options,
        )  # fmt: skip
        return jobs

    def n_rows_split_unused(self) -> int:
        """Return the number of rows of nodes whose split is not in the tree."""
        table, taken = self.table[: self.n_nodes], self.found[self.left > 0]
        split = table[:, layout.NODE_LEFT] > 0
        return int(table[split, layout.NODE_COUNT].sum() - table[taken, layout.NODE_COUNT].sum())

    def constraints_of(self, found: IntArray) -> Constraints:
        """Return constraints with the bounds of some nodes, by their found numbers."""
        constraints = self.options.constraints
        return constraints._replace(bounds=constraints.bounds[found])

    def finish(self, leaf_sums: IntArray | None = None) -> layout.Tree:
        """Return the nodes that the tree takes, numbered as in growth in memory, with values."""
        # ``leaf_sums`` are the exact sums of the leaves, int64 (n_leaves, 2), in the order of their
        # numbers; None: the nodes have them.
        tree, options = self.taken()
        self.set_values(tree, options, leaf_sums, self.scalars)
        return tree

    def taken(self) -> tuple[layout.Tree, layout.Options]:
        """Return the nodes that the tree takes, numbered as in growth in memory, without values."""
        found, left = self.found, self.left
        table = self.table[found]
        table[:, layout.NODE_LEFT] = left
        table[:, layout.NODE_RIGHT] = np.where(left > 0, left + 1, 0)
        tree = self.arrays._replace(table=table, numbers=self.arrays.numbers[found])
        return tree, self.options._replace(constraints=self.constraints_of(found))

    def set_values(
        self,
        tree: layout.Tree,
        options: layout.Options,
        leaf_sums: IntArray | None,
        scalars: IntArray,
    ) -> None:
        """Set the values of the nodes of :meth:`taken` for the output with these scalars."""
        sums = tree.table[:, [layout.NODE_G, layout.NODE_H]].T[None].copy()
        if leaf_sums is not None:
            sums[0][:, self.left == 0] = leaf_sums.T
        scalars = scalars.copy()
        scalars[layout.IS_N_NODES] = len(tree.table)
        set_values(self.settings, self.rules, tree, sums, scalars, options)
