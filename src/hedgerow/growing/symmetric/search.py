"""Search of the cut of a level, each thread in its own columns.

::

    once a tree    what its rows have in each column, the orders of the categories
    once a level   columns of numbers in groups that are searched side by side
    each node      adds what every cut gains in it
    last           the best cut, or, where cuts are drawn, the best of one of each column
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core.batch import is_better, note_split
from hedgerow.growing.core.stages.bundle_search import (
    clear,
    member_at,
    members_of,
    scratch_of,
    sums_of_feature,
)
from hedgerow.growing.core.state import FOUND_SET, Bundles, Sets
from hedgerow.growing.symmetric.gain import Price, worth_of
from hedgerow.growing.symmetric.level import (
    GROUP_BINS,
    GROUP_CELLS,
    GROUP_GAINS,
    GROUP_LACKS,
    SEEN_CUTS,
    SEEN_FIRST,
    SEEN_LACKS,
    set_number,
)
from hedgerow.kernels.histograms.histogram import Bins, HistogramSums, filled_cells
from hedgerow.kernels.histograms.vector_histogram import Sums
from hedgerow.kernels.simd.lanes import WIDTH, lane_of
from hedgerow.kernels.splits.growth import FORCED_BIN, FORCED_FEATURE, draw_of, range_of_cuts
from hedgerow.kernels.splits.monotone import Constraints, bounds_of
from hedgerow.kernels.splits.split import Limits, NodeSums, SplitRules, Units, comparable, limits_of
from hedgerow.kernels.splits.symmetric_category import (
    SetSums,
    add_set_gains,
    best_set,
    drawn_set,
    order_groups,
    write_groups,
)
from hedgerow.kernels.splits.symmetric_split import (
    add_bounded_columns,
    add_columns,
    best_lanes,
    lanes_at,
    leaf_score,
    size_of_block,
)
from hedgerow.kernels.splits.vector_level import NodeSets, add_column_gains
from hedgerow.kernels.splits.vector_split import VectorNode


@kernel(inner=True)
def plan_groups(
    span: tuple[int, int],
    bins: Bins,
    columns: np.ndarray,
    allowed: np.ndarray,
    seen: np.ndarray,
    groups: IntArray,
    gains: FloatArray,
    sets: Sets,
    bundles: Bundles,
) -> int:
    """Put the numeric features of a thread in groups, their gains to 0; how many groups."""
    n_lanes = np.int64(0)
    for k in range(span[0], span[1]):
        first, last = members_of(bundles, np.int64(columns[k]))
        for m in range(first, last):
            feature = member_at(bundles, m)
            if allowed[feature] == 0:
                continue
            number = set_number(sets, feature)
            if number >= 0:
                for i in range(sets.gains.shape[1]):
                    sets.gains[number, i] = 0.0
                continue
            add_to_group(groups, n_lanes, feature, bins, seen)
            n_lanes += 1
    n_groups, n_gains = (n_lanes + WIDTH - 1) // WIDTH, np.int64(0)
    for group in range(n_groups):
        at = group * GROUP_CELLS
        groups[at + GROUP_GAINS] = n_gains
        n_gains += 2 * size_of_block(groups[at + GROUP_BINS])
    for i in range(n_gains):
        gains[i] = 0.0
    return n_groups


@kernel(inner=True)
def add_to_group(
    groups: IntArray, n_before: int, feature: int, bins: Bins, seen: np.ndarray
) -> None:
    """Add a feature behind ``n_before`` others."""
    at, lane = n_before // WIDTH * GROUP_CELLS, n_before % WIDTH
    if lane == 0:
        groups[at + GROUP_BINS] = 0
        groups[at + GROUP_LACKS] = 0
    # This lane and the ones behind it, which may stay empty.
    for j in range(lane, WIDTH):
        groups[at + j] = feature
    groups[at + GROUP_BINS] = max(groups[at + GROUP_BINS], np.int64(bins.n_bins[feature]))
    groups[at + GROUP_LACKS] |= np.int64(seen[feature, SEEN_LACKS])


@kernel(inner=True)
def look_at_root(
    thread: int,
    span: tuple[int, int],
    bins: Bins,
    columns: np.ndarray,
    place: tuple[HistogramSums, int],
    root: NodeSums,
    units: Units,
    seen: np.ndarray,
    sets: Sets,
    drawn: int,
    bundles: Bundles,
    vectors: NodeSets | None,
) -> None:
    """Note what the tree's rows have in each column, and the orders of the categories."""
    # ``vectors`` is the root of several outputs.
    histograms, scratch = place[0], scratch_of(bundles, thread, bins.stride)
    for k in range(span[0], span[1]):
        first, last = members_of(bundles, np.int64(columns[k]))
        for m in range(first, last):
            feature = member_at(bundles, m)
            at = sums_of_feature(histograms, place[1], feature, bins, root, scratch, bundles)
            seen[feature, SEEN_LACKS] = 1 if histograms.n[at + bins.stride - 1] > 0 else 0
            if drawn == 1:
                n_bins = np.int64(bins.n_bins[feature])
                from_bin, n_cuts = range_of_cuts(histograms, at, n_bins, bins.stride)
                seen[feature, SEEN_FIRST], seen[feature, SEEN_CUTS] = from_bin, n_cuts
            number = set_number(sets, feature)
            if number >= 0:
                column = SetSums(at, filled_cells(bins, feature, False), bins.stride)
                order_groups(
                    histograms, column, root.n, units, sets.categories.rules, sets.places[number],
                    sets.info[number], vectors,
                )  # fmt: skip


