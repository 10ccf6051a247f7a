"""Count of the rows that meet all conditions of a path except those on one or two columns.

The mean prediction of a model for a fixed value of a column is a sum over leaves.  The weight
of a leaf is the number of background rows that meet every condition on its path, except
the conditions on that column.  One tour through a tree finds these numbers for all columns
at once, with 64 rows in a machine word.

Glossary
--------
question  a condition of splits, evaluated once per row: one bit
visit     a step of a tour: the tour goes through the nodes of a tree, a node before its
          children, and the left child first
end       where a walk may end: a leaf, or a split that tests an unknown category
slot      number of a column on a path, in the order in which the path tests them
mask      one bit for each row of a tile
tile      rows handled at a time: ``WORDS`` words of 64

The masks of a visit, for slots ``a < b``::

    0                rows that meet all conditions
    1 + b            rows that meet all but those on b          without pairs
    place of b       the same rows                              with pairs, followed by
    place of b + 1 + a   rows that meet all but those on a and b

A longer path keeps the layout of the path to its parent and appends masks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.intrinsics import count_ones, trailing_zeros

WORDS = 16
"""Words of a tile: two of the widest registers."""

TILE = 64 * WORDS
"""Rows of a tile."""

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


class Questions(NamedTuple):
    """Conditions of splits.

    Attributes
    ----------
    column : int64, one per question
        Row of the keys that the question reads.
    lowest, highest : int64, one per question
        The bit of a row is 1 if its key is from ``lowest`` to ``highest``.
    first_word : int64, one per question
        First word of a set of categories, or -1.  With a set, the bit of a row is 1 if its bin
        is in the set.
    sets : uint64
    """

    column: IntArray
    lowest: IntArray
    highest: IntArray
    first_word: IntArray
    sets: npt.NDArray[np.uint64]


class Visits(NamedTuple):
    """The steps of all tours.

    Attributes
    ----------
    question : int64, one per visit
        Question on the way from the parent; -1 at a root.
    flip : uint64
        All bits if the answer on this way is "no", else 0.
    depth : int64
    slot : int64
        Slot of the column of the question.
    n_before, n_slots : int64
        Slots of the path to the parent, and of the path to this node.
    out : int64
        Position of the first result of an end; -1 elsewhere.
    node, parent : int64
        Counted over all trees; equal at a root, and at a stop.
    """

    question: IntArray
    flip: npt.NDArray[np.uint64]
    depth: IntArray
    slot: IntArray
    n_before: IntArray
    n_slots: IntArray
    out: IntArray
    node: IntArray
    parent: IntArray


def n_masks(n_slots: AnyArray | int, pairs: bool) -> AnyArray | int:
    """Return the number of masks of a path with ``n_slots`` slots."""
    return 1 + n_slots + (n_slots * (n_slots - 1) // 2 if pairs else 0)


def state_words(most_slots: int, most_depth: int, pairs: bool) -> int:
    """Return the words of scratch space for the masks of one tour."""
    return int(n_masks(most_slots, pairs)) * (most_depth + 1) * WORDS


@kernel(inner=True)
def ask(
    keys: IntArray, questions: Questions, number: int, first_row: int, bits: AnyArray, place: int
) -> None:
    """Evaluate a question for a tile; write the bits to ``bits[place : place + WORDS]``."""
    column = np.uint64(questions.column[number])
    lowest, highest = questions.lowest[number], questions.highest[number]
    first_word = questions.first_word[number]
    for word in range(np.uint64(WORDS)):
        row = first_row + np.uint64(64) * word
        found = _ZERO
        if first_word < 0:
            for i in range(np.uint64(64)):
                key = keys[column, row + i]
                found |= np.uint64((key >= lowest) & (key <= highest)) << i
        else:
            for i in range(np.uint64(64)):
                bin_ = np.uint64(keys[column, row + i])
                chosen = questions.sets[np.uint64(first_word) + (bin_ >> np.uint64(6))]
                found |= ((chosen >> (bin_ & np.uint64(63))) & _ONE) << i
        bits[place + word] = found


@kernel(inner=True)
def keep(masks: AnyArray, source: int, target: int, bits: AnyArray, at: int, flip: int) -> None:
    """Write the rows of mask ``source`` that meet the condition to mask ``target``."""
    for word in range(np.uint64(WORDS)):
        masks[target + word] = masks[source + word] & (bits[at + word] ^ flip)


@kernel(inner=True)
def copy(masks: AnyArray, source: int, target: int) -> None:
    """Copy a mask."""
    for word in range(np.uint64(WORDS)):
        masks[target + word] = masks[source + word]


@kernel(inner=True)
def whole_rows(masks: AnyArray, place: int, first_row: int, n_rows: int) -> None:
    """Write the mask of all existing rows of a tile."""
    for word in range(np.uint64(WORDS)):
        first = first_row + np.uint64(64) * word
        left = np.int64(n_rows) - np.int64(first)
        masks[place + word] = _ALL if left >= 64 else (_ONE << np.uint64(max(left, 0))) - _ONE


@kernel(inner=True)
def go_down(
    masks: AnyArray,
    parent: int,
    child: int,
    slots: tuple[int, int],
    bits: tuple[AnyArray, int, int],
    pairs: bool,
) -> None:
    """Compute the masks at ``child`` from the masks at ``parent``.

    Parameters
    ----------
    masks : uint64
    parent, child : int
        First words.
    slots : tuple
        Slot of the question, and number of slots of the parent: equal if the slot is new.
    bits : tuple
        Array, position and flip of the answers.
    pairs : bool
    """
    slot, n_before = slots
    answers, at, flip = bits
    words = np.uint64(WORDS)
    keep(masks, parent, child, answers, at, flip)
    place = _ONE
    for b in range(n_before):
        own = place * words
        if b == slot:
            copy(masks, parent + own, child + own)
        else:
            keep(masks, parent + own, child + own, answers, at, flip)
        place += _ONE
        if pairs:
            for a in range(b):
                own = place * words
                if (a == slot) | (b == slot):
                    copy(masks, parent + own, child + own)
                else:
                    keep(masks, parent + own, child + own, answers, at, flip)
                place += _ONE
    if slot == n_before:
        copy(masks, parent, child + place * words)
        place += _ONE
        if pairs:
            single = _ONE
            for a in range(n_before):
                copy(masks, parent + single * words, child + place * words)
                place += _ONE
                single += a + _ONE


@kernel(inner=True)
def add_counts(
    masks: AnyArray, first: int, n: int, weight: FloatArray, row: int, sums: FloatArray, out: int
) -> None:
    """Add the number of rows of each of ``n`` masks, or their weights if any, to ``sums``."""
    for mask in range(n):
        start = first + mask * np.uint64(WORDS)
        if len(weight) == 0:
            count = _ZERO
            for word in range(np.uint64(WORDS)):
                count += count_ones(masks[start + word])
            sums[out + mask] += np.float64(count)
        else:
            total = 0.0
            for word in range(np.uint64(WORDS)):
                left = masks[start + word]
                while left != _ZERO:
                    total += weight[row + np.uint64(64) * word + np.uint64(trailing_zeros(left))]
                    left &= left - _ONE
            sums[out + mask] += total


@kernel
def count_paths(
    keys: IntArray,
    weight: FloatArray,
    questions: Questions,
    chosen: IntArray,
    visits: Visits,
    start: int,
    stop: int,
    n_rows: int,
    most_masks: int,
    pairs: bool,
    space: npt.NDArray[np.uint64],
    sums: FloatArray,
) -> None:
    """Count, for each end of some trees, the rows that meet all conditions but those on a column.

    Parameters
    ----------
    keys : int64 (n_columns, n_tiles * TILE)
        Keys of numbers, bins of categories; rows beyond ``n_rows`` are ignored.
    weight : float64
        Weight of each row of ``keys``; empty if every row counts once.
    questions : Questions
    chosen : int64
        Numbers of the questions of these trees; ``visits.question`` are positions in this list.
    visits : Visits
    start, stop : int
        Visits of the trees.
    n_rows : int
    most_masks : int
        Largest number of masks of a visit.
    pairs : bool
        Whether conditions on two columns are left out as well.
    space : uint64
        Scratch: ``len(chosen) * WORDS + state_words(...)``.
    sums : float64
        The counts of the masks of an end are added from ``visits.out`` on.
    """
    words, tile = np.uint64(WORDS), np.uint64(TILE)
    states = np.uint64(len(chosen)) * words
    stride = np.uint64(most_masks) * words
    for row in range(_ZERO, np.uint64(n_rows), tile):
        for k in range(np.uint64(len(chosen))):
            ask(keys, questions, np.uint64(chosen[k]), row, space, k * words)
        for i in range(np.uint64(start), np.uint64(stop)):
            depth, n_slots = np.uint64(visits.depth[i]), np.uint64(visits.n_slots[i])
            here = states + depth * stride
            if depth == _ZERO:
                whole_rows(space, here, row, n_rows)
            else:
                slots = np.uint64(visits.slot[i]), np.uint64(visits.n_before[i])
                answers = space, np.uint64(visits.question[i]) * words, visits.flip[i]
                go_down(space, here - stride, here, slots, answers, pairs)
            if visits.out[i] >= 0:
                n = _ONE + n_slots
                if pairs:
                    n += n_slots * (n_slots - _ONE) >> _ONE
                add_counts(space, here, n, weight, row, sums, np.uint64(visits.out[i]))


@kernel
def expect_paths(
    visits: Visits, share: FloatArray, pairs: bool, states: FloatArray, sums: FloatArray
) -> None:
    """Write, for each end, the share of rows that :func:`count_paths` would count.

    Parameters
    ----------
    visits : Visits
        ``out`` is the position of the first result.
    share : float64, one per visit
        Share of the rows at the parent that go this way.
    pairs : bool
    states : float64 (n_depths, n_masks)
        Scratch.
    sums : float64
        Filled.
    """
    for i in range(len(visits.depth)):
        depth, slot, n_before = visits.depth[i], visits.slot[i], visits.n_before[i]
        place = 1
        if depth == 0:
            states[0, 0] = 1.0
        else:
            states[depth, 0] = states[depth - 1, 0] * share[i]
            for b in range(n_before):
                own = 1.0 if b == slot else share[i]
                states[depth, place] = states[depth - 1, place] * own
                place += 1
                if pairs:
                    for a in range(b):
                        own = 1.0 if (a == slot) | (b == slot) else share[i]
                        states[depth, place] = states[depth - 1, place] * own
                        place += 1
            if slot == n_before:
                states[depth, place] = states[depth - 1, 0]
                place += 1
                if pairs:
                    single = 1
                    for a in range(n_before):
                        states[depth, place] = states[depth - 1, single]
                        place += 1
                        single += a + 1
        if visits.out[i] >= 0:
            for k in range(place):
                sums[visits.out[i] + k] = states[depth, k]
