"""Arrays that seem to be in GPU memory, and a driver that reads them.

NumPy arrays hold the memory, but only the driver may read it.  Like the arrays of CuPy, these
arrays refuse an implicit conversion to NumPy.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import DeviceError

UNKNOWN = object()
"""Value of ``stream`` if the interface does not name the stream that fills the array."""


class GpuDriver:
    """The calls of the driver that read memory; addresses are those of the host.

    Attributes
    ----------
    calls : list of (str, int)
        Waits (for a stream, or 0 for all) and copies (number of bytes), in order.
    """

    def __init__(self) -> None:
        self._held: list[tuple[int, int, int]] = []
        self._alive: list[Any] = []
        self._current: list[int] = []
        self.calls: list[tuple[str, int]] = []
        self.is_forked = False

    def hold(self, array: npt.NDArray[Any], device: int) -> None:
        """Register an array as GPU memory."""
        start, stop = np.lib.array_utils.byte_bounds(array)
        self._held.append((start, stop, device))
        self._alive.append(array)

    def _device_of(self, address: int, n_bytes: int = 1) -> int | None:
        stop = address + n_bytes
        return next((held[2] for held in self._held if held[0] <= address < stop <= held[1]), None)

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function of the driver."""
        assert self.status_of(function, *arguments) == 0, function

    def status_of(self, function: str, *arguments: Any) -> int:
        """Call a function of the driver; return its status."""
        if self.is_forked:
            raise DeviceError("this process was forked")
        status: int = getattr(self, f"_{function}")(*arguments)
        return status

    def text_of(self, status: int) -> str:
        """Describe an error."""
        return f"error {status}"

    def _cuPointerGetAttribute(self, number: Any, attribute: int, address: int) -> int:
        device = self._device_of(address)
        if attribute != 9 or device is None:
            return 1
        ctypes.cast(number, ctypes.POINTER(ctypes.c_int))[0] = device
        return 0

    def _cuDeviceGet(self, handle: Any, number: int) -> int:
        ctypes.cast(handle, ctypes.POINTER(ctypes.c_int))[0] = 100 + number
        return 0

    def _cuDevicePrimaryCtxRetain(self, context: Any, handle: int) -> int:
        ctypes.cast(context, ctypes.POINTER(ctypes.c_void_p))[0] = 1000 + handle
        return 0

    def _cuCtxPushCurrent_v2(self, context: Any) -> int:
        self._current.append(context.value - 1100)
        return 0

    def _cuCtxPopCurrent_v2(self, context: Any) -> int:
        self._current.pop()
        return 0

    def _cuCtxSynchronize(self) -> int:
        assert self._current
        self.calls.append(("wait", 0))
        return 0

    def _cuStreamSynchronize(self, stream: int) -> int:
        assert self._current
        self.calls.append(("wait", stream))
        return 0

    def _cuMemcpyDtoH_v2(self, to: int, address: int, n_bytes: int) -> int:
        device = self._device_of(address, n_bytes)
        assert device is not None, "bytes that do not belong to the array"
        assert self._current[-1] == device, "another GPU"
        ctypes.memmove(to, address, n_bytes)
        self.calls.append(("copy", n_bytes))
        return 0


class OnGpu:
    """An array with ``__cuda_array_interface__``.

    Parameters
    ----------
    driver : GpuDriver
    array : ndarray
    device : int, default=0
    stream : optional
        Entry of the interface.
    more
        Other entries.
    """

    def __init__(
        self, driver: GpuDriver, array: Any, device: int = 0, stream: Any = None, **more: Any
    ) -> None:
        self.array = np.asarray(array)
        if self.array.size > 0:
            driver.hold(self.array, device)
        self.stream, self.more = stream, more
        self.shape, self.dtype = self.array.shape, self.array.dtype

    def __len__(self) -> int:
        return len(self.array)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        array = self.array
        found = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data if array.size > 0 else 0, False),
            "strides": None if array.flags.c_contiguous else array.strides,
            "version": 3,
            **self.more,
        }
        return found if self.stream is UNKNOWN else {**found, "stream": self.stream}


class ByDlpack:
    """An array with ``__dlpack__`` only."""

    def __init__(self, driver: GpuDriver, array: Any, device: int = 2) -> None:
        self.array, self._device = np.asarray(array), device
        driver.hold(self.array, 0)
        self.shape, self.dtype = self.array.shape, self.array.dtype

    def __len__(self) -> int:
        return len(self.array)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device, 0

    def __dlpack__(self, stream: int | None = None) -> Any:
        assert stream == 1
        return self.array.__dlpack__()
