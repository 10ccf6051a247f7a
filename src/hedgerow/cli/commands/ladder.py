"""``hedgerow ladder DATA --target COL``: every step of the family on the same split."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hedgerow.cli.reading import inputs
from hedgerow.cli.usage import UsageError, has_output, say
from hedgerow.errors import printable

if TYPE_CHECKING:
    from hedgerow.report import Split


def add_command(commands: Any) -> None:
    """Add the command to the parser."""
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
    inputs.add_column(
        parser,
        "--target",
        "column to predict; may be repeated for several targets, which are numbers",
        action="append",
    )
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
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    _check(options)
    with inputs.readable(options, "data"):
        _climb(options)


def _climb(options: argparse.Namespace) -> None:
    from hedgerow.report.ladder import climb, ladder_header, ladder_row

    title, split = _read(options)
    say(
        f"{title}: {split.task}, {len(split.y_train)} rows to train on, {len(split.y_test)} to "
        f"test, {len(split.feature_names)} columns.",
    )
    _compile_first(split)
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


def _check(options: argparse.Namespace) -> None:
    """Check all options before the work begins."""
    if (options.data is None) != (options.target is None):
        raise UsageError("give both DATA and --target, or neither for the Pima table")
    inputs.check_targets(options.target)
    if len(options.target or ()) > 1 and options.task == "classification":
        raise UsageError("the ladder has one target for --task classification: name one column")
    if options.report is not None:
        inputs.check_page("--report", options.report, options.data)


def _read(options: argparse.Namespace) -> tuple[str, Any]:
    """Return the title of the table and its split."""
    import numpy as np

    from hedgerow.cli.reading import features, tables
    from hedgerow.data.sources import open_files
    from hedgerow.data.sources.base import make_roles
    from hedgerow.datasets import load_pima
    from hedgerow.report import split_table

    if options.data is None:
        pima = load_pima()
        names = list(pima.feature_names)
        return "Pima diabetes", split_table(
            pima.X, pima.y, "classification", names, options.test, options.seed
        )
    source = open_files(
        [options.data],
        make_roles(options.target, options.drop),
        types_known=True,
    )
    names = list(source.roles.features_of(tables.names_of(source.parts), source.name))
    table = tables.read_parts(source.parts, [*names, *options.target])
    y = features.targets(table, options.target)
    task = options.task
    if task == "auto":
        task = features.guess_task(y, options.data, options.target[0])[0]
    found = features.as_targets(y, task, options.data, options.target[0])
    labels = np.column_stack(list(found.values())) if isinstance(found, Mapping) else found
    rows = np.arange(len(labels))[:, None]
    split = split_table(rows, labels, task, names, options.test, options.seed)
    train, test = split.X_train[:, 0], split.X_test[:, 0]
    X, n_text = features.numbered_matrix(table, names, labels, train, task)
    if n_text:
        say(
            f"{n_text} text column(s): levels are ordered by the mean target of their training "
            "rows, so that every step can split them"
        )
    return printable(Path(options.data).name), replace(split, X_train=X[train], X_test=X[test])


def _compile_first(split: Split) -> None:
    """Compile the kernels that no build holds, so that the times contain only the work."""
    from hedgerow.cli.commands.demo import announce
    from hedgerow.compile import library
    from hedgerow.report import climb

    announce()
    if not library.is_usable():
        rows = _some_rows(split)
        X, y = split.X_train[rows], split.y_train[rows]
        for _ in climb(replace(split, X_train=X, y_train=y, X_test=X, y_test=y)):
            pass


def _some_rows(split: Split) -> Any:
    """Return a few rows of each class, which compile the kernels that all rows will use."""
    import numpy as np

    from hedgerow.arrays import distinct

    if split.task == "regression":
        return np.arange(min(len(split.y_train), 200))
    labels = distinct(split.y_train)
    return np.sort(np.concatenate([np.flatnonzero(split.y_train == k)[:60] for k in labels]))
