"""``hedgerow train DATA --target COL``: fit a model and write it to a file."""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import time
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hedgerow.advanced import ADVANCED_NAMES, grouped
from hedgerow.cli.reading.inputs import add_input_options, add_task_option, readable
from hedgerow.cli.usage import UsageError, say, shows_progress, utf8
from hedgerow.errors import InterruptedFitWarning

if TYPE_CHECKING:
    from hedgerow.cli.reading.tables import NamedColumns

LIMIT_HELP = (
    "limit on the memory of the data, such as '2 GB'; larger data are read in batches and stored "
    "on disk (default: half of the available memory)"
)


def add_command(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "train",
        help="train a model on a table",
        description="Train a model on the columns of CSV, Parquet, Arrow or LibSVM files.",
        epilog="Example: hedgerow train people.csv --target income --set max_leaves=15",
    )
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="+",
        help="tables to train on: files (.csv, .parquet, .libsvm, ...), folders or patterns, or - "
        "for standard input",
    )
    parser.add_argument(
        "--target",
        action="append",
        type=utf8,
        metavar="COL",
        help="column to predict (LibSVM files contain it); may be repeated for several targets",
    )
    parser.add_argument(
        "-o",
        "--model",
        "--out",
        "--output",
        dest="model",
        default="model.hedgerow",
        metavar="FILE",
        help="model file to write (default: %(default)s)",
    )
    _add_settings(parser)
    parser.add_argument("--valid", metavar="FILE", help="validation table for early stopping")
    parser.add_argument(
        "--drop", action="append", default=[], type=utf8, metavar="COL", help="column to leave out"
    )
    parser.add_argument(
        "--no-score",
        action="store_true",
        help="do not evaluate the model by folds if no rows are held out",
    )
    _add_columns(parser)
    parser.add_argument(
        "--init-model", metavar="FILE", help="model to continue: n_estimators rounds are added"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="store finished rounds in this folder: the same command resumes after an interruption",
    )
    _add_memory(parser)
    add_input_options(parser)
    parser.set_defaults(run=run)


def _add_settings(parser: Any) -> None:
    """Add the options for the kind of model and its parameters."""
    add_task_option(parser)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of HedgerowClassifier, HedgerowRegressor or HedgerowRanker; may be "
        "repeated",
    )


def _add_memory(parser: Any) -> None:
    """Add the options for storage."""
    parser.add_argument("--memory-limit", metavar="SIZE", help=LIMIT_HELP)
    parser.add_argument(
        "--cache-dir",
        action="append",
        metavar="FOLDER",
        help="folder for binned rows that do not fit into memory; may be repeated for several "
        "disks (default: the folder for temporary files)",
    )


def _add_columns(parser: Any) -> None:
    """Add the options for columns that are not features."""
    parser.add_argument(
        "--weight",
        type=utf8,
        metavar="COL",
        help="column with the weights of the rows, also of --valid",
    )
    parser.add_argument(
        "--offset",
        type=utf8,
        metavar="COL",
        help="column of initial raw scores, not a feature; prediction reads it from the "
        "tables as well",
    )
    parser.add_argument(
        "--groups",
        type=utf8,
        metavar="COL",
        help="column of groups: rows with equal values are held out together; not a feature",
    )
    parser.add_argument(
        "--qid",
        type=utf8,
        metavar="COL",
        help="column with the queries of the rows: train a ranking model",
    )
    parser.add_argument(
        "--position", type=utf8, metavar="COL", help="with --qid: column with positions"
    )


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from hedgerow.cli.reading import tables

    tables.check_output(options.model)
    if options.model in (*options.data, options.valid):
        raise UsageError(f"--model {options.model} is the table itself; name another file")
    with readable(options, "data", "valid"):
        _train(options)


def _train(options: argparse.Namespace) -> None:
    from hedgerow.cli import engine
    from hedgerow.cli.reading import batches

    _check_paths(options)
    way = batches.choose_way(options.data, options.memory_limit)
    train = _train_in_memory if way.in_memory else _train_out_of_core
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterruptedFitWarning)  # reported below
        start, estimator, job = train(options, way)
    seconds = time.perf_counter() - start
    estimator.save(options.model)
    say(f"trained {estimator.booster_.num_trees} trees in {seconds:.2f} s")
    interrupted = estimator.stopped_by_ == "interrupt"
    lines = engine.score_lines(estimator)
    if not lines and job is not None and not (options.no_score or interrupted):
        lines = engine.fold_lines(estimator, job)
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


