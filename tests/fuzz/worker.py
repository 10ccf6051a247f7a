"""Check configurations one after the other in this process, and report each result."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import threading
import time
import traceback
from typing import Any


def prepare() -> None:
    """Make the process end with a traceback if it hangs or crashes."""
    faulthandler.enable()

    def leave(error: Any) -> None:
        # The other threads would wait for this one.
        sys.__excepthook__(error.exc_type, error.exc_value, error.exc_traceback)
        sys.stderr.flush()
        os._exit(70)

    threading.excepthook = leave


def check_bounds_are_checked() -> None:
    """Check that an index out of bounds is an error under ``NUMBA_BOUNDSCHECK=1``."""
    if os.environ.get("NUMBA_BOUNDSCHECK", "0") in ("", "0"):
        return
    from numba import config

    assert config.BOUNDSCHECK == 1


def work(seed: int, numbers: range, core: bool) -> int:
    """Check ``numbers``, and print a line of JSON before and after each."""
    prepare()
    check_bounds_are_checked()
    from .checks import check
    from .configurations import draw_configuration

    for number in numbers:
        _tell(number, state="began")
        began = time.monotonic()
        try:
            end = {"state": "ended", "outcome": check(seed, number, core)}
        except Exception:
            what = str(draw_configuration(seed, number, core))
            end = {"state": "found", "what": what, "error": traceback.format_exc()}
        _tell(number, seconds=round(time.monotonic() - began, 2), **end)
    return 0


def run_one(seed: int, number: int, core: bool) -> int:
    """Check one configuration in this process, with its traceback."""
    prepare()
    check_bounds_are_checked()
    from .checks import check
    from .configurations import draw_configuration

    print(draw_configuration(seed, number, core), flush=True)
    print(check(seed, number, core))
    return 0


def _tell(number: int, **values: Any) -> None:
    sys.stdout.write(json.dumps({"number": number, **values}) + "\n")
    sys.stdout.flush()
