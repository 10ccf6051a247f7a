"""Find the table size from which two threads are faster: ``python benchmarks/threads.py``.

One thread and two threads take turns to grow trees of squared error on random tables.  The program
prints the median ratio of elapsed times, and the ratio of processor times.
"""

from __future__ import annotations

import time
from itertools import count

import numpy as np

from hedgerow.data import fit_bins, read_table
from hedgerow.data.binning.matrix import bin_table
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.growing.core.setup import Fit
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams

SHAPES = (
    (500, 30), (3_000, 10), (1_000, 100), (10_000, 10), (20_000, 8), (10_000, 30), (4_600, 57),
    (32_000, 10), (32_000, 30), (100_000, 10),
)  # fmt: skip
KINDS = {
    "leafwise": BoostParams(min_samples_leaf=20),
    "symmetric": BoostParams(min_samples_leaf=20, grow_policy="symmetric", max_depth=7),
}
TREES, RUNS = 30, 15


def time_trees(kind: str, table: np.ndarray, n_threads: int) -> tuple[float, float]:
    """Return the wall and processor seconds of a tree."""
    y = table[:, 0] * table[:, 1] + np.sin(2.0 * table[:, 2]) + table[:, 3]
    whole = read_table(table)
    matrix = bin_table(whole, fit_bins(whole, 255, None, 0, 1), 1)
    params = KINDS[kind]
    raw, objective = np.zeros((1, len(y))), make_objective("squared_error")
    grower = TreeGrower(matrix, Fit(y, None, raw, objective, params, n_threads))
    numbers = count()
    try:
        grower.grow(next(numbers), 0)
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(TREES):
            grower.grow(next(numbers), 0)
        return ((time.perf_counter() - wall) / TREES, (time.process_time() - processor) / TREES)
    finally:
        grower.close()


def main() -> None:
    rng = np.random.default_rng(0)
    print("rows     columns  values     trees      ms a tree  gain of two  processor time")
    for n_rows, n_columns in SHAPES:
        table = rng.normal(size=(n_rows, n_columns))
        for kind in KINDS:
            one: list[tuple[float, float]] = []
            two: list[tuple[float, float]] = []
            for run in range(RUNS):
                for n_threads in (1, 2) if run % 2 else (2, 1):
                    found = time_trees(kind, table, n_threads)
                    (one if n_threads == 1 else two).append(found)
            (wall_of_one, processor_of_one), (wall_of_two, processor_of_two) = (
                np.transpose(runs) for runs in (one, two)
            )
            gain = np.median(wall_of_one / wall_of_two)
            more = np.median(processor_of_two) / np.median(processor_of_one)
            milliseconds = 1e3 * np.median(wall_of_one)
            print(
                f"{n_rows:7,}  {n_columns:7}  {n_rows * n_columns:9,}  {kind:9}  "
                f"{milliseconds:9.2f}  {gain:11.2f}  {more:14.2f}"
            )


if __name__ == "__main__":
    main()
