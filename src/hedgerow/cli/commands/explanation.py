"""``hedgerow explain MODEL DATA -o OUT``: Shapley values as a table, for files of any size."""

from __future__ import annotations

import argparse
from typing import Any

from hedgerow.cli.reading import inputs
from hedgerow.cli.usage import utf8

BATCH_BYTES = 1 << 27
"""Bytes of values in memory at a time, unless ``--batch-rows`` sets the number of rows."""


def add_command(commands: Any) -> None:
    """Add the command to the parser."""
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
    inputs.add_model_and_tables(parser, "to explain")
    inputs.add_output(parser, "table to write (.csv, .tsv, .parquet, .arrow)", required=True)
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
    inputs.add_batches(parser, "as many as fit in 128 MB, 65536 at most")
    inputs.add_input_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from hedgerow.io.table_files import check_output

    check_output(options.out)
    inputs.check_not_input("-o", options.out, options.model, options.background, *options.data)
    with inputs.readable(options, "data", "background"):
        _explain(options)


def _explain(options: argparse.Namespace) -> None:
    from hedgerow.cli import engine
    from hedgerow.cli.usage import say, shows_progress
    from hedgerow.io.file_predictions import columns_of, write_predictions

    booster = engine.open_model(options.model).booster
    outputs = read_outputs(options.outputs, booster.output_names)
    n_rows = options.batch_rows
    if n_rows is None:
        n_rows = rows_of_batch(booster, outputs, options.interactions)
    background = None
    if options.background is not None:
        background = engine.read_rows(options.background, columns_of(booster.model))

    def explain(X: Any) -> Any:
        found = booster.explain(
            X, background=background, interactions=options.interactions, outputs=outputs
        )
        return found.columns("shap_")

    total = write_predictions(
        booster.model,
        options.data,
        options.out,
        explain,
        batch_rows=n_rows,
        columns=options.columns.split(",") if options.columns else (),
        progress=shows_progress(),
    )
    say(f"{total} explanations written to {options.out}")
    for name, count in booster.unseen_categories.items():
        say(f"column {name!r}: {count} row(s) with a category that no training row had")


def read_outputs(text: str | None, names: tuple[str, ...]) -> list[int | str] | None:
    """Return the names and numbers of ``--outputs``; a text that is not a name may be a number."""
    if not text:
        return None
    parts = text.split(",")
    return [int(part) if part not in names and part.isdecimal() else part for part in parts]


def rows_of_batch(booster: Any, outputs: list[int | str] | None, interactions: bool) -> int:
    """Return the number of rows whose values take ``BATCH_BYTES``."""
    from hedgerow.argument_types import BATCH_ROWS

    columns = booster.num_features ** (2 if interactions else 1)
    n_outputs = booster.model.forest.n_outputs if outputs is None else len(outputs)
    return int(min(BATCH_ROWS, max(1, BATCH_BYTES // (8 * columns * n_outputs))))
