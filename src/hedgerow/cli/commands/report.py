"""``hedgerow report MODEL TABLE -o PAGE``: a report on a model and its test rows."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hedgerow.cli.reading import inputs
from hedgerow.cli.usage import UsageError, say
from hedgerow.errors import printable


def add_command(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "report",
        help="write a page about a model: scores, calibration, importances, effects, warnings",
        description="Evaluate a model on rows that it was not trained on, and write a "
        "self-contained page: scores with intervals, calibration, importances, effects of "
        "the strongest columns, the most surprising rows, warnings of leakage, drift and "
        "unseen categories.",
        epilog="Example: hedgerow report model.hedgerow test.csv --target income -o report.html",
    )
    parser.add_argument("model", metavar="MODEL", help="model file")
    parser.add_argument(
        "data",
        metavar="DATA",
        help="table (.csv, .parquet, ...) with the target, or - for standard input",
    )
    inputs.add_column(
        parser,
        "--target",
        "target column; repeat it for several (default: the targets of the model, or the only "
        "column that the model does not know)",
        action="append",
    )
    inputs.add_column(parser, "--qid", "for rankings: column with the queries")
    inputs.add_column(parser, "--weight", "column with the weights of the rows")
    inputs.add_output(parser, "page to write (.html)", required=True)
    inputs.add_input_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    inputs.check_page("-o", options.out, options.model, options.data)
    with inputs.readable(options, "data"):
        _report(options)


def _report(options: argparse.Namespace) -> None:
    import numpy as np

    from hedgerow.atomic import write_atomically
    from hedgerow.cli import engine
    from hedgerow.cli.reading import features, tables
    from hedgerow.data.sources.opening import open_parts
    from hedgerow.report import find, model_page

    model = engine.open_model(options.model)
    parts = open_parts([options.data], types_known=True)
    known = tables.names_of(parts)
    targets = _targets(options, known, model.booster)
    aside = [name for name in (*targets, options.weight, options.qid) if name is not None]
    names = engine.columns_for(model.booster, known, aside)
    text = engine.text_columns(model.booster, targets)
    table = tables.read_parts(parts, [*names, *aside], text)
    y = features.as_targets(features.targets(table, targets), model.task, options.data, targets[0])
    found = find(
        model.booster,
        table.features(names),
        features.matrix_of(y) if isinstance(y, dict) else y,
        classes=None if model.classes is None else np.array(model.classes),
        sample_weight=None if options.weight is None else table.weights(options.weight),
        qid=None if options.qid is None else table.role(options.qid),
    )
    model_name, rows_name = (printable(Path(p).name) for p in (options.model, options.data))
    page = model_page(found, model_name, rows_name=rows_name)
    write_atomically(options.out, [page.encode()])
    for score in found.scores:
        say(f"{score.name}: {score.value:.5g} ({score.low:.5g} to {score.high:.5g})")
    for warning in found.warnings:
        say(f"warning: {warning}")
    say(f"report written to {options.out}")


def _targets(options: argparse.Namespace, names: Sequence[str], booster: Any) -> list[str]:
    """Return the names of the target columns, in the order of the model if it has names."""
    own = list(booster.target_names or ())
    if options.target is not None:
        return own if sorted(options.target) == sorted(own) else list(options.target)
    if own and all(name in names for name in own):
        return own
    known = {*booster.feature_names, *booster.offset_columns, options.weight, options.qid}
    if not booster.model.schema.named:
        raise UsageError("--target COL is needed: the model has no column names")
    others = [name for name in names if name not in known]
    if len(others) == 1:
        return others
    shown = ", ".join(map(repr, others[:6])) or "none"
    raise UsageError(
        f"--target COL is needed: {options.data} has columns that the model does not know: {shown}"
    )
