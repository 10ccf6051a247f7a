"""Slopes of the leaves of a grown tree (:mod:`hedgerow.kernels.prediction.slopes`).

A leaf needs three passes over its rows, each after the result of the one before::

    HEAVY      sums of h and of h x, extremes of x     ->  center of each column
    PRODUCTS   S = sum of h d d' and b = - sum of g d  ->  slope of each column
    EXTREMES   least and greatest sum of terms         ->  bounds

All sums of a leaf are floats and are taken in the order of its rows.  A pass goes on from the
sums that it is given, so rows may come in parts: the result has the bits of a single part.

Glossary
--------
stage  one of the three passes
space  g, h and ``x - center`` of the rows of one part, side by side
sums   what the stages have added up so far, for each leaf
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray
from hedgerow.compile import kernel
from hedgerow.kernels.prediction.slopes import TERMS, clipped, is_finite

ROWS_A_TERM = 2
"""Least rows of a leaf for each term, and for its value."""

HEAVY, PRODUCTS, EXTREMES, STAGES = range(4)

# Columns of the sums of a leaf: one of h; for each term of h x, of h where x is finite, least and
# greatest x; the lower half of S, row by row; b; and the least and greatest sum of terms.
MASS, TOTAL, PRESENT, LOWEST, HIGHEST, SQUARES, GRADIENTS, LOW, HIGH, SUMS = (
    0, 1, 4, 7, 10, 13, 19, 22, 23, 24,
)  # fmt: skip

_SINGULAR = 1e-9
"""A column gets no slope if other columns explain all but this share of its variance."""

_ONE = np.uint64(1)
_TOTAL, _PRESENT = np.uint64(TOTAL), np.uint64(PRESENT)
_LOWEST, _HIGHEST = np.uint64(LOWEST), np.uint64(HIGHEST)


class LeafRows(NamedTuple):
    """Training rows of a tree, node by node, or a part of them.

    rows            uint32: the rows of node n are ``count[n]`` entries from ``start[n]`` on
    start, count    int64, one per node: the count is 0 in inner nodes, which get no terms
    quantized       int32, two per row of the table: g and h, in units of ``g_unit`` and ``h_unit``
    g_unit, h_unit  float
    numbers         float64 (n_rows, n_features), column by column
    space           float64 (2 + TERMS, n_rows): scratch
    """

    rows: kt.UInt32_1D
    start: kt.Int64_1D
    count: kt.Int64_1D
    quantized: kt.Int32_1D
    g_unit: float
    h_unit: float
    numbers: kt.Strided[kt.Float64_2D]
    space: kt.Float64_2D


class LeafTerms(NamedTuple):
    """Terms of all nodes, with room for three terms per node.

    count          int64, one per node
    column         int32 (n_nodes, TERMS): the nearest split first
    slope, center  float64 (n_nodes, TERMS)
    bounds         float64 (2, n_nodes)
    """

    count: kt.Int64_1D
    column: kt.Int32_2D
    slope: kt.Float64_2D
    center: kt.Float64_2D
    bounds: kt.Float64_2D


class SlopeRules(NamedTuple):
    """The limits on the terms of a leaf.

    penalty, rate  float: ``rate`` is the learning rate, which slopes and bounds include
    longest        two floats: largest absolute value of the terms of a leaf, and of its value and
                   terms together, before the learning rate; infinite: no limit
    values         float64, one per node: values of the leaves
    room           float64 (2, n_nodes): least and greatest sum of terms that the bounds of a node
                   allow beside its value; empty: no node has bounds
    """

    penalty: float
    rate: float
    longest: tuple[float, float]
    values: kt.Float64_1D
    room: kt.Float64_2D


def empty_terms(n_nodes: int) -> LeafTerms:
    """Return the terms of nodes without any."""
    return LeafTerms(
        count=np.zeros(n_nodes, dtype=np.int64),
        column=np.zeros((n_nodes, TERMS), dtype=np.int32),
        slope=np.zeros((n_nodes, TERMS)),
        center=np.zeros((n_nodes, TERMS)),
        bounds=np.zeros((2, n_nodes)),
    )


def empty_sums(n_nodes: int) -> FloatArray:
    """Return the sums of leaves before the first row."""
    sums = np.zeros((n_nodes, SUMS))
    sums[:, LOWEST:HIGHEST] = sums[:, LOW] = np.inf
    sums[:, HIGHEST:SQUARES] = sums[:, HIGH] = -np.inf
    return sums


# -- the rows of a leaf ---------------------------------------------------------------------


@kernel(inner=True)
def load_gradients(data: LeafRows, leaf: int, sums: FloatArray) -> None:
    """Write g and h of a leaf's rows to the space, and add up h."""
    # The space of a row is at its position in ``data.rows``: scattered rows are read only once.
    two, space, first = np.uint64(2), data.space, np.uint64(data.start[leaf])
    mass = sums[MASS]
    for i in range(first, first + np.uint64(data.count[leaf])):
        at = two * np.uint64(data.rows[i])
        h = data.h_unit * data.quantized[at + _ONE]
        space[0, i] = data.g_unit * data.quantized[at]
        space[1, i] = h
        mass += h
    sums[MASS] = mass


