"""``hedgerow train DATA --target COL``: fit a model and write it to a file."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

from hedgerow.cli.usage import UsageError


def add_command(commands: Any) -> None:
    """Describe the command to the parser."""
    parser = commands.add_parser(
        "train",
        help="train a model on a table",
        description="Train a model on the columns of a CSV, Parquet or Feather file.",
        epilog="Example: hedgerow train people.csv --target income --set max_leaves=15",
    )
    parser.add_argument("data", metavar="DATA", help="table to train on (.csv, .parquet, ...)")
    parser.add_argument("--target", required=True, metavar="COL", help="column to predict")
    parser.add_argument(
        "--model",
        default="model.hedgerow",
        metavar="FILE",
        help="model file to write (default: %(default)s)",
    )
    parser.add_argument(
        "--task",
        choices=("auto", "classification", "regression"),
        default="auto",
        help="auto: classes if the target is text or at most 10 distinct whole numbers",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of HedgerowClassifier or HedgerowRegressor; may be repeated",
    )
    parser.add_argument("--valid", metavar="FILE", help="table for early stopping and its score")
    parser.add_argument(
        "--drop", action="append", default=[], metavar="COL", help="column to leave out"
    )
    parser.add_argument("--weight", metavar="COL", help="column with the weights of the rows")
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="keep finished rounds in this folder: the same command goes on where it was stopped",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Carry out the command."""
    from hedgerow.cli import engine, features, tables
    from hedgerow.cli.settings import parse_settings

    tables.check_output(options.model)
    if options.model in (options.data, options.valid):
        raise UsageError(f"--model {options.model} is the table itself; name another file")
    table = tables.read_table(options.data)
    y = features.target(table, options.target)
    task, why = options.task, "as asked"
    if task == "auto":
        task, why = features.guess_task(y)
    settings = parse_settings(options.set, engine.estimator_class(task))
    aside = [options.target, *options.drop, *([options.weight] if options.weight else [])]
    names = list(table.without(aside).columns)
    if not names:
        raise UsageError(f"{options.data}: no column is left to predict from")
    X = features.feature_columns(table, names)
    job = engine.Job(
        task,
        settings,
        X,
        features.class_labels(y, task, options.data, options.target),
        weight=None if options.weight is None else features.weights(table, options.weight),
        valid=_validation(options, task, X),
        checkpoint=options.checkpoint,
    )
    print(f"{task} ({why}): {table.n_rows} rows, {len(names)} columns", flush=True)
    start = time.perf_counter()
    estimator = engine.fit(job)
    trees = estimator.booster_.num_trees
    print(f"trained {trees} trees in {time.perf_counter() - start:.2f} s")
    for line in engine.score_lines(estimator):
        print(line)
    estimator.save(options.model)
    print(f"model written to {options.model}")


def _validation(options: argparse.Namespace, task: str, X: Mapping[str, Any]) -> Any:
    """Features and target of the validation table, or None."""
    from hedgerow.cli import features, tables

    if options.valid is None:
        return None
    table = tables.read_table(options.valid, features.text_columns(X))
    y = features.target(table, options.target)
    return (
        features.feature_columns(table, list(X)),
        features.class_labels(y, task, options.valid, options.target),
    )
