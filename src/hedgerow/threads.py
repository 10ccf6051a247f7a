"""Thread pools and teams of threads: the only module that starts threads.

Kernels release the interpreter lock and never start threads themselves (no
OpenMP, no TBB).  Fits and predictions use a private pool that this module owns,
so forked children, concurrent fits and joblib workers cannot abort or hang.

There are five ways to use several threads:

:func:`run_blocks`   one call per block of rows, for independent work
:class:`Team`        workers parked inside compiled code for the length of a
                     fit; the stages of a tree are separated by a barrier
                     (:mod:`hedgerow.kernels.primitives.barrier`)
:func:`work_ahead`   items made in the background before they are needed
:func:`take_turns`   long tasks of many steps, which progress at the same rate
:class:`BoundedPool` tasks of a server, with a bound on the number of waiting tasks
"""

from __future__ import annotations

import ctypes
import functools
import heapq
import itertools
import math
import numbers
import os
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

from hedgerow.errors import ParameterError, brief


def _cgroup_quota() -> float:
    """Return the processors that the control group grants (``inf`` without a limit)."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()[:2]
        if quota != "max":
            return int(quota) / int(period)
    except (OSError, ValueError):
        pass
    try:
        base = Path("/sys/fs/cgroup/cpu")
        quota_us = int((base / "cpu.cfs_quota_us").read_text())
        if quota_us > 0:
            return quota_us / int((base / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        pass
    return math.inf


def available_threads() -> int:
    """Return the processors that this process may use, by affinity mask and control group."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this platform
        allowed = os.cpu_count() or 1
    return max(1, math.ceil(min(allowed, _cgroup_quota())))


def resolve_threads(n_jobs: int | None) -> int:
    """Return the number of threads for ``n_jobs``, with the meaning of scikit-learn."""
    check_jobs(n_jobs)
    # No thread can be started while the interpreter ends, as in ``atexit`` functions.
    if not threading.main_thread().is_alive():
        return 1
    if n_jobs is None:
        # joblib sets ``LOKY_MAX_CPU_COUNT`` or the limits of inner threads in its workers.
        limit = os.environ.get("HEDGEROW_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS")
        threads = available_threads()
        return min(threads, int(limit)) if limit and limit.isdigit() and int(limit) else threads
    n_jobs = int(n_jobs)
    return n_jobs if n_jobs > 0 else max(1, available_threads() + 1 + n_jobs)


def check_jobs(n_jobs: object) -> None:
    """Raise ``ParameterError`` unless ``n_jobs`` is None or an integer other than 0."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral | None) or n_jobs == 0:
        raise ParameterError(
            f"n_jobs must be None or an integer other than 0, got {brief(n_jobs)}: "
            "use 1 for one thread, -1 for all."
        )


class _Pool:
    """A thread pool that grows on demand; a forked child starts with an empty one."""

    def __init__(self) -> None:
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._size = 0

    def submit(
        self, task: Callable[[int, int], object], blocks: list[tuple[int, int]]
    ) -> list[Future[object]]:
        """Start ``task`` on each block; return the futures of the blocks that were accepted."""
        # While the interpreter ends, executors refuse tasks: the caller does the other blocks.
        with self._lock:
            if self._executor is None or len(blocks) > self._size:
                # An outgrown pool finishes its tasks and then ends.
                if self._executor is not None:
                    self._executor.shutdown(wait=False)
                self._size = len(blocks)
                self._executor = ThreadPoolExecutor(self._size, thread_name_prefix="hedgerow")
            futures = []
            for block in blocks:
                try:
                    futures.append(self._executor.submit(task, *block))
                except RuntimeError:
                    if threading.main_thread().is_alive():
                        raise
                    break
            return futures


_pool = _Pool()


def run_blocks(
    task: Callable[[int, int], object], n_items: int, n_threads: int, smallest_block: int
) -> None:
    """Call ``task(start, stop)`` on consecutive blocks that cover ``range(n_items)``."""
    # The caller's thread does the first block, and raises an exception of any after all have ended.
    if n_threads == 1 or n_items < 2 * smallest_block:
        task(0, n_items)
        return
    n_blocks = max(1, min(n_threads, n_items // max(1, smallest_block)))
    edges = [n_items * i // n_blocks for i in range(n_blocks + 1)]
    blocks = list(itertools.pairwise(edges))
    futures = _pool.submit(task, blocks[1:])
    try:
        for block in (blocks[0], *blocks[1 + len(futures) :]):
            task(*block)
    finally:
        errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None:
            raise error


_Item = TypeVar("_Item")


def work_ahead(
    make: Callable[[int], _Item], numbers: Sequence[int], n_stripes: int = 1
) -> Generator[_Item, None, None]:
    """Yield ``make(number)`` for each of ``numbers``, in order, made ahead by threads."""
    # The numbers of equal remainder are a stripe, whose thread is one item ahead.
    todo = [iter([n for n in numbers if n % n_stripes == stripe]) for stripe in range(n_stripes)]
    pools = [ThreadPoolExecutor(1, thread_name_prefix="hedgerow-ahead") for _ in todo]

    def begin(stripe: int) -> Future[_Item] | None:
        number = next(todo[stripe], None)
        return None if number is None else pools[stripe].submit(make, number)

    def take(stripe: int) -> _Item:  # a variable below would keep an item that is used up
        future = ahead[stripe]
        assert future is not None
        item = future.result()
        ahead[stripe] = begin(stripe)
        return item

    try:
        ahead = [begin(stripe) for stripe in range(n_stripes)]
        for number in numbers:
            yield take(number % n_stripes)
    finally:
        for pool in pools:
            pool.shutdown(cancel_futures=True)


def take_turns(
    tasks: Sequence[Callable[[], bool]],
    n_threads: int,
    after_step: Callable[[], bool] = lambda: False,
) -> None:
    """Do tasks of many steps, so that no task is more than a step ahead for long."""
    # A free thread does the next step of the task that is furthest behind.  Any thread may do it;
    # two threads never work on the same task.  A task returns True after its last step.
    n_helpers, turns = min(n_threads, len(tasks)) - 1, _Turns(tasks, after_step)
    with ThreadPoolExecutor(max(n_helpers, 1), thread_name_prefix="hedgerow-turns") as pool:
        helpers = [pool.submit(turns.work) for _ in range(n_helpers)]
        try:
            turns.work()
        finally:
            turns.end()
            _wait_for(helpers)
    for helper in helpers:
        helper.result()


def _wait_for(helpers: Sequence[Future[None]]) -> None:
    """Wait until no helper is in a step, also if an interrupt comes meanwhile."""
    try:
        wait(helpers)
    except KeyboardInterrupt:
        _wait_for(helpers)
        raise


class _Turns:
    """The tasks of :func:`take_turns`, and the threads that work on them."""

    def __init__(self, tasks: Sequence[Callable[[], bool]], after_step: Callable[[], bool]) -> None:
        self._tasks, self._after_step = tasks, after_step
        self._free = [(0, task) for task in range(len(tasks))]  # a heap of steps done, and tasks
        self._n_busy, self._ended = 0, False
        self._changed = threading.Condition()

    def end(self) -> None:
        """Begin no further step."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def work(self) -> None:
        """Do steps until all tasks have ended."""
        try:
            while True:
                with self._changed:
                    while not self._free and self._n_busy and not self._ended:
                        self._changed.wait()
                    if self._ended or not self._free:
                        return
                    self._n_busy += 1
                    n_steps, task = heapq.heappop(self._free)  # the one furthest behind
                is_last = self._tasks[task]()
                with self._changed:
                    self._n_busy -= 1
                    if not is_last:
                        heapq.heappush(self._free, (n_steps + 1, task))
                    self._ended = self._ended or self._after_step()
                    self._changed.notify_all()
        except BaseException:
            self.end()
            raise


