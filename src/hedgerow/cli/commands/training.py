"""``hedgerow train DATA --target COL``: fit a model and write it to a file."""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from hedgerow.cli.reading import inputs
from hedgerow.cli.usage import UsageError, remark, say
from hedgerow.errors import HedgerowError, InterruptedFitWarning

if TYPE_CHECKING:
    from hedgerow.cli.reading.tables import NamedColumns, Way
    from hedgerow.data.sources.opening import Source

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
    parser.add_argument(
        "--no-score",
        action="store_true",
        help="do not evaluate the model by folds if no rows are held out",
    )
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
    inputs.add_column(parser, "--position", "with --qid: column with positions")
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
    elif options.position is not None:
        raise UsageError("--position is for rankings: also name the queries (--qid COL)")
    inputs.check_targets(options.target)
    parse_settings(options.set, options.task)
    inputs.reading(_train, "data", "valid")(options)


def _train(options: argparse.Namespace) -> None:
    from hedgerow.boosting.row_data.row_values import given_values
    from hedgerow.cli import engine
    from hedgerow.cli.reading.tables import choose_way
    from hedgerow.data.sources.base import header_hint, make_roles
    from hedgerow.data.sources.opening import open_files

    if options.target is None:
        raise UsageError("--target COL is needed: the column to predict")
    way = choose_way(options.data, options.memory_limit)
    roles = make_roles(options.target, options.drop, None, given_values(vars(options)))
    source = open_files(options.data, roles, types_known=True)
    if hint := header_hint(source.parts[0].column_names() or ()):
        remark(f"note: {source.name}:{hint}")
    rows = (_read_rows if way.in_memory else _open_rows)(options, way, source)
    size = f"{rows.n_rows} rows" + (f", {rows.n_columns} columns" if rows.n_columns else "")
    say(f"{rows.task} ({rows.why}): {size}\n{way}")
    more = rows.more | {name: getattr(options, name) for name in ("init_model", "checkpoint")}
    more = {name: value for name, value in more.items() if value is not None}
    job = engine.Job(rows.task, parse_settings(options.set, rows.task), rows.X, rows.y, more)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterruptedFitWarning)  # reported below
        estimator = engine.fit(job)
    seconds = time.perf_counter() - start
    estimator.save(options.model)
    say(f"trained {estimator.booster_.num_trees} trees in {seconds:.2f} s")
    interrupted = estimator.stopped_by_ == "interrupt"
    lines = engine.score_lines(estimator)
    if options.valid is not None:
        lines += engine.usual_scores(estimator.booster_, engine.validation_rows(job))
    elif not (options.no_score or interrupted):
        if not lines and way.in_memory:
            lines = engine.fold_lines(estimator, job)
        elif usual := engine.usual_metrics(estimator.booster_):
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


class _Rows(NamedTuple):
    """Rows to train on: a table with its target, or a Dataset of files; ``more`` for ``fit``."""

    task: str
    why: str
    n_rows: int
    n_columns: int
    X: Any
    y: Any
    more: dict[str, Any]


def _task_of(
    options: argparse.Namespace, guess: Callable[[str], tuple[str, str]]
) -> tuple[str, str]:
    """Return the task, and why it is this one; ``guess`` takes the name of the target."""
    if options.task == "auto":
        return guess((options.target or ["y"])[0])
    return options.task, "by --qid" if options.task == "ranking" else "as requested"


def _read_rows(options: argparse.Namespace, way: Way, source: Source) -> _Rows:
    """Read all rows."""
    from hedgerow.cli.reading import tables
    from hedgerow.data.sparse import check_width

    names, y_name = source.parts[0].column_names(), (options.target or ["y"])[0]
    X: Any
    y: Any
    more = {"offset": options.offset}
    if names is None:
        X, y = tables.read_sparse(source.parts)
        n_rows, n_columns = X.shape
        check_width(n_columns, way.limit, source.name)
    else:
        used = source.roles.features_of(names, source.name)
        table = tables.read_parts(source.parts, [*used, *source.roles.aside()])
        y = tables.targets(table, options.target)
        more |= _row_values(options, table)
        # The offset column joins the features for now.
        X, n_rows = table.features([*used, *source.roles.offset]), table.n_rows
        n_columns = len(used)
    task, why = _task_of(options, lambda name: tables.guess_task(y, source.name, name))
    if options.valid is not None:
        more |= _validation(options, source, X, y)
        more["y_val"] = tables.as_targets(more["y_val"], task, options.valid, y_name)
    y = tables.as_targets(y, task, source.name, y_name)
    return _Rows(task, why, n_rows, n_columns, X, y, more)


