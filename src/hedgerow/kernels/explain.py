r"""Shapley values of trees: what each column adds to the raw score of a row.

The game of one leaf.  A row reaches the leaf if it agrees with every split on the path.
Without knowledge of a player (a column of the user's), its splits are passed by the
share of training rows that pass them (Lundberg et al. 2020, path-dependent)::

    v(S) = value * prod over players p in S of o_p * prod over the others of w_p

    o_p   1 if the row agrees with all splits of p on the path, else 0
    w_p   product of the shares of training rows at these splits

Its Shapley value for p is an integral over the chance ``t`` at which every other player
takes part (Owen 1972):

.. math::
    \phi_p = value \int_0^1 (o_p - w_p) \prod_{j \ne p} (t o_j + (1 - t) w_j)\, dt

a polynomial whose degree is one less than the number of players ``u`` on the path, so
Gauss-Legendre quadrature with ``u / 2`` points, rounded up, has no error but rounding.

A tree is toured once for a block of rows, and at each of its points::

    down  C(child) = C(node) * f_new / f_old      f = t o + (1 - t) w of the split's player
    leaf  H = C * value
    up    H(node) = H(left) + H(right)
          phi[player] += weight * H(child) * (r_new - r_old)      r = (o - w) / f

``old`` is the player's state above the split (o = w = 1 where it has none), so that what a
first split of a player adds for the leaves below a second one is taken back there.  The
cost of a row is proportional to nodes times points.

Lanes are rows: what a row gets does not depend on the block that it stands in.  The steps
of the tour are inlined: as calls, each would copy the arrays that it takes, some 200 words,
which for one row is more than all the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.explain_lines import add_line
from hedgerow.kernels.explain_tour import (
    RATE_LEFT,
    RATE_OUT,
    RATE_RIGHT,
    RATE_STOP,
    REACH_LEFT,
    REACH_LEFT_OUT,
    REACH_RIGHT,
    REACH_RIGHT_OUT,
    REACH_STOP,
    UNKNOWN,
    LineTerms,
    Space,
    Tour,
    TreePaths,
    Values,
)
from hedgerow.kernels.predict import fill_keys, fill_set_keys


@kernel(inline=True, inner=True)
def ask_split(
    paths: TreePaths,
    tour: Tour,
    node: int,
    depth: int,
    keys: IntArray,
    unknown: AnyArray,
    n: int,
) -> int:
    """Write which rows agree with the left and the right child; 1 if some stop at the node."""
    left, right, stops = tour.agrees[depth + 1, 0], tour.agrees[depth + 1, 1], tour.stops[depth]
    above = paths.above[node]
    old = tour.agrees[0, 0]
    if above >= 0:
        old = tour.agrees[above, tour.side[above]]
    at, threshold = np.uint64(paths.slot[node] * len(tour.added)), paths.threshold[node]
    for i in range(np.uint64(n)):
        right[i] = old[i] if keys[at + i] > threshold else 0.0
        left[i] = old[i] - right[i]
        stops[i] = 0.0
    if paths.backoff[node] == 0 or len(unknown) == 0:
        return 0
    found = 0
    for i in range(np.uint64(n)):
        if unknown[at + i] == 1:
            stops[i] = old[i]
            left[i] = 0.0
            right[i] = 0.0
            found = 1
    return found


@kernel(inline=True, inner=True)
def fill_rates(
    rates: FloatArray,
    points: FloatArray,
    w_old: float,
    w_left: float,
    w_right: float,
    factors: FloatArray,
) -> None:
    """Factors of a split at each point; a loop by itself, which divides some points at a time."""
    for q in range(np.uint64(points.shape[1])):
        t, part = points[0, q], points[1, q]
        rest = 1.0 - t
        per_old = 1.0 / (t + rest * w_old)
        f_left, f_right = t + rest * w_left, t + rest * w_right
        r_old = (1.0 - w_old) * per_old
        r_left, r_right = (1.0 - w_left) / f_left, (1.0 - w_right) / f_right
        factors[0, q] = r_left
        factors[1, q] = r_right
        rates[RATE_LEFT, q] = part * (r_left - r_old)
        rates[RATE_RIGHT, q] = part * (r_right - r_old)
        rates[RATE_OUT, q] = part * (-1.0 / rest - r_old)
        rates[RATE_STOP, q] = part * (1.0 / t - r_old)
        rates[REACH_STOP, q] = t * per_old
        rates[REACH_LEFT, q] = f_left * per_old
        rates[REACH_LEFT_OUT, q] = rest * w_left * per_old
        rates[REACH_RIGHT, q] = f_right * per_old
        rates[REACH_RIGHT_OUT, q] = rest * w_right * per_old


@kernel(inline=True, inner=True)
def go_down(
    paths: TreePaths, tour: Tour, node: int, depth: int, points: FloatArray, n: int
) -> None:
    """``C`` of both children of a node at ``depth``, and the factors for the way up."""
    n_points = np.uint64(points.shape[1])
    w_old, share = paths.weight[node], paths.share[node]
    w_left, w_right = w_old * share, w_old * (1.0 - share)
    above = paths.above[node]
    old = tour.agrees[0, 0]
    if above >= 0:
        old = tour.agrees[above, tour.side[above]]
    in_left, in_right = tour.agrees[depth + 1, 0], tour.agrees[depth + 1, 1]
    rates = tour.rates[depth]
    fill_rates(rates, points, w_old, w_left, w_right, tour.factors[depth + 1])
    left_before, right_before = share, 1.0 - share
    for q in range(n_points):
        left_in, left_out = rates[REACH_LEFT, q], rates[REACH_LEFT_OUT, q]
        right_in, right_out = rates[REACH_RIGHT, q], rates[REACH_RIGHT_OUT, q]
        reached = tour.reached[depth, tour.side[depth], q]
        to_left, to_right = tour.reached[depth + 1, 0, q], tour.reached[depth + 1, 1, q]
        for i in range(np.uint64(n)):
            was, a, b = old[i] > 0.5, in_left[i] > 0.5, in_right[i] > 0.5
            to_left[i] = reached[i] * (left_in if a else (left_out if was else left_before))
            to_right[i] = reached[i] * (right_in if b else (right_out if was else right_before))


@kernel(inline=True, inner=True)
def go_up(
    paths: TreePaths,
    tour: Tour,
    node: int,
    depth: int,
    n_points: int,
    first_output: int,
    values: Values,
    row: int,
    n: int,
) -> None:
    """Add what the split of a node at ``depth`` is worth, and sum up ``H``."""
    above = paths.above[node]
    old = tour.agrees[0, 0]
    if above >= 0:
        old = tour.agrees[above, tour.side[above]]
    in_left, in_right, stops = (
        tour.agrees[depth + 1, 0],
        tour.agrees[depth + 1, 1],
        tour.stops[depth],
    )
    added, rates = tour.added, tour.rates[depth]
    stopped = tour.turn[depth] == 3
    for k in range(np.uint64(paths.value.shape[1])):
        for i in range(np.uint64(n)):
            added[i] = 0.0
        for q in range(np.uint64(n_points)):
            a, b, out = rates[RATE_LEFT, q], rates[RATE_RIGHT, q], rates[RATE_OUT, q]
            left, right = tour.held[depth + 1, 0, k, q], tour.held[depth + 1, 1, k, q]
            held = tour.held[depth, tour.side[depth], k, q]
            for i in range(np.uint64(n)):
                l_i, r_i = left[i], right[i]
                held[i] = l_i + r_i
                worth = l_i * (a if in_left[i] > 0.5 else out)
                worth += r_i * (b if in_right[i] > 0.5 else out)
                added[i] += worth if old[i] > 0.5 else 0.0
            if stopped:
                reached, value = tour.reached[depth, tour.side[depth], q], paths.value[node, k]
                for i in range(np.uint64(n)):
                    here = reached[i] * stops[i] * rates[REACH_STOP, q] * value
                    held[i] += here
                    added[i] += here * rates[RATE_STOP, q]
        into = values.single[paths.player[node] * values.n_outputs + first_output + k]
        for i in range(np.uint64(n)):
            into[row + i] += added[i]


@kernel(inline=True, inner=True)
def end_at_leaf(paths: TreePaths, tour: Tour, node: int, depth: int, n_points: int, n: int) -> None:
    """``H`` of a leaf."""
    side = tour.side[depth]
    for k in range(np.uint64(paths.value.shape[1])):
        value = paths.value[node, k]
        for q in range(np.uint64(n_points)):
            reached, held = tour.reached[depth, side, q], tour.held[depth, side, k, q]
            for i in range(np.uint64(n)):
                held[i] = reached[i] * value


@kernel(inner=True)
def add_pairs(
    paths: TreePaths,
    tour: Tour,
    depth: int,
    points: FloatArray,
    first_output: int,
    values: Values,
    row: int,
    n: int,
) -> None:
    """Add what a leaf at ``depth`` gives to each pair of players on its path.

    Each of the two gets half of the second derivative of the game.  Pair (a, b) with
    ``a < b`` stands in row ``a * n_players + b`` of the pairs, once for each output.
    """
    n_outputs = values.n_outputs
    n_players = values.single.shape[0] // n_outputs
    added, side = tour.added, tour.side[depth]
    for lower in range(1, depth + 1):
        a = paths.player[tour.node[lower - 1]]
        if is_split_again(paths, tour, lower, depth):
            continue
        in_a, from_a = tour.agrees[lower, tour.side[lower]], tour.factors[lower, tour.side[lower]]
        for higher in range(lower + 1, depth + 1):
            b = paths.player[tour.node[higher - 1]]
            if is_split_again(paths, tour, higher, depth):
                continue
            in_b, from_b = (
                tour.agrees[higher, tour.side[higher]],
                tour.factors[higher, tour.side[higher]],
            )
            for k in range(np.uint64(paths.value.shape[1])):
                for i in range(np.uint64(n)):
                    added[i] = 0.0
                for q in range(np.uint64(points.shape[1])):
                    half, out = 0.5 * points[1, q], -1.0 / (1.0 - points[0, q])
                    r_a, r_b, held = from_a[q], from_b[q], tour.held[depth, side, k, q]
                    for i in range(np.uint64(n)):
                        both = (r_a if in_a[i] > 0.5 else out) * (r_b if in_b[i] > 0.5 else out)
                        added[i] += half * held[i] * both
                place = (min(a, b) * n_players + max(a, b)) * n_outputs + first_output + k
                into = values.pairs[place]
                for i in range(np.uint64(n)):
                    into[row + i] += added[i]


@kernel(inline=True, inner=True)
def is_split_again(paths: TreePaths, tour: Tour, level: int, depth: int) -> bool:
    """Whether the player of the edge to ``level`` has a deeper one on the branch."""
    player = paths.player[tour.node[level - 1]]
    again = False
    for deeper in range(level + 1, depth + 1):
        again |= paths.player[tour.node[deeper - 1]] == player
    return again


@kernel(inline=True, inner=True)
def explain_tree(
    paths: TreePaths,
    lines: LineTerms,
    space: Space,
    tree: int,
    output: int,
    values: Values,
    row: int,
    n: int,
) -> None:
    """Add one tree to the values of rows ``row .. row + n``."""
    tour, keys, unknown = space.tour, space.keys, space.unknown
    first = paths.point_start[tree]
    points = paths.points[:, first : first + paths.n_points[tree]]
    n_points, depth = points.shape[1], np.int64(0)
    tour.node[0], tour.side[0], tour.turn[0] = paths.root[tree], 0, 0
    # Turns: 0 arrive, 1 left child is done, 2 right child is done; 3 is 2, and rows stop here.
    while depth >= 0:
        node = tour.node[depth]
        if paths.player[node] < 0:
            end_at_leaf(paths, tour, node, depth, n_points, n)
            if len(lines.group) > 0 and lines.player[node, 0] >= 0:
                for i in range(n):
                    add_line(lines, tour, node, depth, points, output, values, (row, i), space.sums)
            if len(values.pairs) > 0:
                add_pairs(paths, tour, depth, points, output, values, row, n)
            depth -= 1
            continue
        turn = tour.turn[depth]
        if turn == 0:
            stopped = ask_split(paths, tour, node, depth, keys, unknown, n)
            go_down(paths, tour, node, depth, points, n)
            tour.turn[depth] = 1 if stopped == 0 else 4
        elif turn == 1 or turn == 4:
            tour.turn[depth] = 2 if turn == 1 else 3
        else:
            go_up(paths, tour, node, depth, n_points, output, values, row, n)
            depth -= 1
            continue
        right = turn != 0
        tour.node[depth + 1] = paths.right[node] if right else paths.left[node]
        tour.side[depth + 1] = 1 if right else 0
        tour.turn[depth + 1] = 0
        depth += 1


@kernel
def explain_rows(
    rows: tuple[Any, ...],
    slots: IntArray,
    categories: tuple[Any, ...],
    paths: TreePaths,
    lines: LineTerms,
    space: Space,
    values: Values,
    start: int,
    stop: int,
) -> None:
    """Add the Shapley values of rows ``start .. stop``.

    Parameters
    ----------
    rows, slots, categories
        As for :func:`hedgerow.kernels.predict.add_walked_trees`, with 64-bit keys.
    paths : TreePaths
    lines : LineTerms
        Empty where leaves hold numbers.
    space : Space
        Of this call alone.
    values : Values
    start, stop : int
    """
    bins, bins_start, _ = categories
    keys, unknown, one, block = (
        space.keys,
        space.unknown,
        np.uint64(1),
        np.uint64(len(space.tour.added)),
    )
    for row in range(np.uint64(start), np.uint64(stop), block):
        n = min(block, np.uint64(stop) - row)
        fill_keys(rows, slots, row, n, keys, one, block)
        if len(bins_start) > 0:
            fill_set_keys(slots, row, n, keys, one, block, categories)
        if len(unknown) > 0:
            for slot in range(len(slots)):
                if slots[slot] < 0:
                    first = np.uint64(bins_start[-1 - slots[slot]]) + row
                    for i in range(n):
                        known = bins[first + i] != UNKNOWN
                        unknown[np.uint64(slot) * block + i] = np.uint8(0 if known else 1)
        for tree in range(len(paths.n_points)):
            several = paths.value.shape[1] > 1
            output = np.int64(0) if several else np.int64(tree) % values.n_outputs
            explain_tree(paths, lines, space, tree, output, values, np.int64(row), np.int64(n))
