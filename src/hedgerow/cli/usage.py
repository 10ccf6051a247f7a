"""Common parts of the commands: the error type, the parser, and printing."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from hedgerow.errors import HedgerowError, printable


class UsageError(HedgerowError):
    """Error in the command line; the message says what to change."""


class Parser(argparse.ArgumentParser):
    """Argument parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def one_line(message: object) -> str:
    """Return the text of an error without line breaks and terminal control characters."""
    return printable(" ".join(str(message).split()))


def say(text: object) -> None:
    """Print a text at once; nothing else in the command line prints to standard output."""
    print(printable(str(text)), flush=True)


def remark(text: object) -> None:
    """Print a text to standard error, to keep it apart from the program's output."""
    print(printable(str(text)), file=sys.stderr, flush=True)


@contextmanager
def printable_warnings() -> Iterator[None]:
    """Remove terminal control characters from warnings, within the block."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda *given, **more: printable(before(*given, **more))
    try:
        yield
    finally:
        warnings.formatwarning = before
