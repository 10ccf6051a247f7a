"""``hedgerow predict`` and ``hedgerow explain``: results for the rows of tables, as a table.

Rows are read, computed and written in batches, so tables may be larger than memory.
"""

from __future__ import annotations

import argparse
from typing import Any

from hedgerow.cli import inputs
from hedgerow.cli.usage import has_output, remark, say, shows_progress, utf8

BATCH_BYTES = 1 << 27
"""Bytes of contributions in memory at a time, unless ``--batch-rows`` sets the number of rows."""


def add_predict(commands: Any) -> None:
    """Add ``predict`` to the parser."""
    parser = commands.add_parser(
        "predict",
        help="predict the rows of tables",
        description="Predict every row of tables with a model written by `hedgerow train`. The "
        "command works in batches, so tables may be larger than memory.",
        epilog="Columns are found by name; columns that the model does not use are ignored.",
    )
    _add_files(parser, "to predict", "65536")
    parser.add_argument(
        "--kind",
        choices=("value", "probability", "raw", "leaf"),
        default="value",
        help="value: the predicted value, or the class and the probability of each (default); "
        "raw: sum of the trees; leaf: the row's leaf in each tree",
    )
    parser.set_defaults(run=lambda options: _run(options, "predictions", _predictions))


def add_explain(commands: Any) -> None:
    """Add ``explain`` to the parser."""
    parser = commands.add_parser(
        "explain",
        help="write the contribution of each column to each prediction",
        description="Write the contribution of each column to the raw score of every row "
        "(Shapley values). The command works in batches, so tables may "
        "be larger than memory.",
        epilog="The table has a column shap_NAME for each column of the model and base_value; "
        "their sum is the raw score. A model with several raw scores has a set of columns "
        "for each, with |SCORE at the end of their names. For two classes the raw score is the "
        "log-odds of the second class.",
    )
    _add_files(parser, "to explain", "as many as fit in 128 MB, 65536 at most")
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--background",
        metavar="DATA",
        help="a table whose rows replace unknown columns (default: the training "
        "rows that reached each node)",
    )
    either.add_argument(
        "--interactions",
        action="store_true",
        help="also write values of pairs of columns, each pair once; not with --background",
    )
    parser.add_argument(
        "--outputs",
        type=utf8,
        metavar="NAMES",
        help="raw scores to explain, by name or number, separated by commas (default: all)",
    )
    parser.set_defaults(run=lambda options: _run(options, "explanations", _explanations))


def _add_files(parser: Any, purpose: str, batch_rows: str) -> None:
    """Add the model, its tables, and the table to write."""
    inputs.add_model_and_tables(parser, purpose)
    inputs.add_output(
        parser,
        "table to write (.csv, .tsv, .parquet, .arrow), or - for CSV on standard output",
        required=True,
    )
    parser.add_argument(
        "--columns",
        type=utf8,
        metavar="COLS",
        help="columns of the tables to copy to the output, separated by commas",
    )
    parser.add_argument(
        "--batch-rows",
        type=int,
        metavar="N",
        help=f"rows in memory at a time (default: {batch_rows})",
    )
    parser.set_defaults(background=None)
    inputs.add_input_options(parser)


def _run(options: argparse.Namespace, what: str, prepare: Any) -> None:
    """Write the table of a command, and print what was written."""
    from hedgerow.cli import engine
    from hedgerow.io.file_predictions import check_output, write_predictions

    if options.out != inputs.STANDARD:
        check_output(options.out)
        inputs.check_not_input("-o", options.out, options.model, options.background, *options.data)
    with inputs.readable(options, "data", "background"):
        with inputs.writable(options.out) as path:
            model = engine.open_model(options.model)
            columns_of, batch_rows = prepare(options, model)
            n_rows = write_predictions(
                model.booster.model,
                options.data,
                path,
                columns_of,
                batch_rows=batch_rows if options.batch_rows is None else options.batch_rows,
                columns=options.columns.split(",") if options.columns else (),
                progress=shows_progress(),
            )
        if not has_output():
            return
        # Standard output may be for the table.
        tell, out = say, options.out
        if out == inputs.STANDARD:
            tell, out = remark, "standard output"
        tell(f"{n_rows} {what} written to {out}")
        for name, count in model.booster.unseen_categories.items():
            tell(f"column {name!r}: {count} row(s) with a category that no training row had")


def _predictions(options: argparse.Namespace, model: Any) -> tuple[Any, int]:
    """Return what computes the columns of a batch, and the rows of a batch."""
    from hedgerow.argument_types import BATCH_ROWS
    from hedgerow.cli.engine import prediction_columns

    return lambda X: prediction_columns(model, X, options.kind), BATCH_ROWS


def _explanations(options: argparse.Namespace, model: Any) -> tuple[Any, int]:
    """Return what computes the columns of a batch, and the rows whose values fit into memory."""
    from hedgerow.argument_types import BATCH_ROWS
    from hedgerow.cli.engine import read_rows
    from hedgerow.io.file_predictions import columns_of

    booster = model.booster
    background = None
    if options.background is not None:
        background, _ = read_rows(options.background, columns_of(booster.model))
    outputs: list[int | str] | None = None
    if options.outputs:  # a text that is not a name may be a number
        names = booster.output_names
        outputs = [
            int(part) if part not in names and part.isdecimal() else part
            for part in options.outputs.split(",")
        ]

    def explain(X: Any) -> Any:
        found = booster.explain(
            X, background=background, interactions=options.interactions, outputs=outputs
        )
        return found.columns("shap_")

    n_columns = booster.num_features ** (2 if options.interactions else 1)
    n_outputs = booster.model.forest.n_outputs if outputs is None else len(outputs)
    n_rows = BATCH_BYTES // (8 * n_columns * n_outputs)
    return explain, min(BATCH_ROWS, max(1, n_rows))
