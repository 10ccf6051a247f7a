"""Compare growth over chunks with growth in memory: time, passes and bytes of a tree.

    python benchmarks/chunks.py                                        # 1,000,000 x 28
    python benchmarks/chunks.py --rows 100000 --leaves 127 --threads 1

Both growers take turns, so that other work of the machine affects both.  Their trees must be the
same.  Ranks are threads that share the processors: their figures are bytes, not times.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.helpers.ranks import run_ranks

from hedgerow.data import bin_table, fit_bins, read_table
from hedgerow.data.binning.matrix import BinnedMatrix
from hedgerow.data.external import disk_store
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.growing.chunks.grower import ChunkGrower
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.growing.core.setup import Fit
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams

WARM_UP = 2


def make_rows(n_rows: int, n_features: int) -> tuple[BinnedMatrix, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    score = X[:, 0] + np.sin(2 * X[:, 1]) * X[:, 2] + 0.5 * X[:, 3] * X[:, 4]
    target = (score + rng.normal(size=n_rows) > 0).astype(float)
    table = read_table(X)
    return bin_table(table, fit_bins(table, 255)), target


def stored(matrix: BinnedMatrix, chunk_rows: int) -> disk_store.ChunkStore:
    """Return the rows in chunks that stay in memory."""
    setattr(disk_store, "fits_in_one_chunk", lambda *sizes: False)  # noqa: B010
    with disk_store.ChunkSink(
        matrix.spec, [tempfile.gettempdir()], 1 << 40, compression="none", chunk_rows=chunk_rows
    ) as sink:
        sink.append(matrix)
        return sink.finish()


def compare(
    matrix: BinnedMatrix, target: np.ndarray, params: BoostParams, n_threads: int,
    chunk_rows: int, n_trees: int, clock: Callable[[], float],
) -> tuple[np.ndarray, list[Any]]:  # fmt: skip
    objective = make_objective("logistic", 1)
    base = objective.initial_score(target, None)
    raw = np.repeat(base[:, None], len(target), axis=1)
    memory = TreeGrower(matrix, Fit(target, None, raw, objective, params, n_threads))
    store = stored(matrix, chunk_rows)
    chunks = ChunkGrower(store, Fit(target, None, raw.copy(), objective, params, n_threads))
    times = np.zeros((n_trees, 2))
    with contextlib.closing(memory), contextlib.closing(chunks):
        for number in range(n_trees):
            trees = []
            growers: tuple[Any, ...] = (memory, chunks)
            for which, grower in enumerate(growers):
                start = clock()
                trees.append(grower.grow(number, 0))
                times[number, which] = clock() - start
            assert trees[0].value.tobytes() == trees[1].value.tobytes()
    return times[WARM_UP:], chunks.traffic[WARM_UP:]


def measure_bytes(
    matrix: BinnedMatrix, target: np.ndarray, params: BoostParams, n_ranks: int, mode: GrowMode
) -> Any:
    objective = make_objective("logistic", 1)
    base = objective.initial_score(target, None)
    edges = np.linspace(0, len(target), n_ranks + 1).astype(int)

    def run(communicator: Any) -> Any:
        start, stop = edges[communicator.rank : communicator.rank + 2]
        if mode == "features":
            start, stop = 0, len(target)
        part = matrix.take(np.arange(start, stop))
        store, raw = stored(part, part.n_rows), np.full((1, stop - start), base[0])
        fit = Fit(target[start:stop], None, raw, objective, params, 1)
        grower = ChunkGrower(store, fit, communicator=communicator, mode=mode, first_row=int(start))
        with contextlib.closing(grower):
            for number in range(3):
                grower.grow(number, 0)
        return grower.traffic[-1]

    return run_ranks(n_ranks, run)[0]


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--trees", type=int, default=12)
    parser.add_argument("--chunks", type=int, nargs="*", default=[32_768, 65_536, 131_072, 262_144])
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4])
    return parser


def main() -> None:
    options = build_parser().parse_args()
    matrix, target = make_rows(options.rows, options.features)
    params = BoostParams(max_leaves=options.leaves)
    # With one thread, processor time: other programs change it less.
    clock = time.process_time if options.threads == 1 else time.perf_counter
    print(f"{options.rows} rows, {options.features} features, {options.leaves} leaves, "
          f"{options.threads} threads")  # fmt: skip
    print("chunk rows   memory ms  chunks ms   ratio of medians, of minima"
          "   passes  splits  rows in vain")  # fmt: skip
    for chunk_rows in options.chunks:
        times, traffic = compare(
            matrix, target, params, options.threads, chunk_rows, options.trees, clock
        )
        median, least = 1e3 * np.median(times, axis=0), 1e3 * times.min(axis=0)
        passes, splits, unused = (
            np.mean([getattr(tree, name) for tree in traffic])
            for name in ("passes", "splits", "wasted_rows")
        )
        print(f"{chunk_rows:10d} {median[0]:11.1f} {median[1]:10.1f} "
              f"{median[1] / median[0]:18.2f} {least[1] / least[0]:10.2f} "
              f"{passes:8.1f} {splits:7.1f} {unused / options.rows:12.2f}")  # fmt: skip
    small = matrix.take(np.arange(min(options.rows, 50_000)))
    for n_ranks in options.ranks:
        for mode in ("data", "features"):
            tree = measure_bytes(small, target[: small.n_rows], params, n_ranks, mode)
            histogram = 24 * matrix.n_columns * matrix.stride * (n_ranks - 1) / n_ranks
            worth = tree.sent / histogram
            print(f"{n_ranks} ranks, {mode}: {tree.sent} bytes a tree and rank, "
                  f"{tree.splits} splits, {worth:.1f} histograms' worth")  # fmt: skip


if __name__ == "__main__":
    main()
