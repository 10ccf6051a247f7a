"""Displays of a progress bar: a terminal, a notebook, or none.

In a notebook, IPython runs the program and is loaded already; this module never loads
it.  If standard error is not a terminal (a file, a pipe, a log), nothing is drawn.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Sequence
from typing import Any, Protocol, TextIO

from hedgerow.terminal import RewrittenLine

CELLS = 24


class Display(Protocol):
    """Protocol of displays of a progress bar."""

    def show(self, done: int, total: int, words: Sequence[str]) -> None:
        """Redraw the bar, followed by words."""

    def close(self) -> None:
        """End the display."""


class TerminalLine:
    """One line of a terminal, which is overwritten.

    ::

        [##########..............] 42/100  validation loss 0.3127  1.8 s

    Parameters
    ----------
    stream : text file
    """

    def __init__(self, stream: TextIO) -> None:
        self._line = RewrittenLine(stream)

    def show(self, done: int, total: int, words: Sequence[str]) -> None:
        filled = CELLS * done // total
        bar = f"[{'#' * filled}{'.' * (CELLS - filled)}] {done}/{total}"
        self._line.show("  ".join([bar, *words]))

    def close(self) -> None:
        self._line.end()


class NotebookBar:
    """An output of a notebook cell, which is replaced.

    Parameters
    ----------
    display : callable
        ``IPython.display.display``.
    """

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, done: int, total: int, words: Sequence[str]) -> None:
        plain = "  ".join([f"{done}/{total}", *words])
        shown = {
            "text/plain": plain,
            "text/html": f'<progress value="{done}" max="{total}"></progress> {html.escape(plain)}',
        }
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def close(self) -> None:
        """Keep the last state."""


def find_display(stream: TextIO | None = None) -> Display | None:
    """Return the display of this process, or None if nobody would see it."""
    if stream is None:
        show = _notebook_display()
        if show is not None:
            return NotebookBar(show)
        stream = sys.stderr
    # Standard error is None in a process without a console.
    return TerminalLine(stream) if stream is not None and stream.isatty() else None


def _notebook_display() -> Any:
    """Return ``IPython.display.display`` in a notebook, else None."""
    loaded = sys.modules.get("IPython")
    shell = None if loaded is None else getattr(loaded, "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:  # IPython in a terminal has no kernel
        return None
    from IPython.display import display

    return display
