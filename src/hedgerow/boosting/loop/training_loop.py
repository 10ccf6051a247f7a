"""The loop over the rounds of a fit, until something ends it.

What ends a fit (``stopped_by`` in its record):

=================  =====================================================================
``rounds``         there were ``n_estimators``
``early_stopping`` the watched score has not improved for ``patience`` rounds
``callback``       one returned True
``time_budget``    another round would not have ended in time
``interrupt``      Ctrl-C: the model holds the rounds that were whole by then, or as many as
                   the folds had found by then (:mod:`hedgerow.boosting.validation.cross_stopping`)
=================  =====================================================================

An interrupt before the first round is whole comes through as ``KeyboardInterrupt``, and
so does a second one, for then the model is not wanted: also one that meets another fit
within :data:`TWICE` seconds, as in a search over parameters, which goes on with the next
fit after the first.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Protocol

import numpy as np

from hedgerow.boosting.automatic.magnitudes import warn_of_no_split, warn_of_short_steps
from hedgerow.boosting.loop.rounds import BoostState, FitRows, rounds
from hedgerow.boosting.loop.watch import StoppedBy, Watch
from hedgerow.boosting.resume.checkpoint import Recorder
from hedgerow.comm.base import Alone, Communicator
from hedgerow.errors import InterruptedFitWarning
from hedgerow.model.forest import Forest

TWICE = 5.0
"""Seconds within which a second interrupt ends more than a fit."""

ORDER: tuple[StoppedBy, ...] = ("rounds", "time_budget", "callback", "early_stopping")
"""Where ranks end for different reasons the last of these counts."""


class InterruptMemory(Protocol):
    """When an interrupt has last ended a fit."""

    last: float


class _ProcessInterrupts:
    """Interrupts go to processes, so each has one memory of them."""

    last: float = -math.inf


INTERRUPTS: InterruptMemory = _ProcessInterrupts()


def grow_forest(
    rows: FitRows,
    watch: Watch,
    recorder: Recorder | None = None,
    ranks: Communicator | None = None,
) -> Forest:
    """Run the rounds of a fit; the forest up to the best of them.

    Parameters
    ----------
    rows : FitRows
    watch : Watch
    recorder : Recorder, optional
        Is told of each round; the fit goes on from its earlier rounds.
    ranks : Communicator, optional
        Those that call this with other rows; the forest is the same on all of them.
    """
    earlier = None if recorder is None else recorder.earlier
    if earlier is not None:
        earlier = earlier.head(rows.params.n_estimators)
    together = Alone() if ranks is None else ranks

    def agree(place: int) -> int:
        # A callback or the clock may have ended the fit on one rank alone.
        return int(together.allreduce(np.array([place], dtype=np.int64), "max")[0])

    states = rounds(rows, earlier, watch.begin_rounds)
    with closing(states):
        if rows.n_rows < 2 * rows.params.min_samples_leaf:  # no split
            state = next(states)
            return state.freeze(state.n_first)
        state = follow(states, watch, recorder, agree if together.size > 1 else None)
        if watch.stopped_by != "interrupt":
            watch.note_forest(state)
        forest = state.freeze(watch.n_kept)
    if rows.first is None:
        warn_of_no_split(forest, rows.objective, rows.params, rows.all_rows)
        warn_of_short_steps(forest, rows.objective, rows.params, rows.all_rows)
    return forest


def follow(
    states: Iterator[BoostState],
    watch: Watch,
    recorder: Recorder | None = None,
    agree: Callable[[int], int] | None = None,
) -> BoostState:
    """Take the rounds until one is the last.

    Parameters
    ----------
    states : iterator
        Gives the state after each round; the first may be that after the earlier rounds
        of ``recorder``.
    watch : Watch
        Notes what ended the fit, and how many rounds the model keeps.
    recorder : Recorder, optional
    agree : callable, optional
        Takes the place of the reason of this rank in :data:`ORDER`, and gives the largest
        of all ranks.  With it interrupts are not caught: the other ranks would wait.

    Returns
    -------
    state
        The last one.
    """
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
        _log_rounds(watch)
    return state


def is_second() -> bool:
    """Note an interrupt that is to end a fit, and say whether another came shortly before."""
    now = time.monotonic()
    before, INTERRUPTS.last = INTERRUPTS.last, now
    return now - before < TWICE


def _log_rounds(watch: Watch) -> None:
    done, kept = watch.n_done, watch.n_kept
    best = f", of which it keeps the first {kept}, up to the best one" if kept < done else ""
    warnings.warn(
        f"the fit was interrupted: the model has {done} of {watch.n_rounds} rounds{best}. "
        f"Another interrupt within {TWICE:g} seconds ends the program's work as usual.",
        InterruptedFitWarning,
        stacklevel=2,
    )


__all__ = ["TWICE", "follow", "grow_forest", "is_second"]
