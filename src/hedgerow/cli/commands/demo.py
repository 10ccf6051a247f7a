"""``hedgerow demo`` and ``hedgerow ladder``: boosting beside simpler methods, on test rows.

The demo trains on the Pima diabetes table in the package, compares the result with a single
tree and with the majority class, and writes the model and its first tree.  The ladder trains every
step of the family on the same rows.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hedgerow.cli import inputs
from hedgerow.cli.usage import UsageError, has_output, say
from hedgerow.errors import printable

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


def add_demo(commands: Any) -> None:
    """Add ``demo`` to the parser."""
    parser = commands.add_parser(
        "demo",
        help="train on an included data set and show the result",
        description="Train on the included Pima diabetes data, compare the scores with a single "
        "tree and the base rate, and write the model and its first tree.",
    )
    inputs.add_output(
        parser,
        "folder for the model and the tree (default: %(default)s)",
        default="hedgerow-demo",
        metavar="DIR",
    )
    parser.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> None:
    import numpy as np
    from sklearn.metrics import accuracy_score, log_loss

    from hedgerow.cli import engine
    from hedgerow.datasets import load_pima

    folder = Path(options.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UsageError(f"--out {folder}: a file has this name; name a folder") from error
    pima = load_pima()
    order = np.random.default_rng(0).permutation(len(pima.y))
    train, test = order[:-N_TEST], order[-N_TEST:]
    say(
        f"Pima diabetes: {len(train)} women to train on, {N_TEST} to test, "
        f"{len(pima.feature_names)} measurements; measurements not taken are missing values."
    )
    _announce_compilation()
    start = time.perf_counter()
    columns = dict(zip(pima.feature_names, pima.X[train].T, strict=True))
    forest, tree = (
        engine.fit("classification", settings, columns, pima.y[train])
        for settings in (_SETTINGS, _SINGLE_TREE)
    )
    say(
        f"Trained {_SETTINGS['n_estimators']} trees and a single tree "
        f"in {time.perf_counter() - start:.1f} s.\n"
    )
    written = _write(forest, folder)
    say(f"{'':16}{'accuracy':^16}  {'logloss':^16}".rstrip())
    say(f"{'':16}" + "  ".join([f"{'train':>8}{'test':>8}"] * 2))
    share = pima.y[train].mean()
    for name, model in (("base rate", None), ("a single tree", tree), ("hedgerow", forest)):
        chances = [
            np.full(len(rows), share)
            if model is None
            else model.booster_.predict(pima.X[rows], kind="probability")[:, 1]
            for rows in (train, test)
        ]
        known = [pima.y[train], pima.y[test]]
        right = [accuracy_score(y, p > 0.5) for y, p in zip(known, chances, strict=True)]
        loss = [log_loss(y, p) for y, p in zip(known, chances, strict=True)]
        say(f"{name:16}{right[0]:8.3f}{right[1]:8.3f}  {loss[0]:8.3f}{loss[1]:8.3f}")
    say("\nWritten:")
    for path in written:
        say(f"  {path}")
    say(f"Next: hedgerow inspect {written[0]}")


def _announce_compilation() -> None:
    """Tell the user if the first use takes a while."""
    from hedgerow.compile import library

    if not library.is_usable():
        say("First use on this machine: compiling the kernels (hedgerow warmup does so in advance)")


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


def add_ladder(commands: Any) -> None:
    """Add ``ladder`` to the parser."""
    parser = commands.add_parser(
        "ladder",
        help="compare all methods, from one tree to leaf-wise boosting",
        description="Train every step of the ladder on the same rows and print the scores on "
        "other rows. Without DATA: the included Pima diabetes table.",
        epilog="Example: hedgerow ladder people.csv --target income --report ladder.html",
    )
    parser.add_argument(
        "data",
        nargs="?",
        metavar="DATA",
        help="table (.csv, .parquet, ...), or - for standard input",
    )
    inputs.add_column(parser, "--target", "column to predict")
    inputs.add_task_option(parser)
    parser.add_argument(
        "--test",
        type=float,
        default=0.2,
        metavar="SHARE",
        help="share of the test rows (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed for the test rows (default: %(default)s)"
    )
    parser.add_argument("--report", metavar="FILE", help="also write a page (.html)")
    inputs.add_drop(parser)
    inputs.add_input_options(parser)
    parser.set_defaults(run=_check_and_climb)


def _check_and_climb(options: argparse.Namespace) -> None:
    if (options.data is None) != (options.target is None):
        raise UsageError("give both DATA and --target, or neither for the Pima table")
    if options.report is not None:
        inputs.check_page("--report", options.report, options.data)
    inputs.reading(_climb, "data")(options)


def _climb(options: argparse.Namespace) -> None:
    from hedgerow.report.ladder import climb, ladder_header, ladder_row

    title, split = _read(options)
    say(
        f"{title}: {split.task}, {len(split.y_train)} rows to train on, {len(split.y_test)} to "
        f"test, {len(split.feature_names)} columns."
    )
    _announce_compilation()
    say(ladder_header(split.task))
    results = []
    for result in climb(split):
        results.append(result)
        say(ladder_row(result))
        if options.report is None and not has_output():
            return
    if options.report is not None:
        from hedgerow.atomic import write_atomically
        from hedgerow.report import ladder_page

        page = ladder_page(results, split, title)
        write_atomically(options.report, [page.encode()])
        say(f"\nreport written to {options.report}")


def _read(options: argparse.Namespace) -> tuple[str, Any]:
    """Return the title of the table and its split."""
    import numpy as np

    from hedgerow.boosting.external.file_dataset import FileDataset
    from hedgerow.boosting.row_data.classes import CodedLabels
    from hedgerow.cli import tables
    from hedgerow.data.reading.columns import floats_of
    from hedgerow.data.sources.base import make_roles
    from hedgerow.data.sources.opening import open_files
    from hedgerow.data.sparse import SparseTable
    from hedgerow.datasets import load_pima
    from hedgerow.report import split_table

    if options.data is None:
        pima = load_pima()
        names = list(pima.feature_names)
        return "Pima diabetes", split_table(
            pima.X, pima.y, "classification", names, options.test, options.seed
        )
    source = open_files([options.data], make_roles([options.target], options.drop))
    data, target, task = FileDataset(source), options.target, options.task
    with tables.surveyed(data) as rows:
        if task == "auto":
            task = tables.guess_task(rows, source.name, target)[0]
        tables.check_target(rows, task, source.name, target)
    why = "Every step trains on all rows at once."
    with tables.surveyed(data, has_labels=task == "classification", why=why) as rows:
        y, table = rows.y, rows.table()
    if isinstance(table, SparseTable):
        raise UsageError(f"{source.name}: LibSVM files have no names of columns; give a table")
    if isinstance(y, CodedLabels):
        y = y.values[y.places]
    X, columns = floats_of(table.values, table.schema.kinds), table.schema.columns
    split = split_table(np.arange(len(y)), y, task, table.schema.names, options.test, options.seed)
    train, test = split.X_train, split.X_test
    categories = [j for j, column in enumerate(columns) if column.kind == "category"]
    for j in categories:
        X[:, j] = _mean_targets(X[:, j], y, train, task)
    if categories:
        say(
            f"{len(categories)} text column(s): levels are ordered by the mean target of their "
            "training rows, so that every step can split them"
        )
    return printable(Path(options.data).name), replace(split, X_train=X[train], X_test=X[test])


def _mean_targets(codes: Any, y: Any, train: Any, task: str) -> Any:
    """Return the mean target of the training rows of each category; NaN for unknown and missing."""
    import numpy as np

    known = y[train]
    if task == "regression":
        target = known
    else:
        labels, counts = np.unique(known, return_counts=True)
        target = (known == labels[counts.argmax()]).astype(np.float64)
    levels, place = np.unique(codes[train], return_inverse=True)  # NaN is the last
    means = np.bincount(place, target) / np.bincount(place)
    at = np.searchsorted(levels, codes).clip(max=len(levels) - 1)
    return np.where(levels[at] == codes, means[at], np.nan)
