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
    _compile_numbers()
    _compile_categories()
    _compile_sparse()
    _compile_few_bins()
    _compile_chosen()


def _compile_numbers() -> None:
    """Floats of both widths and whole numbers, one output and several."""
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


def _compile_categories() -> None:
    """Sets of categories, and statistics of the target for columns of many levels."""
    import numpy as np

    import hedgerow

    rng = np.random.default_rng(0)
    columns = {"few": rng.integers(0, 5, 2000), "many": rng.integers(0, 600, 2000)}
    texts = {name: [f"level {code}" for code in codes] for name, codes in columns.items()}
    frame = [dict(zip(texts, row, strict=True)) for row in zip(*texts.values(), strict=True)]
    y = columns["few"] + columns["many"] % 7 + rng.standard_normal(2000)
    hedgerow.HedgerowRegressor(n_estimators=2, random_state=0).fit(frame, y).predict(frame)
    labels = y > np.median(y)
    classifier = hedgerow.HedgerowClassifier(n_estimators=2, random_state=0)
    classifier.fit(frame, labels).predict_proba(frame)


def _compile_sparse() -> None:
    """Sparse rows, whose features share columns, and bounds on the leaves."""
    import numpy as np
    from scipy.sparse import random_array

    import hedgerow

    rng = np.random.default_rng(0)
    X = random_array((2000, 200), density=0.01, format="csr", rng=rng)
    y = np.asarray(X.sum(axis=1)).ravel()
    hedgerow.HedgerowRegressor(n_estimators=2, random_state=0).fit(X, y).predict(X)
    rows = rng.standard_normal((200, 2))
    bounded = hedgerow.HedgerowRegressor(
        n_estimators=2, random_state=0, monotone_constraints=[1, 0]
    )
    bounded.fit(rows, rows[:, 0])


def _compile_few_bins() -> None:
    """Two features a byte, which large tables of at most 15 bins use."""
    import numpy as np

    import hedgerow
    from hedgerow.data.pairs import FEWEST_ROWS

    X = np.random.default_rng(0).standard_normal((FEWEST_ROWS, 2))
    for trees in ("leafwise", "symmetric"):
        few = hedgerow.HedgerowRegressor(
            n_estimators=2, max_bins=15, grow_policy=trees, random_state=0
        )
        few.fit(X, X[:, 0])


def _compile_chosen() -> None:
    """What automatic defaults take: folds, lines, symmetric trees, one tree for many classes."""
    import numpy as np

    import hedgerow

    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = X[:, 0] + rng.standard_normal(200)
    lines = hedgerow.HedgerowRegressor(random_state=0).fit(X, y)
    for rows in (X, X.astype(np.float32)):
        lines.predict(rows)
        lines.predict(rows[:1])
    hedgerow.HedgerowClassifier(random_state=0).fit(X, y > 0.0)
    with_text = [{"x": x, "town": f"town {x > 0.0}"} for x in X[:, 0].tolist()]
    classes = np.arange(200) % 9
    for table in (X, with_text):
        symmetric = hedgerow.HedgerowRegressor(n_estimators=2, grow_policy="symmetric")
        symmetric.fit(table, y)
        shared = hedgerow.HedgerowClassifier(n_estimators=2, multi_strategy="multi_output_tree")
        shared.fit(table, classes)
