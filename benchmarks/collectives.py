"""Measure the communication between ranks for one level of a tree.

::

    python benchmarks/collectives.py                     # memory, connections, MPI; two ranks
    python benchmarks/collectives.py --carriers connections --ranks 2 --repeats 200

A level is a reduce_scatter of the histograms (each rank sums those of its features) and an
allgather of the best splits (100 bytes per rank).  The program prints the median and the 90th
percentile over the repeats, in milliseconds, on rank 0.  All ranks run on this machine: the figures
are latencies of software, not of a network.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

SIZES = (100_000, 500_000, 4_000_000)


def levels(ranks: Any, repeats: int) -> dict[int, tuple[float, float]]:
    """Return the median and 90th percentile of a level's milliseconds, by bytes of histograms."""
    found = {}
    for n_bytes in SIZES:
        histogram = np.arange(n_bytes // 8)
        starts = [part * histogram.size // ranks.size for part in range(ranks.size + 1)]
        milliseconds = []
        for _ in range(repeats):
            ranks.barrier()
            start = time.perf_counter()
            part = ranks.reduce_scatter(histogram, starts)
            ranks.allgather(bytes(100))
            milliseconds.append(1e3 * (time.perf_counter() - start))
        own = histogram[starts[ranks.rank] : starts[ranks.rank + 1]]
        if not (part == ranks.size * own).all():
            raise AssertionError("the sums are wrong")
        found[n_bytes] = (float(np.median(milliseconds)), float(np.percentile(milliseconds, 90)))
    return found


def run_rank_of_process(
    token: bytes, rank: int, n_ranks: int, repeats: int, near: bool, own: Any, all_ports: Any
) -> None:
    from hedgerow.comm.connections import Listener, joined

    listener = Listener("127.0.0.1")
    own.put((rank, listener.address))
    with joined(listener, token, rank, all_ports.get(), shares_memory=near) as ranks:
        found = levels(ranks, repeats)
    if rank == 0:
        own.put(found)


def measure_processes(n_ranks: int, repeats: int, near: bool) -> dict[int, tuple[float, float]]:
    spawning = multiprocessing.get_context("spawn")
    own, all_ports, token = spawning.Queue(), spawning.Queue(), os.urandom(32)
    processes = [
        spawning.Process(
            target=run_rank_of_process, args=(token, rank, n_ranks, repeats, near, own, all_ports)
        )
        for rank in range(n_ranks)
    ]
    for process in processes:
        process.start()
    ports = dict(own.get() for _ in processes)
    for _ in processes:
        all_ports.put([ports[rank] for rank in range(n_ranks)])
    found: dict[int, tuple[float, float]] = own.get()
    for process in processes:
        process.join()
    return found


def measure_mpi(n_ranks: int, repeats: int) -> dict[int, tuple[float, float]]:
    command = ["mpiexec", "-n", str(n_ranks), sys.executable, __file__, "--as-mpi-rank"]
    ended = subprocess.run(
        [*command, "--repeats", str(repeats)], capture_output=True, text=True, check=True
    )
    return {int(size): tuple(times) for size, times in json.loads(ended.stdout).items()}


CARRIERS: dict[str, Callable[[int, int], Any]] = {
    "memory": partial(measure_processes, near=True),
    "connections": partial(measure_processes, near=False),
    "mpi": measure_mpi,
}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--carriers", nargs="+", choices=CARRIERS, default=list(CARRIERS))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--as-mpi-rank", action="store_true", help=argparse.SUPPRESS)
    return parser


def main() -> None:
    options = build_parser().parse_args()
    if options.as_mpi_rank:
        from hedgerow.comm.mpi import run_rank

        def print_levels(ranks: Any) -> None:
            found = levels(ranks, options.repeats)
            if ranks.rank == 0:
                print(json.dumps(found))

        run_rank(print_levels)
        return
    print(f"{options.ranks} ranks; ms a level: median (90th percentile)")
    print(f"{'':12}" + "".join(f"{size / 1e3:>17,.0f} KB" for size in SIZES))
    for name in options.carriers:
        if name == "mpi" and shutil.which("mpiexec") is None:
            print(f"{name:12}  skipped: there is no mpiexec")
            continue
        found = CARRIERS[name](options.ranks, options.repeats)
        cells = [f"{found[size][0]:.2f} ({found[size][1]:.2f})" for size in SIZES]
        print(f"{name:12}" + "".join(f"{cell:>20}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