@kernel(inner=True)
def load_column(data: LeafRows, terms: LeafTerms, leaf: int, t: int, sums: FloatArray) -> None:
    """Write the column of a term to the space of a leaf's rows; add up its finite numbers."""
    place, column, space = np.uint64(2) + t, np.uint64(terms.column[leaf, t]), data.space
    first = np.uint64(data.start[leaf])
    at = (_TOTAL + t, _PRESENT + t, _LOWEST + t, _HIGHEST + t)
    total, present, lowest, highest = sums[at[0]], sums[at[1]], sums[at[2]], sums[at[3]]
    for i in range(first, first + np.uint64(data.count[leaf])):
        x = data.numbers[np.uint64(data.rows[i]), column]
        there = is_finite(x)
        space[place, i] = x
        total += space[1, i] * x if there else 0.0
        present += space[1, i] if there else 0.0
        lowest = min(lowest, x) if there else lowest
        highest = max(highest, x) if there else highest
    sums[at[0]], sums[at[1]], sums[at[2]], sums[at[3]] = total, present, lowest, highest


@kernel(inner=True)
def center_column(data: LeafRows, terms: LeafTerms, leaf: int, t: int) -> None:
    """Subtract the center of a term in the space; 0 where x is not finite."""
    place, center, space = np.uint64(2) + t, terms.center[leaf, t], data.space
    first = np.uint64(data.start[leaf])
    for i in range(first, first + np.uint64(data.count[leaf])):
        x = space[place, i]
        space[place, i] = x - center if is_finite(x) else 0.0


@kernel(inner=True)
def empty_column(data: LeafRows, leaf: int, t: int) -> None:
    """Write 0 in place of a term that the leaf does not have."""
    place, space, first = np.uint64(2) + t, data.space, np.uint64(data.start[leaf])
    for i in range(first, first + np.uint64(data.count[leaf])):
        space[place, i] = 0.0


@kernel(inner=True)
def sum_products(data: LeafRows, leaf: int, sums: FloatArray) -> None:
    """Add ``h d d'`` (lower half) and ``- g d`` of three terms to the sums."""
    space, first = data.space, np.uint64(data.start[leaf])
    s00, s10, s11 = sums[SQUARES], sums[SQUARES + 1], sums[SQUARES + 2]
    s20, s21, s22 = sums[SQUARES + 3], sums[SQUARES + 4], sums[SQUARES + 5]
    b0, b1, b2 = sums[GRADIENTS], sums[GRADIENTS + 1], sums[GRADIENTS + 2]
    for i in range(first, first + np.uint64(data.count[leaf])):
        g, h = space[0, i], space[1, i]
        d0, d1, d2 = space[2, i], space[3, i], space[4, i]
        h0, h1, h2 = h * d0, h * d1, h * d2
        s00 += h0 * d0
        s10 += h1 * d0
        s11 += h1 * d1
        s20 += h2 * d0
        s21 += h2 * d1
        s22 += h2 * d2
        b0 -= g * d0
        b1 -= g * d1
        b2 -= g * d2
    sums[SQUARES], sums[SQUARES + 1], sums[SQUARES + 2] = s00, s10, s11
    sums[SQUARES + 3], sums[SQUARES + 4], sums[SQUARES + 5] = s20, s21, s22
    sums[GRADIENTS], sums[GRADIENTS + 1], sums[GRADIENTS + 2] = b0, b1, b2


