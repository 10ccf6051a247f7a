"""``hedgerow report MODEL TABLE -o PAGE``: a report on a model and its test rows."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hedgerow.cli.reading.inputs import add_input_options, readable
from hedgerow.cli.usage import UsageError, say, utf8
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
    parser.add_argument(
        "--target", action="append", type=utf8, metavar="COL", help="target column; repeat it for "
        "several (default: the targets of the model, or the only column that the model does not "
        "know)"
    )  # fmt: skip
    parser.add_argument(
        "--qid", type=utf8, metavar="COL", help="for rankings: column with the queries"
    )
    parser.add_argument(
        "--weight", type=utf8, metavar="COL", help="column with the weights of the rows"
    )
    parser.add_argument(
        "-o", "--out", "--output", required=True, metavar="OUT", help="page to write (.html)"
    )
    add_input_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    _check(options)
    with readable(options, "data"):
        _report(options)


def _report(options: argparse.Namespace) -> None:
    from hedgerow.cli import engine
    from hedgerow.cli.reading import features, tables

    model = engine.open_model(options.model)
    table = tables.read_table(options.data, engine.text_columns(model.booster, options.target))
    targets = _targets(options, table, model.booster)
    names = _names(model.booster, table, [*targets, options.weight, options.qid])
    y = features.as_targets(features.targets(table, targets), model.task, options.data, targets[0])
    weight = None if options.weight is None else features.weights(table, options.weight)
    from hedgerow.atomic import write_atomically
    from hedgerow.report import find, model_page

    found = find(
        model.booster,
        features.feature_columns(table, names),
        features.matrix_of(y) if isinstance(y, dict) else _as_classes(y, model.classes),
        classes=_array_of(model.classes),
        sample_weight=weight,
        qid=None if options.qid is None else table.column(options.qid),
    )
    model_name, rows_name = (printable(Path(p).name) for p in (options.model, options.data))
    page = model_page(found, model_name, rows_name=rows_name)
    write_atomically(options.out, [page.encode()])
    for score in found.scores:
        say(f"{score.name}: {score.value:.5g} ({score.low:.5g} to {score.high:.5g})")
    for text in found.warnings:
        say(f"warning: {text}")
    say(f"report written to {options.out}")


def _check(options: argparse.Namespace) -> None:
    """Check all options before the work begins."""
    from importlib.util import find_spec

    from hedgerow.cli.reading import tables

    if not options.out.lower().endswith((".html", ".htm")):
        raise UsageError(f"-o {options.out}: the page must be a .html file")
    if options.out in (options.model, options.data):
        raise UsageError(f"-o {options.out} would replace an input; name another file")
    if find_spec("matplotlib") is None:
        raise UsageError("a report needs matplotlib: pip install 'hedgerow[plot]'")
    tables.check_output(options.out)


def _targets(options: argparse.Namespace, table: Any, booster: Any) -> list[str]:
    """Return the names of the target columns, in the order of the model if it has names."""
    own = list(booster.target_names or ())
    if options.target is not None:
        return own if sorted(options.target) == sorted(own) else list(options.target)
    if own and all(name in table.columns for name in own):
        return own
    known = {*booster.feature_names, *booster.offset_columns, options.weight, options.qid}
    if not booster.model.schema.named:
        raise UsageError("--target COL is needed: the model has no column names")
    others = [name for name in table.columns if name not in known]
    if len(others) == 1:
        return others
    shown = ", ".join(map(repr, others[:6])) or "none"
    raise UsageError(
        f"--target COL is needed: {options.data} has columns that the model does not know: {shown}"
    )


def _names(booster: Any, table: Any, aside: list[str | None]) -> list[str]:
    """Return the model's columns: by name, or all except target, query and weight."""
    if booster.model.schema.named:
        return [*booster.feature_names, *booster.offset_columns]
    return [name for name in table.columns if name not in aside]


def _as_classes(y: Any, classes: list[Any] | None) -> Any:
    """Convert targets to the type of the classes, because CSV files have no types."""
    import numpy as np

    if classes is None or (isinstance(y, np.ndarray) and y.dtype.kind != "U"):
        texts = classes is not None and all(isinstance(label, str) for label in classes)
        return np.array([str(label) for label in y.tolist()]) if texts else y
    if all(isinstance(label, str) for label in classes):
        return y
    known = {str(label): label for label in classes}
    return np.array([known.get(text, text) for text in y.tolist()], dtype=object)


def _array_of(classes: list[Any] | None) -> Any:
    import numpy as np

    return None if classes is None else np.array(classes)
