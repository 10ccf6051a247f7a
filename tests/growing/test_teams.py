"""Interrupts while the threads of a fit start and synchronise leave no thread behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from hedgerow.threads import Team

CODE = """
import faulthandler, sys, threading, warnings
import numpy as np
from hedgerow import Dataset, train
from hedgerow.data.external import memory_plan
from hedgerow.growing.chunks.stages import passes

memory_plan.MOST_ROWS = 1 << 15  # several chunks
faulthandler.dump_traceback_later(100, exit=True)  # a helper that waits for ever
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
parts = [(X, X[:, 0] * X[:, 1]) for X in rng.normal(size=(6, 20_000, 8))]


def fit(**more):
    params = {"n_estimators": 2, "max_leaves": 6, "n_jobs": 2, "leaf_estimation": LEAVES}
    data = Dataset.from_batches(lambda: iter(parts), memory_limit="33 MB")
    return train({**params, "objective": LOSS}, data).predict(parts[0][0])


def is_place(frame, event):
    # Python handles signals at the entry of its functions, and after calls of C functions.
    if event not in ("call", "c_return"):
        return False
    inner, outer = frame.f_code.co_filename, frame.f_back and frame.f_back.f_code.co_filename
    return passes.__file__ in (inner, outer)


def inject(at):
    seen = 0

    def profile(frame, event, arg):
        nonlocal seen
        if is_place(frame, event):
            seen += 1
            if seen == at:
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        fit()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return seen


expected = fit()
n_places = inject(-1)
for at in sorted({*range(1, 40), *range(40, n_places, max(1, n_places // 40))})[::STRIDE]:
    assert inject(at) >= at
    for thread in threading.enumerate():
        if thread.name == "hedgerow-1":
            thread.join(10.0)
            assert not thread.is_alive(), at
assert (fit() == expected).all()
print(n_places > 100)
"""


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "case",
    [
        ("squared_error", "newton", 8),
        ("squared_error", "newton", 1),
        ("absolute_error", "line_search", 1),
    ],
)
def test_an_interrupt_anywhere_ends_the_threads(case: tuple[str, str, int]) -> None:
    """A fast run interrupts at every eighth place."""
    loss, leaves, stride = case
    code = CODE.replace("LOSS", repr(loss)).replace("LEAVES", repr(leaves))
    code = code.replace("STRIDE", str(stride))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HEDGEROW_QUIET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n"


def test_helpers_that_started_end_if_the_next_cannot_start(monkeypatch) -> None:
    """Starting fails by an interrupt, or because no more threads are available."""
    started = threading.Thread.start

    def start(self: threading.Thread) -> None:
        if self.name == "hedgerow-2":
            raise RuntimeError("can't start new thread")
        started(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    dismissed = threading.Event()
    with pytest.raises(RuntimeError, match="new thread"):
        Team(4, lambda thread: dismissed.wait(30.0), dismissed.set)
    assert dismissed.is_set()
    assert not [thread for thread in threading.enumerate() if thread.name == "hedgerow-1"]
