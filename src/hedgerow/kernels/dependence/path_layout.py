"""Layout of the tours through all trees, for :mod:`hedgerow.kernels.dependence.paths`.

Glossary
--------
tour, visit, end, slot   as in :mod:`hedgerow.kernels.dependence.paths`
box    values of a column with which a walk follows a path
way    0 to the left, 1 to the right, 2 to a stop at the split itself
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.dependence.paths import Visits

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_NONE = np.uint64(0)
_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_UNKNOWN_WORD = np.uint64(1) << np.uint64(62)
"""Bit of unknown values in the last word of a set."""


class Nodes(NamedTuple):
    """Data of each node, counted over all trees, that a tour reads.

    Attributes
    ----------
    column : int64
        Column of the split; -1 in a leaf.
    threshold : int64
        Largest key that goes left.
    missing_left : uint8
    left, right : int64
        Children; the node itself in a leaf.
    yes, no, stop : int64
        Questions that select the rows that go left, the rows that go right (-1: all others),
        and the rows that stop here (-1: none).
    sets : uint64 (n_sets, 4)
        Bins that go left, including the bins of unknown and missing values.
    set_of : int64
        Row of ``sets``; -1 where numbers are split.
    """

    column: IntArray
    threshold: IntArray
    missing_left: npt.NDArray[np.uint8]
    left: IntArray
    right: IntArray
    yes: IntArray
    no: IntArray
    stop: IntArray
    sets: npt.NDArray[np.uint64]
    set_of: IntArray


class Boxes(NamedTuple):
    """Boxes of the columns of each path.

    Attributes
    ----------
    start : int64, one per end and one more
        Entries of end k are ``start[k] : start[k + 1]``, one for each slot.
    node : int64, one per end
    column : int64, one per entry
    low, high : int64, one per entry
        The box has numbers with a key above ``low``, up to ``high``.
    missing : uint8, one per entry
        Whether missing values are in the box.
    bins : uint64 (n_entries, 4)
        Bins of a category, including the bins of unknown and missing values.
    """

    start: IntArray
    node: IntArray
    column: IntArray
    low: IntArray
    high: IntArray
    missing: npt.NDArray[np.uint8]
    bins: npt.NDArray[np.uint64]


class PathSpace(NamedTuple):
    """Scratch of :func:`lay_paths`: a stack, and the boxes of the path, depth by depth.

    Attributes
    ----------
    stack : int64 (n, 4)
        Node, depth, way and parent of visits still to come.
    columns : int64 (n_slots,)
        Columns of the slots of the path.
    n_slots : int64 (n_depths,)
        Slots of the path, depth by depth.
    ranges : int64 (n_depths, n_slots, 3)
        Low, high and missing.
    bins : uint64 (n_depths, n_slots, 4)
    """

    stack: IntArray
    columns: IntArray
    n_slots: IntArray
    ranges: IntArray
    bins: npt.NDArray[np.uint64]


@kernel(inner=True)
def narrow_box(
    space: PathSpace, depth: int, slot: int, nodes: Nodes, parent: int, way: int
) -> None:
    """Narrow the box of a column to the values that go ``way`` from ``parent``."""
    if nodes.set_of[parent] < 0:
        if way == 0:
            space.ranges[depth, slot, 1] = min(
                space.ranges[depth, slot, 1], nodes.threshold[parent]
            )
        else:
            space.ranges[depth, slot, 0] = max(
                space.ranges[depth, slot, 0], nodes.threshold[parent]
            )
        if (nodes.missing_left[parent] == 1) != (way == 0):
            space.ranges[depth, slot, 2] = 0
        return
    for word in range(4):
        left = nodes.sets[nodes.set_of[parent], word]
        unknown = _UNKNOWN_WORD if (word == 3) & (nodes.stop[parent] >= 0) else _NONE
        inside = left if way == 0 else ~left
        space.bins[depth, slot, word] &= unknown if way == 2 else inside & ~unknown


@kernel(inner=True)
def start_box(space: PathSpace, depth: int, slot: int) -> None:
    """Set a box to all values."""
    space.ranges[depth, slot, 0] = _LOWEST
    space.ranges[depth, slot, 1] = _HIGHEST
    space.ranges[depth, slot, 2] = 1
    for word in range(4):
        space.bins[depth, slot, word] = _ALL


@kernel(inner=True)
def write_end(
    boxes: Boxes, end: int, node: int, depth: int, n_slots: int, space: PathSpace
) -> None:
    """Copy the boxes of a path to the entries of its end in ``boxes``."""
    boxes.node[end] = node
    first = boxes.start[end]
    boxes.start[end + 1] = first + n_slots
    for slot in range(n_slots):
        entry = first + slot
        boxes.column[entry] = space.columns[slot]
        boxes.low[entry] = space.ranges[depth, slot, 0]
        boxes.high[entry] = space.ranges[depth, slot, 1]
        boxes.missing[entry] = space.ranges[depth, slot, 2]
        for word in range(4):
            boxes.bins[entry, word] = space.bins[depth, slot, word]


@kernel(inner=True)
def copy_boxes(space: PathSpace, depth: int) -> None:
    """Start the boxes of a path as copies of the boxes of the path to the parent."""
    for slot in range(space.n_slots[depth - 1]):
        for k in range(3):
            space.ranges[depth, slot, k] = space.ranges[depth - 1, slot, k]
        for word in range(4):
            space.bins[depth, slot, word] = space.bins[depth - 1, slot, word]


@kernel(inner=True)
def enter(
    nodes: Nodes, visits: Visits, i: int, depth: int, step: IntArray, space: PathSpace
) -> None:
    """Write visit ``i``, one way from a parent, and narrow the boxes of the path."""
    way, parent = step[2], step[3]
    n_before = space.n_slots[depth - 1]
    slot = n_before
    for k in range(n_before):
        if space.columns[k] == nodes.column[parent]:
            slot = k
    copy_boxes(space, depth)
    space.n_slots[depth] = n_before
    if slot == n_before:
        space.columns[slot] = nodes.column[parent]
        space.n_slots[depth] = n_before + 1
        start_box(space, depth, slot)
    narrow_box(space, depth, slot, nodes, parent, way)
    visits.flip[i] = _NONE
    if way == 0:
        visits.question[i] = nodes.yes[parent]
    elif way == 2:
        visits.question[i] = nodes.stop[parent]
    elif nodes.no[parent] >= 0:
        visits.question[i] = nodes.no[parent]
    else:
        visits.question[i] = nodes.yes[parent]
        visits.flip[i] = _ALL
    visits.slot[i], visits.n_before[i] = slot, n_before


@kernel(inner=True)
def push_ways(nodes: Nodes, node: int, depth: int, stack: IntArray, n: int) -> int:
    """Push the ways from a split onto the stack, the left one on top; return its new height."""
    for way in range(2, -1, -1):
        if way == 2 and nodes.stop[node] < 0:
            continue
        stack[n, 0] = node if way == 2 else nodes.right[node] if way == 1 else nodes.left[node]
        stack[n, 1], stack[n, 2], stack[n, 3] = depth + 1, way, node
        n += 1
    return n


@kernel
def lay_paths(
    nodes: Nodes,
    roots: IntArray,
    visits: Visits,
    first_visit: IntArray,
    boxes: Boxes,
    space: PathSpace,
) -> int:
    """Write the tours through all trees, and the boxes of their ends.

    Parameters
    ----------
    nodes : Nodes
    roots : int64, one per tree
    visits : Visits
        Filled; ``out`` holds the numbers of the ends.
    first_visit : int64, one per tree and one more
        Filled.
    boxes : Boxes
        Filled.
    space : PathSpace

    Returns
    -------
    int
        Number of ends.
    """
    stack, i, n_ends = space.stack, 0, 0
    boxes.start[0] = 0
    for tree in range(len(roots)):
        first_visit[tree] = i
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = roots[tree], 0, 0, -1
        n = 1
        while n > 0:
            n -= 1
            node, depth, way = stack[n, 0], stack[n, 1], stack[n, 2]
            if depth == 0:
                space.n_slots[0] = 0
                visits.question[i], visits.flip[i] = -1, _NONE
                visits.slot[i], visits.n_before[i] = -1, 0
            else:
                enter(nodes, visits, i, depth, stack[n], space)
            visits.depth[i], visits.n_slots[i] = depth, space.n_slots[depth]
            visits.out[i] = -1
            visits.node[i] = node
            visits.parent[i] = node if depth == 0 else stack[n, 3]
            if nodes.column[node] < 0 or way == 2:
                visits.out[i] = n_ends
                write_end(boxes, n_ends, node, depth, space.n_slots[depth], space)
                n_ends += 1
            else:
                n = push_ways(nodes, node, depth, stack, n)
            i += 1
    first_visit[len(roots)] = i
    return n_ends
