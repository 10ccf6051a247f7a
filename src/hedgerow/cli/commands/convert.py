"""``hedgerow convert IN OUT``: import and export of models."""

from __future__ import annotations

import argparse
from typing import Any

from hedgerow.cli.reading.inputs import add_input_options, readable

_OURS = "hedgerow"
_NOT_WRITTEN = (".cbm", ".coreml", ".mlmodel", ".pickle", ".pkl", ".pmml", ".ubj")
"""Suffixes of formats of models that only other programs write."""


def add_command(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "convert",
        help="import a model of another library, or export a model",
        description="Read a model file of Hedgerow, LightGBM (text), XGBoost (JSON, UBJSON) or "
        "CatBoost (JSON), and write it in another format. If the format cannot express a feature, "
        "an error names it.",
        epilog="Without --to, the suffix of OUT sets the format: .txt LightGBM, .onnx ONNX, .tl "
        "treelite, .py Python, .json Hedgerow's JSON; any other suffix is a Hedgerow model.",
    )
    parser.add_argument("model", metavar="IN", help="model file")
    parser.add_argument("out", metavar="OUT", help="file to write")
    parser.add_argument(
        "--to",
        choices=(_OURS, "lightgbm", "xgboost", "onnx", "treelite", "python", "json"),
        help="format to write",
    )
    parser.add_argument(
        "--check",
        metavar="DATA",
        help="table whose rows the target predicts, or - for standard input",
    )
    parser.add_argument(
        "--approximate", action="store_true", help="round values that the format cannot hold"
    )
    parser.add_argument("--raw", action="store_true", help="write raw scores, not predictions")
    add_input_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    import os

    from hedgerow.booster import load
    from hedgerow.cli.usage import UsageError, say
    from hedgerow.convert.exporting import SUFFIXES

    if options.out == options.model:
        raise UsageError(f"OUT {options.out} would replace the model; name another file")
    suffix = os.path.splitext(options.out)[1].lower()
    target = options.to or SUFFIXES.get(suffix, _OURS)
    if options.to is None and suffix in _NOT_WRITTEN:
        raise UsageError(
            f"{suffix} is the suffix of a format that hedgerow does not write: name a format "
            "(--to), or another suffix for a Hedgerow model"
        )
    booster = load(options.model)
    if target == _OURS:
        for name in ("check", "approximate", "raw"):
            if getattr(options, name):
                raise UsageError(
                    f"--{name} has no effect on a Hedgerow model, which is exact: leave it out"
                )
        booster.save(options.out)
        say(f"{booster.num_trees} trees written to {options.out}")
        return
    with readable(options, "check"):
        report = booster.export(
            options.out,
            target,
            check=None if options.check is None else _rows(options.check, booster),
            approximate=options.approximate,
            raw=options.raw,
        )
    say(f"{booster.num_trees} trees written to {options.out} as {target}")
    for note in report.notes:
        say(f"note: {note}")
    if report.rows_checked:
        say(
            f"{report.rows_checked} rows predicted by {target}: raw scores differ by "
            f"{report.largest_difference:.3g} at most"
        )


def _rows(path: str, booster: Any) -> Any:
    """Return the columns of the model in a table: by name, or in order without names."""
    from hedgerow.cli.engine import text_columns
    from hedgerow.cli.reading.tables import read_table

    table = read_table(path, text_columns(booster))
    if not booster.model.schema.named:
        return dict(table.columns)
    return {name: table.feature(name) for name in booster.feature_names}
