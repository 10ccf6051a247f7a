"""What every command shares: its one kind of error and its parser."""

from __future__ import annotations

import argparse
from typing import NoReturn

from hedgerow.errors import HedgerowError


class UsageError(HedgerowError):
    """The command cannot be carried out as given; the message says what to do."""


class Parser(argparse.ArgumentParser):
    """A parser that answers a wrong command line with one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def one_line(message: object) -> str:
    """The text of an error without line breaks."""
    return " ".join(str(message).split())
