"""``hedgerow inspect`` and ``hedgerow convert``: the contents of a model file, in other forms."""

from __future__ import annotations

import argparse
import json
import os
import textwrap
from typing import Any

from hedgerow.cli import inputs
from hedgerow.cli.usage import UsageError, say
from hedgerow.errors import shown_name

_MOST_FEATURES_SHOWN = 10
_BAR_CELLS = 30
_WIDTH = 100
_SHOWN_APART = ("importance", "parameters", "chosen", "columns", "folds")
_OF_ENTRY = ("score", "rounds", "weight", "chosen")
_OURS = "hedgerow"
_OWN_SUFFIXES = (".hedgerow", ".safetensors", "")
"""Suffixes of Hedgerow models, which may have none."""


def add_inspect(commands: Any) -> None:
    """Add ``inspect`` to the parser."""
    parser = commands.add_parser(
        "inspect",
        help="show the contents of a model file",
        description="Show the contents of a model file: task, trees, parameters, importance, tree.",
    )
    parser.add_argument("model", metavar="MODEL", help="model file")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--tree", type=int, metavar="N", help="print tree N as text (0 is first)")
    parser.set_defaults(run=_inspect)


def _inspect(options: argparse.Namespace) -> None:
    from hedgerow.cli import engine

    if options.json and options.tree is not None:
        raise UsageError("--json and --tree cannot be combined; leave one out")
    model = engine.open_model(options.model)
    if options.tree is not None:
        n_trees = model.booster.num_trees
        if not 0 <= options.tree < max(n_trees, 1):
            known = f"trees 0 to {n_trees - 1}" if n_trees else "no trees"
            raise UsageError(f"--tree {options.tree}: the model has {known}")
        say(model.booster.to_text(options.tree))
        return
    facts = engine.facts(model) | {"chosen": engine.chosen_parameters(options.model)}
    if options.json:  # in ASCII, with DEL, which JSON allows, as an escape
        say(json.dumps(facts, indent=2).replace("\x7f", "\\u007f"))
    else:
        say(_as_text(facts))


def _as_text(facts: dict[str, Any]) -> str:
    from hedgerow.data.inputs import brief_value

    importance = facts["importance"]
    lines = [
        f"{name.replace('_', ' '):<14} {_plain(value)}"
        for name, value in facts.items()
        if name not in _SHOWN_APART and value is not None
    ]
    lines.append("columns")
    for column in facts["columns"]:
        line = f"  {shown_name(column['name'])}: {column.get('holds', column['kind'])}"
        if column["kind"] == "category":
            first = ", ".join(map(repr, column["first_levels"]))
            more = ", ..." if column["n_levels"] > len(column["first_levels"]) else ""
            line += f", {column['n_levels']} level(s): {first}{more}"
        lines.append(line)
    lines += _value_lines("parameters", facts["parameters"])
    chosen = {name: brief_value(name, value) for name, value in facts["chosen"].items()}
    lines += _value_lines("chosen", chosen) if chosen else []
    lines += _fold_lines(facts.get("folds", {}))
    shown = sorted(importance.items(), key=lambda item: -item[1])[:_MOST_FEATURES_SHOWN]
    if shown and shown[0][1] > 0:
        lines.append("importance     (share of the total gain)")
        shown = [(shown_name(name), share) for name, share in shown]
        width = max(len(name) for name, _ in shown)
        for name, share in shown:
            bar = "#" * round(_BAR_CELLS * share / shown[0][1])
            lines.append(f"  {name:<{width}}  {share:6.1%}  {bar}")
    return "\n".join(lines)


def _value_lines(title: str, values: dict[str, Any]) -> list[str]:
    """Return parameters and their values, on as many lines as needed."""
    listed = ", ".join(f"{name}={value}" for name, value in values.items())
    return textwrap.wrap(
        f"{title:<14} {listed}", _WIDTH, subsequent_indent=15 * " ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _fold_lines(folds: dict[str, Any]) -> list[str]:
    """Return the candidates compared by the folds, with scores and numbers of rounds."""
    tried = folds.get("tried", [])
    if not tried:
        return []
    from hedgerow.data.inputs import brief_value

    n_folds, n_tested = folds["folds"]
    stride = folds.get("stride", 1.0)
    lines = [
        f"{'folds':<14} {n_tested} of {n_folds} tested, each round for {stride:.3g} of the model"
    ]
    for entry in tried:
        given = {name: value for name, value in entry.items() if name not in _OF_ENTRY}
        values = [f"{name}={brief_value(name, value)}" for name, value in given.items()]
        score = "no score" if entry["score"] is None else f"{entry['score']:.6g}"
        requested = ", ".join(values) or "as set or automatic"
        weight = f", weight {entry['weight']:.2f}" if "weight" in entry else ""
        best = ", the best" if entry.get("chosen") else ""
        lines.append(f"  {score} after {entry['rounds']} rounds{weight}{best}: {requested}")
    return lines


def _plain(value: Any) -> str:
    """Return names and labels in a form that cannot look like another line."""
    values = value if isinstance(value, list) else [value]
    return ", ".join(shown_name(str(each)) for each in values)


def add_convert(commands: Any) -> None:
    """Add ``convert`` to the parser."""
    parser = commands.add_parser(
        "convert",
        help="import a model of another library, or export a model",
        description="Read a model file of Hedgerow, LightGBM (text), XGBoost (JSON, UBJSON) or "
        "CatBoost (JSON), and write it in another format. If the format cannot express a feature, "
        "an error names it.",
        epilog="Without --to, the suffix of OUT sets the format: .txt LightGBM, .onnx ONNX, .json "
        "Hedgerow's JSON, .hedgerow or none a Hedgerow model.",
    )
    parser.add_argument("model", metavar="IN", help="model file")
    parser.add_argument("out", metavar="OUT", help="file to write")
    parser.add_argument("--to", choices=(_OURS, "lightgbm", "onnx", "json"), help="format to write")
    parser.add_argument(
        "--check",
        metavar="DATA",
        help="table whose rows the target predicts, or - for standard input",
    )
    parser.add_argument(
        "--approximate",
        action="store_true",
        help="write zeros that are missing as LightGBM has them",
    )
    parser.add_argument("--raw", action="store_true", help="write raw scores, not predictions")
    inputs.add_input_options(parser)
    parser.set_defaults(run=_convert)


def _convert(options: argparse.Namespace) -> None:
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
            check=None
            if options.check is None
            else read_rows(options.check, booster.model.schema)[0],
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
