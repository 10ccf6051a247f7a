"""The loop over the rounds of a fit, until the fit ends.

Reasons why a fit ends (``stopped_by`` in its record):

=================  =====================================================================
``rounds``         ``n_estimators`` rounds are done
``early_stopping`` the watched score has not improved for ``patience`` rounds
``callback``       a callback returned True
``time_budget``    another round would exceed the time budget
``interrupt``      Ctrl-C: the model keeps the complete rounds, or the number of rounds that
                   the folds had chosen by then (:mod:`hedgerow.boosting.automatic.model_selection`)
=================  =====================================================================

An interrupt before the first complete round raises ``KeyboardInterrupt``.  So does a second
interrupt within :data:`TWICE` seconds, since then the model is not wanted.  The second one
may reach another fit, as in a parameter search, which after one interrupt continues with
the next fit.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np

from hedgerow.boosting.automatic.magnitudes import warn_of_no_split, warn_of_short_steps
from hedgerow.boosting.loop.rounds import BoostState, rounds
from hedgerow.boosting.loop.watch import StoppedBy, Watch
from hedgerow.boosting.resume.checkpoint import Recorder
from hedgerow.errors import InterruptedFitWarning
from hedgerow.model.forest import Forest

TWICE = 5.0
"""Time in seconds within which a second interrupt ends more than one fit."""

ORDER: tuple[StoppedBy, ...] = ("rounds", "time_budget", "callback", "early_stopping")
"""Precedence of reasons: if ranks end for different reasons, the last of these wins."""


class _Interrupts:
    """The time when an interrupt last ended a fit of this process, to which interrupts are sent."""

    last: float = -math.inf


INTERRUPTS = _Interrupts()


def grow_forest(state: BoostState, watch: Watch, recorder: Recorder | None = None) -> Forest:
    """Run the rounds of a fit; return the forest up to the best round."""
    earlier = None if recorder is None else recorder.earlier
    if earlier is not None:
        earlier = earlier.head(state.params.n_estimators)
    together = state.ranks.communicator

    def most(number: int) -> int:
        return int(together.allreduce(np.array([number], dtype=np.int64), "max")[0])

    # A callback or the clock may end the fit on only one rank; all other reasons are the same.
    agree = most if most(bool(watch.callbacks) or watch.budget is not None) else int
    states = rounds(state, earlier, watch.begin_rounds)
    with closing(states):
        if state.n_rows < 2 * state.params.min_samples_leaf:  # no split
            return next(states).freeze(state.n_first)
        follow(states, watch, recorder, agree if together.size > 1 else None)
        if watch.stopped_by != "interrupt":
            watch.note_forest(state)
        forest = state.freeze(watch.n_kept)
    if state.first is None:
        warn_of_no_split(forest, state.objective, state.params, state.all_rows)
        warn_of_short_steps(forest, state.objective, state.params, state.all_rows)
    return forest


def follow(
    states: Iterator[BoostState],
    watch: Watch,
    recorder: Recorder | None = None,
    agree: Callable[[int], int] | None = None,
) -> BoostState:
    """Consume rounds until one is the last."""
    state: BoostState | None = None
    earlier = None if recorder is None else recorder.earlier
    n_earlier = 0 if earlier is None else min(earlier.n_rounds, watch.n_rounds - watch.n_first)
    watch.begin_rounds()
    try:
        for state in states:
            is_old = earlier is not None and state.n_rounds == watch.n_first + n_earlier
            if is_old and earlier is not None:
                stop = watch.take_over(earlier.head(n_earlier), state)
            else:
                stop = watch.after_round(state)
            if agree is not None:
                watch.stopped_by = ORDER[agree(ORDER.index(watch.stopped_by))]
                stop = watch.stopped_by != "rounds"
            if recorder is not None and not is_old:
                recorder.note(watch.last_round(state))
            if stop:
                break
    except KeyboardInterrupt:
        if state is None or agree is not None or is_second() or not watch.keep_complete_rounds():
            raise
    assert state is not None  # there is at least one round
    if watch.stopped_by == "interrupt":
        done, kept = watch.n_done, watch.n_kept
        best = f", and keeps the first {kept}, up to the best one" if kept < done else ""
        warnings.warn(
            f"the fit was interrupted: {watch.subject} has {done} of {watch.n_rounds} rounds{best}."
            f" Another interrupt within {TWICE:g} seconds stops the program as usual.",
            InterruptedFitWarning,
            stacklevel=2,
        )
    return state


def is_second() -> bool:
    """Record an interrupt of a fit; return whether another one came shortly before."""
    now = time.monotonic()
    before, INTERRUPTS.last = INTERRUPTS.last, now
    return now - before < TWICE
