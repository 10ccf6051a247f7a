"""What training on many workers costs: measured on this machine, and calculated beyond it.

::

    python benchmarks/scale.py                                    # measures, then calculates
    python benchmarks/scale.py --rows 200000 --trees 5            # smaller
    python benchmarks/scale.py --json costs.json                  # keeps what was measured
    python benchmarks/scale.py --from costs.json --cores 32 --gbit 25     # calculates only

Printed are

costs       of a row, of a row and feature, of a search, fitted to trees of several sizes on
            one worker, alone and while a second worker does the same
carrier     an exchange between Dask workers: the step itself, each message, each byte;
            through shared memory, and through the connections that reach other machines
trees       seconds a tree, measured and calculated, local and on one and two workers
bytes       sent a tree by each rank, counted and calculated
memory      of a worker in a whole training, measured and calculated
far away    seconds a tree and memory of a worker for 10 to 1,000 workers, calculated
limits      numbers of what breaks first

:func:`tree_seconds` is the model of time and :func:`worker_bytes` that of memory; both are
functions of their arguments only.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import pickle
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.boosting.external.rounds.scores import MOST_GATHERED
from hedgerow.comm.mailbox import goes_in_steps
from hedgerow.data.external.memory_plan import RowShape
from hedgerow.data.external.row_store import MetadataSizes, WorkShape
from hedgerow.growing.chunks.setup import MOST_ROWS
from hedgerow.growing.chunks.space import builds_for, slots_for
from hedgerow.growing.core.state import FOUND_FIELDS

CHUNK_ROWS = 1 << 18
STRIDE = 256  # cells of a feature with 255 bins
FIELDS = 3  # of a cell in a message: g, n, and h where it is not n
WIDE_BYTES, CELL_BYTES = 24, 8
SPLIT_BYTES = 8 * (2 * FOUND_FIELDS + 2)
"""A rank's best splits of two children, and two exact sums."""

SAMPLED = 210_000
WARM_UP = 3
MANY_RANKS = 4  # as many as send to each other directly
EXCHANGES = 40

# -- the model ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Costs:
    """Nanoseconds of one core (processor time).

    Attributes
    ----------
    row : float
        Of a row in a tree: gradients, order, scores.
    cell : float
        Of a row and feature that is added to a histogram.
    search : float
        Of a node and feature: larger child by subtraction, and the search.
    visit : float
        Of a chunk in a pass, whatever is in it: Python, which threads do not divide.
    """

    row: float
    cell: float
    search: float
    visit: float


@dataclass(frozen=True)
class Carrier:
    """Seconds.

    Attributes
    ----------
    step : float
        Of an exchange.
    message : float
        Of each message that a rank sends and each that it gets, both together.
    byte : float
        Of each byte that a rank sends or gets, whichever are more.
    """

    step: float
    message: float
    byte: float


@dataclass(frozen=True)
class Shape:
    """A tree, on average.

    Attributes
    ----------
    leaves : int
    passes : float
        Over the rows, the first for gradients.
    splits : float
        Nodes that are split, in vain or not: as many histograms are built.
    visits : float
        Rows that are added to histograms, in rows of the table.
    """

    leaves: int
    passes: float
    splits: float
    visits: float


@dataclass(frozen=True)
class Spent:
    """Seconds of a tree: on rows, on searches, for messages as such, for their bytes."""

    rows: float
    search: float
    messages: float
    content: float

    @property
    def total(self) -> float:
        return self.rows + self.search + self.messages + self.content


def sent_bytes(shape: Shape, n_features: int, n_workers: int, mode: str = "data") -> float:
    """What a rank sends to all others for a tree."""
    records = shape.splits * SPLIT_BYTES * (n_workers - 1)
    if mode == "features":
        return records
    histograms = shape.splits * n_features * STRIDE * FIELDS * CELL_BYTES
    return histograms * (n_workers - 1) / n_workers + records