@kernel(inner=True)
def find_sums(
    thread: int,
    group: IntArray,
    bins: Bins,
    place: tuple[HistogramSums, int],
    node: NodeSums,
    at: IntArray,
    bundles: Bundles,
) -> None:
    """Find the starts of the sums of a group's features; write out members of bundles."""
    histograms, slot_start = place
    if bundles.used == 0:
        for j in range(WIDTH):
            at[j] = slot_start + group[j] * bins.stride
        return
    scratch = scratch_of(bundles, thread, bins.stride)
    for j in range(WIDTH):
        if j > 0 and group[j] == group[j - 1]:
            at[j] = at[j - 1]
            continue
        to = scratch + j * bins.stride
        at[j] = sums_of_feature(histograms, slot_start, group[j], bins, node, to, bundles)
        if at[j] == to:
            # All lanes run up to the last bin of any: behind its own a column is empty.
            written = (np.int64(bins.n_bins[group[j]]) + 7) // 8 * 8
            clear(histograms, to + written, min(group[GROUP_BINS] + 7, bins.stride - 1) - written)


@kernel(inner=True)
def add_node_gains(
    thread: int,
    rules: SplitRules,
    bins: Bins,
    place: tuple[HistogramSums, int],
    node: tuple[NodeSums, Units, int],
    lanes: IntArray,
    groups: tuple[IntArray, int],
    gains: FloatArray,
    constraints: Constraints,
    bundles: Bundles,
) -> None:
    """Add what every cut of a thread's numeric features gains in one node."""
    # ``node`` are its sums, their units, and its number.
    histograms = place[0]
    sums, units, number = node
    at, last_bin = lanes[1], lanes[0]
    limits, bounds = (
        limits_of(sums, units, rules),
        bounds_of(constraints, number, sums, units, rules),
    )
    parent, stride = leaf_score(limits), bins.stride
    cells, n_groups = groups
    for group in range(n_groups):
        first = group * GROUP_CELLS
        find_sums(thread, cells[first : first + GROUP_CELLS], bins, place, sums, at, bundles)
        n_bins, lacks = cells[first + GROUP_BINS], cells[first + GROUP_LACKS] != 0
        to = cells[first + GROUP_GAINS]
        if constraints.scored == 0:
            add_columns(histograms, at, n_bins, stride, lacks, limits, parent, gains, to)
            continue
        for j in range(WIDTH):
            last_bin[j] = constraints.last_bin[cells[first + j]]
        order = (cells[first : first + WIDTH], last_bin, constraints.sign)
        add_bounded_columns(histograms, at, n_bins, stride, limits, bounds, order, gains, to)


