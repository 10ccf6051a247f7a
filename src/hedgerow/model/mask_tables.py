"""Tables of the mask engine, from the splits of a forest.

:mod:`hedgerow.kernels.prediction.predict` defines slot, part, exit and mask.

One pass per tree: the exits below each node from the leaves up, then the parts from the root down.
A tree of few different splits, as a symmetric one, is one part whose exits are the codes of all
splits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow import kernel_types as kt
from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.prediction.predict import EXITS, FUSED
from hedgerow.model.forest import Forest
from hedgerow.model.layout import LeafContents, Splits, Uint64Array

MOST_CODED = 12
"""Most different splits of a tree whose exits are codes.

200 symmetric trees of eleven levels take 0.4 us a row as codes and 4.4 us in a walk."""

_MOST_CODES = 8
"""Most codes per leaf of a tree: default trees of squared error, of seven levels, have 2 to 3.
With 4, a third of 300 symmetric trees of eight levels have two parts: 1.3 times the time."""

_ALL = np.uint32(0xFFFFFFFF)


class MaskTables(NamedTuple):
    """Tables of the mask engine."""

    slots: IntArray  # int64, one per slot
    # uint64, one per split; splits are ordered by part; each part is padded with splits that clear
    # nothing
    slot: Uint64Array
    threshold: AnyArray  # int32 or int64, one per split
    # uint32, one per split; zeros at the exits that a row above the threshold cannot take, or at
    # the bit of the split in codes
    clear: npt.NDArray[np.uint32]
    part_start: Uint64Array  # uint64, one per part and one more
    # uint64, one per tree and one more; first part of each tree, the one with its root
    tree_part: Uint64Array
    tree_exit: Uint64Array  # uint64, one per tree; first exit of the tree
    # uint64, one per tree; largest number of parts that a row enters after the first
    hops: Uint64Array
    is_coded: npt.NDArray[np.uint8]  # uint8, one per tree; 1 if exits are codes
    value: FloatArray  # float64; value of each exit
    content: IntArray  # int64; number of the vector or line of each exit, see LeafContents
    # uint32; next part, counted within the tree; the part itself at a leaf; not set if exits are
    # codes
    onward: npt.NDArray[np.uint32]
    most_parts: int  # largest number of parts of a tree


def mask_tables(
    forest: Forest, splits: Splits, contents: LeafContents
) -> tuple[MaskTables, IntArray]:
    """Build the tables, with thresholds of 64 bits."""
    # Also return the node of each split, and -1 for padding, for :func:`with_thresholds`.
    start, n_trees, n_nodes = forest.tree_start.astype(np.int64), forest.n_trees, len(splits.tree)
    n_leaves = (n_nodes + n_trees) // 2
    most_parts = n_trees + n_leaves // 16  # parts but the first of a tree have more than 16 exits
    most_splits = n_nodes - n_leaves + (FUSED - 1) * most_parts
    most_exits = EXITS * most_parts + min(_MOST_CODES * n_leaves, n_trees << MOST_CODED)
    slot, node = np.empty(most_splits, np.uint64), np.empty(most_splits, np.int64)
    clear, part_start = np.empty(most_splits, np.uint32), np.zeros(most_parts + 1, np.uint64)
    tree_part, is_coded = np.zeros(n_trees + 1, np.uint64), np.zeros(n_trees, np.uint8)
    tree_exit, hops = np.zeros(n_trees, np.uint64), np.zeros(n_trees, np.uint64)
    value, onward = np.empty(most_exits), np.empty(most_exits, np.uint32)
    content = np.empty(most_exits if len(contents.number) > 0 else 0, np.int64)
    space, sizes = (
        np.empty((4, int(np.diff(start).max(initial=0))), np.int64),
        np.zeros(3, np.int64),
    )
    nodes = (splits.left, splits.right, splits.slot, splits.threshold)
    leaves = (np.array(forest.value), contents.number)
    parts = (part_start, tree_part, tree_exit, hops, is_coded)
    exits = (value, content, onward)
    divide_trees(start, nodes, leaves, parts, (slot, node, clear), exits, space, sizes)
    n_parts, n, n_exits = sizes.tolist()
    part_start, no_threshold = part_start[: n_parts + 1], np.zeros(0, np.int64)
    tables = MaskTables(
        splits.slots, slot[:n], no_threshold, clear[:n], part_start, tree_part, tree_exit, hops,
        is_coded, value[:n_exits], content[:n_exits], onward[:n_exits],
        int(np.diff(tree_part).max(initial=0)),
    )  # fmt: skip
    return with_thresholds(tables, node[:n], splits.threshold), node[:n]


def with_thresholds(tables: MaskTables, node: IntArray, threshold: AnyArray) -> MaskTables:
    """Return the tables with other thresholds of the nodes, in the width of the keys."""
    return tables._replace(threshold=np.where(node < 0, threshold.dtype.type(0), threshold[node]))


@kernel
def divide_trees(
    tree_start: kt.Int64_1D,
    nodes: tuple[kt.Int64_1D, kt.Int64_1D, kt.Int64_1D, kt.Int64_1D],
    leaves: tuple[kt.Float64_1D, kt.Int64_1D],
    parts: tuple[kt.UInt64_1D, kt.UInt64_1D, kt.UInt64_1D, kt.UInt64_1D, kt.UInt8_1D],
    splits: tuple[kt.UInt64_1D, kt.Int64_1D, kt.UInt32_1D],
    exits: tuple[kt.Float64_1D, kt.Int64_1D, kt.UInt32_1D],
    space: kt.Int64_2D,
    sizes: kt.Int64_1D,
) -> None:
    """Write the parts, splits and exits of all trees, and how many they are to ``sizes``."""
    # ``nodes``: left, right, slot and threshold; ``leaves``: value and content; ``splits``: slot,
    # node and clear; ``exits``: value, content and onward; ``sizes``: parts, splits and exits.
    # ``space``: int64 (4, most nodes of a tree).
    part_start, tree_part, tree_exit, hops, is_coded = parts
    left, right, onward = nodes[0], nodes[1], exits[2]
    seen, stack, top, above = space[0], space[1], space[2], space[3]
    number, leader = space[0], space[1]
    n_parts = n_splits = n_exits = np.int64(0)
    for tree in range(len(tree_start) - 1):
        begin, end = tree_start[tree], tree_start[tree + 1]
        tree_part[tree], tree_exit[tree] = n_parts, n_exits
        n_bits = number_splits(begin, end, nodes, number, leader)
        if n_bits > 0:
            is_coded[tree], start = 1, n_splits
            for code in range(1 << n_bits):
                node = begin
                while left[node] != node:
                    node = right[node] if (code >> number[node - begin]) & 1 else left[node]
                write_leaf(leaves, node, exits, n_exits + code)
            for bit in range(n_bits):
                n_splits = add_split(splits, start, n_splits, nodes, leader[bit], 1 << bit)
            n_parts, n_exits = n_parts + 1, n_exits + (1 << n_bits)
            n_splits = part_start[n_parts] = pad(splits, start, n_splits)
            continue
        count_exits(begin, end, nodes, seen)
        # From the root down, part after part: ``top`` has the first node of each, and ``above`` the
        # number of parts above it.  Exits of a part are numbered from left to right.
        part, n_own = 0, 1
        top[0], above[0] = begin, 0
        while part < n_own:
            start, exit_, n_held, stack[0] = n_splits, n_exits, 1, top[part]
            while n_held > 0:
                n_held -= 1
                node = stack[n_held]
                if left[node] == node:
                    write_leaf(leaves, node, exits, exit_)
                    onward[exit_], exit_ = part, exit_ + 1
                elif seen[node - begin] < 0 and node != top[part]:
                    top[n_own], above[n_own] = node, above[part] + 1
                    hops[tree] = max(hops[tree], np.uint64(above[n_own]))
                    onward[exit_], exit_, n_own = n_own, exit_ + 1, n_own + 1
                else:
                    below = ((1 << abs(seen[left[node] - begin])) - 1) << (exit_ - n_exits)
                    n_splits = add_split(splits, start, n_splits, nodes, node, below)
                    stack[n_held], stack[n_held + 1] = right[node], left[node]
                    n_held += 2
            part, n_parts, n_exits = part + 1, n_parts + 1, n_exits + EXITS
            n_splits = part_start[n_parts] = pad(splits, start, n_splits)
    tree_part[len(tree_start) - 1] = n_parts
    sizes[0], sizes[1], sizes[2] = n_parts, n_splits, n_exits


@kernel(inner=True)
def number_splits(
    begin: int, end: int, nodes: tuple[Any, ...], number: IntArray, leader: IntArray
) -> int:
    """Number the different splits of a tree; return how many, or 0 if it is not to be coded."""
    left, _, slot, threshold = nodes
    n, n_leaves = np.int64(0), (end - begin + 1) // 2
    for node in range(begin, end):
        if left[node] == node:
            continue
        k = np.int64(0)
        while k < n and (slot[node] != slot[leader[k]] or threshold[node] != threshold[leader[k]]):
            k += 1
        if k == n:
            if n == MOST_CODED or 2 << n > _MOST_CODES * n_leaves:
                return np.int64(0)
            leader[n] = node
            n += 1
        number[node - begin] = k
    return n


@kernel(inner=True)
def write_leaf(leaves: tuple[Any, ...], node: int, exits: tuple[Any, ...], at: int) -> None:
    """Write value and content of a leaf to an exit."""
    exits[0][at] = leaves[0][node]
    if len(leaves[1]) > 0:
        exits[1][at] = leaves[1][node]


@kernel(inner=True)
def count_exits(begin: int, end: int, nodes: tuple[Any, ...], seen: IntArray) -> None:
    """Divide a tree; write the exits of its part below each node, or -1 if a part begins there."""
    # From the leaves up.  If a node would have more than 32 exits, its larger child begins a part,
    # and also the other child if necessary.
    left, right = nodes[0], nodes[1]
    for node in range(end - 1, begin - 1, -1):
        a, b = left[node] - begin, right[node] - begin
        if left[node] == node:
            seen[a] = 1
            continue
        larger, smaller = (a, b) if seen[a] >= seen[b] else (b, a)
        if seen[a] + seen[b] > EXITS:
            seen[larger] = -1
            if seen[smaller] == EXITS:
                seen[smaller] = -1
        seen[node - begin] = abs(seen[a]) + abs(seen[b])


@kernel(inner=True)
def add_split(
    splits: tuple[Any, ...], start: int, n: int, nodes: tuple[Any, ...], node: int, cleared: int
) -> int:
    """Insert a split into those from ``start`` to ``n``, sorted by slot; return the new end."""
    # Equal splits of a part are one: a row above the threshold loses the exits of all.  Symmetric
    # trees have one split on each level, so a tree of 32 leaves needs five splits instead of 31.
    slots, split_nodes, clear = splits
    slot, threshold = nodes[2], nodes[3]
    keeps, at = ~np.uint32(cleared), n
    while at > start and slot[split_nodes[at - 1]] >= slot[node]:
        other = split_nodes[at - 1]
        if slot[other] == slot[node] and threshold[other] <= threshold[node]:
            if threshold[other] == threshold[node]:
                clear[at - 1] &= keeps
                return n
            break
        at -= 1
    for k in range(n, at, -1):
        slots[k], split_nodes[k], clear[k] = slots[k - 1], split_nodes[k - 1], clear[k - 1]
    slots[at], split_nodes[at], clear[at] = np.uint64(slot[node]), node, keeps
    return n + 1


@kernel(inner=True)
def pad(splits: tuple[Any, ...], start: int, n: int) -> int:
    """Add splits that clear nothing to those from ``start`` to ``n``; return the new end."""
    # To a sum of eights and at most two sixes, as they are evaluated.
    while n - start == FUSED - 4 or (n - start) % FUSED not in (0, FUSED - 2, FUSED - 4):
        splits[0][n], splits[1][n], splits[2][n] = 0, -1, _ALL
        n += 1
    return n