@kernel(inner=True)
def find_extremes(
    data: LeafRows, terms: LeafTerms, leaf: int, ends: tuple[float, float], sums: FloatArray
) -> None:
    """Replace g of each row in the space by its sum of terms; note the extremes."""
    # A sum has the bits of :func:`hedgerow.kernels.prediction.slopes.sum_of_terms`: a term with the
    # slope 0 adds nothing.  ``ends`` are the least and the greatest allowed sum.  Rows with a
    # hessian of 0 do not widen the bounds: the solution ignores such rows, so their values may lie
    # anywhere.
    space, first = data.space, np.uint64(data.start[leaf])
    a, b, c = terms.slope[leaf, 0], terms.slope[leaf, 1], terms.slope[leaf, 2]
    low, high = sums[LOW], sums[HIGH]
    for i in range(first, first + np.uint64(data.count[leaf])):
        total = a * space[2, i] if a != 0.0 else 0.0
        total += b * space[3, i] if b != 0.0 else 0.0
        total += c * space[4, i] if c != 0.0 else 0.0
        space[0, i] = total
        counts = space[1, i] > 0.0
        total = min(max(total, ends[0]), ends[1])
        low = min(low, total) if counts else low
        high = max(high, total) if counts else high
    sums[LOW], sums[HIGH] = low, high


# -- the terms of a leaf --------------------------------------------------------------------


@kernel(inner=True)
def set_center(terms: LeafTerms, leaf: int, t: int, sums: FloatArray) -> None:
    """Write the center of a term: the mean of the finite values, weighted by h."""
    lowest, highest = sums[_LOWEST + t], sums[_HIGHEST + t]
    # A single value is its own center: a rounded mean would leave the column a variance.
    center = sums[_TOTAL + t] / sums[_PRESENT + t] if lowest < highest else lowest
    terms.center[leaf, t] = center


@kernel(inner=True)
def solve(S: FloatArray, b: FloatArray, n_terms: int, ridge: float, slope: FloatArray) -> None:
    """Write the slopes that solve ``(S + ridge diag S) slope = b``, by Cholesky, in place."""
    for s in range(n_terms):
        diagonal = S[s, s] * (1.0 + ridge)
        left = diagonal
        for t in range(s):
            part = S[s, t]
            for u in range(t):
                part -= S[s, u] * S[t, u]
            S[s, t] = part / S[t, t] if S[t, t] > 0.0 else 0.0
            left -= S[s, t] * S[s, t]
        # A column without variance of its own, or with one that is not finite, has the slope 0.
        usable = left > _SINGULAR * diagonal and is_finite(left) and is_finite(b[s])
        S[s, s] = np.sqrt(left) if usable else 0.0
    for s in range(n_terms):
        part = b[s]
        for t in range(s):
            part -= S[s, t] * slope[t]
        slope[s] = part / S[s, s] if S[s, s] > 0.0 else 0.0
    for k in range(n_terms):
        s = n_terms - _ONE - k
        part = slope[s]
        for t in range(s + _ONE, n_terms):
            part -= S[t, s] * slope[t]
        slope[s] = part / S[s, s] if S[s, s] > 0.0 else 0.0


@kernel(inner=True)
def set_slopes(
    terms: LeafTerms, leaf: int, rules: SlopeRules, sums: FloatArray, system: FloatArray
) -> None:
    """Write the slopes of a leaf, which include the learning rate."""
    S, b = system, system[TERMS]  # b follows the rows of S
    n_terms, at = np.uint64(terms.count[leaf]), SQUARES
    for s in range(TERMS):
        b[s] = sums[GRADIENTS + s]
        for t in range(s + 1):
            S[s, t] = sums[at]
            at += 1
    solve(S, b, n_terms, rules.penalty / sums[MASS], terms.slope[leaf])
    for t in range(n_terms):
        slope = rules.rate * terms.slope[leaf, t]
        usable = is_finite(slope) and is_finite(terms.center[leaf, t])
        terms.slope[leaf, t] = slope if usable else 0.0
        terms.center[leaf, t] = terms.center[leaf, t] if usable else 0.0


@kernel(inner=True)
def ends_of(rules: SlopeRules, leaf: int) -> tuple[float, float]:
    """Return the least and the greatest sum of terms that a leaf may have."""
    value = rules.values[leaf]
    alone, all_ = rules.rate * rules.longest[0], rules.rate * rules.longest[1]
    ends = (max(-alone, min(-all_ - value, 0.0)), min(alone, max(all_ - value, 0.0)))
    if rules.room.shape[1] > 0:
        ends = (max(ends[0], rules.room[0, leaf]), min(ends[1], rules.room[1, leaf]))
    return ends


@kernel(inner=True)
def set_bounds(terms: LeafTerms, leaf: int, sums: FloatArray) -> None:
    """Write the bounds of a leaf; if there are none, it gets no slopes."""
    low, high = sums[LOW], sums[HIGH]
    if not (is_finite(low) and is_finite(high)):
        low = high = 0.0
        for t in range(np.uint64(TERMS)):
            terms.slope[leaf, t] = 0.0
    terms.bounds[0, leaf], terms.bounds[1, leaf] = low, high


