"""``hedgerow warmup`` compiles the kernels in advance; ``hedgerow bench`` compares the speed.

For figures to publish, use ``benchmarks/`` of the source repository, which runs
more workloads, alternates the libraries, and stores the results.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hedgerow.cli.usage import UsageError, say

_BUSY = 0.8
"""Share of the processors that is free on an idle machine, at least."""
_LOWEST = {"rows": 100, "columns": 2, "trees": 1, "leaves": 2, "rounds": 1}


def add_warmup(commands: Any) -> None:
    """Add ``warmup`` to the parser."""
    parser = commands.add_parser(
        "warmup",
        help="compile the kernels before their first use",
        description="Compile and cache all kernels, for example when a container image is built. "
        "This is not needed if the installation contains compiled kernels.",
    )
    parser.set_defaults(run=_warm_up)


def _warm_up(options: argparse.Namespace) -> None:
    from hedgerow.compile import library, variants
    from hedgerow.compile.manifest import FOLDER
    from hedgerow.compile.policy import compile_policy
    from hedgerow.compile.progress import PROGRESS

    uses_build = compile_policy() != "always"
    every = [(variants.find_kernel(each.kernel), each) for each in variants.read_variants()]
    missing = [pair for pair in every if not (uses_build and library.entries_of(pair[0]))]
    if not missing:
        say(f"kernels are built into this installation ({FOLDER}): nothing to compile")
        return
    from hedgerow.compile import just_in_time  # Numba may be missing

    start = time.perf_counter()
    PROGRESS.expected = len(missing)
    for kernel, variant in missing:
        kernel.dispatcher.compile(variants.parse_types(variant.types))
    kept = "not cached: no cache folder is writable"
    if just_in_time.keeps_code():
        kept = f"kept in {just_in_time.cache_folder()}"
    say(f"{len(missing)} kernels ready after {time.perf_counter() - start:.1f} s, {kept}")


def add_bench(commands: Any) -> None:
    """Add ``bench`` to the parser."""
    parser = commands.add_parser(
        "bench",
        help="compare the speed of a fit with other installed libraries",
        description="Fit generated data with Hedgerow and, if installed, LightGBM, XGBoost and "
        "scikit-learn, with equal settings.",
    )
    parser.add_argument("--rows", type=int, default=100_000, help="default: %(default)s")
    parser.add_argument("--columns", type=int, default=28, help="default: %(default)s")
    parser.add_argument("--trees", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--leaves", type=int, default=31, help="default: %(default)s")
    parser.add_argument(
        "--rounds", type=int, default=3, help="fits per library (default: %(default)s)"
    )
    parser.set_defaults(run=_bench)


def _bench(options: argparse.Namespace) -> None:
    for name, least in _LOWEST.items():
        if getattr(options, name) < least:
            raise UsageError(f"--{name} must be at least {least}")
    import numpy as np
    from sklearn.metrics import log_loss

    rng = np.random.default_rng(0)
    X = rng.standard_normal((options.rows + 20_000, options.columns), dtype=np.float32)
    score = X[:, 0] * X[:, 1] + np.sin(3.0 * X[:, -1]) + 0.5 * np.abs(X[:, 0])
    y = (score + rng.standard_normal(len(X)) > 0.3).astype(np.int64)
    train, test = slice(options.rows), slice(options.rows, None)

    makers = _makers(options)
    times: dict[str, list[float]] = {name: [] for name in makers}
    quality: dict[str, float] = {}
    say(
        f"fits of {options.rows} x {options.columns}, {options.trees} trees of {options.leaves} "
        f"leaves, default threads: {', '.join(makers)}"
    )
    for make in makers.values():
        make().fit(X[:1000], y[:1000])  # load and compile the kernels
    free = []
    for round_number in range(options.rounds):
        free.append(free_share())
        if free[-1] < _BUSY:
            say(
                f"the machine is busy: only {free[-1]:.0%} of its processors are free, which "
                "changes the times of the libraries by different factors"
            )
        for name in list(makers)[:: -1 if round_number % 2 else 1]:
            model = makers[name]()
            start = time.perf_counter()
            model.fit(X[train], y[train])
            times[name].append(time.perf_counter() - start)
            quality[name] = log_loss(y[test], model.predict_proba(X[test])[:, 1])
            say(f"fit {round_number + 1} of {options.rounds}: {name} {times[name][-1]:.3f} s")
    base = statistics.median(times["hedgerow"])
    say(f"\n{'median':14}{'seconds':>9}{'times ours':>12}{'test logloss':>14}")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        say(f"{name:14}{median:9.3f}{median / base:12.2f}{quality[name]:14.5f}")
    if min(free) < _BUSY:
        say("the machine was busy (see above): repeat this on an idle one before you trust it")


def free_share() -> float:
    """Return the share of the processors that this process gets, near 1 on an idle machine."""
    from hedgerow.threads import resolve_threads, run_blocks

    n_threads, block = resolve_threads(None), bytes(1 << 26)
    wall, used = time.perf_counter(), time.process_time()
    # A hash holds no interpreter lock.
    run_blocks(lambda start, stop: hashlib.blake2b(block), n_threads, n_threads, 1)
    return (time.process_time() - used) / (n_threads * (time.perf_counter() - wall))


_CLASSIFIERS = {
    "hedgerow": "hedgerow.HedgerowClassifier",
    "lightgbm": "lightgbm.LGBMClassifier",
    "xgboost": "xgboost.XGBClassifier",
    "sklearn HGB": "sklearn.ensemble.HistGradientBoostingClassifier",
}


def _makers(options: argparse.Namespace) -> dict[str, Callable[[], Any]]:
    """Return each installed library with a factory of its classifier, with equal settings."""
    trees, leaves = {"n_estimators": options.trees}, options.leaves
    settings: dict[str, dict[str, Any]] = {
        "hedgerow": {
            **trees, "max_leaves": leaves, "reg_lambda": 0.0, "early_stopping": False,
            "random_state": 0,
        },
        "lightgbm": {**trees, "num_leaves": leaves, "verbosity": -1},
        "xgboost": {
            **trees, "max_leaves": leaves, "max_depth": 0, "grow_policy": "lossguide",
            "tree_method": "hist", "max_bin": 255, "reg_lambda": 0.0, "min_child_weight": 1e-3,
        },
        "sklearn HGB": {
            "max_iter": options.trees, "max_leaf_nodes": leaves, "early_stopping": False
        },
    }  # fmt: skip
    found: dict[str, Callable[[], Any]] = {}
    for name, path in _CLASSIFIERS.items():
        module, _, classifier = path.rpartition(".")
        if find_spec(module.partition(".")[0]) is not None:
            make = getattr(import_module(module), classifier)
            found[name] = partial(make, learning_rate=0.1, **settings[name])
    return found
