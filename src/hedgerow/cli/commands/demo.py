"""``hedgerow demo``: the main task on real data, in seconds.

The command trains on the Pima diabetes table in the package, compares the result with a single
tree and with the majority class, and writes the model and its first tree.
"""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hedgerow.cli.reading.inputs import add_output
from hedgerow.cli.usage import UsageError, say

N_TEST = 153
_SETTINGS = {
    "n_estimators": 100,
    "learning_rate": 0.05,
    "max_leaves": 8,
    "min_samples_leaf": 10,
    "early_stopping": False,
    "random_state": 0,
}
_SINGLE_TREE = {**_SETTINGS, "n_estimators": 1, "learning_rate": 1.0}


def add_command(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "demo",
        help="train on an included data set and show the result",
        description="Train on the included Pima diabetes data, compare the scores with a single "
        "tree and the base rate, and write the model and its first tree.",
    )
    add_output(
        parser,
        "folder for the model and the tree (default: %(default)s)",
        default="hedgerow-demo",
        metavar="DIR",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    import numpy as np

    from hedgerow.datasets import load_pima

    folder = _folder(options.out)
    pima = load_pima()
    order = np.random.default_rng(0).permutation(len(pima.y))
    train, test = order[:-N_TEST], order[-N_TEST:]
    say(
        f"Pima diabetes: {len(train)} women to train on, {N_TEST} to test, "
        f"{len(pima.feature_names)} measurements; measurements not taken are missing values.",
    )
    announce()
    start = time.perf_counter()
    data = (pima.X[train], pima.y[train], list(pima.feature_names))
    forest, tree = _fit(_SETTINGS, *data), _fit(_SINGLE_TREE, *data)
    say(
        f"Trained {_SETTINGS['n_estimators']} trees and a single tree "
        f"in {time.perf_counter() - start:.1f} s.\n"
    )
    share = float(pima.y[train].mean())
    rows = {
        "base rate": lambda X: np.full(len(X), share),
        "a single tree": lambda X: tree.booster_.predict(X, kind="probability")[:, 1],
        "hedgerow": lambda X: forest.booster_.predict(X, kind="probability")[:, 1],
    }
    written = _write(forest, folder)
    _print_scores(rows, (pima.X[train], pima.y[train]), (pima.X[test], pima.y[test]))
    say("\nWritten:")
    for path in written:
        say(f"  {path}")
    say(f"Next: hedgerow inspect {written[0]}")


def _folder(path: str) -> Path:
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UsageError(f"--out {path}: a file has this name; name a folder") from error
    return folder


def announce() -> None:
    """Tell the user if the first use takes a while."""
    from hedgerow.compile import library

    if not library.is_usable():
        say("First use on this machine: compiling the kernels ...")


def _fit(settings: dict[str, Any], X: Any, y: Any, names: list[str]) -> Any:
    from hedgerow.cli import engine

    columns = dict(zip(names, X.T, strict=True))
    return engine.fit(engine.Job("classification", settings, columns, y))


def _print_scores(rows: dict[str, Any], train: Any, test: Any) -> None:
    say(f"{'':16}{'accuracy':^16}  {'logloss':^16}".rstrip())
    say(f"{'':16}" + "  ".join([f"{'train':>8}{'test':>8}"] * 2))
    for name, predict in rows.items():
        (right, loss), (test_right, test_loss) = (_scores(y, predict(X)) for X, y in (train, test))
        say(f"{name:16}{right:8.3f}{test_right:8.3f}  {loss:8.3f}{test_loss:8.3f}")


def _scores(y: Any, probability: Any) -> tuple[float, float]:
    """Return accuracy and mean logarithmic loss."""
    from sklearn.metrics import accuracy_score, log_loss

    return accuracy_score(y, probability > 0.5), log_loss(y, probability)


def _write(estimator: Any, folder: Path) -> list[Path]:
    """Write the model and its first tree; return the paths, the model first."""
    from hedgerow.atomic import write_atomically

    model = folder / "model.hedgerow"
    estimator.save(str(model))
    written = [model, folder / "tree.txt"]
    write_atomically(written[1], [f"{estimator.booster_.to_text(0)}\n".encode()])
    if find_spec("matplotlib") is not None:
        import matplotlib as mpl

        mpl.use("Agg")
        written.append(folder / "tree.png")
        estimator.booster_.plot_tree(0).figure.savefig(written[2], dpi=110, bbox_inches="tight")
    return written
