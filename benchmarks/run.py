"""Run comparisons and write their figures to ``benchmarks/results/``.

::

    python benchmarks/run.py --list
    python benchmarks/run.py 100k 10k 1k            # fit times and test scores
    python benchmarks/run.py predict one_row memory import first_use
    python benchmarks/run.py quality:100k quality:adult
    python benchmarks/run.py all                    # everything: hours
    python benchmarks/table.py                      # figures into README and docs
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from names import name_in, names_in
from peers import DEFAULT_PEERS, PEERS, installed
from result_files import RESULTS, path_of, save
from workloads import WORKLOADS

EXTRA = ("predict", "one_row", "memory", "import", "first_use", "default_use")
NAMES = (*WORKLOADS, *(f"quality:{name}" for name in WORKLOADS), *EXTRA)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    parser.add_argument(
        "names",
        nargs="*",
        type=name_in([*NAMES, "all"]),
        help="workloads, measurements, quality:WORKLOAD, all",
    )
    parser.add_argument("--list", action="store_true", help="list what can be run")
    parser.add_argument(
        "--peers",
        type=names_in(PEERS),
        default=list(DEFAULT_PEERS),
        help=f"names separated by commas, any of {', '.join(PEERS)}",
    )
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each (default 5)")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of quality:… (default 5)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each (default 2)")
    parser.add_argument("--trees", type=int, default=100, help="trees of each (default 100)")
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="folder of the results of all processors"
    )
    return parser


class _Raw(argparse.RawDescriptionHelpFormatter):
    pass


def _jobs(options: argparse.Namespace) -> dict[str, Callable[[], dict[str, Any] | list[Any]]]:
    """Return every job by name.  The import is late because the number of threads is set first."""
    from processes import measure_default_use, measure_first_use, measure_import, measure_memory
    from timing import measure_fit, measure_one_row, measure_predict, measure_quality

    peers = installed(options.peers)
    threads, rounds = options.threads, options.rounds
    jobs: dict[str, Callable[[], Any]] = {}
    for name, workload in WORKLOADS.items():
        settings = replace(workload.settings, threads=threads, trees=options.trees)
        jobs[name] = partial(measure_fit, workload, peers, settings, rounds)
        quality = partial(measure_quality, workload, peers, settings, options.seeds)
        jobs[f"quality:{name}"] = quality
    jobs["predict"] = lambda: [
        measure_predict(peers, threads, rounds, leaves) for leaves in (31, 255)
    ]
    jobs["one_row"] = lambda: measure_one_row(peers, threads, rounds)
    jobs["memory"] = lambda: measure_memory(peers, threads)
    jobs["import"] = lambda: measure_import(peers, rounds)
    jobs["first_use"] = lambda: measure_first_use(peers, min(rounds, 3))
    jobs["default_use"] = lambda: measure_default_use(rounds)
    return jobs


def main() -> None:
    options = build_parser().parse_args()
    # Set before any library is loaded: scikit-learn reads it once.
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    from real import MissingDataError

    jobs = _jobs(options)
    if options.list or not options.names:
        print("\n".join(jobs))
        return
    names = list(jobs) if options.names == ["all"] else options.names
    for name in names:
        print(name, flush=True)
        try:
            outcome = jobs[name]()
        except MissingDataError as reason:
            print(f"  skipped: {reason}")
            continue
        for result in outcome if isinstance(outcome, list) else [outcome]:
            prefix = "quality_" if result["kind"] == "quality" else ""
            save(result, path_of(prefix + result["workload"], options.out))


if __name__ == "__main__":
    main()
