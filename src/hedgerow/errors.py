"""Errors that users of Hedgerow may want to catch, and texts that are safe to show.

Every message names the column, row or parameter, what was given, what is
allowed and what to do.  Errors about arguments are also ``ValueError`` or
``TypeError``, so that code written for scikit-learn keeps working.

Names and values come from files that others may have written: as text they could steer a
terminal (move the cursor, set its title, turn the direction of writing).  Every message
goes through :func:`printable`, and every line that the command line prints.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HedgerowError(Exception):
    """Base of all errors raised on purpose by Hedgerow."""

    def __str__(self) -> str:
        return printable(super().__str__())


class ParameterError(HedgerowError, ValueError):
    """A parameter is unknown, out of range, or has no effect beside another."""


class UnknownNameError(ParameterError, TypeError):
    """An argument that a constructor or a method does not have, as Python's own TypeError."""


class AllRowsNeededError(ParameterError):
    """What is asked for looks at all rows at once, and these are read part by part.

    Rows of files are then read into memory if they fit
    (:mod:`hedgerow.boosting.external.resident`).
    """


class DataError(HedgerowError, ValueError):
    """The table, target or weights cannot be used as they are."""


class DataTypeError(HedgerowError, TypeError):
    """A column or an argument has a type that cannot be used."""


class ModelFormatError(HedgerowError, ValueError):
    """The bytes given to a loader are not a valid Hedgerow model."""


class LossError(HedgerowError, ValueError):
    """A user-written objective or metric returned something unusable."""


class HedgerowWarning(UserWarning):
    """Base of all warnings of Hedgerow: one filter shows, hides or raises them all."""


class InterruptedFitWarning(HedgerowWarning):
    """An interrupt (Ctrl-C) ended a fit: its model holds the rounds up to then."""


class FoldsWarning(HedgerowWarning):
    """The folds of early stopping contradict each other, so what they choose is doubtful."""


class CommunicationError(HedgerowError, RuntimeError):
    """Another process of a training is lost, does not answer, or sends what is not expected."""


class StorageError(HedgerowError, OSError):
    """A file that a training reads or writes is unreadable, has changed, or the disk is full."""


class CompilationError(HedgerowError, RuntimeError):
    """Code would have to be compiled, but must not be, or Numba is not installed.

    Attributes
    ----------
    could_be_built : bool
        Whether built code of the package could have done it; False for losses of the
        user's, and for kernels that only tests call by themselves.
    """

    could_be_built = True


def printable(text: str) -> str:
    r"""Return a text in which what cannot be seen is spelled out, but for spaces and line breaks.

    Examples
    --------
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
    """Return a name that cannot break a line or steer a terminal."""
    return name if name and name.isprintable() else ascii(name)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest known word, or ``""``."""
    close = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""