@functools.cache
def wait_addresses() -> tuple[int, int]:
    """Return the addresses of the C functions by which waiting kernels yield and sleep."""
    # Both take an int: ``sched_yield`` ignores it, ``usleep`` sleeps that many microseconds (on
    # Windows ``Sleep``, milliseconds).
    if sys.platform == "win32":
        library = ctypes.WinDLL("kernel32")
        functions = library.SwitchToThread, library.Sleep
    else:
        library = ctypes.CDLL(None)
        functions = library.sched_yield, library.usleep
    pause, sleep = (ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)
    return pause, sleep


class Team:
    """Helpers of a fit: threads that stay inside compiled code until dismissed.

    The caller is thread 0 of ``n_threads``, so one thread needs no helper.  ``follow(thread)`` runs
    in each helper; ``dismiss`` makes all of them return, and a second call changes nothing.
    """

    def __init__(
        self, n_threads: int, follow: Callable[[int], object], dismiss: Callable[[], object]
    ) -> None:
        self._dismiss = dismiss
        self._helpers = [
            threading.Thread(target=follow, args=(t,), name=f"hedgerow-{t}", daemon=True)
            for t in range(1, n_threads)
        ]
        try:
            for helper in self._helpers:
                helper.start()
        except BaseException:  # an interrupt, or no more threads: dismiss those that started
            self.close()
            raise

    def close(self) -> None:
        """Dismiss the helpers and wait for them; a second call does nothing."""
        if self._helpers:
            try:
                self._dismiss()
            finally:  # again, if an interrupt came first; a second order changes nothing
                self._dismiss()
        for helper in self._helpers:
            if helper.ident is not None:  # it has started
                helper.join()
        self._helpers = []
        # ``dismiss`` refers to the owner of the team.  Without this cycle the memory of a
        # grower is free as soon as its fit ends, not only when Python collects cycles.
        self._dismiss = lambda: None


class BoundedPool:
    """Threads that refuse work instead of letting more than ``queue`` tasks wait."""

    def __init__(self, n_threads: int, queue: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix=name)
        self._most = n_threads + queue
        self.n_pending = 0  # tasks that run or wait
        self._lock = threading.Lock()

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any] | None:
        """Submit a task to the threads; return None if the queue is full."""
        with self._lock:
            if self.n_pending >= self._most:
                return None
            self.n_pending += 1
        # A task that is cancelled before it begins is not done.
        future = self._pool.submit(work, *arguments)
        future.add_done_callback(self._done)
        return future

    def _done(self, _: Future[Any]) -> None:
        with self._lock:
            self.n_pending -= 1

    def close(self) -> None:
        """Wait for running tasks; waiting tasks are not done."""
        self._pool.shutdown(cancel_futures=True)
