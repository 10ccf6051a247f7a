"""``hedgerow explain MODEL DATA -o OUT``: Shapley values as a table, of files of any size."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.arrays import AnyArray
    from hedgerow.explain import Explanation


def add_command(commands: Any) -> None:
    """Describe the command to the parser."""
    parser = commands.add_parser(
        "explain",
        help="say what each column adds to each prediction",
        description="Write what each column adds to the raw score of every row of tables "
        "(Shapley values). Rows are read, explained and written a batch at a time, so tables may "
        "be larger than memory.",
        epilog="The table has a column shap_NAME for each column of the model and base_value; "
        "together they are the raw score. A model with several raw scores has a set of columns "
        "for each, with its name at the end. Of two classes the raw score is the log-odds of the "
        "second.",
    )
    parser.add_argument("model", metavar="MODEL", help="model file")
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="+",
        help="tables to explain (.csv, .parquet, .arrow, .libsvm, ...), or folders of them",
    )
    parser.add_argument(
        "-o",
        "--out",
        required=True,
        metavar="OUT",
        help="table to write (.csv, .tsv, .parquet, .arrow)",
    )
    parser.add_argument(
        "--columns",
        metavar="COLS",
        help="columns of the tables to write beside the values, separated by commas",
    )
    parser.add_argument(
        "--outputs",
        metavar="NAMES",
        help="raw scores to explain, by name or number, separated by commas (default: all)",
    )
    parser.add_argument(
        "--batch-rows", type=int, metavar="N", help="rows in memory at a time (default: 16384)"
    )
    parser.set_defaults(run=run)


_BATCH_ROWS = 16_384


def run(options: argparse.Namespace) -> None:
    """Carry out the command."""
    from hedgerow.cli import engine
    from hedgerow.cli.usage import UsageError, say
    from hedgerow.io.file_predictions import make_job, write_predictions
    from hedgerow.io.table_files import check_output

    check_output(options.out)
    if options.out in (options.model, *options.data):
        raise UsageError(f"-o {options.out} would replace an input; name another file")
    booster = engine.open_model(options.model).booster
    outputs = [_number_or_name(text) for text in (options.outputs or "").split(",") if text]
    job = make_job(
        booster.model,
        options.data,
        options.out,
        batch_rows=_BATCH_ROWS if options.batch_rows is None else options.batch_rows,
        columns=options.columns.split(",") if options.columns else (),
        progress=sys.stderr.isatty(),
    )
    n_rows = write_predictions(
        job, lambda X: value_columns(booster.explain(X, outputs=outputs or None))
    )
    say(f"{n_rows} explanations written to {options.out}")


def _number_or_name(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def value_columns(found: Explanation) -> dict[str, AnyArray]:
    """Values and base values as named columns."""
    import numpy as np

    n_rows = len(found)
    values = found.values.reshape(n_rows, len(found.feature_names), -1)
    n_outputs = values.shape[2]
    base = np.broadcast_to(found.base_values.reshape(-1, n_outputs), (n_rows, n_outputs))
    ends = [f"_{name}" for name in found.output_names] or [""]
    columns: dict[str, AnyArray] = {}
    for k, end in enumerate(ends):
        for j, name in enumerate(found.feature_names):
            columns[f"shap_{name}{end}"] = np.ascontiguousarray(values[:, j, k])
        columns[f"base_value{end}"] = np.ascontiguousarray(base[:, k])
    return columns
