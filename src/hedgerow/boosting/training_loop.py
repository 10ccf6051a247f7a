"""The loop over the rounds of a fit, until something ends it.

What ends a fit (``stopped_by`` in its record):

=================  =====================================================================
``rounds``         there were ``n_estimators``
``early_stopping`` the watched score has not improved for ``patience`` rounds
``callback``       one returned True
``time_budget``    another round would not have ended in time
``interrupt``      Ctrl-C: the model holds the rounds that were whole by then, or as many as
                   the folds had found by then (:mod:`hedgerow.boosting.cross_stopping`)
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
from typing import Protocol, TypeVar

from hedgerow.boosting.checkpoint import Recorder
from hedgerow.boosting.watch import RoundState, StoppedBy, Watch
from hedgerow.errors import InterruptedFitWarning

TWICE = 5.0
"""Seconds within which a second interrupt ends more than a fit."""

ORDER: tuple[StoppedBy, ...] = ("rounds", "time_budget", "callback", "early_stopping")
"""Where ranks end for different reasons the last of these counts."""

_State = TypeVar("_State", bound=RoundState)


class InterruptMemory(Protocol):
    """When an interrupt has last ended a fit."""

    last: float


class _ProcessInterrupts:
    """Interrupts go to processes, so each has one memory of them."""

    last: float = -math.inf


INTERRUPTS: InterruptMemory = _ProcessInterrupts()


def follow(
    states: Iterator[_State],
    watch: Watch,
    recorder: Recorder | None = None,
    agree: Callable[[int], int] | None = None,
) -> _State:
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
    state: _State | None = None
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
        if state is None or agree is not None or is_second() or not watch.keep_whole_rounds():
            raise
    assert state is not None  # there is at least one round
    if watch.stopped_by == "interrupt":
        _tell(watch)
    return state


def is_second() -> bool:
    """Note an interrupt that is to end a fit, and say whether another came shortly before."""
    now = time.monotonic()
    before, INTERRUPTS.last = INTERRUPTS.last, now
    return now - before < TWICE


def _tell(watch: Watch) -> None:
    done, kept = watch.n_done, watch.n_kept
    best = f", of which it keeps the first {kept}, up to the best one" if kept < done else ""
    warnings.warn(
        f"the fit was interrupted: the model has {done} of {watch.n_rounds} rounds{best}. "
        f"Another interrupt within {TWICE:g} seconds ends the program's work as usual.",
        InterruptedFitWarning,
        stacklevel=2,
    )


__all__ = ["TWICE", "follow", "is_second"]
