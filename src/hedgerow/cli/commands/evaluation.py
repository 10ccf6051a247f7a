"""``hedgerow evaluate`` and ``hedgerow report``: a model on rows with known targets."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hedgerow.cli import inputs
from hedgerow.cli.usage import UsageError, say
from hedgerow.errors import printable

_USUAL = {
    "two classes": ["accuracy", "loss", "auc"],
    "classes": ["accuracy", "loss"],
    "regression": ["rmse", "mae", "r2"],
    "survival": ["loss", "concordance"],
    "ranking": ["ndcg", "ndcg@10"],
}


def add_evaluate(commands: Any) -> None:
    """Add ``evaluate`` to the parser."""
    parser = commands.add_parser(
        "evaluate",
        help="score a model on tables with targets",
        description="Score a model written by `hedgerow train` on tables with known targets.",
        epilog="Example: hedgerow evaluate model.hedgerow test.csv --target income --metric rmse",
    )
    inputs.add_model_and_tables(parser, "with targets")
    text = "column with the targets; may be repeated for several"
    _add_roles(parser, text)
    parser.add_argument(
        "--metric",
        action="append",
        metavar="NAME",
        help="metric to print, by its name in docs/metrics.md; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=inputs.reading(_evaluate, "data"))


def add_report(commands: Any) -> None:
    """Add ``report`` to the parser."""
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
    text = (
        "target column; repeat it for several (default: the targets of the model, or the only "
        "column that the model does not know)"
    )
    _add_roles(parser, text)
    inputs.add_output(parser, "page to write (.html)", required=True)
    parser.set_defaults(run=_check_and_report)


def _add_roles(parser: Any, target: str) -> None:
    """Add the options of the columns that are no features, and those of text files."""
    inputs.add_column(parser, "--target", target, action="append")
    inputs.add_column(parser, "--weight", "column with the weights of the rows")
    inputs.add_column(parser, "--qid", "for rankings: column with the queries")
    inputs.add_input_options(parser)


def _evaluate(options: argparse.Namespace) -> None:
    import json

    from hedgerow.boosting.external.file_dataset import FileDataset
    from hedgerow.cli import engine
    from hedgerow.data.sources.base import make_roles
    from hedgerow.data.sources.opening import open_files

    model = engine.open_model(options.model)
    booster = model.booster
    task = engine.task_of_booster(booster)
    if task == "ranking" and options.qid is None:
        raise UsageError(
            "the model is a ranking model: name the column with the queries (--qid COL)"
        )
    if task != "ranking" and options.qid is not None:
        raise UsageError("--qid is for ranking models: leave it out")
    if options.target is None:
        raise UsageError("--target COL is needed: the column with the targets")
    names = booster.feature_names if booster.model.schema.named and options.target else None
    given = {
        "weight": options.weight, "qid": options.qid, "offset": booster.offset_columns or None
    }  # fmt: skip
    roles = make_roles(options.target, (), names, given)
    source = open_files(options.data, roles, types_known=True)
    rows = FileDataset(source)
    usual = ["loss"] if booster.target_names is not None else _USUAL.get(task, ["loss"])
    scores = booster.eval(rows, options.metric or usual)
    if options.json:
        say(json.dumps(scores, indent=2))
        return
    for name, score in scores.items():
        say(f"{name}: {score:.6g}")


def _check_and_report(options: argparse.Namespace) -> None:
    inputs.check_page("-o", options.out, options.model, options.data)
    inputs.reading(_report, "data")(options)


def _report(options: argparse.Namespace) -> None:
    import numpy as np

    from hedgerow.atomic import write_atomically
    from hedgerow.cli import engine
    from hedgerow.data.sources.base import no_column
    from hedgerow.data.sources.opening import open_parts
    from hedgerow.io.file_predictions import columns_of
    from hedgerow.report import find, model_page

    model = engine.open_model(options.model)
    booster, classes = model.booster, model.classes
    names = open_parts([options.data])[0].column_names()
    if names is None:
        raise UsageError(f"{options.data}: LibSVM files have no names of columns; give a table")
    targets = _targets(options, names, booster)
    aside = [name for name in (*targets, options.weight, options.qid) if name is not None]
    for name in aside:
        if name not in names:
            raise no_column(options.data, name, "needed", names)
    texts = targets if classes and isinstance(classes[0], str) and len(targets) == 1 else ()
    X, beside = engine.read_rows(options.data, columns_of(booster.model), aside, texts)
    y = [beside[name] for name in targets]
    found = find(
        booster,
        X,
        y[0] if len(y) == 1 else np.column_stack(y),
        classes=None if classes is None else np.array(classes),
        sample_weight=beside.get(options.weight),
        qid=beside.get(options.qid),
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
