"""Statistics of the rows of a node: impurity, value, and the shares of the search.

Regression targets enter the search as shares: centred on the mean of the node,
scaled by a power of two and rounded to a grid on which no sum of them loses a
bit (about 1e-11 of the range at 100,000 rows).  Values and impurities of nodes
are computed from the targets themselves.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hedgerow.cart import state as s
from hedgerow.cart.impurity import POISSON, counts_impurity, logarithm
from hedgerow.cart.search import weight_of
from hedgerow.cart.state import Growth
from hedgerow.compile import kernel


@kernel(inner=True)
def measure_classes(growth: Growth, node: int) -> None:
    """Compute weight, impurity and purity of a node in classification."""
    samples, rules, work, tree = growth.samples, growth.rules, growth.work, growth.tree
    start, counts = tree.table[node, s.NODE_START], work.counts
    counts[:] = 0.0
    total = 0.0
    for i in range(start, start + tree.table[node, s.NODE_COUNT]):
        row = work.rows[i]
        w = weight_of(samples.weight, row)
        counts[samples.code[row]] += w
        total += w
    n_seen = 0
    for k in range(rules.n_classes):
        n_seen += counts[k] > 0.0
    tree.table[node, s.NODE_PURE] = 1 if n_seen <= 1 else 0
    tree.numbers[node, s.NUMBER_WEIGHT] = total
    impurity = 0.0
    if n_seen > 1:
        impurity = counts_impurity(rules.criterion, counts, rules.n_classes, total)
    tree.numbers[node, s.NUMBER_IMPURITY] = impurity


@kernel(inner=True)
def measure_targets(growth: Growth, node: int) -> None:
    """Compute weight, impurity, purity and value of a node in regression."""
    samples, rules, work, tree = growth.samples, growth.rules, growth.work, growth.tree
    start = tree.table[node, s.NODE_START]
    stop = start + tree.table[node, s.NODE_COUNT]
    lowest = highest = base = samples.target[work.rows[start]]
    total = moment = 0.0
    for i in range(start, stop):
        row = work.rows[i]
        w, y = weight_of(samples.weight, row), samples.target[row]
        lowest, highest = min(lowest, y), max(highest, y)
        total += w
        moment += w * (y - base)
    value, error = base + moment / total, 0.0
    for i in range(start, stop):
        row = work.rows[i]
        y = samples.target[row]
        term = (y - value) * (y - value)
        if rules.criterion == POISSON:
            term = y * logarithm(y / value) if y > 0.0 and value > 0.0 else 0.0
        error += weight_of(samples.weight, row) * term
    pure = lowest == highest
    tree.table[node, s.NODE_PURE] = 1 if pure else 0
    tree.numbers[node, s.NUMBER_WEIGHT] = total
    tree.numbers[node, s.NUMBER_VALUE] = lowest if pure else value
    tree.numbers[node, s.NUMBER_IMPURITY] = 0.0 if pure else max(error / total, 0.0)


@kernel(inner=True)
def exponent_of(bound: float) -> Any:
    """Return the least e with ``bound < 2^e``."""
    return np.int64(math.frexp(bound)[1])


@kernel(inner=True)
def on_grid(x: float, magic: float) -> float:
    """``x`` rounded to multiples of ``2^-51 * magic / 3``."""
    return (x + magic) - magic


@kernel(inner=True)
def share_targets(growth: Growth, start: int, stop: int, mass: float) -> None:
    """Write shares of the rows of a node, and their sum."""
    # The deviance of Poisson needs sums of the targets as they are: its centre is 0.
    samples, rules, work = growth.samples, growth.rules, growth.work
    lowest = highest = samples.target[work.rows[start]]
    for i in range(start, stop):
        y = samples.target[work.rows[i]]
        lowest, highest = min(lowest, y), max(highest, y)
    poisson = rules.criterion == POISSON
    width, centre = highest - lowest, 0.5 * lowest + 0.5 * highest
    if poisson:
        width, centre = highest, 0.0
    # Every |y - centre| is below 1 in these units, now and after the shift.
    scale = math.ldexp(1.0, -max(exponent_of(width), -1000))
    coarse = math.ldexp(3.0, exponent_of(max(mass, 1.0)))
    fine = math.ldexp(3.0, exponent_of(mass))
    for step in range(1 if poisson else 2):
        total = 0.0
        for i in range(start, stop):
            row = work.rows[i]
            height = on_grid((samples.target[row] - centre) * scale, coarse)
            share = on_grid(weight_of(work.read.mass, row) * height, fine)
            work.read.share[row] = share
            total += share
        work.totals[1] = total
        if step == 0 and not poisson:
            centre += total / mass / scale


@kernel(inner=True)
def sum_node(growth: Growth, node: int) -> None:
    """Compute totals of a node; in regression also shares."""
    samples, rules, work, tree = growth.samples, growth.rules, growth.work, growth.tree
    start = tree.table[node, s.NODE_START]
    stop = start + tree.table[node, s.NODE_COUNT]
    totals, read = work.totals, work.read
    totals[:] = 0.0
    for i in range(start, stop):
        row = work.rows[i]
        mass = weight_of(read.mass, row)
        totals[0] += mass
        if rules.n_classes > 0:
            totals[2 + np.int64(samples.code[row])] += mass
    if rules.n_classes == 2:
        totals[1] = totals[3]
    if rules.n_classes == 0:
        share_targets(growth, start, stop, totals[0])
