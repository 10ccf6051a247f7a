"""One call in a process of its own, with a time limit."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

Values: TypeAlias = "dict[str, Any]"


def in_process(call: Callable[..., Values], args: tuple[Any, ...], limit: float) -> Values:
    """Return ``call(*args)``, or ``{"failed": why}``; ``limit`` is in seconds."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, call, args), daemon=True)
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(limit) else {"failed": "over the time limit"}
    except EOFError:
        return {"failed": "the process died"}
    finally:
        process.kill()
        process.join()


def _work(pipe: Connection, call: Callable[..., Values], args: tuple[Any, ...]) -> None:
    warnings.filterwarnings("ignore")
    try:
        pipe.send(call(*args))
    except Exception as error:  # a library that fails is a result
        pipe.send({"failed": f"{type(error).__name__}: {error}"[:300]})
