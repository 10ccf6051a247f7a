"""Measure training on several workers, and calculate its cost on many more.

::

    python benchmarks/scale.py                                    # measures, then calculates
    python benchmarks/scale.py --rows 200000 --trees 5            # smaller
    python benchmarks/scale.py --json costs.json                  # stores the measurements
    python benchmarks/scale.py --from costs.json --cores 32 --gbit 25     # calculates only

The program prints

costs       per row, per row and feature, and per search, fitted to trees of several sizes on one
            worker, alone and while a second worker does the same
carrier     an exchange between Dask workers: per step, per message and per byte; through shared
            memory, and through network connections
trees       seconds per tree, measured and calculated, local and on one and two workers
bytes       sent per tree by each rank, counted and calculated
memory      of a worker in a whole training, measured and calculated
far away    seconds per tree and memory of a worker for 10 to 1,000 workers, calculated
limits      sizes at which something breaks

:func:`tree_seconds` models the time and :func:`worker_bytes` the memory.  Both depend on their
arguments only.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import pickle
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.boosting.loop.scored import MOST_GATHERED
from hedgerow.data.external.memory_plan import RowShape
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.growing.chunks.space import MOST_ROWS, builds_for, slots_for
from hedgerow.growing.core.state import FOUND_FIELDS

CHUNK_ROWS = 1 << 18
STRIDE = 256  # cells of a feature with 255 bins
WIDE_BYTES, CELL_BYTES = 20, 8
SPLIT_BYTES = 8 * (2 * FOUND_FIELDS + 2)
"""Bytes of a rank's best splits of two children, and of two exact sums."""

SAMPLED = 210_000
WARM_UP = 3
MANY_RANKS = 4  # the largest number of ranks that send to each other directly
EXCHANGES = 40
IN_A_ROW = 10  # one exchange may end at once, because the other rank came first

# -- the model ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Costs:
    """Costs in nanoseconds of one core (processor time).

    Attributes
    ----------
    row : float
        Per row of a tree: gradients, order, scores.
    cell : float
        Per row and feature that is added to a histogram.
    search : float
        Per node and feature: subtraction for the larger child, and the search.
    visit : float
        Per chunk in a pass, independent of its size: Python, which does not run in parallel.
    """

    row: float
    cell: float
    search: float
    visit: float


@dataclass(frozen=True)
class Carrier:
    """Costs of messages in seconds.

    Attributes
    ----------
    step : float
        Per exchange.
    message : float
        Per message that a rank sends and message that it receives, both together.
    byte : float
        Per byte that a rank sends or receives, whichever are more.
    """

    step: float
    message: float
    byte: float


@dataclass(frozen=True)
class Shape:
    """The work of an average tree.

    Attributes
    ----------
    leaves : int
    passes : float
        Passes over the rows; the first one computes gradients.
    splits : float
        Nodes that are split, also without a gain: each needs a histogram.
    visits : float
        Rows that are added to histograms, as a multiple of the table's rows.
    """

    leaves: int
    passes: float
    splits: float
    visits: float


@dataclass(frozen=True)
class Spent:
    """Seconds of a tree: for rows, for searches, per message, and for the bytes of messages."""

    rows: float
    search: float
    messages: float
    content: float

    @property
    def total(self) -> float:
        return self.rows + self.search + self.messages + self.content


def shares_whole(n_features: int, n_workers: int, mode: str) -> bool:
    """Return whether two ranks exchange histograms whole, and both search all features."""
    return mode == "data" and n_workers == 2 and n_features * STRIDE * WIDE_BYTES <= 1 << 18


def fields(n_rows: float) -> int:
    """Return the words of a cell in a message: g and n, which share one if they fit, and h."""
    return 2 if 12 + 2 * int(n_rows).bit_length() <= 62 else 3


def sent_bytes(
    shape: Shape, n_rows: float, n_features: int, n_workers: int, mode: str = "data"
) -> float:
    """Return the bytes that a rank sends to all others for a tree."""
    records = shape.splits * SPLIT_BYTES * (n_workers - 1)
    if mode == "features":
        return records
    histograms = shape.splits * n_features * STRIDE * fields(n_rows) * CELL_BYTES
    if shares_whole(n_features, n_workers, mode):
        return histograms
    return histograms * (n_workers - 1) / n_workers + records


