"""Test times on a machine that may run other programs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

ATTEMPTS = 5
"""Attempts: a defect fails all of them, a short pause of the machine does not."""


def slowness() -> float:
    """Return how many times slower this machine is than the machine of the limits, at least 1.

    The figure is the best processor time of several runs of additions in the interpreter.
    """

    def add_up() -> float:
        began = time.thread_time()
        sum(i for i in range(200_000))
        return time.thread_time() - began

    return max(1.0, min(add_up() for _ in range(7)) / _SECONDS_OF_ADDITIONS)


_SECONDS_OF_ADDITIONS = 0.006


def wait_until(condition: Callable[[], object], limit: float = 120.0) -> None:
    """Wait until another thread or process meets a condition; raise an error if it hangs."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"did not happen in {limit} s"
        time.sleep(0.005)


def keeps_to_budget(fit: Callable[[Callable[[Any], None]], Any], seconds: float) -> Any:
    """Call ``fit(callback)`` until its time meets the budget, as exactly as the machine allows.

    The error may be a tenth of the budget plus three times the longest round after the first
    one.  On a quiet machine this is little; on a busy one the fit cannot be more exact.
    """
    took = []
    for _ in range(ATTEMPTS):
        ends: list[float] = []

        def end_of_round(state: Any, ends: list[float] = ends) -> None:
            ends.append(time.monotonic())

        began = time.monotonic()
        model = fit(end_of_round)
        took.append(time.monotonic() - began)
        longest = max((b - a for a, b in itertools.pairwise(ends)), default=0.0)
        if abs(took[-1] - seconds) < 0.1 * seconds + 3 * longest:
            return model
    raise AssertionError(f"a budget of {seconds} s took {took}")
