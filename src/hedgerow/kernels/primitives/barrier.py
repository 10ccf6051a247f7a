"""Barriers and orders, by which threads inside compiled code wait for each other.

All threads of a team run the same kernel (SPMD).  They share a ``ThreadTeam``::

    signal[0]    threads that have arrived at the barrier
    signal[8]    number of barriers passed: waiting threads watch this cell
    signal[16]   number of the latest order, signal[17] the order itself
    signal[18]   1 if the wait for the last order was long

The cells lie on cache lines of their own.  A wait spins first, because stages
are microseconds long, then lets other threads run, so that more threads than
processors still make progress.  Measured on two cores: 0.08 us a barrier, and
1.7 us with four threads on two cores.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.intrinsics import (
    atomic_add,
    atomic_load,
    atomic_store,
    call_address,
)

SIGNAL_SIZE = 24
_ARRIVED, _PASSED, _ORDER_NUMBER, _ORDER, _WAS_LONG = 0, 8, 16, 17, 18
_SPINS = 2_000
_YIELDS = 400
_NAP_MICROSECONDS = 50


class ThreadTeam(NamedTuple):
    """The threads of a team: their number, and the cells through which they synchronise."""

    n_threads: np.int64
    signal: kt.Int64_1D
    yield_address: np.int64
    sleep_address: np.int64


@kernel(inner=True)
def barrier(team: ThreadTeam) -> None:
    """Return when every thread of the team has called this function."""
    if team.n_threads == 1:
        return
    passed = atomic_load(team.signal, _PASSED)
    if atomic_add(team.signal, _ARRIVED, 1) == team.n_threads - 1:
        atomic_store(team.signal, _ARRIVED, 0)
        atomic_store(team.signal, _PASSED, passed + 1)
        return
    spins = 0
    while atomic_load(team.signal, _PASSED) == passed:
        spins += 1
        if spins > _SPINS:
            call_address(team.yield_address, 0)


@kernel
def give_order(team: ThreadTeam, order: int) -> None:
    """Wake the threads that wait in :func:`await_order`; thread 0 calls this."""
    team.signal[_ORDER] = order
    atomic_add(team.signal, _ORDER_NUMBER, 1)


@kernel
def await_order(team: ThreadTeam, last_number: int) -> int:
    """Wait for an order later than number ``last_number`` and return it."""
    # Between orders the caller's Python code runs, for microseconds or for seconds.  The thread
    # therefore spins, then yields, then sleeps.  One that slept the last time does not yield: where
    # slopes are fitted between trees, yielding took a fourth of the time of two threads.
    spins, was_long = 0, team.signal[_WAS_LONG]
    before_sleep = _SPINS if was_long == 1 else _SPINS + _YIELDS
    while atomic_load(team.signal, _ORDER_NUMBER) == last_number:
        spins += 1
        if spins > before_sleep:
            call_address(team.sleep_address, _NAP_MICROSECONDS)
        elif spins > _SPINS:
            call_address(team.yield_address, 0)
    team.signal[_WAS_LONG] = 1 if spins > before_sleep + 1 else 0
    return team.signal[_ORDER]


@kernel(inner=True)
def share(total: int, part: int, n_parts: int) -> tuple[int, int]:
    """Return start and stop of part ``part`` when ``range(total)`` is divided evenly."""
    return total * part // n_parts, total * (part + 1) // n_parts


# -- two words in memory that processes share ------------------------------------------------


@kernel
def publish(words: kt.Int64_1D, value: int) -> int:
    """Write ``words[0]`` after all that this process wrote before; return 1 if it is awaited."""
    atomic_store(words, 0, value)
    return int(atomic_add(words, 1, 0) == value)  # in one step: no reader waits without being seen


@kernel
def is_published(words: kt.Int64_1D, value: int, n_looks: int) -> int:
    """Return 1 once ``words[0]`` is ``value``, or 0 after ``n_looks``: then it is awaited."""
    for _ in range(n_looks):
        if atomic_load(words, 0) == value:  # the earlier writes are visible, too
            return 1
    atomic_add(words, 1, value - words[1])
    return int(atomic_load(words, 0) == value)
