"""Time each stage of a tree on one thread.

::

    python benchmarks/stages.py 1000000 31
    python benchmarks/stages.py 10000 31

The program calls the compiled stages one by one from Python, in the order of
``growing.core.grow.work``.  A call takes some microseconds more than inside the compiled loop,
which matters for the small stages of small data.
"""

from __future__ import annotations

import os

os.environ["HEDGEROW_OPEN_KERNELS"] = "1"

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.data import bin_table, fit_bins, read_table
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.batch import member
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.growing.core.setup import Fit
from hedgerow.growing.core.stages import building, frontier, gradients, leaves, searching
from hedgerow.growing.sampling import draws as sampling
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams

Arguments = TypeVarTuple("Arguments")
T = TypeVar("T")


class Clock:
    """Adds up the seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.rows_visited = 0

    def run(self, stage: str, function: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        start = time.perf_counter()
        result = function(*arguments)
        self.seconds[stage] += time.perf_counter() - start
        return result


def make_histogram(s: layout.State, clock: Clock, job: IntArray, child: int) -> None:
    """Run ``growing.core.building.make_histogram`` with a clock."""
    node, slot, searched = member(job, child)
    how = job[layout.JOB_HISTOGRAMS]
    if node < 0 or how == layout.KEPT:
        return
    columns = (0, s.settings.n_columns)
    size = s.settings.n_columns * s.bins.stride
    if child == 1 and how == layout.SUBTRACTED:
        small = job[layout.JOB_SMALL_SLOT] * size
        clock.run("subtract", building.subtract_node, 0, columns, s, slot * size, small)
    elif searched == 1 or how == layout.SUBTRACTED:
        row = s.tree.table[node]
        clock.rows_visited += int(row[layout.NODE_COUNT])
        clock.run("histogram", building.build_node, 0, s, node, slot)
        if node == 0:
            first = slice(slot * size, slot * size + s.bins.stride)
            row[layout.NODE_G], row[layout.NODE_H] = (
                s.histograms.g[first].sum(), s.histograms.h[first].sum()
            )  # fmt: skip


def search_batch(s: layout.State, clock: Clock) -> None:
    """Run ``growing.core.grow.search_histograms`` with a clock."""
    job, size = s.tree.batch[0], s.settings.n_columns * s.bins.stride
    for child in range(2):
        make_histogram(s, clock, job, child)
        node, slot, searched = member(job, child)
        if searched == 1:
            clock.run(
                "search", searching.search_node,
                0, (0, s.settings.n_columns), s, child, node, slot * size,
            )  # fmt: skip


def grow_tree(s: layout.State, clock: Clock, number: int) -> None:
    """Run ``growing.core.grow.grow_tree`` with a clock."""
    scalars = s.scalars
    scalars[layout.IS_TREE] = number
    clock.run("gradient", gradients.gradient_pass, 0, s)
    sampling.sample_rows(0, s)
    frontier.start_tree(s)
    while scalars[layout.IS_N_JOBS] > 0:
        clock.run("partition", building.partition_batch, 0, s, scalars[layout.IS_N_JOBS])
        if scalars[layout.IS_N_SEARCHED] > 0:
            search_batch(s, clock)
        clock.run("frontier", frontier.advance, s)
    clock.run("leaves", leaves.finish_tree, 0, s)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=int)
    parser.add_argument("leaves", type=int)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--trees", type=int, default=20)
    return parser


def main() -> None:
    options = build_parser().parse_args()
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
    grower = TreeGrower(matrix, Fit(y, None, raw, objective, params, 1))
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