@kernel(inner=True)
def add_vector_gains(
    node: VectorNode,
    limits: Limits,
    parent: float,
    bins: Bins,
    sums: Sums,
    groups: tuple[IntArray, int],
    gains: FloatArray,
    constraints: Constraints,
) -> None:
    """:func:`add_node_gains` of several outputs, whose gains are added up."""
    cells, n_groups = groups
    for group in range(n_groups):
        first = group * GROUP_CELLS
        to, also = cells[first + GROUP_GAINS], np.int64(0)
        if cells[first + GROUP_LACKS] != 0:
            also = size_of_block(cells[first + GROUP_BINS])
        for j in range(WIDTH):
            feature = cells[first + j]
            if j > 0 and feature == cells[first + j - 1]:
                break  # the last feature fills the lanes that are left
            at, n_bins = node.start + feature * bins.stride, np.int64(bins.n_bins[feature])
            sign = constraints.sign[feature]
            add_column_gains(
                sums, at, n_bins, bins.stride, node, limits, parent, gains, to + j, also, sign
            )


@kernel(inner=True)
def add_node_sets(
    span: tuple[int, int],
    rules: SplitRules,
    bins: Bins,
    columns: tuple[np.ndarray, np.ndarray],
    place: tuple[HistogramSums, int],
    node: tuple[NodeSums, Units, int],
    sets: Sets,
    constraints: Constraints,
    vectors: NodeSets | None,
) -> None:
    """:func:`add_node_gains` of category columns: a list of all, and which may be used."""
    # ``vectors`` is the node of several outputs.
    histograms, slot_start = place
    sums, units, number = node
    features, stride = columns[0], bins.stride
    for k in range(span[0], span[1]):
        feature = np.int64(features[k])
        place_of_set = set_number(sets, feature)
        if place_of_set >= 0 and columns[1][feature] == 1:
            filled = filled_cells(bins, feature, False)
            column = SetSums(slot_start + feature * stride, filled, stride)
            add_set_gains(
                histograms, column, sums, units, rules, sets.categories.rules,
                sets.places[place_of_set], sets.info[place_of_set], sets.gains[place_of_set],
                (constraints, number), vectors,
            )  # fmt: skip


@kernel(inner=True)
def draw_cuts(features: IntArray, seen: np.ndarray, key: int, cuts: IntArray) -> None:
    """Draw a cut of each of ``WIDTH`` columns; any cut if none divides the rows."""
    for j in range(WIDTH):
        feature = features[j]
        n_cuts = np.int64(seen[feature, SEEN_CUTS])
        cuts[j] = 0
        if n_cuts > 0:
            cuts[j] = np.int64(seen[feature, SEEN_FIRST]) + draw_of(key, feature, n_cuts)