# -- all leaves -----------------------------------------------------------------------------


def system_space() -> FloatArray:
    """Return scratch space for one call of :func:`end_stage`."""
    return np.empty((TERMS + 1, TERMS))


def fit_space() -> tuple[FloatArray, FloatArray]:
    """Return scratch space for one call of :func:`fit_terms`: sums of a leaf, and a system."""
    return np.empty(SUMS), system_space()


@kernel
def fit_terms(
    data: LeafRows,
    terms: LeafTerms,
    rules: SlopeRules,
    start: int,
    stop: int,
    own: kt.Float64_1D,
    system: kt.Float64_2D,
    scores: kt.Float64_1D,
) -> None:
    """Find slopes, centers and bounds of nodes ``start .. stop``, whose rows are all there."""
    # Values and terms are added to ``scores``, unless it is empty.  The scratch space ``own`` and
    # ``system`` belongs to this call (:func:`fit_space`).
    for leaf in range(np.uint64(start), np.uint64(stop)):
        n_terms, value = np.uint64(terms.count[leaf]), rules.values[leaf]
        first = np.uint64(data.start[leaf])
        stop_row = first + np.uint64(data.count[leaf])
        if n_terms == 0:
            if len(scores) > 0:
                for i in range(first, stop_row):
                    scores[np.uint64(data.rows[i])] += value
            continue
        # The sums before the first row.
        for k in range(np.uint64(SUMS)):
            own[k] = 0.0
        for t in range(np.uint64(TERMS)):
            own[_LOWEST + t], own[_HIGHEST + t] = np.inf, -np.inf
        own[LOW], own[HIGH] = np.inf, -np.inf
        load_gradients(data, leaf, own)
        for t in range(np.uint64(TERMS)):
            if t < n_terms:
                load_column(data, terms, leaf, t, own)
                set_center(terms, leaf, t, own)
                center_column(data, terms, leaf, t)
            else:
                empty_column(data, leaf, t)
        sum_products(data, leaf, own)
        set_slopes(terms, leaf, rules, own, system)
        find_extremes(data, terms, leaf, ends_of(rules, leaf), own)
        set_bounds(terms, leaf, own)
        if len(scores) > 0:
            low, high = terms.bounds[0, leaf], terms.bounds[1, leaf]
            for i in range(first, stop_row):
                scores[np.uint64(data.rows[i])] += value + clipped(data.space[0, i], low, high)


@kernel
def add_part(
    data: LeafRows,
    terms: LeafTerms,
    rules: SlopeRules,
    stage: int,
    start: int,
    stop: int,
    sums: kt.Float64_2D,
    unused: kt.Float64_1D,
) -> None:
    """Do a stage for some of the rows of nodes ``start .. stop``: the next ones in their order."""
    for leaf in range(np.uint64(start), np.uint64(stop)):
        n_terms = np.uint64(terms.count[leaf])
        if n_terms == 0 or data.count[leaf] == 0:
            continue
        # Sums of an earlier stage are known; they are added up again in ``unused``.
        heavy = sums[leaf] if stage == HEAVY else unused
        load_gradients(data, leaf, heavy)
        for t in range(np.uint64(TERMS)):
            if t >= n_terms:
                empty_column(data, leaf, t)
                continue
            load_column(data, terms, leaf, t, heavy)
            if stage > HEAVY:
                center_column(data, terms, leaf, t)
        if stage == PRODUCTS:
            sum_products(data, leaf, sums[leaf])
        elif stage == EXTREMES:
            find_extremes(data, terms, leaf, ends_of(rules, leaf), sums[leaf])


@kernel
def end_stage(
    terms: LeafTerms, rules: SlopeRules, stage: int, sums: kt.Float64_2D, system: kt.Float64_2D
) -> None:
    """Write what follows from the sums of a stage over all rows, for all leaves with terms."""
    for leaf in range(np.uint64(len(terms.count))):
        n_terms = np.uint64(terms.count[leaf])
        if n_terms == 0:
            continue
        if stage == HEAVY:
            for t in range(n_terms):
                set_center(terms, leaf, t, sums[leaf])
        elif stage == PRODUCTS:
            set_slopes(terms, leaf, rules, sums[leaf], system)
        else:
            set_bounds(terms, leaf, sums[leaf])
