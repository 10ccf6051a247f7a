"""A GPU as a fit uses it: arrays in its memory, copies, and launches of kernels in order."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import IntArray
from hedgerow.compile import ptx
from hedgerow.cuda import driver as cuda
from hedgerow.errors import CompilationError, DeviceError

_LOG_BYTES = 4096
_REGISTERS, _LOG, _LOG_SIZE = 0, 5, 6  # options of the driver's compiler; errors go to the log
MOST_REGISTERS = 64
"""Registers of a thread: with more, a multiprocessor would hold only one block of 512 threads."""
_NOT_BLOCKING = 1
_PORTABLE, _FOR_DEVICES = 1, 2


class GpuMemoryError(DeviceError):
    """The memory of a GPU does not suffice."""


class DeviceArray:
    """An array of one dimension in the memory of a GPU.

    Attributes
    ----------
    address, length : int
    dtype : np.dtype
    """

    __slots__ = ("address", "dtype", "length")

    def __init__(self, address: int, length: int, dtype: npt.DTypeLike) -> None:
        self.address, self.length, self.dtype = address, length, np.dtype(dtype)

    @property
    def n_bytes(self) -> int:
        """Size in bytes."""
        return self.length * self.dtype.itemsize


class Gpu:
    """A GPU of this process: its context, shared with other libraries, and the kernels.

    Attributes
    ----------
    name : str
    n_processors : int
        Number of multiprocessors; each runs blocks in parallel.
    most_shared : int
        Bytes of memory that the threads of a block can share.
    """

    def __init__(self, number: int = 0) -> None:
        self.driver = cuda.Driver()
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        self.driver.call("cuDeviceGet", ctypes.byref(handle), number)
        self._handle = handle.value
        name = ctypes.create_string_buffer(100)
        self.driver.call("cuDeviceGetName", name, len(name), self._handle)
        self.name = name.value.decode(errors="replace")
        version = tuple(map(self._attribute, (cuda.CAPABILITY_MAJOR, cuda.CAPABILITY_MINOR)))
        least = divmod(int(ptx.PROCESSOR.removeprefix("sm_")), 10)
        if version < least:
            raise DeviceError(
                f"the GPU {self.name} has compute capability {version[0]}.{version[1]}, but "
                f"{least[0]}.{least[1]} is needed: use device='cpu'."
            )
        self.n_processors = self._attribute(cuda.N_PROCESSORS)
        self.most_shared = self._attribute(cuda.SHARED_PER_BLOCK)
        self.driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._handle)
        self._context = context
        with self.current():
            self._module = self._load(ptx.load_ptx())
        self._functions: dict[str, ctypes.c_void_p] = {}

    def _attribute(self, which: int) -> int:
        value = ctypes.c_int()
        self.driver.call("cuDeviceGetAttribute", ctypes.byref(value), which, self._handle)
        return value.value

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Let this thread use the GPU for a while."""
        self.driver.call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self.driver.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def _load(self, code: bytes) -> ctypes.c_void_p:
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 3)(_REGISTERS, _LOG, _LOG_SIZE)
        values = (ctypes.c_void_p * 3)(MOST_REGISTERS, ctypes.addressof(log), _LOG_BYTES)
        given = (ctypes.byref(module), code + b"\0", 3, options, values)
        status = self.driver.status_of("cuModuleLoadDataEx", *given)
        if status != 0:
            said = log.value.decode(errors="replace").strip()
            raise DeviceError(
                f"the driver of the GPU {self.name} does not accept the kernels: "
                f"{self.driver.text_of(status)}. {said} Update the driver, or use device='cpu'."
            )
        return module

    def function(self, symbol: str) -> ctypes.c_void_p:
        """Return the kernel with this name."""
        if symbol not in self._functions:
            found = ctypes.c_void_p()
            self.driver.call(
                "cuModuleGetFunction", ctypes.byref(found), self._module, symbol.encode()
            )
            self.driver.call("cuFuncSetAttribute", found, cuda.MOST_SHARED, self.most_shared)
            self._functions[symbol] = found
        return self._functions[symbol]

    def free_pinned(self, address: int) -> None:
        """Free memory of the host that the GPU could write to."""
        if not self.driver.is_forked:
            with self.current():
                self.driver.status_of("cuMemFreeHost", address)

    def stream(self) -> Stream:
        """Return a new stream."""
        return Stream(self)


