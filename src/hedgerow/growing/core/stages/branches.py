"""Columns and leaf values that constraints allow in each node of the growing tree.

A child inherits what its parent may do, less what the split rules out
(:class:`hedgerow.kernels.splits.constraints.Constraints`):

bounds    a split on an ordered column divides the range of leaf values at the middle
          of its sides
values    the leaf value of the parent, and keys of random draws
          (:mod:`hedgerow.kernels.splits.constraints`)
columns   those that some group holds together with all columns that split the
          branch so far; a column in no group that is left cannot come any more

Thread 0 alone runs this code, between two barriers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.data.binning.bins import BinSpec
from hedgerow.growing.core import state as s
from hedgerow.growing.limits.constraints import NO_INTERACTIONS
from hedgerow.kernels.primitives.hashing import hash64
from hedgerow.kernels.splits.constraints import (
    CUT_STREAM,
    HIGH,
    LOW,
    ORDERED,
    TOWARD,
    Constraints,
    GrowthRules,
    ordered_factor,
    value_in_node,
)
from hedgerow.kernels.splits.split import SplitRules, Units, leaf_weight
from hedgerow.params import BoostParams

SETS_APART = 1
"""``NODE_COLUMN`` of a split that only sets missing values apart, in growth without bins."""


def make_constraints(
    params: BoostParams, n_features: int, max_nodes: int, spec: BinSpec | None
) -> Constraints:
    """Return arrays of the constraints of a fit; without ``spec`` trees are grown without bins."""
    last_bin = np.zeros(0, dtype=np.int64) if spec is None else spec.bin_counts - 1
    signs, factors = params.monotone_constraints, params.feature_penalties
    several, together = params.multi_strategy == "multi_output_tree", -1
    groups: list[npt.NDArray[np.int64]] = []
    if isinstance(params.interaction_constraints, str):
        together = 1 if params.interaction_constraints == NO_INTERACTIONS else 2
    elif params.interaction_constraints is not None:
        together, groups = 0, [np.array(g, np.int64) for g in params.interaction_constraints]
    columns = np.concatenate(groups) if groups else np.zeros(0, dtype=np.int64)
    sizes = [len(group) for group in groups]
    numbers = np.repeat(np.arange(len(groups)), sizes)
    counts = np.bincount(columns, minlength=n_features)
    return Constraints(
        # Trees with vectors have no constraints on scores but random cuts.
        scored=np.int64("scores" in params.constrained and not several),
        sign=np.array(signs or (0,) * n_features, dtype=np.float64),
        factor=np.array(factors or (1,) * n_features, dtype=np.float64),
        last_bin=np.ascontiguousarray(last_bin, dtype=np.int64),
        bounds=np.empty((max_nodes, 4)),
        parent=np.zeros(max_nodes, dtype=np.int64),
        together=np.int64(together),
        group_start=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        group_columns=columns.astype(np.int64),
        column_start=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        column_groups=numbers[np.argsort(columns, kind="stable")].astype(np.int64),
        met=np.zeros(len(groups), dtype=np.int64),
        used=np.zeros(n_features, dtype=np.int32),
        permitted=np.zeros(n_features, dtype=np.int32),
        growth=GrowthRules(
            smooth=float(params.path_smooth),
            penalty=float(params.monotone_penalty),
            drawn=np.int64(params.extra_trees),
            key=np.zeros(max_nodes, dtype=np.int64),
            weight=np.array(params.feature_weights or (), dtype=np.float64),
            keys=np.zeros(n_features if params.feature_weights else 0),
        ),
    )


@kernel(inner=True)
def bounded_weight(
    constraints: Constraints, node: int, row: IntArray, units: Units, rules: SplitRules
) -> float:
    """Return the leaf value of a node with these sums, within its bounds."""
    weight = leaf_weight(float(row[s.NODE_G]) * units.g, float(row[s.NODE_H]) * units.h, rules)
    return value_in_node(constraints, node, weight, row[s.NODE_COUNT])


@kernel(inline=True, inner=True)
def bound_children(
    constraints: Constraints, units: Units, rules: SplitRules, tree: s.Tree, parent: int
) -> None:
    """Hand the bounds of ``parent`` down; the middle of the sides parts an ordered column."""
    row = tree.table[parent]
    left, right = row[s.NODE_LEFT], row[s.NODE_RIGHT]
    keys = constraints.growth.key
    for side in range(2 if constraints.growth.drawn == 1 else 0):
        own = hash64(keys[parent], np.uint64(CUT_STREAM), np.uint64(side + 1))
        keys[left if side == 0 else right] = np.int64(own)
    for child in (left, right):
        constraints.parent[child] = parent
    if constraints.scored == 0:
        return
    value = bounded_weight(constraints, parent, row, units, rules)
    for child in (left, right):
        constraints.bounds[child, LOW] = constraints.bounds[parent, LOW]
        constraints.bounds[child, HIGH] = constraints.bounds[parent, HIGH]
        constraints.bounds[child, TOWARD] = value
        constraints.bounds[child, ORDERED] = ordered_factor(
            constraints.growth.penalty, row[s.NODE_DEPTH] + 1
        )
    feature = row[s.NODE_FEATURE]
    sign = constraints.sign[feature]
    if len(constraints.last_bin) > 0:
        apart = row[s.NODE_BIN] == constraints.last_bin[feature]
    else:
        apart = row[s.NODE_COLUMN] == SETS_APART
    if sign == 0.0 or apart:
        return
    below = bounded_weight(constraints, left, tree.table[left], units, rules)
    above = bounded_weight(constraints, right, tree.table[right], units, rules)
    middle = 0.5 * below + 0.5 * above
    if sign > 0.0:
        constraints.bounds[left, HIGH] = min(constraints.bounds[left, HIGH], middle)
        constraints.bounds[right, LOW] = max(constraints.bounds[right, LOW], middle)
    else:
        constraints.bounds[left, LOW] = max(constraints.bounds[left, LOW], middle)
        constraints.bounds[right, HIGH] = min(constraints.bounds[right, HIGH], middle)


@kernel(inner=True)
def permit_columns(constraints: Constraints, table: IntArray, node: int) -> None:
    """Mark in ``constraints.permitted`` the columns that may split ``node``."""
    used, permitted, met = constraints.used, constraints.permitted, constraints.met
    n_used, above = 0, constraints.parent[node]  # the different columns that split the branch
    while above >= 0:
        feature = np.int32(table[above, s.NODE_FEATURE])
        known = False
        for k in range(n_used):
            known |= used[k] == feature
        if not known:
            used[n_used] = feature
            n_used += 1
        above = constraints.parent[above]
    free = n_used < max(constraints.together, 1)
    permitted[:] = 1 if free else 0
    if free:
        return
    for k in range(n_used):
        permitted[used[k]] = 1
    if constraints.together > 0:
        return
    for k in range(n_used):
        for i in range(constraints.column_start[used[k]], constraints.column_start[used[k] + 1]):
            met[constraints.column_groups[i]] += 1
    for i in range(constraints.column_start[used[0]], constraints.column_start[used[0] + 1]):
        group = constraints.column_groups[i]
        if met[group] == n_used:
            for k in range(constraints.group_start[group], constraints.group_start[group + 1]):
                permitted[constraints.group_columns[k]] = 1
    for k in range(n_used):
        for i in range(constraints.column_start[used[k]], constraints.column_start[used[k] + 1]):
            met[constraints.column_groups[i]] = 0


@kernel(inline=True, inner=True)
def keep_permitted(
    constraints: Constraints, table: IntArray, node: int, columns: np.ndarray, n: int
) -> int:
    """Keep those of ``columns[:n]`` that may split ``node``, in their order; their number."""
    if constraints.together < 0:
        return n
    permit_columns(constraints, table, node)
    kept = np.int64(0)
    for k in range(n):
        if constraints.permitted[columns[k]] == 1:
            columns[kept] = columns[k]
            kept += 1
    return kept
