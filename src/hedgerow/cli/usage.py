"""Common parts of the commands: the error type, the parser, hints, and printing."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, NoReturn, TextIO

from hedgerow.errors import HedgerowError, did_you_mean, printable


class UsageError(HedgerowError):
    """Error in the command line; the message says what to change."""


class Parser(argparse.ArgumentParser):
    """Argument parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse the arguments of a command; the command itself reports those that it lacks."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            places = {each.dest for each in self._actions if not each.option_strings}
            hint = unknown_option_hint(rest, self._option_string_actions, places)
            self.error(f"unrecognized arguments: {' '.join(rest)}{hint}")
        return found, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Name the nearest of the choices."""
        if action.choices is not None and value not in action.choices:
            known = [*map(str, action.choices)]
            raise argparse.ArgumentError(
                action,
                f"invalid choice: {value!r}.{did_you_mean(value, known)} choose from "
                f"{', '.join(known)}",
            )

    def _print_message(self, message: str, file: Any = None) -> None:
        _write(sys.stdout, message)  # only help and version are printed


def utf8(argument: str) -> str:
    """Return an argument that is text, such as the name of a column."""
    # Where the locale lacks the characters of UTF-8, Python passes their bytes as surrogates. Paths
    # stay as they are, because files are opened by their bytes.
    try:
        argument.encode()
    except UnicodeEncodeError:
        with suppress(UnicodeError):
            return os.fsencode(argument).decode()
    return argument


def one_line(message: object) -> str:
    """Return the text of an error without line breaks and terminal control characters."""
    return printable(" ".join(str(message).split()))


_failures: list[OSError] = []
"""Failures of standard output, kept until the end of the command."""


def say(text: object) -> None:
    """Print a text at once; nothing else in the command line prints to standard output."""
    # A failure does not interrupt the command, which may still have a file to write:
    # :func:`complete_output` reports it at the end.
    _write(sys.stdout, f"{printable(str(text))}\n")


def remark(text: object) -> None:
    """Print a text to standard error, to keep it apart from the program's output."""
    _write(sys.stderr, f"{printable(str(text))}\n")


def copy_to_output(file: BinaryIO) -> None:
    """Copy the bytes of a file to standard output."""
    try:
        shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except OSError as error:
        _discard(sys.stdout)
        _failures.append(error)


def has_output() -> bool:
    """Return whether standard output is open, and has taken everything so far."""
    return sys.stdout is not None and not sys.stdout.closed and not _failures


def shows_progress() -> bool:
    """Return whether standard error is a terminal; it is None if the process has none."""
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()


@contextmanager
def complete_output() -> Iterator[None]:
    """Raise an error at the end of the block if standard output failed within it."""
    _failures.clear()
    try:
        yield
    except SystemExit:  # `--help` and `--version`
        _report_failure()
        raise
    _report_failure()


def _report_failure() -> None:
    _write(sys.stderr, "")  # warnings may be left in its buffer
    _write(sys.stdout, "")
    for error in _failures:
        # A broken pipe is no error: its reader has read all that it wants (`hedgerow inspect |
        # head`).
        if not isinstance(error, BrokenPipeError):
            raise OSError(error.errno, error.strerror or str(error), "standard output") from error


def _write(stream: TextIO | None, text: str) -> None:
    """Write a text to a stream, which may be closed; escape characters that its encoding lacks."""
    if stream is None or stream.closed:
        return
    if stream.encoding:
        text = text.encode(stream.encoding, "backslashreplace").decode(stream.encoding)
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        _discard(stream)
        if stream is sys.stdout:
            _failures.append(error)


def _discard(stream: TextIO) -> None:
    """Redirect a failed stream to the null device, because Python flushes it again at exit."""
    with suppress(OSError, ValueError):  # a stream without a descriptor
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(null, stream.fileno())
        finally:
            os.close(null)


@contextmanager
def printable_warnings() -> Iterator[None]:
    """Remove terminal control characters from warnings, within the block."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda *given, **more: printable(before(*given, **more))
    try:
        yield
    finally:
        warnings.formatwarning = before


_OTHER_NAMES = {
    other: ours
    for ours, others in {
        "--valid": "eval eval-set validation",
        "--target": "label labels y",
        "--groups": "group",
        "--drop": "ignore ignore-column ignore-columns exclude exclude-columns skip drop-column "
        "drop-columns",
        "-o": "save output-model output-path",
        "--set": "param params",
    }.items()
    for other in others.split()
}
"""Options of other programs, and those of Hedgerow with the same meaning."""
_PARAMETERS = {"threads": "n_jobs", "trees": "n_estimators", "rounds": "n_estimators"}
"""Options of other programs, and parameters of Hedgerow with the same meaning."""


def unknown_option_hint(rest: Sequence[str], known: Iterable[str], positional: set[str]) -> str:
    """Return a sentence about the first unknown option, or ``""``."""
    first = next((each for each in rest if each.startswith("-") and each != "-"), "")
    option, equals, value = first.partition("=")
    name, every = option.lstrip("-"), set(known)
    if not name:
        return ""
    if name in positional:
        return f": {name.upper()} is given without an option, by its place"
    ours = _OTHER_NAMES.get(name.replace("_", "-"))
    if ours in every:
        return f": use {ours!r}"
    if ours == "--drop":
        return ": columns that the model does not use are ignored"
    if "--set" in every:
        after = rest[rest.index(first) + 1 :]
        given = value if equals else next((v for v in after[:1] if not v.startswith("--")), "...")
        hint = _parameter_hint(name.replace("-", "_"), given)
        if hint:
            return hint
    found = did_you_mean(option, every)
    return f".{found}" if found else ""


def _parameter_hint(name: str, value: str) -> str:
    """Return how to set a parameter, by its name here or in another library; else ``""``."""
    import inspect

    from hedgerow.convert.settings.names import name_hint
    from hedgerow.estimators import HedgerowClassifier, HedgerowRanker, HedgerowRegressor
    from hedgerow.params import ADVANCED_NAMES

    kinds = (HedgerowClassifier, HedgerowRanker, HedgerowRegressor)
    name = _PARAMETERS.get(name, name)
    known = {each for kind in kinds for each in inspect.signature(kind).parameters}
    if name in {*known, *ADVANCED_NAMES} - {"callbacks", "progress", "advanced"}:
        return f": parameters are given by --set, such as --set {name}={value}"
    hint = name_hint(name, known)
    return f".{hint} Parameters are given by --set NAME=VALUE" if "'s " in hint else ""
