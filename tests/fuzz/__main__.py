"""Check many configurations in worker processes, so that crashes are found and reported.

Examples::

    python -m tests.fuzz --n 20000 --seed 0          # exit code 1 if there are findings
    python -m tests.fuzz --only 1234 --seed 0        # one of them, with its traceback
    NUMBA_BOUNDSCHECK=1 python -m tests.fuzz --core --seconds 200
"""

from __future__ import annotations

import argparse
import sys

from .batches import Options, run_all
from .worker import run_one, work


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--n", type=int, default=1000, help="number of configurations")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--only", type=int, help="check this one alone, in this process")
    parser.add_argument("--core", action="store_true", help="only those of few kernels")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="end so long after the first fit"
    )
    parser.add_argument("--patience", type=float, default=300.0, help="longest for one, in seconds")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--batch", type=int, default=500, help="configurations of a process")
    parser.add_argument("--least", type=int, default=0, help="fail if fewer were fitted")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def main() -> int:
    given = build_parser().parse_args()
    if given.only is not None:
        return run_one(given.seed, given.only, given.core)
    if given.worker:
        return work(given.seed, range(given.first, given.first + given.n), given.core)
    options = Options(
        given.seed, given.core, given.seconds, given.patience, given.batch, given.jobs, given.least
    )
    return run_all(range(given.first, given.first + given.n), options)


if __name__ == "__main__":
    sys.exit(main())