def received_bytes(
    shape: Shape, n_rows: float, n_features: int, n_workers: int, mode: str = "data"
) -> float:
    """Return the bytes that the rank with most features receives: ranks do not share a feature."""
    records = shape.splits * SPLIT_BYTES * (n_workers - 1)
    if mode == "features":
        return records
    own = math.ceil(n_features / n_workers)
    return shape.splits * own * STRIDE * fields(n_rows) * CELL_BYTES * (n_workers - 1) + records


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
    """Return the time of a tree.

    Parameters
    ----------
    n_rows : float
        Rows of the whole table, divided evenly.
    cores : int
        Threads of each worker, assumed to scale perfectly.
    mode : {"data", "features"}
    direct : bool, default=False
        Send messages to all ranks at once for any number of ranks.  This is *not* what
        :mod:`hedgerow.comm.collectives` does; it shows what exchanges in steps gain.
    """
    own_columns = math.ceil(n_features / n_workers)
    by_rows = mode == "data"
    rows, built = (n_rows / n_workers, n_features) if by_rows else (n_rows, own_columns)
    # Memory for histograms limits how many are built in a pass.
    most = builds_for(n_features, STRIDE, cores, shape.leaves, width=0)
    passes = max(shape.passes, 1 + shape.splits / most)
    work = rows * (costs.row + built * shape.visits * costs.cell) / cores
    work += passes * math.ceil(rows / CHUNK_ROWS) * costs.visit
    whole = shares_whole(n_features, n_workers, mode)
    searched = n_features if whole else own_columns
    search = shape.splits * searched * costs.search / min(cores, searched)
    if n_workers == 1:
        return Spent(1e-9 * work, 1e-9 * search, 0.0, 0.0)
    exchanges = (3 + passes * (1 if whole else 2)) if by_rows else 1 + passes
    in_steps = not direct
    steps = math.ceil(math.log2(n_workers)) if in_steps else 1
    messages = steps if in_steps else n_workers - 1
    sent = sent_bytes(shape, n_rows, n_features, n_workers, mode)
    got = sent if in_steps else received_bytes(shape, n_rows, n_features, n_workers, mode)
    return Spent(
        1e-9 * work,
        1e-9 * search,
        exchanges * (steps * carrier.step + messages * carrier.message),
        max(sent, got) * carrier.byte,
    )


@dataclass(frozen=True)
class Memory:
    """Bytes of a worker: the rows of the user, chunks, histograms, and temporary arrays."""

    given: float
    chunks: float
    histograms: float
    messages: float
    cuts: float

    @property
    def peak(self) -> float:
        """Return the peak; the bins are chosen before there are chunks."""
        return self.given + max(self.cuts, self.chunks + self.histograms + self.messages)


