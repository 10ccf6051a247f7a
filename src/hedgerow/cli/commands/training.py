"""``hedgerow train DATA --target COL``: fit a model and write it to a file."""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hedgerow.cli import inputs
from hedgerow.cli.usage import UsageError, remark, say
from hedgerow.errors import HedgerowError, InterruptedFitWarning

LIMIT_HELP = (
    "limit on the memory of the data, such as '2 GB'; larger data are read in batches and stored "
    "on disk (default: half of the available memory)"
)

_OF_OTHERS = (".cbm", ".coreml", ".mlmodel", ".pickle", ".pkl", ".pmml", ".ubj")
"""Suffixes of models that only other programs write."""


def add_train(commands: Any) -> None:
    """Add ``train`` to the parser."""
    parser = commands.add_parser(
        "train",
        help="train a model on a table",
        description="Train a model on the columns of CSV, Parquet or Arrow files.",
        epilog="Example: hedgerow train people.csv --target income --set max_leaves=15",
    )
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="+",
        help="tables to train on: files (.csv, .parquet, ...), folders or patterns, or - "
        "for standard input",
    )
    inputs.add_column(
        parser,
        "--target",
        "column to predict; may be repeated for several targets",
        action="append",
    )
    parser.add_argument(
        "-o", "--model", "--out", "--output", dest="model", default="model.hedgerow",
        metavar="FILE", help="model file to write (default: %(default)s)",
    )  # fmt: skip
    inputs.add_task_option(parser)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of HedgerowClassifier, HedgerowRegressor or HedgerowRanker; may be "
        "repeated",
    )
    parser.add_argument(
        "--valid", metavar="FILE", help="validation table for early stopping and scores"
    )
    inputs.add_drop(parser)
    inputs.add_column(parser, "--weight", "column with the weights of the rows, also of --valid")
    inputs.add_column(
        parser,
        "--offset",
        "column of initial raw scores, not a feature; prediction reads it from the tables as well",
    )
    inputs.add_column(
        parser,
        "--groups",
        "column of groups: rows with equal values are held out together; not a feature",
    )
    inputs.add_column(
        parser, "--time", "column of numbers or dates: later rows are held out; not a feature"
    )
    inputs.add_column(parser, "--qid", "column with the queries of the rows: train a ranking model")
    parser.add_argument(
        "--init-model", metavar="FILE", help="model to continue: n_estimators rounds are added"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="store finished rounds in this folder: the same command resumes after an interruption",
    )
    parser.add_argument("--memory-limit", metavar="SIZE", help=LIMIT_HELP)
    parser.add_argument(
        "--cache-dir",
        action="append",
        metavar="FOLDER",
        help="folder for binned rows that do not fit into memory; may be repeated for several "
        "disks (default: the folder for temporary files)",
    )
    inputs.add_input_options(parser)
    parser.set_defaults(run=_check_and_train)


def _check_and_train(options: argparse.Namespace) -> None:
    from hedgerow.atomic import check_place
    from hedgerow.convert.exporting import SUFFIXES

    check_place(options.model)
    suffix = os.path.splitext(options.model)[1].lower()
    if suffix in {*SUFFIXES, *_OF_OTHERS}:
        raise UsageError(
            f"--model {options.model}: {suffix} is the suffix of another format; use .hedgerow "
            "(`hedgerow convert` writes models in other formats)"
        )
    if options.model in (*options.data, options.valid):
        raise UsageError(f"--model {options.model} is the table itself; name another file")
    if options.qid is not None:
        if options.task != "auto":
            raise UsageError(
                f"--qid trains a ranking model, not a {options.task}: leave --task out"
            )
        for name in ("groups", "time"):
            if getattr(options, name) is not None:
                raise UsageError(
                    f"--{name} has no effect with --qid: rankings hold out complete queries"
                )
        options.task = "ranking"
    for name in options.target or ():
        if options.target.count(name) > 1:
            raise UsageError(f"--target {name} is given twice: name each target once")
    parse_settings(options.set, options.task)
    inputs.reading(_train, "data", "valid")(options)


