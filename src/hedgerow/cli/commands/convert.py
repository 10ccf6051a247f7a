"""``hedgerow convert IN OUT``: import and export of models."""

from __future__ import annotations

import argparse
import os
from typing import Any

from hedgerow.cli.reading import inputs
from hedgerow.cli.usage import UsageError, say

_OURS = "hedgerow"
_OWN_SUFFIXES = (".hedgerow", ".safetensors", "")
"""Suffixes of Hedgerow models, which may have none."""


def add_command(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "convert",
        help="import a model of another library, or export a model",
        description="Read a model file of Hedgerow, LightGBM (text), XGBoost (JSON, UBJSON) or "
        "CatBoost (JSON), and write it in another format. If the format cannot express a feature, "
        "an error names it.",
        epilog="Without --to, the suffix of OUT sets the format: .txt LightGBM, .onnx ONNX, .tl "
        "treelite, .py Python, .json Hedgerow's JSON, .hedgerow or none a Hedgerow model.",
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
    inputs.add_input_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from hedgerow.booster import load
    from hedgerow.cli.engine import read_rows
    from hedgerow.convert.exporting import SUFFIXES

    inputs.check_not_input("OUT", options.out, options.model)
    suffix = os.path.splitext(options.out)[1].lower()
    known = dict.fromkeys(_OWN_SUFFIXES, _OURS) | SUFFIXES
    if options.to is None and suffix not in known:
        listed = ", ".join(f"{each} {name}" for each, name in known.items() if each)
        raise UsageError(
            f"OUT {options.out}: the suffix {suffix} is unknown; use one of these, or name a "
            f"format (--to): {listed}"
        )
    target: Any = options.to or known[suffix]
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
    with inputs.readable(options, "check"):
        report = booster.export(
            options.out,
            target,
            check=None if options.check is None else read_rows(options.check, booster.model.schema),
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