def got_bytes(shape: Shape, n_features: int, n_workers: int, mode: str = "data") -> float:
    """What the rank with most features gets: a feature is not divided between ranks."""
    records = shape.splits * SPLIT_BYTES * (n_workers - 1)
    if mode == "features":
        return records
    own = math.ceil(n_features / n_workers)
    return shape.splits * own * STRIDE * FIELDS * CELL_BYTES * (n_workers - 1) + records


def tree_seconds(
    costs: Costs,
    carrier: Carrier,
    shape: Shape,
    n_rows: float,
    n_features: int,
    n_workers: int,
    *,
    cores: int = 1,
    mode: str = "data",
    direct: bool = False,
) -> Spent:
    """Time of a tree.

    Parameters
    ----------
    n_rows : float
        Of the whole table, divided evenly.
    cores : int
        Threads of each worker; all of them are taken to be as fast as one.
    mode : {"data", "features"}
    direct : bool, default=False
        Messages to all ranks at once however many there are, which is *not* what
        :mod:`hedgerow.comm.collectives` does: to see what steps gain.
    """
    own_columns = math.ceil(n_features / n_workers)
    by_rows = mode == "data"
    rows, built = (n_rows / n_workers, n_features) if by_rows else (n_rows, own_columns)
    # Memory for histograms limits how many are built in a pass.
    most = builds_for(n_features, STRIDE, cores, shape.leaves, width=0)
    passes = max(shape.passes, 1 + shape.splits / most)
    work = rows * (costs.row + built * shape.visits * costs.cell) / cores
    work += passes * math.ceil(rows / CHUNK_ROWS) * costs.visit
    search = shape.splits * own_columns * costs.search / min(cores, own_columns)
    if n_workers == 1:
        return Spent(1e-9 * work, 1e-9 * search, 0.0, 0.0)
    exchanges = 2 + 2 * passes if by_rows else 1 + passes
    in_steps = goes_in_steps(n_workers) and not direct
    steps = math.ceil(math.log2(n_workers)) if in_steps else 1
    messages = steps if in_steps else n_workers - 1
    sent = sent_bytes(shape, n_features, n_workers, mode)
    got = sent if in_steps else got_bytes(shape, n_features, n_workers, mode)
    return Spent(
        1e-9 * work,
        1e-9 * search,
        exchanges * (steps * carrier.step + messages * carrier.message),
        max(sent, got) * carrier.byte,
    )


@dataclass(frozen=True)
class Memory:
    """Bytes of a worker: the rows as they are given, chunks, histograms, and passing ones."""

    given: float
    chunks: float
    histograms: float
    messages: float
    cuts: float

    @property
    def peak(self) -> float:
        """Cuts are chosen before there are chunks."""
        return self.given + max(self.cuts, self.chunks + self.histograms + self.messages)


def segment_bytes(rows: float, leaves: int, cores: int) -> float:
    """Room for nodes is doubled as they are found, with those that are split in vain."""
    nodes = 1 << max(6, math.ceil(math.log2(2.6 * leaves)))
    return nodes * (rows / CHUNK_ROWS) * cores * 8


