r"""Shapley values of trees where a column that is not known takes its values from other rows.

The game of one leaf, one row and one background row (interventional; Janzing et al. 2020):
a player in S has the row's value, another one that of the background row, so the leaf
counts exactly if the two disagree with no split of the same player.  With

    x   players whose background row disagrees with a split on the path
    y   players whose row does

disjoint sets, the Shapley value of a leaf of value 1 is ``(x - 1)! y! / (x + y)!`` for
each player of the first, and ``-x! (y - 1)! / (x + y)!`` for each of the second set.

Which players disagree is a set of bits, and few sets occur at a leaf.  The background is
reduced to its different sets and their counts, once for all rows; what a set of the row
comes to is kept while a leaf is worked on.  So the cost is rows plus background rows times
leaves, not rows times background rows (as Zern et al. 2023 and Nadel and Wettenstein 2026,
who tabulate all sets).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.explain_tour import UNKNOWN, TreePaths
from hedgerow.kernels.intrinsics import trailing_zeros
from hedgerow.kernels.predict import fill_keys, fill_set_keys

MOST_PLAYERS = 62
"""Most players on a path: bits of a set."""

CACHE = 1024
"""Sets of rows whose values are kept at a leaf."""

_MIX = np.uint64(0x9E3779B97F4A7C15)


class Sample(NamedTuple):
    """Rows, by what splits ask of them.

    keys     int64 (slots * n_rows,): the key of each slot and row
    unknown  uint8 (slots * n_rows,): 1 where the category is unknown; may be empty
    n_rows   int64
    """

    keys: IntArray
    unknown: npt.NDArray[np.uint8]
    n_rows: np.int64


class Weights(NamedTuple):
    """``gain[x, y]`` of a player of the first set, ``loss[x, y]`` of one of the second."""

    gain: FloatArray
    loss: FloatArray


class Branch(NamedTuple):
    """Space for the tour of one thread.

    node, turn  int64 (depth + 2,): the branch, and what is left to do at its nodes
    players     int64 (MOST_PLAYERS + 2,): the player of each bit
    own         uint64 (depth + 2, rows): players that disagree
    others      uint64 (depth + 2, background rows): the same of the background
    sets        uint64 (size,): the different sets of the background at a leaf, hashed
    counts      int64 (size,): how often they occur; 0: free
    used        int64 (size,): places that are taken
    known       uint64 (CACHE,): sets of rows whose values are kept
    at_leaf     int64 (CACHE,): the leaf that they belong to
    kept        float64 (CACHE, MOST_PLAYERS + 2): values of the players
    """

    node: IntArray
    turn: IntArray
    players: IntArray
    own: npt.NDArray[np.uint64]
    others: npt.NDArray[np.uint64]
    sets: npt.NDArray[np.uint64]
    counts: IntArray
    used: IntArray
    known: npt.NDArray[np.uint64]
    at_leaf: IntArray
    kept: FloatArray


def branch_space(depth: int, n_rows: int, n_background: int) -> Branch:
    """Space for trees of this depth."""
    size = 1 << max(4, (2 * n_background - 1).bit_length())
    return Branch(
        node=np.zeros(depth + 2, dtype=np.int64),
        turn=np.zeros(depth + 2, dtype=np.int64),
        players=np.zeros(MOST_PLAYERS + 2, dtype=np.int64),
        own=np.zeros((depth + 2, n_rows), dtype=np.uint64),
        others=np.zeros((depth + 2, n_background), dtype=np.uint64),
        sets=np.zeros(size, dtype=np.uint64),
        counts=np.zeros(size, dtype=np.int64),
        used=np.zeros(size, dtype=np.int64),
        known=np.zeros(CACHE, dtype=np.uint64),
        at_leaf=np.full(CACHE, -1, dtype=np.int64),
        kept=np.zeros((CACHE, MOST_PLAYERS + 2)),
    )


@kernel
def fill_sample(
    rows: tuple[Any, ...],
    slots: IntArray,
    categories: tuple[Any, ...],
    start: int,
    sample: Sample,
) -> None:
    """Write the keys of the rows from ``start`` on."""
    n, one = np.uint64(sample.n_rows), np.uint64(1)
    bins, bins_start, _ = categories
    fill_keys(rows, slots, np.uint64(start), n, sample.keys, one, n)
    if len(bins_start) > 0:
        fill_set_keys(slots, np.uint64(start), n, sample.keys, one, n, categories)
    if len(sample.unknown) > 0:
        for slot in range(len(slots)):
            if slots[slot] < 0:
                first = np.uint64(bins_start[-1 - slots[slot]]) + np.uint64(start)
                for i in range(n):
                    unknown = bins[first + i] == UNKNOWN
                    sample.unknown[np.uint64(slot) * n + i] = np.uint8(1 if unknown else 0)


@kernel(inline=True, inner=True)
def disagree(
    sample: Sample,
    slot: int,
    threshold: int,
    backoff: int,
    turn: int,
    bit: int,
    before: AnyArray,
    after: AnyArray,
) -> None:
    """Add the player of a split to the sets of the rows that do not take branch ``turn``.

    Branch 0 is left, 1 right, 2 the end of the walk of rows whose category is unknown.
    """
    n = np.uint64(sample.n_rows)
    at, mark = np.uint64(slot) * n, np.uint64(1) << np.uint64(bit)
    asks = backoff == 1 and len(sample.unknown) > 0
    for i in range(n):
        way = 1 if sample.keys[at + i] > threshold else 0
        if asks:
            way = 2 if sample.unknown[at + i] == 1 else way
        after[i] = before[i] | (np.uint64(0) if way == turn else mark)


@kernel(inner=True)
def count_sets(branch: Branch, sets: AnyArray) -> int:
    """The different ones of some sets, and how often they occur."""
    mask = np.uint64(len(branch.sets) - 1)
    n = 0
    for i in range(len(sets)):
        place = ((sets[i] * _MIX) >> np.uint64(32)) & mask
        while branch.counts[place] > 0 and branch.sets[place] != sets[i]:
            place = (place + np.uint64(1)) & mask
        if branch.counts[place] == 0:
            branch.sets[place] = sets[i]
            branch.used[n] = np.int64(place)
            n += 1
        branch.counts[place] += 1
    return n


@kernel(inline=True, inner=True)
def size_of(bits: int) -> int:
    """Number of bits that are 1."""
    n = 0
    while bits != np.uint64(0):
        bits &= bits - np.uint64(1)
        n += 1
    return n


@kernel(inner=True)
def values_of_set(
    branch: Branch, own: int, n_sets: int, weights: Weights, kept: FloatArray
) -> None:
    """Values of all players for a row whose set is ``own``, for a leaf of value 1."""
    y = size_of(own)
    for k in range(len(kept)):
        kept[k] = 0.0
    lost = 0.0
    for j in range(n_sets):
        place = branch.used[j]
        other = branch.sets[place]
        if other & own != np.uint64(0):
            continue
        x, count = size_of(other), float(branch.counts[place])
        lost += count * weights.loss[x, y]
        gain = count * weights.gain[x, y]
        while other != np.uint64(0):
            kept[trailing_zeros(other)] += gain
            other &= other - np.uint64(1)
    while own != np.uint64(0):
        kept[trailing_zeros(own)] = -lost
        own &= own - np.uint64(1)


@kernel(inline=True, inner=True)
def add_leaf(
    branch: Branch,
    depth: int,
    serial: int,
    n_bits: int,
    value: FloatArray,
    scale: float,
    weights: Weights,
    outputs: tuple[int, int],
    phi: FloatArray,
    row: int,
) -> None:
    """Add a leaf at ``depth`` to the values of the rows from ``row`` on."""
    first_output, n_outputs = outputs
    n_sets = count_sets(branch, branch.others[depth])
    own = branch.own[depth]
    for i in range(len(own)):
        place = np.int64(((own[i] * _MIX) >> np.uint64(40)) & np.uint64(CACHE - 1))
        kept = branch.kept[place]
        if branch.at_leaf[place] != serial or branch.known[place] != own[i]:
            values_of_set(branch, own[i], n_sets, weights, kept)
            branch.at_leaf[place] = serial
            branch.known[place] = own[i]
        for bit in range(n_bits):
            worth = scale * kept[bit]
            if worth != 0.0:
                first = branch.players[bit] * n_outputs + first_output
                for k in range(len(value)):
                    phi[first + k, row + i] += worth * value[k]
    for j in range(n_sets):
        branch.counts[branch.used[j]] = 0


@kernel(inline=True, inner=True)
def take_branch(
    paths: TreePaths,
    bits: IntArray,
    sample: Sample,
    background: Sample,
    branch: Branch,
    node: int,
    depth: int,
    turn: int,
) -> None:
    """The sets of all rows below branch ``turn`` of a node."""
    bit = bits[node]
    branch.players[bit] = paths.player[node]
    slot, threshold, backoff = paths.slot[node], paths.threshold[node], paths.backoff[node]
    own, others = branch.own, branch.others
    disagree(sample, slot, threshold, backoff, turn, bit, own[depth], own[depth + 1])
    disagree(background, slot, threshold, backoff, turn, bit, others[depth], others[depth + 1])


@kernel
def explain_against(
    paths: TreePaths,
    bits: IntArray,
    weights: Weights,
    sample: Sample,
    background: Sample,
    branch: Branch,
    phi: FloatArray,
    n_outputs: int,
    row: int,
) -> None:
    """Add all trees to the Shapley values of the rows of a sample.

    Parameters
    ----------
    paths : TreePaths
    bits : int64, one per node
        Place of the player of a split among those on the path.
    weights : Weights
    sample, background : Sample
    branch : Branch
        From :func:`branch_space`, of this call alone.
    phi : float64 (n_players * n_outputs, n_rows)
        Values are added to it.
    n_outputs : int
    row : int
        First row of the sample in ``phi``.
    """
    scale = 1.0 / float(background.n_rows)
    branch.at_leaf[:] = -1
    serial = np.int64(0)
    for tree in range(len(paths.n_points)):
        several = paths.value.shape[1] > 1
        output = np.int64(0) if several else np.int64(tree) % n_outputs
        outputs = (output, n_outputs)
        depth, n_bits = np.int64(0), np.int64(0)
        branch.node[0], branch.turn[0] = paths.root[tree], 0
        while depth >= 0:
            node, turn = branch.node[depth], branch.turn[depth]
            if depth > 0:
                parent = branch.node[depth - 1]
                n_bits = max_bit(bits, branch, depth) + 1
                ends = paths.player[node] < 0 or branch.turn[depth - 1] == 3
            else:
                parent, n_bits, ends = node, np.int64(0), paths.player[node] < 0
            if ends:
                value = paths.value[parent if depth > 0 and branch.turn[depth - 1] == 3 else node]
                add_leaf(branch, depth, serial, n_bits, value, scale, weights, outputs, phi, row)
                serial += 1
                depth -= 1
                continue
            n_turns = 2
            if paths.backoff[node] == 1 and len(sample.unknown) + len(background.unknown) > 0:
                n_turns = 3
            if turn == n_turns:
                depth -= 1
                continue
            branch.turn[depth] = turn + 1
            take_branch(paths, bits, sample, background, branch, node, depth, turn)
            branch.node[depth + 1] = paths.left[node] if turn == 0 else paths.right[node]
            branch.turn[depth + 1] = 0
            depth += 1


@kernel(inline=True, inner=True)
def max_bit(bits: IntArray, branch: Branch, depth: int) -> int:
    """The largest bit on the branch to ``depth``."""
    most = np.int64(-1)
    for level in range(depth):
        most = max(most, bits[branch.node[level]])
    return most
