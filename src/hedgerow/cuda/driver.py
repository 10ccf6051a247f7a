"""The functions of CUDA's driver that are used, called without any other package.

The driver is a library of the operating system (``libcuda.so.1``, ``nvcuda.dll``).  Every call
returns a number, which is an error unless it is 0.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from typing import Any

from hedgerow.errors import DeviceError

OUT_OF_MEMORY = 2

# Attributes of a device.
SHARED_PER_BLOCK, N_PROCESSORS = 97, 16
CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76

MOST_SHARED = 8
"""Attribute of a function: bytes of memory that the threads of a block may share."""

_ADDRESS, _SIZE, _INT = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int
_POINTER = ctypes.c_void_p
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (ctypes.c_uint,),
    "cuDeviceGetCount": (_POINTER,),
    "cuDeviceGet": (_POINTER, _INT),
    "cuDeviceGetName": (_POINTER, _INT, _INT),
    "cuDeviceGetAttribute": (_POINTER, _INT, _INT),
    "cuDevicePrimaryCtxRetain": (_POINTER, _INT),
    "cuCtxPushCurrent_v2": (_POINTER,),
    "cuCtxPopCurrent_v2": (_POINTER,),
    "cuCtxSynchronize": (),
    "cuPointerGetAttribute": (_POINTER, _INT, _ADDRESS),
    "cuModuleLoadDataEx": (_POINTER, _POINTER, ctypes.c_uint, _POINTER, _POINTER),
    "cuModuleGetFunction": (_POINTER, _POINTER, ctypes.c_char_p),
    "cuFuncSetAttribute": (_POINTER, _INT, _INT),
    "cuMemGetInfo_v2": (_POINTER, _POINTER),
    "cuMemAlloc_v2": (_POINTER, _SIZE),
    "cuMemFree_v2": (_ADDRESS,),
    "cuMemHostAlloc": (_POINTER, _SIZE, ctypes.c_uint),
    "cuMemFreeHost": (_POINTER,),
    "cuMemcpyHtoDAsync_v2": (_ADDRESS, _POINTER, _SIZE, _POINTER),
    "cuMemcpyDtoH_v2": (_POINTER, _ADDRESS, _SIZE),
    "cuMemcpyDtoHAsync_v2": (_POINTER, _ADDRESS, _SIZE, _POINTER),
    "cuMemsetD8Async": (_ADDRESS, ctypes.c_ubyte, _SIZE, _POINTER),
    "cuStreamCreate": (_POINTER, ctypes.c_uint),
    "cuStreamSynchronize": (_POINTER,),
    "cuStreamDestroy_v2": (_POINTER,),
    "cuLaunchKernel": (_POINTER, *[ctypes.c_uint] * 7, _POINTER, _POINTER, _POINTER),
}


FORKED = (
    "this process was forked from one that used the GPU, which CUDA does not allow: start it with "
    "the method 'spawn'."
)


@functools.cache
def load_driver() -> ctypes.CDLL:
    """Return the driver, ready for calls."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        library = ctypes.CDLL(name)
        for function, kinds in _FUNCTIONS.items():
            getattr(library, function).argtypes = kinds
        library.cuGetErrorString.argtypes = (_INT, _POINTER)
    except (OSError, AttributeError) as error:
        raise DeviceError(f"there is no driver of an NVIDIA GPU here ({error}).") from None
    status, count = library.cuInit(0), _INT(0)
    if status == 0:
        status = library.cuDeviceGetCount(ctypes.byref(count))
    if status != 0 or count.value == 0:
        found = text_of(library, status) if status != 0 else "it knows of no GPU"
        raise DeviceError(f"the driver of NVIDIA's GPUs cannot be used here: {found}.")
    return library


def text_of(library: ctypes.CDLL, status: int) -> str:
    """Return what the driver says of an error."""
    text = ctypes.c_char_p()
    library.cuGetErrorString(status, ctypes.byref(text))
    return f"{(text.value or b'unknown error').decode()} (error {status})"


class Driver:
    """The driver for one process, with its errors as exceptions.

    Raises
    ------
    DeviceError
        From :meth:`call`, for anything but success.
    """

    def __init__(self) -> None:
        self._library, self.process = load_driver(), os.getpid()

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child of the one that used the GPU."""
        return os.getpid() != self.process

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function of the driver."""
        status = self.status_of(function, *arguments)
        if status != 0:
            raise DeviceError(f"{function} of the GPU's driver failed: {self.text_of(status)}.")

    def status_of(self, function: str, *arguments: Any) -> int:
        """Call a function of the driver; return its status."""
        if self.is_forked:
            raise DeviceError(FORKED)
        status: int = getattr(self._library, function)(*arguments)
        return status

    def address_of(self, function: str) -> int:
        """Return the address of a function of the driver."""
        return ctypes.cast(getattr(self._library, function), ctypes.c_void_p).value or 0

    def text_of(self, status: int) -> str:
        """Return what the driver says of an error."""
        return text_of(self._library, status)
