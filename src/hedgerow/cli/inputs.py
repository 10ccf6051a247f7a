"""Inputs of commands: ``-`` for standard input, and text files of any dialect.

Standard input is copied to a temporary folder, which is deleted when the command ends, or by the
next command if it is killed.
"""

from __future__ import annotations

import argparse
import codecs
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from hedgerow.cli.usage import UsageError, copy_to_output, has_output, utf8
from hedgerow.errors import HedgerowError

STANDARD = "-"

_NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}


def add_input_options(parser: Any) -> None:
    """Add the options for text files."""
    group = parser.add_argument_group("text files", "Options that are left out are detected.")
    group.add_argument(
        "--separator",
        "--sep",
        "--delimiter",
        type=_separator,
        metavar="CHAR",
        help="separator of values: , ; | tab",
    )
    group.add_argument("--decimal", choices=(".", ","), metavar="CHAR", help="decimal mark: . or ,")
    group.add_argument(
        "--encoding", type=_encoding, metavar="NAME", help="such as utf-8, cp1252, utf-16"
    )


def _separator(text: str) -> str:
    """Return the separator that a text is, or names."""
    separator = _NAMED.get(text, text)
    if len(separator) != 1 or separator in '"\r\n':
        raise argparse.ArgumentTypeError(
            f"{text!r} is no separator: use one character, or tab, comma, semicolon, pipe, space"
        )
    return separator


def _encoding(name: str) -> str:
    """Return the name of an encoding that Python has."""
    try:
        codecs.lookup(name)
    except LookupError:
        raise argparse.ArgumentTypeError(
            f"no such encoding, {name!r}; examples: utf-8, cp1252, latin-1, utf-16"
        ) from None
    return name


def add_column(parser: Any, option: str, text: str, **more: Any) -> None:
    """Add an option that names a column."""
    parser.add_argument(option, type=utf8, metavar="COL", help=text, **more)


def add_model_and_tables(parser: Any, purpose: str) -> None:
    """Add the model file, and the tables, whose ``purpose`` is told by the help."""
    parser.add_argument("model", metavar="MODEL", help="model file")
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="+",
        help=f"tables {purpose} (.csv, .parquet, .arrow, ...), folders of tables, or - "
        "for standard input",
    )


def add_drop(parser: Any) -> None:
    """Add the option for columns that are left out."""
    add_column(parser, "--drop", "column to leave out", action="append", default=[])


def add_output(parser: Any, text: str, **more: Any) -> None:
    """Add the option for the file to write."""
    parser.add_argument("-o", "--out", "--output", **{"metavar": "OUT", "help": text} | more)


def add_task_option(parser: Any) -> None:
    """Add the option that says what the target is."""
    parser.add_argument(
        "--task",
        choices=("auto", "classification", "regression"),
        default="auto",
        help="auto: classes if the target is text or at most 10 distinct whole numbers",
    )


def check_page(option: str, path: str, *inputs: str | None) -> None:
    """Raise ``UsageError``, before the work begins, unless a page can be written to this path."""
    from importlib.util import find_spec

    from hedgerow.atomic import check_place

    if not path.lower().endswith((".html", ".htm")):
        raise UsageError(f"{option} {path}: the page must be a .html file")
    check_not_input(option, path, *inputs)
    if find_spec("matplotlib") is None:
        raise UsageError("a page needs matplotlib: pip install 'hedgerow[plot]'")
    check_place(path)


def check_not_input(option: str, path: str, *inputs: str | None) -> None:
    """Raise ``UsageError`` if an output would replace an input."""
    if path in inputs:
        raise UsageError(f"{option} {path} would replace an input; name another file")


@contextmanager
def readable(options: argparse.Namespace, *names: str) -> Iterator[None]:
    """Replace ``-`` and text files of a dialect in these options; errors have the user's paths."""
    given = {name: getattr(options, name) for name in ("encoding", "separator", "decimal")}
    given = {name: value for name, value in given.items() if value is not None}
    copy = ""  # of standard input

    def files_of(path: str) -> list[Any]:
        nonlocal copy
        if path == STANDARD:
            if copy:
                raise UsageError("- is standard input, which can be read once: give - only once")
            path = copy = _copy_of_input(stack.enter_context(tempfile.TemporaryDirectory()))
        if not given:
            return [path]
        from hedgerow.data.sources.paths import Dialect, find_files

        try:
            files = find_files(path)
        except HedgerowError:  # which the reader reports
            return [path]
        dialect = Dialect(**given)
        return [replace(file, dialect=dialect) if file.format == "csv" else file for file in files]

    with ExitStack() as stack:
        try:
            for name in names:
                value = getattr(options, name)
                if isinstance(value, str):
                    files = files_of(value)
                    setattr(options, name, files[0] if len(files) == 1 else value)
                elif value is not None:
                    setattr(options, name, [file for path in value for file in files_of(path)])
            yield
        except HedgerowError as error:
            if not copy or copy not in str(error):
                raise
            raise type(error)(str(error).replace(copy, "standard input")) from error


def reading(
    work: Callable[[argparse.Namespace], None], *names: str
) -> Callable[[argparse.Namespace], None]:
    """Return a command that works with the files of these options, as :func:`readable` has them."""

    def run(options: argparse.Namespace) -> None:
        with readable(options, *names):
            work(options)

    return run


_ENDINGS = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"\x1f\x8b": ".csv.gz"}
"""Suffixes of files by their first bytes; all others are text."""


def _copy_of_input(folder: str) -> str:
    """Copy standard input to a file in a folder; return its path."""
    if sys.stdin is None or sys.stdin.closed:
        raise UsageError("standard input is closed: name a file instead of -")
    raw = os.path.join(folder, "standard-input")
    with open(raw, "wb+") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.seek(0)
        first = file.read(8)
    if not first:
        raise UsageError("standard input is empty")
    ending = next((ending for start, ending in _ENDINGS.items() if first.startswith(start)), ".csv")
    os.replace(raw, raw + ending)
    return raw + ending


@contextmanager
def writable(path: str) -> Iterator[str]:
    """Yield a path to write to; for ``-`` the file is copied to standard output at the end."""
    if path != STANDARD:
        yield path
        return
    if not has_output():
        raise UsageError("standard output is closed: name a file instead of -")
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "output.csv")
        yield place
        with open(place, "rb") as file:
            copy_to_output(file)