@kernel(inner=True)
def find_cut(
    units: Units,
    groups: tuple[IntArray, int],
    gains: FloatArray,
    lanes: IntArray,
    found: IntArray,
    price: Price,
    constraints: Constraints,
    seen: np.ndarray,
) -> None:
    """Note the best cut of a thread's columns of numbers; a score of -1 means none."""
    unit = units.g * (units.g / units.h)
    price = Price(price.level, price.gamma / unit, price.key)
    best, feature, bin_, missing_left = 0.0, np.int64(-1), np.int64(0), np.int64(0)
    cells, n_groups = groups
    for group in range(n_groups):
        first = group * GROUP_CELLS
        to, n_bins, also = cells[first + GROUP_GAINS], cells[first + GROUP_BINS], np.int64(0)
        if cells[first + GROUP_LACKS] != 0:
            also = size_of_block(n_bins)
        if constraints.growth.drawn == 1:
            draw_cuts(cells[first : first + WIDTH], seen, price.key, lanes[0])
            right = lanes_at(gains, to, lanes[0], lanes[1])
            left = lanes_at(gains, to + also, lanes[0], lanes[1])
        else:
            right = best_lanes(gains, to, n_bins)
            left = right
            if also != 0:
                left = best_lanes(gains, to + also, n_bins)
        for j in range(WIDTH):
            column = cells[first + j]
            worth = worth_of(constraints, column, price, lane_of(right[0], j))
            # In bundles a lower feature may come later.
            if worth > best or (worth == best and column < feature):
                best, feature = worth, column
                bin_, missing_left = lane_of(right[1], j), np.int64(0)
            worth = worth_of(constraints, column, price, lane_of(left[0], j))
            if worth > best or (worth == best and column < feature):
                best, feature = worth, column
                bin_, missing_left = lane_of(left[1], j), np.int64(1)
    score = comparable(best, units) if feature >= 0 else -1.0
    note_split(found, score, feature, feature, bin_, missing_left, NodeSums(0, 0, 0))


@kernel(inner=True)
def find_forced(
    units: Units,
    groups: tuple[IntArray, int],
    gains: FloatArray,
    forced: int,
    found: IntArray,
    price: Price,
    constraints: Constraints,
) -> None:
    """Note the cut that the level is to take, if it is in a thread's columns and gains."""
    unit = units.g * (units.g / units.h)
    price = Price(price.level, price.gamma / unit, price.key)
    nothing = NodeSums(0, 0, 0)
    note_split(found, -1.0, np.int64(-1), np.int64(-1), np.int64(0), np.int64(0), nothing)
    feature, cut = (
        constraints.growth.forced[forced, FORCED_FEATURE],
        constraints.growth.forced[forced, FORCED_BIN],
    )
    cells, n_groups = groups
    for group in range(n_groups):
        first = group * GROUP_CELLS
        for j in range(WIDTH):
            if cells[first + j] != feature:
                continue
            at = cells[first + GROUP_GAINS] + cut * WIDTH + j
            also = at + size_of_block(cells[first + GROUP_BINS])
            gain, missing_left = gains[at], np.int64(0)
            if cells[first + GROUP_LACKS] != 0 and gains[also] > gain:
                gain, missing_left = gains[also], np.int64(1)
            worth = worth_of(constraints, feature, price, gain)
            if worth > 0.0:
                score = comparable(worth, units)
                note_split(found, score, feature, feature, cut, missing_left, nothing)
            return


@kernel(inner=True)
def find_set(
    span: tuple[int, int],
    bins: Bins,
    columns: np.ndarray,
    allowed: np.ndarray,
    units: Units,
    found: IntArray,
    sets: Sets,
    price: Price,
    constraints: Constraints,
) -> None:
    """Put the best set of a thread's category columns in the place of what was found, if better."""
    for k in range(span[0], span[1]):
        feature = np.int64(columns[k])
        number = set_number(sets, feature)
        if number < 0 or allowed[feature] == 0:
            continue
        info = sets.info[number]
        if constraints.growth.drawn == 1:
            score, place = drawn_set(
                sets.gains[number], sets.places[number], info, price.key, feature
            )
        else:
            score, place = best_set(sets.gains[number], info)
        score = worth_of(constraints, feature, price, score) / units.scale
        if place < 0 or not is_better(score, feature, found):
            continue
        column = SetSums(np.int64(0), filled_cells(bins, feature, False), bins.stride)
        write_groups(sets.places[number], info, place, column, 1, found, FOUND_SET)
        last = bins.stride - 1
        word = np.uint64(found[FOUND_SET + (last >> 6)])
        missing_left = np.int64((word >> np.uint64(last & 63)) & np.uint64(1))
        note_split(found, score, feature, feature, place, missing_left, NodeSums(0, 0, 0))
