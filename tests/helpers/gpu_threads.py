"""Run GPU kernels as Python functions, one thread of a block after the other.

A thread runs until it waits for its block or warp, or ends.  The next thread is random, so results
that depend on the order differ from those of the twin.
"""

from __future__ import annotations

import random
import types
from collections.abc import Callable
from typing import Any

import greenlet
import numpy as np

from hedgerow.compile import Intrinsic
from hedgerow.compile.kernels import Kernel
from hedgerow.kernels.cuda import intrinsics

WARP = 32


class _Block:
    """The threads of a block, and their shared memory."""

    def __init__(self, number: tuple[int, int], blocks: int, threads: int, n_words: int) -> None:
        self.number, self.n_blocks, self.n_threads = number, blocks, threads
        # Not zeros: kernels must not depend on initial values.
        self.words = np.full(n_words, 0x5A5A5A5A, dtype=np.int32)
        self.thread, self._waiting = 0, [None] * threads
        self.lanes = [0] * threads
        self._main: Any = None
        self._threads: list[Any] = []

    def run(self, body: Callable[[], None], order: random.Random) -> None:
        """Run the threads until all have ended."""
        self._main = greenlet.getcurrent()
        self._threads = [greenlet.greenlet(body) for _ in range(self.n_threads)]
        waits: dict[int, Any] = dict.fromkeys(range(self.n_threads))
        while waits:
            ready = self._ready(waits)
            assert ready, f"threads wait for others that do not come: {waits}"
            order.shuffle(ready)
            for thread in ready:
                self.thread = thread
                waits[thread] = self._threads[thread].switch()
                if self._threads[thread].dead:
                    del waits[thread]

    def _ready(self, waits: dict[int, Any]) -> list[int]:
        """Return the threads that may continue: all others of their group wait."""
        if any(wait is None for wait in waits.values()):
            return [thread for thread, wait in waits.items() if wait is None]
        if len(waits) == self.n_threads and all(wait == "block" for wait in waits.values()):
            return list(waits)
        ready = []
        for first in range(0, self.n_threads, WARP):
            warp = range(first, first + WARP)
            if all(waits.get(thread) == "warp" for thread in warp):
                ready += list(warp)
        return ready

    def wait(self, group: str) -> None:
        """Wait for the other threads of the block or the warp."""
        thread = self.thread
        self._main.switch(group)
        self.thread = thread

    def exchange(self, number: Any) -> list[Any]:
        """Exchange a number between the threads of the warp."""
        self.lanes[self.thread] = number
        self.wait("warp")
        first = self.thread - self.thread % WARP
        given = self.lanes[first : first + WARP]
        self.wait("warp")
        return given


def _add(array: Any, index: int, amount: Any) -> Any:
    assert 0 <= index < len(array)
    before = array[index]
    with np.errstate(over="ignore"):
        array[index] = before + amount
    return before


def _instructions(block: _Block) -> dict[str, Any]:
    """Return Python functions of the intrinsics for this block."""

    def shared_words(length: int) -> Any:
        assert length <= len(block.words)
        return block.words

    return {
        "thread_number": lambda: np.int64(block.thread),
        "block_number": lambda direction: np.int64(block.number[direction]),
        "block_size": lambda: np.int64(block.n_threads),
        "n_blocks": lambda: np.int64(block.n_blocks),
        "sync_block": lambda: block.wait("block"),
        "shared_words": shared_words,
        "add_shared": _add,
        "add_global": _add,
        "add_count": _add,
        "read_lane": lambda number, lane: block.exchange(number)[lane % WARP],
        "count_ones": lambda number: np.int64(int(number).bit_count()),
    }


def _as_python(function: Any, instructions: dict[str, Any], made: dict[Any, Any]) -> Any:
    """Return a kernel and its callees as Python functions."""
    if function in made:
        return made[function]
    source = function.py_func
    names = dict(source.__globals__)
    copy = types.FunctionType(source.__code__, names, source.__name__, source.__defaults__)
    made[function] = copy
    for name in source.__code__.co_names:
        value = source.__globals__.get(name)
        if isinstance(value, Kernel):
            names[name] = _as_python(value, instructions, made)
        elif isinstance(value, Intrinsic):
            names[name] = instructions[value.name]
        elif value is intrinsics:
            names[name] = types.SimpleNamespace(**{**vars(intrinsics), **instructions})
    return copy


def simulate(
    kernel: Any, blocks: tuple[int, int], threads: int, n_words: int, *arguments: Any
) -> None:
    """Run all blocks one after the other, in a random order."""
    order = random.Random(threads + blocks[0])
    numbers = [(x, y) for x in range(blocks[0]) for y in range(blocks[1])]
    order.shuffle(numbers)
    for number in numbers:
        block = _Block(number, blocks[0], threads, n_words)
        body = _as_python(kernel, _instructions(block), {})

        def run(body: Any = body) -> None:
            with np.errstate(over="ignore"):  # hashes wrap around
                body(*arguments)

        block.run(run, order)
