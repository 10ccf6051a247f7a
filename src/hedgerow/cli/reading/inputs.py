"""Inputs of commands: ``-`` for standard input, and text files of any dialect.

Files that every reader can read stay in place.  Standard input and text files in an unusual
dialect are copied to a temporary folder, which is deleted when the command ends, or by the next
command if it is killed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hedgerow.cli.usage import UsageError, copy_to_output, has_output, remark, say
from hedgerow.errors import HedgerowError

if TYPE_CHECKING:
    from hedgerow.cli.reading.dialects import DialectOptions
    from hedgerow.data.external.scratch import ScratchFolder

STANDARD = "-"

_LIBSVM_LINE = re.compile(rb"\s*[-+.\deE]+(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?")


def add_input_options(parser: Any) -> None:
    """Add the options for text files."""
    group = parser.add_argument_group("text files", "Options that are left out are detected.")
    group.add_argument(
        "--separator", "--sep", "--delimiter", metavar="CHAR", help="separator of values: , ; | tab"
    )
    group.add_argument("--decimal", metavar="CHAR", help="decimal mark: . or ,")
    group.add_argument("--encoding", metavar="NAME", help="such as utf-8, cp1252, utf-16")


def add_task_option(parser: Any) -> None:
    """Add the option that says what the target is."""
    parser.add_argument(
        "--task",
        choices=("auto", "classification", "regression"),
        default="auto",
        help="auto: classes if the target is text or at most 10 distinct whole numbers",
    )


@contextmanager
def readable(options: argparse.Namespace, *names: str) -> Iterator[None]:
    """Replace the paths in these options with readable files, within the block.

    Error messages still contain the user's paths.
    """
    from hedgerow.cli.reading.dialects import dialect_options  # this import loads NumPy

    dialect = dialect_options(options.encoding, options.separator, options.decimal)
    copies = _Copies(dialect)
    try:
        for name in names:
            setattr(options, name, copies.of(getattr(options, name)))
        yield
    except HedgerowError as error:
        text = copies.shown(str(error))
        if text == str(error):
            raise
        raise type(error)(text) from error
    finally:
        copies.close()


class _Copies:
    """Copies of files in a folder, with the names of the originals.

    The folder is created for the first copy: most commands need none.
    """

    def __init__(self, dialect: DialectOptions) -> None:
        self._folder: ScratchFolder | None = None
        self._dialect = dialect
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

    def close(self) -> None:
        """Delete the copies."""
        if self._folder is not None:
            self._folder.close()

    def _each(self, given: str) -> list[str]:
        if given == STANDARD:
            if any(original == "standard input" for original in self._originals.values()):
                raise UsageError("- is standard input, which can be read once: give - only once")
            return [self._plain(self._from_input(), "standard input")]
        paths = _files(given)
        plain = [self._plain(path, path) for path in paths]
        return [given] if plain == paths else plain

    def _from_input(self) -> str:
        if sys.stdin is None or sys.stdin.closed:
            raise UsageError("standard input is closed: name a file instead of -")
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
        from hedgerow.cli.reading.dialects import dialect_of, write_plain

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
        if self._folder is None:
            self._folder = _scratch_folder()
        place = self._folder.path / str(len(list(self._folder.path.iterdir())))
        place.mkdir()
        return str(place / name)


def _scratch_folder() -> ScratchFolder:
    from hedgerow.data.external.scratch import ScratchFolder, temporary_folder

    return ScratchFolder(temporary_folder("set TMPDIR to a folder in which you may write"))


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
def writable(path: str) -> Iterator[str]:
    """Yield a path to write to; for ``-`` the file is copied to standard output at the end."""
    if path != STANDARD:
        yield path
        return
    if not has_output():
        raise UsageError("standard output is closed: name a file instead of -")
    folder = _scratch_folder()
    try:
        place = str(folder.path / "output.csv")
        yield place
        with open(place, "rb") as file:
            copy_to_output(file)
    finally:
        folder.close()


def announce(text: object, output: str) -> None:
    """Print a message, to standard error if standard output is for a table."""
    (remark if output == STANDARD else say)(text)