def _check_paths(options: argparse.Namespace) -> None:
    """Check paths, so that errors name options of the command line."""
    from hedgerow.cli.reading import tables
    from hedgerow.data.sources.paths import SUFFIXES

    if len(options.data) == 1 and not any(map(options.data[0].count, "*?[")):
        path = options.data[0]
        known = path.lower().endswith(tuple(SUFFIXES))
        if not os.path.isdir(path) and not (known and os.path.exists(path)):
            tables.read_table(path)  # reports the error
    if options.position is not None and options.qid is None:
        raise UsageError("--position is for rankings: also name the queries (--qid COL)")
    if options.target is None and not _is_libsvm(options.data):
        raise UsageError("--target COL is needed: the column to predict")
    for name in options.target or ():
        if options.target.count(name) > 1:
            raise UsageError(f"--target {name} is given twice: name each target once")


def _is_libsvm(paths: Sequence[str]) -> bool:
    from hedgerow.data.sources.paths import find_files

    return find_files(list(paths))[0].format == "libsvm"


def _train_in_memory(options: argparse.Namespace, way: Any) -> tuple[float, Any, Any]:
    """Read all rows and fit; return the start time of the fit, the estimator, and the job."""
    from hedgerow.cli import engine
    from hedgerow.cli.reading import batches, features, tables

    shown, names_of_y = batches.shown(options.data), options.target or ["y"]
    path, roles = batches.single_table(options.data), batches.roles_of(options)
    if path is not None and options.target is not None:
        table: Any = tables.read_table(path)
    else:
        table = batches.read_tables(options.data, roles)
    sparse = isinstance(table, tuple)
    y = table[1] if sparse else features.targets(table, names_of_y)
    task, why = options.task, "as requested"
    if options.qid is not None:
        task, why = _ranking(options, sparse), "by --qid"
    elif task == "auto":
        task, why = features.guess_task(y)
    settings = parse_settings(options.set, engine.estimator_class(task))
    if sparse:
        X, n_columns = table[0], table[0].shape[1]
    else:
        others = (
            options.weight, options.qid, options.position, options.offset, options.groups
        )  # fmt: skip
        aside = [*names_of_y, *options.drop, *filter(None, others)]
        known = {*table.columns, *table.unreadable}
        names = list(table.without([n for n in aside if n in known]).columns)
        if path is not None:
            table.without(aside)  # an unknown name is an error
        if not names:
            raise UsageError(f"{shown}: no column is left to predict from")
        X, n_columns = features.feature_columns(table, names), len(names)
    more = _more(options, table, X)
    held_out = None if sparse or options.valid is None else _validation_table(options, X, y)
    if held_out is not None and options.weight is not None:
        more["sample_weight_val"] = features.weights(held_out, options.weight)
    job = engine.Job(
        task,
        settings,
        X,
        features.as_targets(y, task, shown, names_of_y[0]),
        queries={} if options.qid is None else _queries(options, table, held_out),
        weight=None if options.weight is None else features.weights(table, options.weight),
        valid=_sparse_validation(options, task, X)
        if sparse
        else _validation(options, task, X, held_out),
        checkpoint=options.checkpoint,
        more=more,
    )
    n_rows = len(table[1]) if sparse else table.n_rows
    say(f"{task} ({why}): {n_rows} rows, {n_columns} columns\n{way}")
    start = time.perf_counter()
    return start, engine.fit(job), job


def _ranking(options: argparse.Namespace, sparse: bool) -> str:
    """Return the task for ``--qid``, or raise an error."""
    if options.task != "auto":
        raise UsageError(f"--qid trains a ranking model, not a {options.task}: leave --task out")
    if sparse:
        raise UsageError("--qid names a column, which LibSVM files do not have: use a table")
    return "ranking"


def _more(options: argparse.Namespace, table: Any, X: Any) -> dict[str, Any]:
    """Return other arguments of the fit; the offset column joins the features for now."""
    more: dict[str, Any] = {}
    for name in ("offset", "groups"):
        column = getattr(options, name)
        if column is not None and isinstance(table, tuple):
            raise UsageError(f"--{name} names a column, which LibSVM files do not have")
    if options.qid is not None and options.groups is not None:
        raise UsageError("--groups has no effect with --qid: rankings hold out complete queries")
    if options.offset is not None:
        X[options.offset] = table.column(options.offset)
        more["offset"] = options.offset
    if options.groups is not None:
        more["groups"] = table.column(options.groups)
    if options.init_model is not None:
        more["init_model"] = options.init_model
    return more


