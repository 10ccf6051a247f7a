"""Inputs of commands: ``-`` for standard input, and text files of any dialect.

Files that every reader can read stay in place.  Standard input and text files in an unusual
dialect are copied to a temporary folder, which is deleted when the command ends.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hedgerow.cli.usage import UsageError, remark, say
from hedgerow.errors import HedgerowError

if TYPE_CHECKING:
    from hedgerow.cli.dialects import DialectOptions

STANDARD = "-"

_LIBSVM_LINE = re.compile(rb"\s*[-+.\deE]+(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?")


def add_input_options(parser: Any) -> None:
    """Add the options for text files."""
    group = parser.add_argument_group("text files", "Options that are left out are detected.")
    group.add_argument("--separator", metavar="CHAR", help="separator of values: , ; | tab")
    group.add_argument("--decimal", metavar="CHAR", help="decimal mark: . or ,")
    group.add_argument("--encoding", metavar="NAME", help="such as utf-8, cp1252, utf-16")


@contextmanager
def readable(options: argparse.Namespace, *names: str) -> Iterator[None]:
    """Replace the paths in these options with readable files, within the block.

    Error messages still contain the user's paths.
    """
    from hedgerow.cli.dialects import dialect_options  # this import loads NumPy

    dialect = dialect_options(options.encoding, options.separator, options.decimal)
    with tempfile.TemporaryDirectory(prefix="hedgerow-") as folder:
        copies = _Copies(folder, dialect)
        for name in names:
            setattr(options, name, copies.of(getattr(options, name)))
        try:
            yield
        except HedgerowError as error:
            text = copies.shown(str(error))
            if text == str(error):
                raise
            raise type(error)(text) from error


class _Copies:
    """Copies of files in a folder, with the names of the originals."""

    def __init__(self, folder: str, dialect: DialectOptions) -> None:
        self._folder, self._dialect = Path(folder), dialect
        self._originals: dict[str, str] = {}

    def of(self, given: Any) -> Any:
        """Return the path, or paths, to read instead of the user's."""
        if given is None:
            return None
        if isinstance(given, str):
            found = self._each(given)
            return found[0] if len(found) == 1 else given
        return [path for item in given for path in self._each(item)]

    def shown(self, text: str) -> str:
        """Return a message with the names of the originals."""
        for copy, original in self._originals.items():
            text = text.replace(copy, original)
        return text

    def _each(self, given: str) -> list[str]:
        if given == STANDARD:
            if any(original == "standard input" for original in self._originals.values()):
                raise UsageError("- is standard input, which can be read once: give - only once")
            return [self._plain(self._from_input(), "standard input")]
        paths = _files(given)
        plain = [self._plain(path, path) for path in paths]
        return [given] if plain == paths else plain

    def _from_input(self) -> str:
        raw = self._new("standard-input")
        with open(raw, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        if os.path.getsize(raw) == 0:
            raise UsageError("standard input is empty")
        named = raw + _ending(raw)
        os.replace(raw, named)
        self._originals[named] = "standard input"
        return named

    def _plain(self, path: str, shown: str) -> str:
        """Return the path, or the path of a copy that every reader can read."""
        from hedgerow.cli.dialects import dialect_of, write_plain

        if not path.lower().endswith((".csv", ".tsv", ".csv.gz", ".tsv.gz")):
            return path
        dialect = dialect_of(path, self._dialect, shown)
        if dialect.is_plain(path):
            return path
        copy = self._new(os.path.basename(path))
        write_plain(path, dialect, copy)
        self._originals[copy] = shown
        remark(f"{shown}: {dialect}")
        return copy

    def _new(self, name: str) -> str:
        """Return a path in a new folder, so that the file keeps its name."""
        place = self._folder / str(len(list(self._folder.iterdir())))
        place.mkdir()
        return str(place / name)


def _files(given: str) -> list[str]:
    """Return the text files of a path; the path itself if its reader must report an error."""
    from hedgerow.data.sources.paths import find_files

    if os.path.isfile(given):
        return [given]
    try:
        return [file.path for file in find_files([given]) if not file.partition] or [given]
    except HedgerowError:
        return [given]


def _ending(path: str) -> str:
    """Return the suffix for a file's first bytes."""
    with open(path, "rb") as file:
        first = file.read(4096)
    if first.startswith(b"PAR1"):
        return ".parquet"
    if first.startswith(b"ARROW1"):
        return ".arrow"
    if first.startswith(b"\x1f\x8b"):
        return ".csv.gz"
    return ".libsvm" if _LIBSVM_LINE.fullmatch(first.partition(b"\n")[0]) else ".csv"


@contextmanager
def writable(path: str, suffix: str = ".csv") -> Iterator[str]:
    """Yield a path to write to; for ``-`` the file is copied to standard output at the end."""
    if path != STANDARD:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="hedgerow-") as folder:
        place = os.path.join(folder, f"output{suffix}")
        yield place
        with open(place, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def announce(text: object, output: str) -> None:
    """Print a message, to standard error if standard output is for a table."""
    (remark if output == STANDARD else say)(text)


__all__ = ["STANDARD", "add_input_options", "announce", "readable", "writable"]
