"""Memory of GPUs that other libraries have filled, read through the driver.

The memory belongs to the primary context of its GPU, which all libraries of a process share.
Every GPU of the process can be read, not only the one on which Hedgerow trains.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hedgerow.cuda import driver as cuda
from hedgerow.errors import DeviceError

ALL_STREAMS = -1
"""Stands for all streams of a GPU, where an array does not say which one fills it."""

_NUMBER_OF_DEVICE = 9  # attribute of an address


class GpuMemory:
    """The memory of all GPUs of this process.

    Raises
    ------
    DeviceError
        If there is no driver, or no GPU.
    """

    def __init__(self) -> None:
        self._driver = cuda.Driver()
        self._contexts: dict[int, ctypes.c_void_p] = {}

    def device_of(self, address: int) -> int:
        """Return the number of the GPU whose memory this is.

        Raise ``DeviceError`` if the driver does not know the address in this process.
        """
        number = ctypes.c_int()
        given = (ctypes.byref(number), _NUMBER_OF_DEVICE, address)
        status = self._driver.status_of("cuPointerGetAttribute", *given)
        if status != 0:
            raise DeviceError(
                f"an array says that it lies at {address:#x} on a GPU, where this process has no "
                f"memory: {self._driver.text_of(status)}. Copy it in the process that made it."
            )
        return number.value

    def wait(self, device: int, stream: int | None) -> None:
        """Wait until a stream has done its work; ``None``: there is nothing to wait for."""
        if stream is None:
            return
        with self._current(device):
            if stream == ALL_STREAMS:
                self._driver.call("cuCtxSynchronize")
            else:
                self._driver.call("cuStreamSynchronize", stream)

    def copy(self, device: int, address: int, to: npt.NDArray[np.uint8]) -> None:
        """Copy bytes from a GPU to an array of the host."""
        with self._current(device):
            self._driver.call("cuMemcpyDtoH_v2", to.ctypes.data, address, to.nbytes)

    @contextlib.contextmanager
    def _current(self, device: int) -> Iterator[None]:
        """Let this thread use a GPU for a while."""
        if device not in self._contexts:
            handle, context = ctypes.c_int(), ctypes.c_void_p()
            self._driver.call("cuDeviceGet", ctypes.byref(handle), device)
            self._driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle.value)
            self._contexts[device] = context
        self._driver.call("cuCtxPushCurrent_v2", self._contexts[device])
        try:
            yield
        finally:
            self._driver.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


@functools.cache
def gpu_memory() -> GpuMemory:
    """Return the memory of the GPUs of this process."""
    return GpuMemory()
