"""``hedgerow evaluate MODEL DATA --target COL``: scores of a model on tables with targets."""

from __future__ import annotations

import argparse
from typing import Any

from hedgerow.cli.reading.inputs import add_input_options, readable
from hedgerow.cli.usage import UsageError, say, utf8

_USUAL = {
    "two classes": ["accuracy", "loss", "auc"],
    "classes": ["accuracy", "loss"],
    "regression": ["rmse", "mae", "r2"],
    "survival": ["loss", "concordance"],
    "ranking": ["ndcg", "ndcg@10"],
}


def add_command(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "evaluate",
        help="score a model on tables with targets",
        description="Score a model written by `hedgerow train` on tables with known targets.",
        epilog="Example: hedgerow evaluate model.hedgerow test.csv --target income --metric rmse",
    )
    parser.add_argument("model", metavar="MODEL", help="model file")
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="+",
        help="tables with targets (.csv, .parquet, .arrow, .libsvm, ...), folders of tables, or - "
        "for standard input",
    )
    parser.add_argument(
        "--target",
        action="append",
        type=utf8,
        metavar="COL",
        help="column with the targets (LibSVM files contain them); may be repeated for several",
    )
    parser.add_argument(
        "--metric",
        action="append",
        metavar="NAME",
        help="metric to print, by its name in docs/metrics.md; may be repeated",
    )
    parser.add_argument(
        "--weight", type=utf8, metavar="COL", help="column with the weights of the rows"
    )
    parser.add_argument(
        "--qid", type=utf8, metavar="COL", help="for rankings: column with the queries"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_input_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    with readable(options, "data"):
        _evaluate(options)


def _evaluate(options: argparse.Namespace) -> None:
    import json

    from hedgerow.cli import engine
    from hedgerow.cli.reading import batches

    model = engine.open_model(options.model)
    booster = model.booster
    way = batches.choose_way(options.data, None)
    task = engine.task_of_booster(booster)
    is_ranking = task == "ranking"
    if is_ranking and options.qid is None:
        raise UsageError(
            "the model is a ranking model: name the column with the queries (--qid COL)"
        )
    if not is_ranking and options.qid is not None:
        raise UsageError("--qid is for ranking models: leave it out")
    rows: Any = (
        _rows_in_memory(options, booster)
        if way.in_memory
        else _rows_in_files(options, booster, way)
    )
    usual = ["loss"] if booster.target_names is not None else _USUAL.get(task, ["loss"])
    scores = booster.eval(rows, options.metric or usual)
    if options.json:
        say(json.dumps(scores, indent=2))
        return
    for name, score in scores.items():
        say(f"{name}: {score:.6g}")


def _rows_in_memory(options: argparse.Namespace, booster: Any) -> Any:
    from hedgerow.boosting.row_data.dataset import Dataset
    from hedgerow.cli import engine
    from hedgerow.cli.reading import batches, features, tables

    path = batches.single_table(options.data)
    text = engine.text_columns(booster, options.target)
    if path is not None:
        table: Any = tables.read_table(path, text)
    else:
        table = batches.read_tables(options.data, _roles(options, booster), text)
    if isinstance(table, tuple):
        X, y = table
        if X.shape[1] < booster.num_features:
            X.resize((X.shape[0], booster.num_features))
        return Dataset(X, y)
    if options.target is None:
        raise UsageError("--target COL is needed: the column with the targets")
    y = features.targets(table, options.target)
    task = "regression" if booster.classes is None else "classification"
    names = [*booster.feature_names, *booster.offset_columns]
    if not booster.model.schema.named and not set(names) <= set(table.columns):
        aside = {*options.target, options.weight, options.qid}
        names = [name for name in table.columns if name not in aside]
        X = features.matrix_of(features.feature_columns(table, names))
    else:
        X = features.feature_columns(table, names)
    return Dataset(
        X,
        features.as_targets(y, task, options.data[0], options.target[0]),
        None if options.weight is None else features.weights(table, options.weight),
        qid=None if options.qid is None else table.column(options.qid),
    )


def _rows_in_files(options: argparse.Namespace, booster: Any, way: Any) -> Any:
    from hedgerow.cli.reading import batches

    if options.qid is not None:
        raise UsageError("--qid needs all rows in memory, but these do not fit: give fewer rows")
    return batches.open_dataset(options.data, _roles(options, booster), way, None)


def _roles(options: argparse.Namespace, booster: Any) -> Any:
    """Return the roles of columns; those that the model does not use are not read."""
    from hedgerow.data.sources.base import make_roles

    known = booster.model.schema.named and options.target is not None
    return make_roles(
        options.target,
        options.weight,
        booster.offset_columns or None,
        (),
        booster.feature_names if known else None,
        options.qid,
    )
