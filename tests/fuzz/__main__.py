"""Check many configurations in worker processes, so that crashes are found and reported.

Examples::

    python -m tests.fuzz --n 20000 --seed 0          # exit code 1 if there are findings
    python -m tests.fuzz --only 1234 --seed 0        # one of them, with its traceback
    NUMBA_BOUNDSCHECK=1 python -m tests.fuzz --core --seconds 200
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import math
import os
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOUND = "FOUND "
"""How the outcome of a configuration that breaks a law begins."""


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
        "--seconds", type=float, default=math.inf, help="end so long after the first fit"
    )
    parser.add_argument("--patience", type=float, default=300.0, help="longest for one, in seconds")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--least", type=int, default=0, help="fail if fewer were fitted")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def main(words: list[str] | None = None) -> int:
    given = build_parser().parse_args(words)
    numbers = range(given.first, given.first + given.n)
    if given.only is not None:
        return work(given, [given.only])
    if given.worker:
        return work(given, numbers[:: given.jobs])
    with ThreadPoolExecutor(given.jobs) as pool:
        shares = [numbers[job :: given.jobs] for job in range(given.jobs)]
        ends = [end for found in pool.map(lambda share: followed(share, given), shares)
                for end in found]  # fmt: skip
    return report(ends, given)


def followed(numbers: range, given: argparse.Namespace) -> list[tuple[int, str]]:
    """Run a worker, and another one after a crash; return the configurations and their outcomes."""
    ends: list[tuple[int, str]] = []
    while numbers:
        options = {name: getattr(given, name) for name in ("seed", "jobs", "seconds", "patience")}
        options |= {"first": numbers.start, "n": numbers.stop - numbers.start}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        process = subprocess.Popen(
            [*worker_command(), *words, *(["--core"] if given.core else [])],
            stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "HEDGEROW_OPEN_KERNELS": "0"},
        )  # fmt: skip
        at, began = numbers.start, False
        for line in process.stdout or ():
            at, outcome = json.loads(line)
            began = outcome is None
            if not began:
                ends.append((at, outcome))
        code = process.wait()
        if code == 0 and not began:
            break
        ends.append((at, f"{FOUND}a process that ended with {code}"))
        numbers = range(at + numbers.step, numbers.stop, numbers.step)
    return ends


def worker_command() -> list[str]:
    """Return the command that starts a worker, without its arguments."""
    return [sys.executable, "-m", "tests.fuzz", "--worker"]


def report(ends: list[tuple[int, str]], given: argparse.Namespace) -> int:
    """Print what was found and how often configurations were refused; return the exit code."""
    found = sorted(end for end in ends if end[1].startswith(FOUND))
    core = " --core" if given.core else ""
    for number, outcome in found:
        print(f"\n{outcome}\npython -m tests.fuzz --seed {given.seed} --only {number}{core}")
    outcomes = Counter(outcome[:110] for _, outcome in ends if not outcome.startswith(FOUND))
    fitted = outcomes.pop("fitted", 0)
    print(
        f"\n{len(ends)} configurations: {fitted} fitted, {outcomes.total()} refused, "
        f"{len(found)} findings: {[number for number, _ in found]}"
    )
    for text, count in outcomes.most_common(25):
        print(f"{count:6d}  {text}")
    if fitted < given.least:
        print(f"fewer than {given.least} were fitted")
    return 1 if found or fitted < given.least else 0


def work(given: argparse.Namespace, numbers: Any) -> int:
    """Check configurations in this process; print a line of JSON before and after each."""
    faulthandler.enable()
    threading.excepthook = _leave
    if os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0"):
        from numba import config

        assert config.BOUNDSCHECK == 1
    from .checks import check
    from .configurations import draw_configuration

    end = math.inf  # counts from the first fit on: kernels are compiled before
    for number in numbers:
        if time.monotonic() > end:
            break
        print(json.dumps([number, None]), flush=True)
        faulthandler.dump_traceback_later(given.patience, exit=True)
        try:
            outcome = check(given.seed, number, given.core)
        except Exception:
            what = draw_configuration(given.seed, number, given.core)
            outcome = f"{FOUND}{what}\n{traceback.format_exc()}"
        print(json.dumps([number, outcome]), flush=True)
        if outcome == "fitted":
            end = min(end, time.monotonic() + given.seconds)
    faulthandler.cancel_dump_traceback_later()
    return 0


def _leave(error: Any) -> None:
    """End the process after an error of a thread: the other threads would wait for it."""
    sys.__excepthook__(error.exc_type, error.exc_value, error.exc_traceback)
    sys.stderr.flush()
    os._exit(70)


if __name__ == "__main__":
    sys.exit(main())