def _row_values(
    options: argparse.Namespace, table: NamedColumns, of_validation: bool = False
) -> dict[str, Any]:
    """Return the values of rows beside features, target and offset, as arguments of a fit."""
    from hedgerow.boosting.row_data.row_values import ROW_VALUES

    found: dict[str, Any] = {}
    for value in ROW_VALUES:
        column = getattr(options, value.name)
        if column is None or value.name == "offset" or (of_validation and value.of_training):
            continue
        own = table.weights(column) if value.name == "weight" else table.role(column)
        found[f"{value.of_fit}_val" if of_validation else value.of_fit] = own
    return found


def _validation(options: argparse.Namespace, source: Source, X: Any, y: Any) -> dict[str, Any]:
    """Return the validation rows, with the columns and types of the training rows."""
    from hedgerow.boosting.row_data.row_values import OF_TRAINING
    from hedgerow.cli.reading import tables
    from hedgerow.data.sources.opening import open_parts

    parts = open_parts([options.valid], types_known=True)
    if options.target is None:
        entries, target = tables.read_sparse(parts)
        if entries.shape[1] > X.shape[1]:
            raise UsageError(
                f"{options.valid} has {entries.shape[1]} columns, the training rows have "
                f"{X.shape[1]}"
            )
        entries.resize((entries.shape[0], X.shape[1]))
        return {"X_val": entries, "y_val": target}
    targets = y if isinstance(y, dict) else {options.target[0]: y}
    text = tables.text_columns({**X, **targets})
    wanted = [*X, *source.roles.without(OF_TRAINING).aside()]
    table = tables.read_parts(parts, wanted, text)
    found = {"X_val": table.features(list(X)), "y_val": tables.targets(table, options.target)}
    return found | _row_values(options, table, of_validation=True)


def _open_rows(options: argparse.Namespace, way: Way, source: Source) -> _Rows:
    """Open the files, whose rows are read in batches; only the targets are read now."""
    from hedgerow.boosting.external.file_dataset import dataset_of
    from hedgerow.boosting.row_data.row_values import OF_TRAINING
    from hedgerow.cli.reading import tables
    from hedgerow.data.sources.opening import open_files

    kept = {"cache_dir": options.cache_dir, "memory_limit": way.limit}
    data = dataset_of(source, **kept)
    with closing(data.for_one_use(reads_labels=data.n_targets == 1)) as rows:
        rows.survey()
        names, n_rows, labels = rows.feature_names, rows.n_rows, rows.y
        task, why = _task_of(options, lambda name: tables.guess_task_of(rows, source.name, name))
    if task == "classification" and data.n_targets == 1 and not labels.are_text:
        tables.refuse_fractions(labels.values, source.name, (options.target or ["y"])[0])
    valid = None
    if options.valid is not None:
        roles = source.roles.without(OF_TRAINING)
        roles = replace(roles, drop=(), features=tuple(names) or None)
        valid = dataset_of(open_files([options.valid], roles, types_known=True), **kept)
    return _Rows(task, why, n_rows, len(names), data, None, {"X_val": valid})


_WORDS = {"true": True, "false": False, "none": None, "null": None}
_OWN_OPTIONS = {"callbacks", "progress", "advanced"}


def parse_settings(pairs: Sequence[str], task: str) -> dict[str, Any]:
    """Return the parameters for the estimator of a task; a wrong name or value is an error.

    The task ``"auto"`` is known only after reading: a parameter that one estimator has is right.
    """
    if not pairs:
        return {}
    from hedgerow.advanced import ADVANCED_NAMES, grouped
    from hedgerow.cli.engine import check_values, estimator_class

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
