"""Run a function in its own process, with a time limit."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

Values: TypeAlias = "dict[str, Any]"


def run_in_process(call: Callable[..., Values], args: tuple[Any, ...], limit: float) -> Values:
    """Return ``call(*args)``, or ``{"failed": reason}``; ``limit`` is in seconds."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe()
    process = context.Process(target=_send_result, args=(sender, call, args), daemon=True)
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(limit) else {"failed": "over the time limit"}
    except EOFError:
        return {"failed": "the process died"}
    finally:
        process.kill()
        process.join()


def _send_result(pipe: Connection, call: Callable[..., Values], args: tuple[Any, ...]) -> None:
    warnings.filterwarnings("ignore")
    try:
        pipe.send(call(*args))
    except Exception as error:  # a failure of a library is a result
        pipe.send({"failed": f"{type(error).__name__}: {error}"[:300]})
