"""What can be said of times on a machine that may have other work to do."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

ATTEMPTS = 5
"""A defect fails them all; a machine that stops for a moment does not."""


def slowness() -> float:
    """Return how many times as long as on the machine of the limits this one takes, at least 1.

    By the processor's time of additions in the interpreter, best of a few, as other work may run.
    """

    def add_up() -> float:
        began = time.thread_time()
        sum(i for i in range(200_000))
        return time.thread_time() - began

    return max(1.0, min(add_up() for _ in range(7)) / _SECONDS_OF_ADDITIONS)


_SECONDS_OF_ADDITIONS = 0.006


def wait_until(condition: Callable[[], object], limit: float = 120.0) -> None:
    """Wait for what another thread or process does; an error only if that hangs."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"did not happen in {limit} s"
        time.sleep(0.005)


def keeps_to_budget(fit: Callable[[Callable[[Any], None]], Any], seconds: float) -> Any:
    """Call ``fit(callback)`` until its time is the budget, as exactly as the machine allows.

    A tenth of the budget may be missing or too much, and three rounds of the longest that
    there was after the first: on a quiet machine that is next to nothing, on one that
    leaves the fit waiting now and then the fit cannot know better.
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