def _train(options: argparse.Namespace) -> None:
    from hedgerow.boosting.external.file_dataset import FileDataset, cache_folders
    from hedgerow.boosting.row_data.row_values import OF_TRAINING, given_values
    from hedgerow.cli import engine, tables
    from hedgerow.data.external.memory import memory_bytes, shown_bytes
    from hedgerow.data.sources.base import header_hint, make_roles
    from hedgerow.data.sources.opening import open_files

    values = given_values(vars(options))
    if options.target is None:
        raise UsageError("--target COL is needed: the column to predict")
    roles = make_roles(options.target, options.drop, None, values)
    source = open_files(options.data, roles, types_known=True)
    if hint := header_hint(source.parts[0].column_names() or ()):
        remark(f"note: {source.name}:{hint}")
    limit = memory_bytes(options.memory_limit, "--memory-limit")
    limits: dict[str, Any] = {"cache_dir": cache_folders(options.cache_dir), "memory_limit": limit}
    data: Any = FileDataset(source, **limits)
    y_name = (options.target or ["y"])[0]
    with tables.surveyed(data) as rows:
        names = rows.feature_names
        task, why = options.task, "by --qid" if options.qid is not None else "as requested"
        if task == "auto":
            task, why = tables.guess_task(rows, source.name, y_name)
        tables.check_target(rows, task, source.name, y_name)
        size = f"{rows.n_rows} rows, {len(names)} columns"
        needed = rows.bytes_of_table
    valid: Any = None
    if options.valid is not None:
        roles = roles.without(OF_TRAINING)
        roles = replace(roles, drop=(), features=names)
        valid = FileDataset(open_files([options.valid], roles, types_known=True), **limits)
        with tables.surveyed(valid) as rows:
            needed += rows.bytes_of_table
    fits = needed <= limit
    say(
        f"{task} ({why}): {size}\nabout {shown_bytes(needed)} in memory, which "
        f"{'fits' if fits else 'does not fit'} into the limit of {shown_bytes(limit)}: "
        f"{'read at once' if fits else 'read in batches, binned rows on disk'}"
    )
    if fits:  # the defaults of a table in memory look for better parameters
        data, valid = (
            None if each is None else each.having(why="The files seemed to fit into memory.")
            for each in (data, valid)
        )
    more = {"X_val": valid, "init_model": options.init_model, "checkpoint": options.checkpoint}
    more = {name: value for name, value in more.items() if value is not None}
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterruptedFitWarning)  # reported below
        estimator = engine.fit(task, parse_settings(options.set, task), data, None, **more)
    seconds = time.perf_counter() - start
    booster = estimator.booster_
    estimator.save(options.model)
    say(f"trained {booster.num_trees} trees in {seconds:.2f} s")
    interrupted = estimator.stopped_by_ == "interrupt"
    lines = engine.score_lines(booster)
    if valid is not None:
        lines += engine.usual_scores(booster, valid)
    elif not interrupted and (usual := engine.usual_metrics(booster)):
        lines.append(f"validation rows (--valid FILE) would also show {' and '.join(usual)}")
    for line in lines:
        say(line)
    if interrupted:
        raise KeyboardInterrupt(
            f"interrupted: the model of the first {estimator.n_iter_} rounds is written to "
            f"{options.model}"
        )
    if estimator.stopped_by_ == "time_budget":
        say(f"the time budget ended the training with {estimator.n_iter_} rounds in the model")
    say(f"model written to {options.model}")


_WORDS = {"true": True, "false": False, "none": None, "null": None}
_OWN_OPTIONS = {"callbacks", "progress", "advanced"}


def parse_settings(pairs: Sequence[str], task: str) -> dict[str, Any]:
    """Return the parameters for the estimator of a task; a wrong name or value is an error."""
    if not pairs:
        return {}
    from hedgerow.cli.engine import check_values, estimator_class
    from hedgerow.params import ADVANCED_NAMES, grouped

    # "auto" is known only after reading: a parameter that one estimator has is right.
    tasks = ("classification", "regression") if task == "auto" else (task,)
    own = [{*inspect.signature(estimator_class(each)).parameters} for each in tasks]
    known = {*set().union(*own), *ADVANCED_NAMES} - _OWN_OPTIONS
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            raise UsageError(f"--set {pair}: write it as name=value, such as --set max_leaves=15")
        if name not in known:
            from hedgerow.convert.settings.names import name_hint

            one = " Set its parameters one by one, such as --set sketch=local."
            hint = one if name == "advanced" else name_hint(name, known)
            raise UsageError(f"--set {pair}: unknown parameter {name!r}.{hint}")
        if name in settings:
            raise UsageError(f"--set {pair}: {name} was already set to {settings[name]!r}")
        settings[name] = parse_value(text)
    settings, wrong = grouped(settings), None
    for each, names in zip(tasks, own, strict=True):
        if settings.keys() <= names:
            try:
                check_values(estimator_class(each)(**settings))
            except HedgerowError as error:
                wrong = wrong or error
            else:
                return settings
    if wrong is not None:
        raise wrong
    return settings


def parse_value(text: str) -> Any:
    """Return what ``text`` spells: a number, list, quoted text, boolean or None; else the text."""
    text = text.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
