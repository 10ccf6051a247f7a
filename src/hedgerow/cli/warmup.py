"""``hedgerow warmup``: compile the kernels now instead of at the first fit."""

from __future__ import annotations

import argparse
import time
from typing import Any


def add_command(commands: Any) -> None:
    """Describe the command to the parser."""
    parser = commands.add_parser(
        "warmup",
        help="compile the kernels ahead of their first use",
        description="Compile and keep the kernels that fits and predictions use, e.g. when a "
        "container image is built.",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Carry out the command."""
    start = time.perf_counter()
    compile_all()
    from hedgerow.compile import cache_folder

    folder = cache_folder()
    kept = f"kept in {folder}" if folder else "not kept: no cache folder can be written"
    print(f"kernels ready after {time.perf_counter() - start:.1f} s, {kept}")


def compile_all() -> None:
    """Fit and use one small model of each kind."""
    import numpy as np

    import hedgerow

    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    X[::7, 0] = np.nan
    y = X[:, 1] + X[:, 2] ** 2
    for dtype in (np.float64, np.float32):
        rows = X.astype(dtype)
        regressor = hedgerow.HedgerowRegressor(n_estimators=2, random_state=0)
        regressor.fit(rows, y).predict(rows)
        regressor.predict(rows[:1])
        for labels in (y > 0.5, np.digitize(y, (0.0, 1.0))):
            classifier = hedgerow.HedgerowClassifier(n_estimators=2, random_state=0)
            classifier.fit(rows, labels).predict_proba(rows)
            classifier.predict_proba(rows[:1])
    whole = rng.integers(0, 2**60, (200, 2))
    hedgerow.HedgerowRegressor(n_estimators=2, random_state=0).fit(whole, y).predict(whole)