def worker_bytes(
    n_rows: float,
    n_features: int,
    n_workers: int,
    *,
    leaves: int = 31,
    cores: int = 1,
    value_bytes: int = 4,
    partition_rows: float = 0.0,
) -> Memory:
    """Memory of a worker with rows divided, one output, no weights, all chunks in memory.

    ``partition_rows`` are those of the largest partition, which is binned at once.
    """
    rows = n_rows / n_workers
    tiles = -(-n_features // 32)
    row = RowShape(n_features, MetadataSizes(), WorkShape()).chunk_bytes(1 << 20) / (1 << 20)
    own = math.ceil(n_features / n_workers)
    slots = slots_for(own, STRIDE, leaves, width=0) * own * STRIDE * WIDE_BYTES
    builds = builds_for(n_features, STRIDE, cores, leaves, width=0)
    groups = min(cores, tiles)
    cells = STRIDE * n_features
    built = builds * cells * (cores // groups * WIDE_BYTES + cores // groups * CELL_BYTES)
    a_message = min(builds, leaves / 2) * cells * FIELDS * CELL_BYTES
    # Where the rows of a node stand in each chunk, for each thread.
    segments = segment_bytes(rows, leaves, cores)
    batch = partition_rows * n_features * (value_bytes + 2)
    sample = min(n_rows, SAMPLED) * n_features * value_bytes
    return Memory(
        given=rows * (n_features * value_bytes + 8),
        chunks=rows * (row + 16)
        + segments
        + batch,  # and its target twice: kept for early stopping
        histograms=slots + built,
        messages=3 * a_message,  # as laid out, copied to be sent, and what has come
        cuts=3 * sample,  # messages, table, sorted columns
    )


# -- measured: trees ------------------------------------------------------------------------


class Counting:
    """Another communicator, with what it took."""

    def __init__(self, ranks: Any) -> None:
        self.rank, self.size, self._ranks = ranks.rank, ranks.size, ranks
        self.seconds, self.exchanges, self.scattered = 0.0, 0, 0

    def reduce_scatter(self, array: Any, starts: Any, out: Any = None) -> Any:
        self.scattered += array.nbytes
        return self._timed(self._ranks.reduce_scatter, array, starts, out)

    def allgather(self, message: bytes) -> Any:
        return self._timed(self._ranks.allgather, message)

    def allreduce(self, array: Any, combine: Any = "sum") -> Any:
        return self._timed(self._ranks.allreduce, array, combine)

    def barrier(self) -> None:
        self._ranks.barrier()

    def _timed(self, function: Callable[..., Any], *arguments: Any) -> Any:
        start = time.perf_counter()
        result = function(*arguments)
        self.seconds += time.perf_counter() - start
        self.exchanges += 1
        return result


def make_rows(first: int, stop: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """The same rows, however they are divided."""
    parts = []
    for block in range(first // CHUNK_ROWS, -(-stop // CHUNK_ROWS)):
        rng = np.random.default_rng(block)
        X = rng.standard_normal((CHUNK_ROWS, n_features), dtype=np.float32)
        noise = rng.standard_normal(CHUNK_ROWS, dtype=np.float32)
        start = block * CHUNK_ROWS
        own = slice(max(first - start, 0), min(stop - start, CHUNK_ROWS))
        y = X[:, 0] + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + noise > 0.8
        parts.append((X[own], y[own].astype(np.float64)))
    return tuple(map(np.concatenate, zip(*parts, strict=True)))  # type: ignore[return-value]


def grow(
    ranks: Any, rows: tuple[int, int], n_features: int, leaves: int, n_trees: int,
    n_threads: int = 1, mode: str = "data", chunk_rows: int = CHUNK_ROWS,
) -> dict[str, Any]:  # fmt: skip
    """Trees on rows ``rows`` in chunks; seconds, traffic and shape, on average of a tree."""
    import hashlib

    from hedgerow.boosting.loop.rounds import resolve
    from hedgerow.data import bin_table, fit_bins, read_table
    from hedgerow.data.external.memory_store import MemoryStore
    from hedgerow.growing.chunks.grower import ChunkGrower
    from hedgerow.growing.chunks.setup import work_of
    from hedgerow.objectives import make_objective
    from hedgerow.params import BoostParams

    spec = fit_bins(read_table(make_rows(0, CHUNK_ROWS, n_features)[0]), 255)
    X, y = make_rows(*rows, n_features)
    store = MemoryStore(bin_table(read_table(X), spec), y, chunk_rows=chunk_rows, first_row=rows[0])
    del X
    objective = make_objective("logistic", 1)
    params = resolve(BoostParams(max_leaves=leaves), objective)
    store.begin(work_of(objective, params))
    counting = Counting(ranks)
    seconds, talking, used, trees = [], [], [], []
    with closing(ChunkGrower(store, objective, params, n_threads, counting, mode)) as grower:
        grower.start(np.zeros(1))
        for number in range(WARM_UP + n_trees):
            if number == WARM_UP:
                counting.exchanges = counting.scattered = 0
                trees, grower.traffic = [], []
            ranks.barrier()
            before, start, busy = counting.seconds, time.perf_counter(), time.thread_time()
            trees.append(grower.grow(number, 0))
            used.append(time.thread_time() - busy)
            seconds.append(time.perf_counter() - start)
            talking.append(counting.seconds - before)
        traffic = grower.traffic
    inner = sum(tree.count[tree.left > 0].sum() for tree in trees)
    small = sum(
        np.minimum(tree.count[tree.left], tree.count[tree.right])[tree.left > 0].sum()
        for tree in trees
    )
    wasted = sum(one.wasted_rows for one in traffic)
    whole = sum(tree.count[0] for tree in trees)
    own_bytes = spec.stride * n_features * FIELDS * 8
    digest = hashlib.sha256(b"".join(tree.value.tobytes() for tree in trees))
    return {
        "seconds": float(np.median(seconds[WARM_UP:])),
        "processor": float(np.median(used[WARM_UP:])),
        "talking": float(np.median(talking[WARM_UP:])),
        "passes": float(np.mean([one.passes - one.redone for one in traffic])),
        "splits": float(np.mean([one.splits for one in traffic])),
        "visits": float(1 + small / inner * (inner + wasted) / whole),
        "sent": float(np.mean([one.sent for one in traffic])),
        "builds": counting.scattered / own_bytes / n_trees,
        "exchanges": counting.exchanges / n_trees,
        "trees": digest.hexdigest()[:16],
    }


def shape_of(found: dict[str, Any], leaves: int) -> Shape:
    return Shape(leaves, found["passes"], found["splits"], found["visits"])


GRID = (
    *((rows, features, CHUNK_ROWS) for rows in (1 << 18, 4 << 18) for features in (8, 28, 96)),
    *((6 << 16, features, 1 << 12) for features in (8, 28)),
)
"""Rows, features, rows of a chunk."""


def calibrate(ranks: Any, leaves: int) -> list[tuple[int, int, int, dict[str, Any]]]:
    """Trees of several sizes on one worker."""
    return [(*one, grow(ranks, (0, one[0]), one[1], leaves, 8, chunk_rows=one[2])) for one in GRID]


def costs_of(found: list[tuple[int, int, int, dict[str, Any]]]) -> tuple[Costs, float]:
    """Costs that give the measured processor times, and the largest error in per cent."""
    from scipy.optimize import nnls

    terms = [
        (n, n * features * one["visits"], one["splits"] * features, one["passes"] * (n // size))
        for n, features, size, one in found
    ]
    seconds = np.array([one["processor"] for *_, one in found])
    relative = 1e-9 * np.array(terms) / seconds[:, None]
    solved, _ = nnls(relative, np.ones(len(found)))
    return Costs(*map(float, solved)), 100 * float(np.abs(relative @ solved - 1).max())


# -- measured: workers ----------------------------------------------------------------------


def exchanges(ranks: Any, n_bytes: int) -> tuple[float, float, float]:
    """Seconds of an exchange of nothing, processor seconds of it, seconds of a reduce_scatter."""
    array = np.arange(n_bytes // 8)
    starts = [part * len(array) // ranks.size for part in range(ranks.size + 1)]
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(5 + EXCHANGES):
        for times, call in zip(
            found, (ranks.barrier, lambda: ranks.reduce_scatter(array, starts)), strict=True
        ):
            ranks.barrier()
            start = time.perf_counter()
            call()
            if number >= 5:
                times.append(time.perf_counter() - start)
    before = time.process_time()
    for _ in range(5 * EXCHANGES):
        ranks.barrier()
    used = (time.process_time() - before) / (5 * EXCHANGES)
    return float(np.median(found[0])), used, float(np.median(found[1]))


def on_rank(
    run: bytes, rank: int, addresses: list[str], work: Any, arguments: Any, near: bool = True
) -> Any:
    from hedgerow.comm.base import Alone
    from hedgerow.comm.dask import dask_ranks

    talks = len(addresses) > 1
    joined = dask_ranks(run, 0, rank, addresses, shares_memory=near) if talks else None
    with joined or nullcontext(Alone()) as ranks:
        return work(ranks, *arguments)


def on_workers(
    client: Any, n_ranks: int, work: Any, arguments: list[Any], near: bool = True
) -> list[Any]:
    """Run a function on the first ranks, which talk to each other; ``near``: by shared memory."""
    from hedgerow.comm.dask import join

    addresses, run = sorted(client.nthreads())[:n_ranks], os.urandom(16)
    join_all = [
        client.submit(join, run, 0, rank, n_ranks, workers=[address], pure=False)
        for rank, address in enumerate(addresses)
    ]
    client.gather(join_all)
    ranks = [
        client.submit(
            on_rank,
            run,
            rank,
            addresses,
            work,
            arguments[rank],
            near,
            workers=[address],
            pure=False,
        )
        for rank, address in enumerate(addresses)
    ]
    return client.gather(ranks)


def apart(client: Any, work: Any, arguments: list[Any]) -> list[Any]:
    """Run a function on some workers at the same time, which know nothing of each other."""
    futures = [
        client.submit(on_rank, b"", 0, [address], work, given, workers=[address], pure=False)
        for address, given in zip(sorted(client.nthreads()), arguments, strict=False)
    ]
    return client.gather(futures)


def cluster_of(stack: ExitStack, n_workers: int) -> Any:
    """A client of so many processes with a thread each."""
    from distributed import Client, LocalCluster

    cluster = stack.enter_context(
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        )
    )
    return stack.enter_context(Client(cluster))


def measure_carrier(client: Any, near: bool) -> Carrier:
    """Of this machine's memory or its loopback; two ranks, and more than there are cores."""
    n_cores, size = len(os.sched_getaffinity(0)), 16 << 20
    two = on_workers(client, 2, exchanges, [(size,)] * 2, near)[0]
    given = [(8 * MANY_RANKS,)] * MANY_RANKS
    with ExitStack() as stack:
        many = on_workers(cluster_of(stack, MANY_RANKS), MANY_RANKS, exchanges, given, near)[0]
    # Processor time, so that it does not matter how many cores the ranks share.
    message = max(0.0, many[1] - two[1]) / (MANY_RANKS - 2)
    print(
        f"{'through shared memory' if near else 'through connections'}: "
        f"exchange of nothing with 2 ranks: {1e3 * two[0]:.2f} ms, of which processor "
        f"{1e3 * two[1]:.2f}; with {MANY_RANKS} on {n_cores} cores: {1e3 * many[0]:.2f} ms, "
        f"processor {1e3 * many[1]:.2f}\n"
        f"reduce_scatter of {size >> 20} MiB with 2 ranks: {1e3 * two[2]:.1f} ms\n"
        f"so: {1e3 * max(0.0, two[0] - message):.2f} ms, {1e3 * message:.3f} ms a message, "
        f"{size / 2e6 / (two[2] - two[0]):,.0f} MB/s"
    )
    return Carrier(max(0.0, two[0] - message), message, (two[2] - two[0]) / (size / 2))


def local_seconds(options: argparse.Namespace, n_threads: int) -> float:
    """Of a round of ``hedgerow.train`` on rows in memory."""
    from hedgerow import Dataset, train

    X, y = make_rows(0, options.rows, options.features)
    times: list[float] = []
    params = {
        "objective": "logistic", "n_estimators": WARM_UP + options.trees, "n_jobs": n_threads,
        "max_leaves": options.leaves, "early_stopping": False,
    }  # fmt: skip
    train(params, Dataset(X, y), callbacks=lambda state: times.append(time.perf_counter()))
    return float(np.median(np.diff(times)[WARM_UP - 1 :]))


# -- measured: a whole training ---------------------------------------------------------------


def resident(name: str = "VmRSS", anew: bool = False) -> int:
    """``VmRSS`` (now) or ``VmHWM`` (peak) in bytes; ``anew``: the peak starts anew."""
    if anew:
        from hedgerow.data.external.memory import give_back_memory

        give_back_memory()
        Path("/proc/self/clear_refs").write_text("5")
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {name} in /proc/self/status")


def train_whole(client: Any, options: argparse.Namespace) -> dict[str, Any]:
    """``hedgerow.distributed.train`` on arrays: seconds, peak memory over that before."""
    import dask
    import dask.array as da

    from hedgerow.distributed import train

    def collections(n_rows: int) -> tuple[Any, Any]:
        parts = []
        for first in range(0, n_rows, CHUNK_ROWS):
            stop = min(first + CHUNK_ROWS, n_rows)
            made = dask.delayed(make_rows)(first, stop, options.features)
            parts.append(
                (
                    da.from_delayed(made[0], (stop - first, options.features), np.float32),
                    da.from_delayed(made[1], (stop - first,), np.float64),
                )
            )
        X, y = zip(*parts, strict=True)
        return da.concatenate(X), da.concatenate(y)

    params = {"objective": "logistic", "max_leaves": options.leaves, "early_stopping": False}
    train(client, {**params, "n_estimators": 3}, *collections(2 * CHUNK_ROWS), parallelism="data")
    before = client.run(resident, anew=True)
    start = time.perf_counter()
    given = {**params, "n_estimators": options.trees}
    train(client, given, *collections(options.rows), parallelism="data")
    seconds = time.perf_counter() - start
    peak = client.run(resident, "VmHWM")
    return {"seconds": seconds, "over": max(peak[one] - before[one] for one in peak)}


# -- the report -----------------------------------------------------------------------------


def print_costs(name: str, costs: Costs, error: float) -> None:
    print(
        f"costs, {name:<22} ns: row {costs.row:6.1f}, row and feature {costs.cell:5.2f}, node and "
        f"feature {costs.search:6,.0f}, chunk {costs.visit:8,.0f}; largest error {error:.0f}%"
    )


def measure_costs(client: Any, leaves: int) -> tuple[Costs, Costs]:
    """Of one worker while the other rests, and of one while the other does the same."""
    (quiet,) = apart(client, calibrate, [(leaves,)])
    busy = apart(client, calibrate, [(leaves,)] * 2)[0]
    found = []
    for name, grid in (("one worker", quiet), ("both workers busy", busy)):
        costs, error = costs_of(grid)
        print_costs(name, costs, error)
        found.append(costs)
    return found[0], found[1]


def measure_trees(
    client: Any, options: argparse.Namespace, costs: tuple[Costs, Costs], carrier: Carrier
) -> Shape:
    """Seconds and bytes of a tree, measured and calculated."""
    n, half = options.rows, options.rows // 2
    same = (options.features, options.leaves, options.trees)
    one = apart(client, grow, [((0, n), *same)])[0]
    shape = shape_of(one, options.leaves)
    threads = apart(client, grow, [((0, n), *same, 2)])[0]
    halves = apart(client, grow, [((0, half), *same), ((half, n), *same)])
    data = on_workers(client, 2, grow, [((0, half), *same), ((half, n), *same)])
    features = on_workers(client, 2, grow, [((0, n), *same, 1, "features")] * 2)
    same_trees = len({found["trees"] for found in (one, threads, *data, *features)}) == 1
    print(f"trees of one worker and of two are {'the same' if same_trees else 'DIFFERENT'}")

    def calculated(
        busy: bool, n_rows: int, workers: int, mode: str = "data", cores: int = 1
    ) -> Spent:
        given = (costs[busy], carrier, shape, n_rows, options.features, workers)
        return tree_seconds(*given, mode=mode, cores=cores)

    rows = [
        ("memory, 1 thread", {"seconds": local_seconds(options, 1)}, None),
        ("memory, 2 threads", {"seconds": local_seconds(options, 2)}, None),
        ("1 worker", one, calculated(False, n, 1)),
        ("1 worker, 2 threads", threads, calculated(True, n, 1, cores=2)),
        ("2 apart, half of the rows each", halves[0], calculated(True, half, 1)),
        ("2 workers, rows divided", data[0], calculated(True, n, 2)),
        ("2 workers, features divided", features[0], calculated(True, n, 2, "features")),
    ]
    print(
        f"\n{'':52}|{'rows and search':^21}|{'exchanges':^20}|{'all':>8}\n"
        f"{'ms a tree':32}{'measured':>10}"
        f"{'speed-up':>9} |{'processor':>11}{'model':>9} |"
        f"{'measured':>10}{'model':>9} |{'model':>8}"
    )
    for name, found, model in rows:
        base = rows[0 if model is None else 2][1]["seconds"]
        cells = f"{1e3 * found['seconds']:10.1f}{base / found['seconds']:9.2f} |"
        if model is not None:
            local, talk = model.rows + model.search, model.messages + model.content
            cells += f"{1e3 * found['processor']:11.1f}{1e3 * local:9.1f} |"
            cells += f"{1e3 * found['talking']:10.1f}{1e3 * talk:9.1f} |{1e3 * model.total:8.1f}"
        print(f"{name:32}{cells}")
    print(
        f"\na tree: {shape.passes:.1f} passes, {shape.splits:.1f} splits, {shape.visits:.2f} rows "
        f"a row in histograms; {data[0]['exchanges']:.1f} exchanges, "
        f"{data[0]['builds']:.1f} histograms sent"
    )
    for mode, ranks in (("data", data), ("features", features)):
        expected = sent_bytes(shape, options.features, 2, mode)
        sent = ", ".join(f"{rank['sent']:,.0f}" for rank in ranks)
        print(f"bytes a tree, {mode:<9} ranks 0, 1: {sent}; formula {expected:,.0f}")
    return shape


def print_memory(found: dict[str, Any], options: argparse.Namespace) -> None:
    memory = worker_bytes(
        options.rows, options.features, 2, leaves=options.leaves, partition_rows=CHUNK_ROWS
    )
    parts = ", ".join(f"{name} {value / 1e6:.0f}" for name, value in asdict(memory).items())
    print(
        f"\nwhole training of {options.trees} trees on 2 workers: {found['seconds']:.1f} s; peak "
        f"memory of a worker over that before {found['over'] / 1e6:.0f} MB, formula "
        f"{memory.peak / 1e6:.0f} MB ({parts})"
    )


def print_far(costs: Costs, carrier: Carrier, shape: Shape, cores: int, gbit: float) -> None:
    """Rows and workers that are not here."""
    byte = max(carrier.byte, 8e-9 / gbit)
    carrier = Carrier(carrier.step, carrier.message, byte)
    print(
        f"\ncalculated: {cores} cores a worker, {1e-6 / byte:,.0f} MB/s, exchange "
        f"{1e3 * carrier.step:.2f} ms and {1e3 * carrier.message:.3f} ms a message, trees of "
        f"{shape.leaves} leaves\n"
        f"{'':27}|{'seconds a tree, rows divided':^43}|{'features':^10}|{'direct':^10}|{'GB'}\n"
        f"{'rows':>7}{'features':>10}{'workers':>9} |{'rows':>8}{'search':>8}{'messages':>9}"
        f"{'bytes':>8}{'all':>9} |{'divided':^10}|{'all':^10}| a worker"
    )
    for n_rows in (1e9, 1e10, 1e11):
        for n_features in (28, 100, 1000):
            for n_workers in (10, 100, 1000):
                given = (costs, carrier, shape, n_rows, n_features, n_workers)
                spent = tree_seconds(*given, cores=cores)
                other = tree_seconds(*given, cores=cores, mode="features").total
                direct = tree_seconds(*given, cores=cores, direct=True).total
                memory = worker_bytes(
                    n_rows, n_features, n_workers, leaves=shape.leaves, cores=cores
                )
                print(
                    f"{n_rows:7.0e}{n_features:10,}{n_workers:9,} |{spent.rows:8.2f}"
                    f"{spent.search:8.3f}{spent.messages:9.2f}{spent.content:8.2f}"
                    f"{spent.total:9.2f} |{other:10.1f}|{direct:10.2f}|{memory.peak / 1e9:9,.0f}"
                )


def print_limits(shape: Shape, cores: int) -> None:
    """What the page says of things that break."""
    builds = builds_for(1000, STRIDE, cores, shape.leaves, width=0)
    sums = len(pickle.dumps(tuple(range(1 << 31, (1 << 31) + 100_000))))
    lines = (
        ("connections of a worker, 500 workers", f"{2 * 499:,}"),
        ("most rows", f"{MOST_ROWS:,}"),
        ("rows for cuts, 1,000 columns of float32, three times",
         f"{3 * SAMPLED * 1000 * 4 / 1e9:.2f} GB"),
        (f"rows of a chunk for each of {cores} threads", f"{CHUNK_ROWS // cores:,}"),
        (f"segments, 1e9 rows a worker, 4,096 leaves, {cores} threads",
         f"{segment_bytes(1e9, 4096, cores) / 1e9:.0f} GB"),
        (f"histograms built in a pass, 1,000 columns, {cores} threads", f"{builds}"),
        ("check sums of 100,000 partitions, to 1,000 workers", f"{sums * 1000 / 1e6:,.0f} MB"),
        ("record of a split", f"{SPLIT_BYTES} bytes"),
        ("most numbers gathered for metrics", f"{MOST_GATHERED:,}"),
    )  # fmt: skip
    print()
    for name, value in lines:
        print(f"{name:60}{value:>16}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with ExitStack() as stack:
        client = cluster_of(stack, 2)
        near, far = measure_carrier(client, True), measure_carrier(client, False)
        costs = measure_costs(client, options.leaves)
        shape = measure_trees(client, options, costs, near)
        print_memory(train_whole(client, options), options)
    return {"costs": asdict(costs[0]), "carrier": asdict(far), "shape": asdict(shape)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--cores", type=int, default=16, help="of each worker far away")
    parser.add_argument("--gbit", type=float, default=10.0, help="network of each worker, a second")
    parser.add_argument("--json", type=Path, help="write what was measured")
    parser.add_argument("--from", type=Path, dest="known", help="measured before: calculate only")
    options = parser.parse_args()
    if options.known is None:
        load = os.getloadavg()[0]
        print(
            f"{options.rows:,} rows, {options.features} features, {options.leaves} leaves, "
            f"{options.trees} trees; {len(os.sched_getaffinity(0))} cores, load before {load:.1f}"
        )
        known = measure(options)
        if options.json is not None:
            options.json.write_text(json.dumps(known, indent=1) + "\n")
    else:
        known = json.loads(options.known.read_text())
    print_far(
        Costs(**known["costs"]), Carrier(**known["carrier"]), Shape(**known["shape"]),
        options.cores, options.gbit,
    )  # fmt: skip
    print_limits(Shape(**known["shape"]), options.cores)


if __name__ == "__main__":
    main()