def segment_bytes(rows: float, leaves: int, cores: int) -> float:
    """Return the bytes for nodes, including those without gain; the room grows by doubling."""
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
    """Return the memory of a worker: one output, no weights, all chunks in memory.

    ``partition_rows`` are the rows of the largest partition, which is binned at once.
    """
    rows = n_rows / n_workers
    tiles = -(-n_features // 32)
    shape = RowShape(n_features)
    row = shape.chunk_bytes(1 << 20) / (1 << 20) + shape.vector_bytes
    own = math.ceil(n_features / n_workers)
    slots = slots_for(own, STRIDE, leaves, width=0) * own * STRIDE * WIDE_BYTES
    builds = builds_for(n_features, STRIDE, cores, leaves, width=0)
    groups = min(cores, tiles)
    cells = STRIDE * n_features
    built = builds * cells * (cores // groups * WIDE_BYTES + cores // groups * CELL_BYTES)
    a_message = min(builds, leaves / 2) * cells * fields(n_rows) * CELL_BYTES
    # The positions of a node's rows in each chunk, for each thread.
    segments = segment_bytes(rows, leaves, cores)
    batch = partition_rows * n_features * (value_bytes + 2)
    sample = min(n_rows, SAMPLED) * n_features * value_bytes
    return Memory(
        given=rows * (n_features * value_bytes + 8),
        chunks=rows * (row + 16)
        + segments
        + batch,  # and its target twice: once for early stopping
        histograms=slots + built,
        messages=3 * a_message,  # in memory, copied to be sent, and received
        cuts=3 * sample,  # messages, table, sorted columns
    )


# -- measured: trees ------------------------------------------------------------------------


class Counting:
    """Wrap a communicator, and record its time and bytes."""

    def __init__(self, ranks: Any) -> None:
        self.rank, self.size, self._ranks = ranks.rank, ranks.size, ranks
        self.seconds, self.exchanges, self.scattered = 0.0, 0, 0

    def reduce_scatter(self, array: Any, starts: Any, out: Any = None) -> Any:
        self.scattered += array.nbytes
        return self._timed(self._ranks.reduce_scatter, array, starts, out)

    def allgather(self, message: bytes) -> Any:
        return self._timed(self._ranks.allgather, message)

    def allreduce(self, array: Any, combine: Any = "sum", keep: bool = True) -> Any:
        self.scattered += array.nbytes
        return self._timed(self._ranks.allreduce, array, combine, keep)

    def barrier(self) -> None:
        self._ranks.barrier()

    def _timed(self, function: Callable[..., Any], *arguments: Any) -> Any:
        start = time.perf_counter()
        result = function(*arguments)
        self.seconds += time.perf_counter() - start
        self.exchanges += 1
        return result


def make_rows(first: int, stop: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Generate rows that do not depend on how they are divided."""
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
    n_threads: int = 1, mode: GrowMode = "data", chunk_rows: int = CHUNK_ROWS,
) -> dict[str, Any]:  # fmt: skip
    """Grow trees on chunks of rows; return seconds, traffic and shape of an average tree."""
    import hashlib

    from hedgerow.boosting.loop.setup.resolved import resolve
    from hedgerow.data import bin_table, fit_bins, read_table
    from hedgerow.data.external import disk_store
    from hedgerow.growing.chunks.grower import ChunkGrower
    from hedgerow.growing.core.setup import Fit
    from hedgerow.objectives import make_objective
    from hedgerow.params import BoostParams

    spec = fit_bins(read_table(make_rows(0, CHUNK_ROWS, n_features)[0]), 255)
    X, y = make_rows(*rows, n_features)
    setattr(disk_store, "fits_in_one_chunk", lambda *sizes: False)  # noqa: B010
    with disk_store.ChunkSink(
        spec, [tempfile.gettempdir()], 1 << 40, compression="none", chunk_rows=chunk_rows
    ) as sink:
        sink.append(bin_table(read_table(X), spec))
        store = sink.finish()
    del X
    objective = make_objective("logistic", 1)
    params = resolve(BoostParams(max_leaves=leaves), objective)
    counting = Counting(ranks)
    fit = Fit(y, None, np.zeros((1, len(y))), objective, params, n_threads)
    made = ChunkGrower(store, fit, communicator=counting, mode=mode, first_row=rows[0])
    seconds, talking, used = [], [], []
    trees: list[Any] = []
    with closing(made) as grower:
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
    own_bytes = spec.stride * n_features * fields(made.n_rows) * 8
    digest = hashlib.sha256(b"".join(tree.value.tobytes() for tree in trees))
    return {
        "seconds": float(min(seconds[WARM_UP:])),
        "processor": float(min(used[WARM_UP:])),
        "talking": float(min(talking[WARM_UP:])),
        "passes": float(np.mean([one.passes for one in traffic])),
        "splits": float(np.mean([one.splits for one in traffic])),
        "visits": float(1 + small / inner * (inner + wasted) / whole),
        "sent": float(np.mean([one.sent for one in traffic])),
        "builds": counting.scattered / own_bytes / n_trees,
        "exchanges": counting.exchanges / n_trees,
        "trees": digest.hexdigest()[:16],
    }


def make_shape(found: dict[str, Any], leaves: int) -> Shape:
    return Shape(leaves, found["passes"], found["splits"], found["visits"])


GRID = (
    *((rows, features, CHUNK_ROWS) for rows in (1 << 18, 4 << 18) for features in (8, 28, 96)),
    *((6 << 16, features, 1 << 12) for features in (8, 28)),
)
"""Rows, features, and rows of a chunk."""


def calibrate(ranks: Any, leaves: int) -> list[tuple[int, int, int, dict[str, Any]]]:
    """Grow trees of several sizes on one worker."""
    return [(*one, grow(ranks, (0, one[0]), one[1], leaves, 8, chunk_rows=one[2])) for one in GRID]


def fit_costs(found: list[tuple[int, int, int, dict[str, Any]]]) -> tuple[Costs, float]:
    """Fit costs to the measured processor times; return them and the largest error in per cent."""
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


def time_exchanges(ranks: Any, n_bytes: int) -> tuple[float, float, float]:
    """Return seconds, and processor seconds, of an empty exchange; seconds of a reduce_scatter."""
    array = np.arange(n_bytes // 8)
    starts = [part * len(array) // ranks.size for part in range(ranks.size + 1)]
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(5 + EXCHANGES):
        for times, call in zip(
            found, (ranks.barrier, lambda: ranks.reduce_scatter(array, starts)), strict=True
        ):
            ranks.barrier()
            start = time.perf_counter()
            for _ in range(IN_A_ROW):
                call()
            if number >= 5:
                times.append((time.perf_counter() - start) / IN_A_ROW)
    before = time.process_time()
    for _ in range(5 * EXCHANGES):
        ranks.barrier()
    used = (time.process_time() - before) / (5 * EXCHANGES)
    return min(found[0]), used, min(found[1])  # as if nothing else ran


def run_on_rank(
    token: bytes, rank: int, addresses: list[str], work: Any, arguments: Any, near: bool = True
) -> Any:
    from hedgerow.comm.base import Alone
    from hedgerow.distributed.ranks import ranks_of_workers

    talks = len(addresses) > 1
    joined: Any = nullcontext(Alone())
    if talks:
        joined = ranks_of_workers(token, rank, addresses, shares_memory=near)
    with joined as ranks:
        return work(ranks, *arguments)


def run_on_workers(
    client: Any, n_ranks: int, work: Any, arguments: list[Any], near: bool = True
) -> list[Any]:
    """Run a function on the first ranks, which communicate; ``near``: through shared memory."""
    from hedgerow.comm.connections import TOKEN_BYTES
    from hedgerow.distributed.ranks import join

    addresses, token = sorted(client.nthreads())[:n_ranks], os.urandom(TOKEN_BYTES)
    ports = client.gather(
        [
            client.submit(join, token, rank, workers=[address], pure=False)
            for rank, address in enumerate(addresses)
        ]
    )
    ranks = [
        client.submit(
            run_on_rank,
            token,
            rank,
            ports,
            work,
            arguments[rank],
            near,
            workers=[address],
            pure=False,
        )
        for rank, address in enumerate(addresses)
    ]
    return client.gather(ranks)


def run_independently(client: Any, work: Any, arguments: list[Any]) -> list[Any]:
    """Run a function on some workers at the same time, without communication."""
    futures = [
        client.submit(run_on_rank, b"", 0, [address], work, given, workers=[address], pure=False)
        for address, given in zip(sorted(client.nthreads()), arguments, strict=False)
    ]
    return client.gather(futures)


def start_cluster(stack: ExitStack, n_workers: int) -> Any:
    """Return a client of a cluster with this many single-threaded processes."""
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
    """Measure shared memory or the loopback device, with two ranks and with more than the cores."""
    n_cores, size = len(os.sched_getaffinity(0)), 16 << 20
    two = run_on_workers(client, 2, time_exchanges, [(size,)] * 2, near)[0]
    given = [(8 * MANY_RANKS,)] * MANY_RANKS
    with ExitStack() as stack:
        many = run_on_workers(
            start_cluster(stack, MANY_RANKS), MANY_RANKS, time_exchanges, given, near
        )[0]
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
    """Return the seconds of a round of ``hedgerow.train`` on rows in memory."""
    from hedgerow import Dataset, train

    X, y = make_rows(0, options.rows, options.features)
    times: list[float] = []
    params = {
        "objective": "logistic", "n_estimators": WARM_UP + options.trees, "n_jobs": n_threads,
        "max_leaves": options.leaves, "early_stopping": False,
    }  # fmt: skip
    train(params, Dataset(X, y), callbacks=lambda state: times.append(time.perf_counter()))
    return float(min(np.diff(times)[WARM_UP - 1 :]))


# -- measured: a whole training ---------------------------------------------------------------


def read_memory(name: str = "VmRSS", resets_peak: bool = False) -> int:
    """Return ``VmRSS`` (current) or ``VmHWM`` (peak) in bytes; ``resets_peak`` resets it first."""
    if resets_peak:
        from hedgerow.data.external.memory import give_back_memory

        give_back_memory()
        Path("/proc/self/clear_refs").write_text("5")
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {name} in /proc/self/status")


def train_whole(client: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Run ``hedgerow.distributed.train`` on arrays; return seconds and increase of peak memory."""
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
    before = client.run(read_memory, resets_peak=True)
    start = time.perf_counter()
    given = {**params, "n_estimators": options.trees}
    train(client, given, *collections(options.rows), parallelism="data")
    seconds = time.perf_counter() - start
    peak = client.run(read_memory, "VmHWM")
    return {"seconds": seconds, "over": max(peak[one] - before[one] for one in peak)}


# -- the report -----------------------------------------------------------------------------


def print_costs(name: str, costs: Costs, error: float) -> None:
    print(
        f"costs, {name:<22} ns: row {costs.row:6.1f}, row and feature {costs.cell:5.2f}, node and "
        f"feature {costs.search:6,.0f}, chunk {costs.visit:8,.0f}; largest error {error:.0f}%"
    )


def measure_costs(client: Any, leaves: int) -> tuple[Costs, Costs]:
    """Measure the costs of one worker while the other rests, and while it does the same."""
    (quiet,) = run_independently(client, calibrate, [(leaves,)])
    busy = run_independently(client, calibrate, [(leaves,)] * 2)[0]
    found = []
    for name, grid in (("one worker", quiet), ("both workers busy", busy)):
        costs, error = fit_costs(grid)
        print_costs(name, costs, error)
        found.append(costs)
    return found[0], found[1]


def measure_trees(
    client: Any, options: argparse.Namespace, costs: tuple[Costs, Costs], carrier: Carrier
) -> Shape:
    """Print seconds and bytes of a tree, measured and calculated."""
    n, half = options.rows, options.rows // 2
    same = (options.features, options.leaves, options.trees)
    one = run_independently(client, grow, [((0, n), *same)])[0]
    shape = make_shape(one, options.leaves)
    threads = run_independently(client, grow, [((0, n), *same, 2)])[0]
    halves = run_independently(client, grow, [((0, half), *same), ((half, n), *same)])
    data = run_on_workers(client, 2, grow, [((0, half), *same), ((half, n), *same)])
    features = run_on_workers(client, 2, grow, [((0, n), *same, 1, "features")] * 2)
    same_trees = len({found["trees"] for found in (one, threads, *data, *features)}) == 1
    print(f"trees of one worker and of two are {'the same' if same_trees else 'DIFFERENT'}")

    def calculate(
        busy: bool, n_rows: int, workers: int, mode: str = "data", cores: int = 1
    ) -> Spent:
        given = (costs[busy], carrier, shape, n_rows, options.features, workers)
        return tree_seconds(*given, mode=mode, cores=cores)

    rows = [
        ("memory, 1 thread", {"seconds": local_seconds(options, 1)}, None),
        ("memory, 2 threads", {"seconds": local_seconds(options, 2)}, None),
        ("1 worker", one, calculate(False, n, 1)),
        ("1 worker, 2 threads", threads, calculate(True, n, 1, cores=2)),
        ("2 apart, half of the rows each", halves[0], calculate(True, half, 1)),
        ("2 workers, rows divided", data[0], calculate(True, n, 2)),
        ("2 workers, features divided", features[0], calculate(True, n, 2, "features")),
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
        expected = sent_bytes(shape, n, options.features, 2, mode)
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
    """Print calculated figures for more rows and workers than this machine has."""
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
    for n_rows in (1e8, 1e9):  # all ranks together have at most 2^31 rows
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
    """Print the limits that the docs give."""
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
        client = start_cluster(stack, 2)
        near, far = measure_carrier(client, True), measure_carrier(client, False)
        costs = measure_costs(client, options.leaves)
        shape = measure_trees(client, options, costs, near)
        print_memory(train_whole(client, options), options)
    return {"costs": asdict(costs[0]), "carrier": asdict(far), "shape": asdict(shape)}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--cores", type=int, default=16, help="cores of each calculated worker")
    parser.add_argument(
        "--gbit",
        type=float,
        default=10.0,
        help="network of each calculated worker, in Gbit per second",
    )
    parser.add_argument("--json", type=Path, help="write the measurements to this file")
    parser.add_argument(
        "--from",
        type=Path,
        dest="measured",
        help="read measurements from this file; only calculate",
    )
    return parser


def main() -> None:
    options = build_parser().parse_args()
    if options.measured is None:
        load = os.getloadavg()[0]
        print(
            f"{options.rows:,} rows, {options.features} features, {options.leaves} leaves, "
            f"{options.trees} trees; {len(os.sched_getaffinity(0))} cores, load before {load:.1f}"
        )
        measured = measure(options)
        if options.json is not None:
            options.json.write_text(json.dumps(measured, indent=1) + "\n")
    else:
        measured = json.loads(options.measured.read_text())
    print_far(
        Costs(**measured["costs"]), Carrier(**measured["carrier"]), Shape(**measured["shape"]),
        options.cores, options.gbit,
    )  # fmt: skip
    print_limits(Shape(**measured["shape"]), options.cores)


if __name__ == "__main__":
    main()
