"""Where the time of a tree goes: each stage by itself, on one thread.

::

    python benchmarks/stages.py 1000000 31
    python benchmarks/stages.py 10000 31

Calls the compiled stages one by one from Python, in the order of
``growing.grow.work``; a call costs some microseconds more than inside the
compiled loop, which shows in the small stages of small data.
"""

from __future__ import annotations

import os

os.environ["HEDGEROW_OPEN_KERNELS"] = "1"

import argparse
import time
from collections import defaultdict

import numpy as np

from hedgerow.data import bin_table, fit_bins, read_table
from hedgerow.growing.core import frontier, gradients, grow, leaves, searching
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.growing.sampling import draws as sampling
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams


class Clock:
    """Adds up the seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.rows_visited = 0

    def run(self, stage, function, *arguments):
        start = time.perf_counter()
        result = function(*arguments)
        self.seconds[stage] += time.perf_counter() - start
        return result


def search_children(s: layout.State, clock: Clock) -> None:
    """``growing.grow.search_children`` with a clock."""
    scalars, table = s.scalars, s.tree.table
    columns = (0, s.settings.n_columns)
    slot_size = s.settings.n_columns * s.bins.stride
    for child in range(2):
        node = scalars[layout.IS_SMALL if child == 0 else layout.IS_LARGE]
        slot = scalars[layout.IS_SMALL_SLOT if child == 0 else layout.IS_LARGE_SLOT]
        searched = scalars[layout.IS_SEARCH_SMALL if child == 0 else layout.IS_SEARCH_LARGE]
        if node < 0:
            continue
        if child == 1 and scalars[layout.IS_SUBTRACT] == 1:
            small = scalars[layout.IS_SMALL_SLOT] * slot_size
            clock.run(
                "subtract", grow.subtract_node,
                columns, s.bins, s.columns, s.wide, slot * slot_size, small, None,
            )  # fmt: skip
        else:
            place = (table[node, layout.NODE_START], table[node, layout.NODE_COUNT])
            clock.rows_visited += int(place[1])
            clock.run(
                "histogram", grow.build_node,
                0, s.team, s.settings, s.bins, s.columns, s.rows, s.threads.cells[0],
                s.wide, place, slot, scalars, None,
            )  # fmt: skip
        if node == 0:
            grow.sum_root(s.columns, s.bins.stride, s.wide, slot * slot_size, table[0])
        if searched == 1:
            clock.run(
                "search", searching.search_node,
                0, columns, s.settings, s.rules, s.bins, s.columns,
                (s.wide, slot * slot_size), s.search, child, table[node], scalars, None,
            )  # fmt: skip


def grow_tree(s: layout.State, clock: Clock, number: int) -> None:
    """One pass of ``growing.grow.work`` with a clock."""
    scalars, tree = s.scalars, s.tree
    scalars[layout.IS_TREE] = number
    clock.run(
        "gradient", gradients.gradient_pass,
        0, s.team, s.settings, s.loss_data, s.rows, s.threads, scalars,
    )  # fmt: skip
    sampling.sample_rows(0, s.team, s.settings, s.rows.rows, s.threads.counts, scalars)
    frontier.start_tree(s.settings, s.rules, tree, scalars, None)
    while True:
        parent, search_next = scalars[layout.IS_PARENT], scalars[layout.IS_SMALL] >= 0
        if parent >= 0:
            row = tree.table[parent]
            column = s.bins.by_column[row[layout.NODE_COLUMN]]
            clock.run(
                "partition", grow.partition_node,
                0, s.team, s.rows, column, row, s.threads.counts,
            )  # fmt: skip
        elif not search_next:
            break
        if search_next:
            search_children(s, clock)
        clock.run(
            "frontier", frontier.advance,
            s.settings, s.rules, tree, scalars, s.search.found, None,
        )  # fmt: skip
    clock.run(
        "leaves", leaves.finish_tree,
        0, s.team, s.settings, s.rules, s.rows, s.loss_data.raw, s.threads.leaf_sums,
        tree, scalars, None,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=int)
    parser.add_argument("leaves", type=int)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--trees", type=int, default=20)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((options.rows, options.features), dtype=np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(options.rows) > 0).astype(float)
    table = read_table(X)
    clock = Clock()
    for _ in range(2):  # the first compiles
        clock.seconds.clear()
        spec = clock.run("cuts", fit_bins, table, 255)
        matrix = clock.run("binning", bin_table, table, spec)
    print("once:", {name: f"{1e3 * s:.1f} ms" for name, s in clock.seconds.items()})
    objective = make_objective("logistic")
    raw = np.full((1, options.rows), objective.initial_score(y, None)[0])
    params = BoostParams(max_leaves=options.leaves, reg_lambda=0.0)
    grower = TreeGrower(matrix, y, None, raw, objective, params, 1)
    grow_tree(grower._state, clock, 0)
    clock.seconds.clear()
    clock.rows_visited = 0
    for number in range(1, options.trees + 1):
        grow_tree(grower._state, clock, number)
    for name, seconds in clock.seconds.items():
        print(f"{name:10} {1e3 * seconds / options.trees:8.3f} ms a tree")
    print(f"{'total':10} {1e3 * sum(clock.seconds.values()) / options.trees:8.3f} ms a tree")
    visits = clock.rows_visited / options.trees / options.rows
    cost = 1e9 * clock.seconds["histogram"] / clock.rows_visited
    print(f"histograms visit each row {visits:.2f} times a tree, {cost:.1f} ns a visit")


if __name__ == "__main__":
    main()