class Stream:
    """The arrays of one fit, and the ordered operations on them.

    Parameters
    ----------
    gpu : Gpu
    """

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self._driver = gpu, gpu.driver
        self._arrays: list[DeviceArray] = []
        self._places: list[IntArray] = []
        handle = ctypes.c_void_p()
        with gpu.current():
            self._driver.call("cuStreamCreate", ctypes.byref(handle), _NOT_BLOCKING)
        self._handle, self._is_closed = handle, False

    def current(self) -> contextlib.AbstractContextManager[None]:
        """Let this thread use the GPU for a while; all other methods need it."""
        return self.gpu.current()

    def allocate(self, length: int, dtype: npt.DTypeLike, what: str) -> DeviceArray:
        """Return a new array, not filled; ``what`` it is for is part of an error."""
        address = ctypes.c_uint64()
        n_bytes = max(1, length * np.dtype(dtype).itemsize)
        status = self._driver.status_of("cuMemAlloc_v2", ctypes.byref(address), n_bytes)
        if status == cuda.OUT_OF_MEMORY:
            raise GpuMemoryError(self._too_large(n_bytes, what))
        if status != 0:
            raise DeviceError(f"no memory for {what}: {self._driver.text_of(status)}.")
        array = DeviceArray(address.value, length, dtype)
        self._arrays.append(array)
        return array

    def _too_large(self, n_bytes: int, what: str) -> str:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        held = sum(array.n_bytes for array in self._arrays)
        return (
            f"the GPU {self.gpu.name} is out of memory: {what} take {_megabytes(n_bytes)}, but "
            f"{_megabytes(free.value)} of {_megabytes(total.value)} are free, and this fit "
            f"already has {_megabytes(held)}. Use device='cpu', or fewer rows or columns."
        )

    def pinned(self, length: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array of the host, not filled, that the GPU can write to."""
        address, n_bytes = ctypes.c_void_p(), max(1, length * np.dtype(dtype).itemsize)
        given = (ctypes.byref(address), n_bytes, _PORTABLE | _FOR_DEVICES)
        self._driver.call("cuMemHostAlloc", *given)
        assert address.value is not None
        memory = (ctypes.c_ubyte * n_bytes).from_address(address.value)
        weakref.finalize(memory, self.gpu.free_pinned, address.value)
        return np.ctypeslib.as_array(memory).view(dtype)[:length]

    def upload(self, array: npt.NDArray[Any], to: DeviceArray) -> None:
        """Copy an array to the GPU; it must not change before :meth:`wait`."""
        assert array.dtype == to.dtype
        assert array.size <= to.length
        assert array.flags.c_contiguous
        given = (to.address, array.ctypes.data, array.nbytes, self._handle)
        self._driver.call("cuMemcpyHtoDAsync_v2", *given)

    def download(self, array: DeviceArray, to: npt.NDArray[Any]) -> None:
        """Copy an array from the GPU; it is there after :meth:`wait`."""
        assert array.dtype == to.dtype
        assert to.size <= array.length
        assert to.flags.c_contiguous
        given = (to.ctypes.data, array.address, to.nbytes, self._handle)
        self._driver.call("cuMemcpyDtoHAsync_v2", *given)

    def clear(self, array: DeviceArray) -> None:
        """Fill an array with zeros."""
        self._driver.call("cuMemsetD8Async", array.address, 0, array.n_bytes, self._handle)

    def functions(self) -> dict[str, int]:
        """Return the addresses of functions of the driver, and the stream, for compiled code."""
        names = {
            "launch": "cuLaunchKernel",
            "upload": "cuMemcpyHtoDAsync_v2",
            "download": "cuMemcpyDtoHAsync_v2",
            "fill": "cuMemsetD8Async",
            "wait": "cuStreamSynchronize",
        }
        found = {name: self._driver.address_of(function) for name, function in names.items()}
        return {**found, "stream": self._handle.value or 0}

    def command(
        self, kernel: Any, threads: int, n_words: int, words: IntArray, *arguments: Any
    ) -> tuple[int, int, int, int]:
        """Write the arguments of a kernel to ``words``; return what a launch needs beside them."""
        found = [word for argument in arguments for word in _words_of(argument)]
        words[: len(found)] = np.array(found, dtype=np.uint64).view(np.int64)
        places = words.ctypes.data + 8 * np.arange(len(found), dtype=np.int64)
        self._places.append(places)
        function = self.gpu.function(ptx.symbol_of(kernel)).value or 0
        return function, places.ctypes.data, threads, 4 * n_words

    def launch(
        self, kernel: Any, blocks: tuple[int, int], threads: int, *arguments: Any, n_words: int = 0
    ) -> None:
        """Launch a kernel, behind all that was asked for before."""
        # The threads of a block share ``n_words`` words of 32 bits.
        words = np.zeros(sum(1 for one in arguments for _ in _words_of(one)), dtype=np.int64)
        function, places, *_, n_bytes = self.command(kernel, threads, n_words, words, *arguments)
        shape = (*blocks, 1, threads, 1, 1, n_bytes)
        self._driver.call("cuLaunchKernel", function, *shape, self._handle, places, None)

    def text_of(self, status: int) -> str:
        """Return what the driver says of an error."""
        return self._driver.text_of(status)

    def wait(self) -> None:
        """Wait until all that was asked for is done."""
        self._driver.call("cuStreamSynchronize", self._handle)

    def close(self) -> None:
        """Free the memory of all arrays."""
        if self._driver.is_forked or self._is_closed:
            return
        with self.current():
            self._driver.status_of("cuStreamSynchronize", self._handle)
            for held in self._arrays:
                self._driver.status_of("cuMemFree_v2", held.address)
            self._driver.status_of("cuStreamDestroy_v2", self._handle)
        self._arrays, self._is_closed = [], True


def _words_of(argument: Any) -> Iterator[int]:
    """Yield the parameters of an argument, as bit patterns of 64 bits."""
    if isinstance(argument, DeviceArray):
        yield argument.address
        yield argument.length
    elif isinstance(argument, tuple):
        for item in argument:
            yield from _words_of(item)
    elif isinstance(argument, np.ndarray):
        yield argument.ctypes.data
        yield argument.size
    else:
        yield int(argument) & 0xFFFFFFFFFFFFFFFF


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.0f} MB"


@functools.cache
def gpu_number(number: int) -> Gpu:
    """Return a GPU by its place among those that the driver lists."""
    return Gpu(number)


def first_gpu() -> Gpu:
    """Return the first GPU that the driver lists (``CUDA_VISIBLE_DEVICES`` counts)."""
    return gpu_number(0)


def missing_gpu() -> str | None:
    """Return why no GPU can be used, or None."""
    try:
        gpu = first_gpu()
    except (DeviceError, CompilationError) as error:
        return str(error)
    return cuda.FORKED if gpu.driver.is_forked else None
