"""``hedgerow predict MODEL DATA -o OUT``: predictions as a table, for files of any size."""

from __future__ import annotations

import argparse
from typing import Any

from hedgerow.cli.reading import inputs
from hedgerow.cli.usage import has_output, shows_progress


def add_command(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "predict",
        help="predict the rows of tables",
        description="Predict every row of tables with a model written by `hedgerow train`. The "
        "command works in batches, so tables may be larger than memory.",
        epilog="Columns are found by name; columns that the model does not use are ignored.",
    )
    inputs.add_model_and_tables(parser, "to predict")
    inputs.add_output(
        parser,
        "table to write (.csv, .tsv, .parquet, .arrow), or - for CSV on standard output",
        required=True,
    )
    parser.add_argument(
        "--kind",
        choices=("value", "probability", "raw", "leaf"),
        default="value",
        help="value: the predicted value, or the class and the probability of each (default); "
        "raw: sum of the trees; leaf: the row's leaf in each tree",
    )
    inputs.add_batches(parser, "65536")
    inputs.add_input_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from hedgerow.io.table_files import check_output

    if options.out != inputs.STANDARD:
        check_output(options.out)
        inputs.check_not_input("-o", options.out, options.model, *options.data)
    with inputs.readable(options, "data"):
        with inputs.writable(options.out) as path:
            lines = _predict(options, path)
        for line in lines if has_output() else []:
            inputs.announce(line, options.out)


def _predict(options: argparse.Namespace, path: str) -> list[str]:
    """Write the table; return the lines to print."""
    from hedgerow.argument_types import BATCH_ROWS
    from hedgerow.cli import engine
    from hedgerow.io.file_predictions import write_predictions

    model = engine.open_model(options.model)
    n_rows = write_predictions(
        model.booster.model,
        options.data,
        path,
        lambda X: engine.prediction_columns(model, X, options.kind),
        batch_rows=BATCH_ROWS if options.batch_rows is None else options.batch_rows,
        columns=options.columns.split(",") if options.columns else (),
        progress=shows_progress(),
    )
    out = "standard output" if options.out == inputs.STANDARD else options.out
    unseen = [
        f"column {name!r}: {count} row(s) with a category that no training row had"
        for name, count in model.booster.unseen_categories.items()
    ]
    return [f"{n_rows} predictions written to {out}", *unseen]
