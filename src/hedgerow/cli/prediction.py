"""``hedgerow predict MODEL DATA -o OUT``: predictions as a table."""

from __future__ import annotations

import argparse
from typing import Any


def add_command(commands: Any) -> None:
    """Describe the command to the parser."""
    parser = commands.add_parser(
        "predict",
        help="predict the rows of a table",
        description="Predict every row of a table with a model that `hedgerow train` wrote.",
        epilog="Columns are found by name; columns that the model does not know are ignored.",
    )
    parser.add_argument("model", metavar="MODEL", help="model file")
    parser.add_argument("data", metavar="DATA", help="table to predict (.csv, .parquet, ...)")
    parser.add_argument(
        "-o", "--out", required=True, metavar="OUT", help="table to write (.csv, .tsv, .parquet)"
    )
    parser.add_argument(
        "--kind",
        choices=("value", "probability", "raw", "leaf"),
        default="value",
        help="value: the predicted value, or the class and the probability of each (default); "
        "raw: sum of the trees; leaf: where the row ends in each tree",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Carry out the command."""
    from hedgerow.cli import engine, features, tables
    from hedgerow.cli.usage import UsageError

    tables.check_table_output(options.out)
    if options.out in (options.model, options.data):
        raise UsageError(f"-o {options.out} would replace an input; name another file")
    model = engine.open_model(options.model)
    table = tables.read_table(options.data, engine.text_columns(model.booster))
    X = features.feature_columns(table, model.booster.feature_names)
    predictions = engine.prediction_columns(model, X, options.kind)
    tables.write_table(options.out, predictions)
    print(f"{table.n_rows} predictions written to {options.out}")
    for name, count in model.booster.unseen_categories.items():
        print(f"column {name!r}: {count} row(s) with a category that no training row had")
