"""A GPU that runs kernels as Python functions, thread by thread, in host memory."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.cuda.device import DeviceArray, GpuMemoryError
from tests.helpers.gpu_threads import simulate


def view_of(array: DeviceArray) -> npt.NDArray[Any]:
    """Return the numbers of an array on the GPU."""
    if array.n_bytes == 0:
        return np.empty(0, array.dtype)
    memory = (ctypes.c_ubyte * array.n_bytes).from_address(array.address)
    return np.ctypeslib.as_array(memory).view(array.dtype)


def numbers_of(argument: Any) -> Any:
    """Return the argument of a launch as the kernel sees it."""
    if isinstance(argument, DeviceArray):
        return view_of(argument)
    if isinstance(argument, tuple):
        return type(argument)(*map(numbers_of, argument))
    return argument if isinstance(argument, np.ndarray) else np.int64(argument)


class SimulatedGpu:
    """A GPU of this process.

    Parameters
    ----------
    most_bytes : int, optional
        Size of the memory.
    """

    def __init__(self, most_bytes: int = 1 << 40) -> None:
        self.most_bytes = most_bytes
        self.streams: list[SimulatedStream] = []

    def stream(self) -> SimulatedStream:
        """Return a new stream."""
        self.streams.append(SimulatedStream(self))
        return self.streams[-1]

    def launched(self) -> list[str]:
        """Return names of the kernels that were launched, in order."""
        return [name for stream in self.streams for name in stream.launched]


class SimulatedStream:
    """A stream.  Uninitialised memory holds numbers that no test expects."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.gpu, self._inside, self.is_closed = gpu, 0, False
        self._held: dict[int, npt.NDArray[Any]] = {}
        self.launched: list[str] = []

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Let this thread use the GPU."""
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def allocate(self, length: int, dtype: npt.DTypeLike, what: str) -> DeviceArray:
        """Return a new array."""
        assert self._inside
        made = np.full(max(8, length * np.dtype(dtype).itemsize), 0xA5, dtype=np.uint8)
        if sum(held.nbytes for held in self._held.values()) + made.nbytes > self.gpu.most_bytes:
            raise GpuMemoryError(f"out of memory: {what}")
        self._held[made.ctypes.data] = made
        return DeviceArray(made.ctypes.data, length, dtype)

    def upload(self, array: npt.NDArray[Any], to: DeviceArray) -> None:
        """Copy to the GPU."""
        assert self._inside
        assert array.dtype == to.dtype
        assert array.flags.c_contiguous
        view_of(to)[: array.size] = array.reshape(-1)

    def download(self, array: DeviceArray, to: npt.NDArray[Any]) -> None:
        """Copy from the GPU."""
        assert self._inside
        assert array.dtype == to.dtype
        assert to.flags.c_contiguous
        to[...] = view_of(array)[: to.size]

    def clear(self, array: DeviceArray) -> None:
        """Fill with zeros."""
        view_of(array)[:] = 0

    def launch(
        self, kernel: Any, blocks: tuple[int, int], threads: int, *arguments: Any, n_words: int = 0
    ) -> None:
        """Run a kernel."""
        assert self._inside
        self.launched.append(kernel.name.partition(":")[2])
        self.run(kernel, blocks, threads, n_words, *map(numbers_of, arguments))

    def run(self, kernel: Any, blocks: Any, threads: int, n_words: int, *given: Any) -> None:
        """Compute what the kernel does."""
        simulate(kernel, blocks, threads, n_words, *given)

    def wait(self) -> None:
        """Do nothing, because all work is done."""

    def close(self) -> None:
        """Free all memory."""
        self.is_closed, self._held = True, {}
