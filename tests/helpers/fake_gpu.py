"""A GPU in NumPy: memory, and a driver whose functions compiled code can call.

A launch computes what the twin of the kernel in :mod:`tests.reference.cuda_kernels` does.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import DeviceError
from tests.reference import cuda_kernels

_WORD = ctypes.c_int64


class FakeGpu:
    """The calls that a fit makes to a GPU."""

    name = "in NumPy"
    n_processors = 2
    most_shared = 65_536


class FakeArray:
    """An array on the GPU: only launches and copies may read it."""

    def __init__(self, numbers: npt.NDArray[Any]) -> None:
        self.numbers = numbers
        self.address, self.length, self.dtype = numbers.ctypes.data, len(numbers), numbers.dtype


class FakeStream:
    """A stream.  Uninitialised memory holds numbers that no test expects.

    Parameters
    ----------
    most_bytes : int, optional
        Size of the memory.
    fails_at : int, optional
        Number of the first command that fails; all later ones fail too.
    """

    def __init__(self, most_bytes: int = 1 << 40, fails_at: int = -1) -> None:
        self.gpu, self._most, self.held, self.is_closed = FakeGpu(), most_bytes, 0, False
        self.launched: dict[str, int] = {}
        self.errors: list[Exception] = []
        self._fails_at, self._number, self._inside = fails_at, itertools.count(), 0
        self._arrays: list[FakeArray] = []
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

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Let this thread use the GPU."""
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def allocate(self, length: int, dtype: npt.DTypeLike, what: str) -> FakeArray:
        """Return a new array."""
        n_bytes = length * np.dtype(dtype).itemsize
        self.held += n_bytes
        if self.held > self._most:
            raise DeviceError(f"out of memory: {what}")
        array = FakeArray(np.full(n_bytes, 0xA5, dtype=np.uint8).view(dtype))
        self._arrays.append(array)
        return array

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
        assert 4 * n_words <= self.gpu.most_shared
        found = [word for argument in arguments for word in _words_of(argument)]
        words[: len(found)] = found
        places = words.ctypes.data + 8 * np.arange(len(found), dtype=np.int64)
        self._kept.append(places)
        self._commands.append((kernel, arguments))
        return len(self._commands) - 1, places.ctypes.data, threads, 4 * n_words

    def launch(self, kernel: Any, blocks: tuple[int, int], threads: int, *arguments: Any) -> None:
        """Run the twin of a kernel."""
        self._run(kernel, tuple(map(_numbers_of, arguments)))

    def upload(self, array: npt.NDArray[Any], to: FakeArray) -> None:
        """Copy to the GPU."""
        assert array.dtype == to.dtype
        to.numbers[: array.size] = array

    def download(self, array: FakeArray, to: npt.NDArray[Any]) -> None:
        """Copy from the GPU."""
        assert array.dtype == to.dtype
        to[:] = array.numbers[: to.size]

    def clear(self, array: FakeArray) -> None:
        """Fill with zeros."""
        array.numbers[:] = 0

    def wait(self) -> None:
        """Do nothing, because all work is done."""

    def text_of(self, status: int) -> str:
        """Describe an error."""
        return f"error {status}"

    def close(self) -> None:
        """Free all memory."""
        self.is_closed = True

    # -- what compiled code calls -------------------------------------------------------

    def _launch(self, number: int, *words: int) -> None:
        n_blocks, n_tiles, _, threads, _, _, _, stream, places, extra = words
        assert (stream, extra) == (17, 0)
        assert min(n_blocks, n_tiles, threads) > 0
        kernel, arguments = self._commands[number]
        addresses = iter((_WORD * 64).from_address(places))
        given = tuple(_read(argument, addresses) for argument in arguments)
        self._run(kernel, given)

    def _run(self, kernel: Any, given: tuple[Any, ...]) -> None:
        name = kernel.name.partition(":")[2]
        self.launched[name] = self.launched.get(name, 0) + 1
        twin: Callable[..., None] = getattr(cuda_kernels, name)
        twin(*given)

    def _bytes_at(self, address: int, n_bytes: int) -> npt.NDArray[np.uint8]:
        for array in self._arrays:
            if array.address == address:
                assert n_bytes <= array.numbers.nbytes
                return array.numbers.view(np.uint8)[:n_bytes]
        raise AssertionError(f"no array at {address}")

    def _upload(self, to: int, source: int, n_bytes: int, stream: int) -> None:
        ctypes.memmove(self._bytes_at(to, n_bytes).ctypes.data, source, n_bytes)

    def _download(self, to: int, source: int, n_bytes: int, stream: int) -> None:
        ctypes.memmove(to, self._bytes_at(source, n_bytes).ctypes.data, n_bytes)

    def _fill(self, to: int, byte: int, n_bytes: int, stream: int) -> None:
        self._bytes_at(to, n_bytes)[:] = byte

    def _wait(self, stream: int) -> None:
        assert stream == 17


def _read(argument: Any, addresses: Iterator[int]) -> Any:
    """Read an argument from the next addresses."""
    if isinstance(argument, FakeArray | np.ndarray):
        numbers = argument.numbers if isinstance(argument, FakeArray) else argument
        for word in (numbers.ctypes.data, numbers.size):
            assert _WORD.from_address(next(addresses)).value == word
        return numbers
    if isinstance(argument, tuple):
        return type(argument)(*(_read(item, addresses) for item in argument))
    return _WORD.from_address(next(addresses)).value


def _words_of(argument: Any) -> Iterator[int]:
    if isinstance(argument, FakeArray):
        yield from (argument.address, argument.length)
    elif isinstance(argument, np.ndarray):
        yield from (argument.ctypes.data, argument.size)
    elif isinstance(argument, tuple):
        for item in argument:
            yield from _words_of(item)
    else:
        yield int(argument)


def _numbers_of(argument: Any) -> Any:
    if isinstance(argument, FakeArray):
        return argument.numbers
    if isinstance(argument, tuple):
        return type(argument)(*map(_numbers_of, argument))
    return argument
