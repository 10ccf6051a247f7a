"""One line of a terminal that is overwritten, for the progress of long work."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TextIO


class RewrittenLine:
    """A line of a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, line: str) -> None:
        """Replace the line, cut to the width of the terminal."""
        width = shutil.get_terminal_size().columns - 1
        self._put(f"\r\x1b[2K{line[:width]}")

    def end(self) -> None:
        """Leave the line as it is, and begin the next."""
        self._put("\n")

    def _put(self, text: str) -> None:
        with suppress(OSError):  # a terminal that was closed must not stop the work
            self._stream.write(text)
            self._stream.flush()