def _queries(
    options: argparse.Namespace, table: Any, held_out: NamedColumns | None
) -> dict[str, Any]:
    """Return the queries of the rows and of the validation rows."""
    found = {"qid": table.column(options.qid)}
    if options.position is not None:
        found["position"] = table.column(options.position)
    if held_out is not None:
        found["qid_val"] = held_out.column(options.qid)
    return found


def _train_out_of_core(options: argparse.Namespace, way: Any) -> tuple[float, Any, Any]:
    """Fit with rows in files; like :func:`_train_in_memory`, without a job."""
    from hedgerow.cli import engine
    from hedgerow.cli.reading import batches, features
    from hedgerow.data.sources.base import make_roles
    from hedgerow.estimators.file_fit import summarize_targets

    say(way)
    shown = batches.shown(options.data)
    data = batches.open_dataset(options.data, batches.roles_of(options), way, options.cache_dir)
    facts = summarize_targets(data)
    task, why = options.task, "as requested"
    if options.qid is not None:
        task, why = _ranking(options, _is_libsvm(options.data)), "by --qid"
    elif task == "auto":
        task, why = batches.guess_task(facts)
    if task == "classification" and not facts.is_text:
        features.refuse_fractions(facts.values, shown, (options.target or ["y"])[0])
    settings = parse_settings(options.set, engine.estimator_class(task))
    estimator = engine.estimator_class(task)(**settings, progress=shows_progress())
    valid = None
    names = data.feature_names
    if options.valid is not None:
        roles = make_roles(
            options.target, options.weight, options.offset, (), names or None, options.qid
        )
        valid = batches.open_dataset([options.valid], roles, way, options.cache_dir)
    columns = f", {len(names)} columns" if names else ""
    say(f"{task} ({why}): {facts.n_rows} rows{columns}")
    start = time.perf_counter()
    model = batches.fit(estimator, data, facts, valid, options.checkpoint, options.init_model)
    return start, model, None


def _validation_table(options: argparse.Namespace, X: Any, y: Any) -> NamedColumns:
    """Read the validation table, with the types of the training columns."""
    from hedgerow.cli.reading import features, tables

    targets = y if isinstance(y, dict) else {options.target[0]: y}
    return tables.read_table(options.valid, features.text_columns({**X, **targets}))


def _validation(
    options: argparse.Namespace, task: str, X: Any, table: NamedColumns | None
) -> tuple[Any, Any] | None:
    """Return features and target of the validation table; None without a table."""
    from hedgerow.cli.reading import features

    if table is None:
        return None
    y = features.targets(table, options.target)
    return (
        features.feature_columns(table, list(X)),
        features.as_targets(y, task, options.valid, options.target[0]),
    )


def _sparse_validation(options: argparse.Namespace, task: str, X: Any) -> tuple[Any, Any] | None:
    """Return entries and target of the validation file, with the columns of the training rows."""
    from hedgerow.cli.reading import batches, features
    from hedgerow.data.sources import Roles

    if options.valid is None:
        return None
    rows: Any = batches.read_tables([options.valid], Roles())
    entries, target = rows
    if entries.shape[1] > X.shape[1]:
        raise UsageError(
            f"{options.valid} has {entries.shape[1]} columns, the training rows have {X.shape[1]}"
        )
    entries.resize((entries.shape[0], X.shape[1]))
    return entries, features.as_targets(target, task, options.valid, "y")


_WORDS = {"true": True, "false": False, "none": None, "null": None}
_OWN_OPTIONS = {"callbacks", "progress", "advanced"}


def parse_settings(pairs: Iterable[str], estimator: type) -> dict[str, Any]:
    """Return values by name; an unknown name is an error with a suggestion."""
    # Advanced parameters are set like the others.
    # A value is a Python number, list or quoted text, or ``true``, ``false`` or ``none`` in upper
    # or lower case. Any other value is plain text.
    known = {*inspect.signature(estimator).parameters, *ADVANCED_NAMES} - _OWN_OPTIONS
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
    return grouped(settings)


def parse_value(text: str) -> Any:
    """Return the number, list, boolean or None that ``text`` spells, else the text."""
    text = text.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
