"""Errors and warnings of Hedgerow, and functions that make text safe to show.

Every message names the column, row or parameter, its value, the allowed
values, and what to do.  Errors about arguments are also ``ValueError`` or
``TypeError``, so code written for scikit-learn keeps working.

Names and values may come from files by other people, and such text could control a
terminal: move the cursor, set the title, reverse the direction of writing.  Every message
and every line of the command line therefore passes through :func:`printable`.
"""

from __future__ import annotations

import difflib
import os
import re
import reprlib
from collections.abc import Callable, Iterable
from typing import Any, Self


class HedgerowError(Exception):
    """Base class of all errors that Hedgerow raises on purpose."""

    row: int | None = None
    """The row that the message names by its place among the rows of a fit."""

    def at(self, row: int | None) -> Self:
        """Remember the row that the message names by its place."""
        self.row = row
        return self

    def name_row(self, name: Callable[[int], str]) -> None:
        """Replace the place of the row in the message by the user's name of the row."""
        if self.row is not None:
            place = rf"\brow {self.row}\b"
            self.args = (re.sub(place, lambda _: name(self.row or 0), str(self.args[0]), count=1),)
            self.row = None

    def __str__(self) -> str:
        return printable(super().__str__())


class ParameterError(HedgerowError, ValueError):
    """A parameter is unknown, out of range, or has no effect with the other parameters."""


class UnknownNameError(ParameterError, TypeError):
    """A constructor or method has no such argument; also a ``TypeError``, as in Python."""


class AbsentAttributeError(ParameterError, AttributeError):
    """An attribute that this model does not have; also an ``AttributeError``, for ``hasattr``."""


class AllRowsNeededError(ParameterError):
    """An option needs all rows at once, but the rows are read in parts.

    Rows in files are then read into memory if they fit
    (:mod:`hedgerow.boosting.external.file_dataset`).
    """


class DataError(HedgerowError, ValueError):
    """The table, target or weights cannot be used."""


class DataTypeError(HedgerowError, TypeError):
    """A column or an argument has a type that cannot be used."""


class ModelFormatError(HedgerowError, ValueError):
    """The bytes passed to a loader are not a valid Hedgerow model."""


class LossError(HedgerowError, ValueError):
    """A user-defined objective or metric returned an unusable value."""


class HedgerowWarning(UserWarning):
    """Base class of all warnings of Hedgerow: one filter shows, hides or raises them all."""


class InterruptedFitWarning(HedgerowWarning):
    """An interrupt (Ctrl-C) ended a fit: its model has the completed rounds."""


class FoldsWarning(HedgerowWarning):
    """The folds of early stopping contradict each other, so their choice is doubtful."""


class CommunicationError(HedgerowError, RuntimeError):
    """Another process of a training is lost, does not answer, or sends unexpected data."""


class DeviceError(HedgerowError, RuntimeError):
    """A GPU is asked for, but there is none, or it has too little memory or another defect."""


class StorageError(HedgerowError, OSError):
    """A file of a training is unreadable, has changed, or the disk is full."""


class CompilationError(HedgerowError, RuntimeError):
    """Code needs compilation, but compilation is off or Numba is not installed.

    Attributes
    ----------
    could_be_built : bool
        Whether the built libraries of the package could contain the code; False for
        user-defined losses, and for kernels that only tests call directly.
    """

    could_be_built = True


def printable(text: str) -> str:
    r"""Return the text with non-printable characters escaped, except for line breaks.

    >>> print(printable("red: \x1b[31m, backwards: \u202e\nnext line"))
    red: \x1b[31m, backwards: \u202e
    next line
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in text
    )


def shown_name(name: str) -> str:
    """Return a name that can neither break a line nor control a terminal."""
    return name if name and name.isprintable() else ascii(name)


class _Brief(reprlib.Repr):
    """The shown text of values: long ones are cut, tables and arrays are named by their shape."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = 80
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = 8
        self.maxlevel = 3

    def repr_int(self, x: int, level: int) -> str:
        """Python refuses to write integers of thousands of digits."""
        try:
            return super().repr_int(x, level)
        except ValueError:
            return f"an integer of {x.bit_length()} bits"

    def repr_instance(self, x: object, level: int) -> str:
        text = super().repr_instance(x, level)
        shape = getattr(x, "shape", None)
        if isinstance(shape, tuple) and (len(text) >= self.maxother or "\n" in text):
            return f"{type(x).__name__} of shape {shape}"
        return " ".join(text.split())


_BRIEF = _Brief()
_MOST_LETTERS = 200
"""Limit on the letters of a value in an error."""

_LONGEST_PATH, _LONGEST_NAME = 4_096, 255
"""Most letters of a path and of its parts on Linux; other systems allow less."""


def brief(value: object) -> str:
    """Return the ``repr`` of a value for an error, shortened if it is long.

    >>> print(brief("gbdt"), brief([0.5, None]), brief(list(range(1000))))
    'gbdt' [0.5, None] [0, 1, 2, 3, 4, 5, 6, 7, ...]
    """
    text = _BRIEF.repr(value)
    half = _MOST_LETTERS // 2
    return text if len(text) <= _MOST_LETTERS else f"{text[:half]}...{text[-half:]}"


def path_repr(path: str | bytes | os.PathLike[Any]) -> str:
    """Return the ``repr`` of a path for an error: whole, unless it is too long to be a path.

    >>> print(path_repr("models/" + 20 * "long" + ".hedgerow")[-12:])
    ng.hedgerow'
    """
    text = os.fsdecode(path)
    longest_name = max(map(len, text.replace("\\", "/").split("/")))
    is_possible = len(text) <= _LONGEST_PATH and longest_name <= _LONGEST_NAME
    return repr(text) if is_possible else brief(text)


def ordinal(number: int) -> str:
    """Return the word for a position, such as 1st, 22nd or 113th."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest known word, or ``""``."""
    text = word if isinstance(word, str) else brief(word)
    close = difflib.get_close_matches(text, sorted(known), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""
