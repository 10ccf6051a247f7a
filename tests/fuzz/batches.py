"""Run workers, watch them, and start a new one after a crash."""

from __future__ import annotations

import json
import math
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Options:
    """Options of a run."""

    seed: int
    core: bool
    seconds: float
    patience: float
    batch: int
    jobs: int
    least: int = 0


@dataclass
class Tally:
    """The results of all configurations so far."""

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[int, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    first_fit: float = math.inf  # when the first one was fitted: kernels are compiled before

    def add(self, outcome: str) -> None:
        with self.lock:
            self.outcomes[outcome] += 1
            if outcome == "fitted":
                self.first_fit = min(self.first_fit, time.monotonic())

    def left(self, options: Options) -> float:
        """Return the seconds left, which count from the first fit on."""
        return self.first_fit + options.seconds - time.monotonic()

    def find(self, number: int, text: str, options: Options) -> None:
        with self.lock:
            self.findings.append((number, text))
            core = " --core" if options.core else ""
            again = f"python -m {__package__} --seed {options.seed} --only {number}{core}"
            print(f"\nFOUND {again}\n{text}", flush=True)


def run_all(numbers: range, options: Options) -> int:
    """Check all ``numbers``; return 1 if there are findings."""
    tally, waiting = Tally(), queue.Queue[range]()
    for first in range(numbers.start, numbers.stop, options.batch):
        waiting.put(range(first, min(first + options.batch, numbers.stop)))
    threads = [
        threading.Thread(target=_run_batches, args=(waiting, options, tally))
        for _ in range(options.jobs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _report(tally)
    too_few = tally.outcomes["fitted"] < options.least
    if too_few:
        print(f"fewer than {options.least} were fitted")
    return 1 if tally.findings or too_few else 0


def _run_batches(waiting: queue.Queue[range], options: Options, tally: Tally) -> None:
    while tally.left(options) > 0.0:
        try:
            numbers = waiting.get_nowait()
        except queue.Empty:
            return
        while len(numbers) > 0 and tally.left(options) > 0.0:
            numbers = _run_worker(numbers, options, tally)


def _run_worker(numbers: range, options: Options, tally: Tally) -> range:
    """Run a worker; return the configurations that a crash left unchecked."""
    command = worker_command()
    command += ["--seed", str(options.seed), "--first", str(numbers.start)]
    command += ["--core"] if options.core else []
    command += ["--n", str(len(numbers))]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=_root(),
            env={**os.environ, "HEDGEROW_OPEN_KERNELS": "0"},
        )  # fmt: skip
        lines: queue.Queue[str | None] = queue.Queue()
        assert process.stdout is not None
        threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
        at, reason = _follow(lines, options, tally)
        process.kill()
        code = process.wait()
        errors.seek(0)
        said = errors.read()[-3000:]
    if reason == "time":
        return range(0)
    if reason == "end" and code == 0 and at is None:
        return range(0)
    number = numbers.start if at is None else at
    why = "no answer" if reason == "patience" else f"the process ended with {code}"
    tally.find(number, f"{why}\n{said}", options)
    return range(number + 1, numbers.stop)


def worker_command() -> list[str]:
    """Return the command that starts a worker, without its arguments."""
    return [sys.executable, "-m", __package__ or "fuzz", "--worker"]


def _root() -> Path:
    """Return the folder from which a worker can import this package by its name."""
    return TESTS.parent if (__package__ or "").startswith("tests.") else TESTS


def _read(stream: Any, lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _follow(
    lines: queue.Queue[str | None], options: Options, tally: Tally
) -> tuple[int | None, str]:
    """Record a worker's output; return the configuration in progress at its end, and the reason."""
    at, heard = None, time.monotonic()
    while True:
        if tally.left(options) <= 0.0:
            return at, "time"
        try:
            line = lines.get(timeout=1.0)  # the first fit of another worker ends this one, too
        except queue.Empty:
            if time.monotonic() - heard > options.patience:
                return at, "patience"
            continue
        heard = time.monotonic()
        if line is None:
            return at, "end"
        reported = json.loads(line)
        if reported["state"] == "began":
            at = reported["number"]
            continue
        at = None
        if reported["state"] == "found":
            tally.find(reported["number"], f"{reported['what']}\n{reported['error']}", options)
        tally.add(reported.get("outcome", "found"))


def _report(tally: Tally) -> None:
    fitted = tally.outcomes["fitted"]
    total = sum(tally.outcomes.values())
    refusals = Counter({k[:110]: 0 for k in tally.outcomes if k not in ("fitted", "found")})
    for outcome, count in tally.outcomes.items():
        if outcome not in ("fitted", "found"):
            refusals[outcome[:110]] += count
    print(
        f"\n{total} configurations: {fitted} fitted, {refusals.total()} refused, "
        f"{len(tally.findings)} findings: {[number for number, _ in tally.findings]}"
    )
    for text, count in refusals.most_common(25):
        print(f"{count:6d}  {text}")
