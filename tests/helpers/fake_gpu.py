"""A GPU in NumPy: memory, and a driver whose functions compiled code can call.

A launch computes what the twin of the kernel in :mod:`tests.reference.cuda_kernels` does.
"""

from __future__ import annotations

import copy
import ctypes
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.cuda.device import DeviceArray
from tests.helpers.gpu_threads import simulate
from tests.helpers.simulated_gpu import SimulatedGpu, SimulatedStream
from tests.reference import cuda_kernels

_WORD = ctypes.c_int64


class FakeGpu(SimulatedGpu):
    """The calls that a fit makes to a GPU.

    Parameters
    ----------
    most_bytes : int, optional
        Size of the memory.
    fails_at : int, optional
        Number of the first command of a stream that fails; all later ones fail too.
    checks : bool, optional
        Run each kernel thread by thread, too, and compare all its arrays with those of the twin.
    """

    name, n_processors, most_shared = "in NumPy", 2, 65_536

    def __init__(self, most_bytes: int = 1 << 40, fails_at: int = -1, checks: bool = False) -> None:
        super().__init__(most_bytes)
        self.fails_at, self.checks = fails_at, checks

    def stream(self) -> FakeStream:
        """Return a new stream."""
        self.streams.append(stream := FakeStream(self))
        return stream


class FakeStream(SimulatedStream):
    """A stream, and what compiled code calls."""

    def __init__(self, gpu: FakeGpu) -> None:
        super().__init__(gpu)
        self.gpu: FakeGpu = gpu
        self.errors: list[Exception] = []
        self._fails_at, self._number = gpu.fails_at, itertools.count()
        self._commands: list[tuple[Any, tuple[Any, ...]]] = []
        self._kept: list[Any] = []
        self._functions = {
            name: self._function(getattr(self, f"_{name}"), n_words)
            for name, n_words in (
                ("launch", 11), ("upload", 4), ("download", 4), ("fill", 4), ("wait", 1),
            )
        }  # fmt: skip

    def _function(self, body: Callable[..., None], n_words: int) -> Any:
        """Return a C function that returns 0, or another number after an error."""

        def call(*words: int) -> int:
            if next(self._number) == self._fails_at:
                return 719
            try:
                assert self._inside > 0
                assert not self.is_closed
                body(*words)
            except Exception as error:  # a test looks at it
                self.errors.append(error)
                return 1
            return 0

        return ctypes.CFUNCTYPE(ctypes.c_int, *[_WORD] * n_words)(call)

    # -- what Python calls --------------------------------------------------------------

    def pinned(self, length: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array of the host."""
        return np.full(length * np.dtype(dtype).itemsize, 0xA5, dtype=np.uint8).view(dtype)

    def functions(self) -> dict[str, int]:
        """Addresses of the functions below."""
        found = {
            name: ctypes.cast(function, ctypes.c_void_p).value or 0
            for name, function in self._functions.items()
        }
        return {**found, "stream": 17}

    def command(
        self, kernel: Any, threads: int, n_words: int, words: npt.NDArray[np.int64], *arguments: Any
    ) -> tuple[int, int, int, int]:
        """Record a kernel and its arguments."""
        assert threads % 32 == 0
        assert threads <= 1024
        assert 4 * n_words <= FakeGpu.most_shared
        found = list(_words_of(arguments))
        words[: len(found)] = found
        places = words.ctypes.data + 8 * np.arange(len(found), dtype=np.int64)
        self._kept.append(places)
        self._commands.append((kernel, arguments))
        return len(self._commands) - 1, places.ctypes.data, threads, 4 * n_words

    def run(self, kernel: Any, blocks: Any, threads: int, n_words: int, *given: Any) -> None:
        """Run the twin of a kernel."""
        own = copy.deepcopy(given) if self.gpu.checks else ()
        getattr(cuda_kernels, kernel.name.partition(":")[2])(*given)
        if self.gpu.checks:
            simulate(kernel, blocks, threads, n_words, *own)
            for array, expected in zip(_arrays_of(own), _arrays_of(given), strict=True):
                np.testing.assert_array_equal(array, expected, err_msg=kernel.name)

    def text_of(self, status: int) -> str:
        """Describe an error."""
        return f"error {status}"

    # -- what compiled code calls -------------------------------------------------------

    def _launch(self, number: int, *words: int) -> None:
        n_blocks, n_tiles, _, threads, _, _, n_bytes, stream, places, extra = words
        assert (stream, extra) == (17, 0)
        assert min(n_blocks, n_tiles, threads) > 0
        kernel, arguments = self._commands[number]
        addresses = iter((_WORD * 64).from_address(places))
        given = (_read(argument, addresses) for argument in arguments)
        self.launch(kernel, (n_blocks, n_tiles), threads, *given, n_words=n_bytes // 4)

    def _bytes_at(self, address: int, n_bytes: int) -> npt.NDArray[np.uint8]:
        assert n_bytes <= self._held[address].nbytes
        return self._held[address][:n_bytes]

    def _upload(self, to: int, source: int, n_bytes: int, stream: int) -> None:
        ctypes.memmove(self._bytes_at(to, n_bytes).ctypes.data, source, n_bytes)

    def _download(self, to: int, source: int, n_bytes: int, stream: int) -> None:
        ctypes.memmove(to, self._bytes_at(source, n_bytes).ctypes.data, n_bytes)

    def _fill(self, to: int, byte: int, n_bytes: int, stream: int) -> None:
        self._bytes_at(to, n_bytes)[:] = byte

    def _wait(self, stream: int) -> None:
        assert stream == 17


def _arrays_of(given: Any) -> Iterator[npt.NDArray[Any]]:
    if isinstance(given, np.ndarray):
        yield given
    elif isinstance(given, tuple):
        for item in given:
            yield from _arrays_of(item)


def _read(argument: Any, addresses: Iterator[int]) -> Any:
    """Read an argument from the next addresses."""
    if isinstance(argument, tuple):
        return type(argument)(*(_read(item, addresses) for item in argument))
    words = list(_words_of(argument))
    found = [_WORD.from_address(next(addresses)).value for _ in words]
    if not isinstance(argument, DeviceArray | np.ndarray):
        return found[0]
    assert found == words
    return argument


def _words_of(argument: Any) -> Iterator[int]:
    if isinstance(argument, DeviceArray):
        yield from (argument.address, argument.length)
    elif isinstance(argument, np.ndarray):
        yield from (argument.ctypes.data, argument.size)
    elif isinstance(argument, tuple):
        for item in argument:
            yield from _words_of(item)
    else:
        yield int(argument)
