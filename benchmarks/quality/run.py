"""Compare the defaults of libraries on many real tables.  Stored results are not computed again.

::

    python benchmarks/quality/run.py --folds 0                      # every library, one fold
    python benchmarks/quality/run.py --models hedgerow --folds 0 1 2 3 4
    python benchmarks/quality/run.py --models 'hedgerow{"learning_rate": 0.05}' --tables adult
    python benchmarks/quality/report.py                             # tables and plots

Each model has its own process, which fits one table after the other.  The first fit is a warm-up
and is not timed.  If a fit exceeds the time limit, a new process replaces the old one.
A result is a line of ``results/MODEL.jsonl``: table, fold, version, score, elapsed and
processor seconds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import sys
import time
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import models
import panels
import tables
import unseen

RESULTS = Path(__file__).with_name("results")
# Other programs on the machine change elapsed seconds, but hardly processor seconds.
FIGURES = ("score", "fit_s", "fit_cpu_s", "predict_s")


def results_path(model: str, folder: Path = RESULTS) -> Path:
    """Return the path of the file with the results of a model."""
    library, parameters = models.parse(model)
    if not parameters:
        return folder / f"{library}.jsonl"
    digest = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()
    return folder / "trials" / f"{library}-{digest[:10]}.jsonl"


def load_results(model: str, version: str, folder: Path = RESULTS) -> dict[tuple[str, int], Any]:
    """Return the stored results of one version of a model, by table and fold."""
    path = results_path(model, folder)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    results = (json.loads(line) for line in lines)
    return {(r["table"], r["fold"]): r for r in results if r["version"] == version}


def load(name: str, fold: int) -> tables.Problem:
    """Load one fold of a table of ``tables``, ``unseen`` or ``panels``."""
    source = next((each for each in (unseen, panels) if name in each.NAMES), tables)
    return source.load(name, fold)


def default_tables(is_unseen: bool, is_panels: bool) -> list[str]:
    """Return the names of the tables of the suite, or those of ``unseen`` or ``panels``."""
    if is_unseen or is_panels:
        return unseen.NAMES if is_unseen else panels.NAMES
    return [*tables.suite_names(), *tables.LARGER]


def serve_fits(model: str, n_threads: int, pipe: Connection) -> None:
    """Fit the model on each table and fold that the pipe sends (runs in a process of its own)."""
    warnings.filterwarnings("ignore")
    warm_up = tables.load("r_abalone", 0)
    models.fit(model, warm_up, n_threads)(warm_up.X_test)
    pipe.send("ready")
    while (job := pipe.recv()) is not None:
        problem = load(*job)
        try:
            start, cpu_start = time.perf_counter(), time.process_time()
            predict = models.fit(model, problem, n_threads)
            middle, cpu_middle = time.perf_counter(), time.process_time()
            prediction = predict(problem.X_test)
            end = time.perf_counter()
            score = problem.score(prediction)
            pipe.send((score, middle - start, cpu_middle - cpu_start, end - middle))
        except Exception as error:  # a failure of a library is a result
            pipe.send(f"{type(error).__name__}: {error}"[:300])


class Worker:
    """The process of one model.  A new process replaces it after a failure."""

    def __init__(self, model: str, n_threads: int = models.THREADS) -> None:
        self._model, self._n_threads = model, n_threads
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, worker_pipe = context.Pipe()
        args = (self._model, self._n_threads, worker_pipe)
        self._process = context.Process(target=serve_fits, args=args, daemon=True)
        self._process.start()
        worker_pipe.close()
        if not self._pipe.poll(300) or self._pipe.recv() != "ready":
            raise SystemExit(f"{self._model}: the warm-up failed")

    def run(self, table: str, fold: int, limit: float) -> dict[str, Any]:
        """Fit one table and fold, and return the result."""
        self._pipe.send((table, fold))
        answer: Any = "over the time limit"
        try:
            if self._pipe.poll(limit):
                answer = self._pipe.recv()
                if not isinstance(answer, str):
                    return dict(zip(FIGURES, answer, strict=True))
                return {"failed": answer}
        except EOFError:
            answer = "the process died"
        self._process.kill()
        self._process.join()
        self._start()
        return {"failed": answer}

    def close(self) -> None:
        """End the process."""
        self._pipe.send(None)
        self._process.join(10)


def run(
    model: str,
    jobs: list[tuple[str, int]],
    limit: float,
    folder: Path = RESULTS,
    n_threads: int = models.THREADS,
) -> None:
    """Fit the model where no result is stored yet, and store the results."""
    version = models.get_version(model)
    stored = load_results(model, version, folder)
    missing = [job for job in jobs if job not in stored]
    print(f"{model} {version}: {len(jobs) - len(missing)} stored, {len(missing)} to do", flush=True)
    if not missing:
        return
    path = results_path(model, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    worker = Worker(model, n_threads)
    for table, fold in missing:
        result = worker.run(table, fold, limit)
        line = {"model": model, "version": version, "table": table, "fold": fold, **result}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if "failed" in result:
            print(f"  {table} {fold}: {result['failed']}", file=sys.stderr, flush=True)
    worker.close()


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--models", nargs="+", type=models.check_name, default=list(models.DEFAULT_LIBRARIES)
    )
    parser.add_argument("--tables", nargs="+", help="default: the suite and the larger tables")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--unseen", action="store_true", help="use the tables of unseen.py")
    chosen.add_argument("--panels", action="store_true", help="use the tables of panels.py")
    parser.add_argument("--folds", nargs="+", type=int, default=[0])
    parser.add_argument("--limit", type=float, default=600.0, help="seconds per fit (default 600)")
    parser.add_argument("--threads", type=int, default=models.THREADS, help="default: 2")
    return parser


def main() -> None:
    options = build_parser().parse_args()
    names = options.tables or default_tables(options.unseen, options.panels)
    for model in options.models:
        run(model, tables.jobs(names, options.folds), options.limit, n_threads=options.threads)


if __name__ == "__main__":
    main()
