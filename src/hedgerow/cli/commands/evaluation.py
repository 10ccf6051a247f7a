"""``hedgerow evaluate MODEL DATA --target COL``: scores of a model on tables with targets."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hedgerow.cli.reading import inputs
from hedgerow.cli.usage import UsageError, say

if TYPE_CHECKING:
    from hedgerow.data.sources import Part

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
    inputs.add_model_and_tables(parser, "with targets")
    inputs.add_column(
        parser,
        "--target",
        "column with the targets (LibSVM files contain them); may be repeated for several",
        action="append",
    )
    parser.add_argument(
        "--metric",
        action="append",
        metavar="NAME",
        help="metric to print, by its name in docs/metrics.md; may be repeated",
    )
    inputs.add_column(parser, "--weight", "column with the weights of the rows")
    inputs.add_column(parser, "--qid", "for rankings: column with the queries")
    parser.add_argument("--json", action="store_true", help="as JSON")
    inputs.add_input_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    with inputs.readable(options, "data"):
        _evaluate(options)


def _evaluate(options: argparse.Namespace) -> None:
    import json

    from hedgerow.cli import engine
    from hedgerow.cli.reading.way import choose_way
    from hedgerow.data.sources import open_parts

    booster = engine.open_model(options.model).booster
    task = engine.task_of_booster(booster)
    if task == "ranking" and options.qid is None:
        raise UsageError(
            "the model is a ranking model: name the column with the queries (--qid COL)"
        )
    if task != "ranking" and options.qid is not None:
        raise UsageError("--qid is for ranking models: leave it out")
    way = choose_way(options.data, None)
    parts = open_parts(options.data, types_known=True)
    if parts[0].column_names() is not None and options.target is None:
        raise UsageError("--target COL is needed: the column with the targets")
    if way.in_memory:
        rows = _rows_in_memory(options, booster, parts)
    else:
        rows = _rows_in_files(options, booster, way.limit)
    usual = ["loss"] if booster.target_names is not None else _USUAL.get(task, ["loss"])
    scores = booster.eval(rows, options.metric or usual)
    if options.json:
        say(json.dumps(scores, indent=2))
        return
    for name, score in scores.items():
        say(f"{name}: {score:.6g}")


def _rows_in_memory(options: argparse.Namespace, booster: Any, parts: Sequence[Part]) -> Any:
    from hedgerow.boosting.row_data.dataset import Dataset
    from hedgerow.cli import engine
    from hedgerow.cli.reading import features, tables

    known = parts[0].column_names()
    if known is None:
        X, sparse_y = tables.read_sparse(parts)
        if X.shape[1] < booster.num_features:
            X.resize((X.shape[0], booster.num_features))
        return Dataset(X, sparse_y)
    aside = [each for each in (*options.target, options.weight, options.qid) if each is not None]
    names = engine.columns_for(booster, known, aside)
    text = engine.text_columns(booster, options.target)
    table = tables.read_parts(parts, [*names, *aside], text)
    columns = table.features(names)
    y = features.targets(table, options.target)
    task = "regression" if booster.classes is None else "classification"
    return Dataset(
        columns if set(booster.feature_names) <= set(names) else features.matrix_of(columns),
        features.as_targets(y, task, table.path, options.target[0]),
        None if options.weight is None else table.weights(options.weight),
        qid=None if options.qid is None else table.role(options.qid),
    )


def _rows_in_files(options: argparse.Namespace, booster: Any, limit: int) -> Any:
    from hedgerow.boosting.external.dataset.from_files import from_files
    from hedgerow.data.sources.base import make_roles

    if options.qid is not None:
        raise UsageError("--qid needs all rows in memory, but these do not fit: give fewer rows")
    known = booster.model.schema.named and options.target is not None
    roles = make_roles(
        options.target,
        (),
        booster.feature_names if known else None,
        {"weight": options.weight, "offset": booster.offset_columns or None},
    )
    return from_files(options.data, roles, memory_limit=limit, types_known=True)
