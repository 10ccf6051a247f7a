"""Messages on stderr while kernels are compiled.

``HEDGEROW_QUIET=1`` turns them off.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

TYPICAL = 12
"""Kernels that a fit with default parameters and a prediction compile."""

_LINE = 100


class Progress:
    """Count of the kernels that this process has compiled, and its line on stderr."""

    def __init__(self) -> None:
        self.expected = TYPICAL
        self._depth = 0
        self._done = 0
        self._began = 0.0

    @contextmanager
    def compiling(self, function: Any, folder: Path | None) -> Iterator[None]:
        """Show a kernel while it is compiled; kernels that it calls count as part of it."""
        self._depth += 1
        try:
            if self._depth == 1:
                self._begin(function, folder)
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._done += 1

    def _begin(self, function: Any, folder: Path | None) -> None:
        if self._done == 0:
            self._began = time.perf_counter()
            kept = f"once per machine, kept in {folder}" if folder else "anew in each process"
            _write(f"hedgerow: compiling kernels ({kept})\n")
        if not _rewrites_lines():
            return
        spent = time.perf_counter() - self._began
        total = max(self.expected, self._done + 1)
        left = f", about {spent / self._done * (total - self._done):.0f} s left"
        module = function.__module__.removeprefix("hedgerow.")
        text = (
            f"hedgerow: {self._done + 1} of about {total}: {module}.{function.__qualname__}"
            f"{left if self._done > 2 else ''}"
        )
        _write(f"\r{text[:_LINE]:{_LINE}}\r")


def _rewrites_lines() -> bool:
    """Return whether stderr is a terminal or a notebook, where a line can be overwritten."""
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)


def _write(text: str) -> None:
    if os.environ.get("HEDGEROW_QUIET", "") in ("", "0") and sys.stderr is not None:
        with suppress(OSError, ValueError):  # a closed stream or pipe must not stop the work
            sys.stderr.write(text)
            sys.stderr.flush()


PROGRESS = Progress()
