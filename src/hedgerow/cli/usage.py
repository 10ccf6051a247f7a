"""What every command shares: its one kind of error, its parser, and how it prints."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from hedgerow.errors import HedgerowError, printable


class UsageError(HedgerowError):
    """The command cannot be carried out as given; the message says what to do."""


class Parser(argparse.ArgumentParser):
    """A parser that answers a wrong command line with one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def one_line(message: object) -> str:
    """The text of an error without line breaks, and without what could steer a terminal."""
    return printable(" ".join(str(message).split()))


def say(text: object) -> None:
    """Print a text at once; nothing else in the command line prints to standard output."""
    print(printable(str(text)), flush=True)


def remark(text: object) -> None:
    """Print a text to standard error, where it is in no way of what a program writes."""
    print(printable(str(text)), file=sys.stderr, flush=True)


@contextmanager
def printable_warnings() -> Iterator[None]:
    """Within the block, the texts of warnings cannot steer a terminal either."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda *given, **more: printable(before(*given, **more))
    try:
        yield
    finally:
        warnings.formatwarning = before
