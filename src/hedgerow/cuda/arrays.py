"""Arrays of other libraries in the memory of a GPU: recognise them, and copy them to the host.

The memory belongs to the primary context of its GPU, which all libraries of a process share.
Every GPU of the process can be read, not only the one on which Hedgerow trains.

::

    CuPy, PyTorch, Numba, JAX    __cuda_array_interface__   --.
    others                       __dlpack__                 ---> GpuArray  -- to_host -->  ndarray
    cuDF                         to_pandas                  ---------------- on_host --->  frame
    sparse matrices of CuPy      get                        ---------------- on_host --->  matrix

No library is imported: arrays are recognised by their attributes.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import DataError, DataTypeError, DeviceError

_LEGACY = 1
"""The default stream, by its number in both protocols."""

_BLOCK_BYTES = 1 << 26
"""Bytes copied at a time, if only some of them belong to the array."""

_MOST_WASTE = 1.25
"""Most bytes that are copied at once for each byte of an array."""

_HOST_TYPES = (np.ndarray, list, tuple, dict, str, bytes, int, float, type(None))


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
        from hedgerow.cuda.driver import Driver  # tables on the host need none

        self._driver = Driver()
        self._contexts: dict[int, ctypes.c_void_p] = {}

    def device_of(self, address: int) -> int:
        """Return the number of the GPU whose memory this is."""
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


@dataclass(frozen=True, slots=True, eq=False)
class GpuArray:
    """An array of any library in the memory of a GPU.

    Attributes
    ----------
    shape, strides : tuple of int
        Strides in bytes, of any sign.
    dtype : numpy.dtype
    address : int
        Of the first element.
    stream : int or None
        Stream that fills the array; ``ALL_STREAMS``: not known; None: it is filled.
    owner : object
        Keeps the memory alive.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    address: int
    stream: int | None
    owner: object

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def span(self) -> tuple[int, int]:
        """Addresses of the first byte that belongs to the array, and of the one after the last."""
        return _span(self.address, self.shape, self.strides, self.dtype.itemsize)

    def device(self) -> int:
        """Return the number of the GPU."""
        return gpu_memory().device_of(self.address)

    def wait(self) -> None:
        """Wait until the library that owns the array has filled it."""
        memory = gpu_memory()
        memory.wait(memory.device_of(self.address), self.stream)

    def to_host(self) -> npt.NDArray[Any]:
        """Copy the array; axes keep their order in memory."""
        if self.size == 0:
            return np.empty(self.shape, dtype=self.dtype)
        self.wait()
        start, stop = self.span
        if stop - start <= _MOST_WASTE * self.size * self.dtype.itemsize:
            return self._copy(self.address, self.shape)
        found: npt.NDArray[Any] = np.empty(self.shape, dtype=self.dtype)
        axis = int(np.argmax(np.abs(self.strides)))
        step = max(1, _BLOCK_BYTES // abs(self.strides[axis]))
        for first in range(0, self.shape[axis], step):
            here = (slice(None),) * axis + (slice(first, first + step),)
            block = found[here]
            block[...] = self._copy(self.address + first * self.strides[axis], block.shape)
        return found

    def _copy(self, address: int, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """Copy the bytes of a part of the array, and view them with its strides."""
        start, stop = _span(address, shape, self.strides, self.dtype.itemsize)
        held = np.empty(stop - start, dtype=np.uint8)
        gpu_memory().copy(self.device(), start, held)
        return np.ndarray(shape, self.dtype, held.data, address - start, self.strides)


def _span(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> tuple[int, int]:
    """Return the first address of an array that is not empty, and the one after the last."""
    ends = [(length - 1) * stride for length, stride in zip(shape, strides, strict=True)]
    below, above = sum(end for end in ends if end < 0), sum(end for end in ends if end > 0)
    return address + below, address + above + itemsize


def gpu_array(values: Any) -> GpuArray | None:
    """Return an array in the memory of a GPU; None if ``values`` is anything else."""
    kind = type(values)
    if kind in _HOST_TYPES:
        return None
    if hasattr(kind, "__cuda_array_interface__"):
        if getattr(values, "requires_grad", False) is True and getattr(values, "is_cuda", False):
            raise DataError(
                f"a {kind.__name__} on a GPU records gradients: pass its detach() instead."
            )
        interface = _attribute(values, "__cuda_array_interface__")
        if interface is not None:
            return _of_interface(values, interface)
    if hasattr(kind, "__dlpack_device__") and hasattr(kind, "__dlpack__"):
        return _of_dlpack(values)
    return None


def _attribute(values: Any, name: str) -> Any:
    """Return an attribute; None if the library says that this array does not have it."""
    try:
        return getattr(values, name)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return None


def _of_interface(values: Any, interface: dict[str, Any]) -> GpuArray:
    """Return an array by ``__cuda_array_interface__``, of any version."""
    if interface.get("mask") is not None:
        raise DataTypeError(
            f"a {type(values).__name__} on a GPU has a mask of missing values: fill them with NaN."
        )
    if hasattr(values, "block_until_ready"):  # JAX has no streams that one could wait for
        values.block_until_ready()
    dtype = _known_type(np.dtype(interface["typestr"]), values)
    shape = tuple(map(int, interface["shape"]))
    stream = interface.get("stream", ALL_STREAMS)
    strides = _strides(shape, interface.get("strides"), dtype.itemsize)
    address = int(interface["data"][0])
    return GpuArray(shape, strides, dtype, address, _LEGACY if stream == 0 else stream, values)


_CUDA_DEVICES = (2, 13)
"""Kinds of devices: the memory of a GPU, and memory that moves between GPU and host."""

_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("n_axes", ctypes.c_int32),
        ("type", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("first_byte", ctypes.c_uint64),
    )


def _of_dlpack(values: Any) -> GpuArray | None:
    """Return an array by DLPack; None if it is not on a GPU of NVIDIA."""
    try:
        device, _ = values.__dlpack_device__()
    except (AttributeError, BufferError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None
    if int(device) not in _CUDA_DEVICES:
        return None
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.argtypes, pointer_of.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    try:
        # As long as the capsule around the C structure lives, the memory of the array does.
        capsule = values.__dlpack__(stream=_LEGACY)
        tensor = _Tensor.from_address(pointer_of(capsule, b"dltensor"))
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise DataError(
            f"a {type(values).__name__} on a GPU cannot be read ({error}): copy it to the host."
        ) from error
    n_axes, n_bytes = tensor.n_axes, tensor.type.bits // 8
    kind = _KINDS.get(tensor.type.code) if tensor.type.lanes == 1 else None
    own = None
    if kind is not None:
        with contextlib.suppress(TypeError):  # a number of bytes that NumPy does not have
            own = np.dtype(f"{kind}{n_bytes}")
    dtype, shape = _known_type(own, values), tuple(tensor.shape[:n_axes])
    steps = [n_bytes * step for step in tensor.strides[:n_axes]] if tensor.strides else None
    address = (tensor.data or 0) + tensor.first_byte
    strides = _strides(shape, steps, dtype.itemsize)
    return GpuArray(shape, strides, dtype, address, _LEGACY, (values, capsule))


def _known_type(dtype: np.dtype[Any] | None, values: Any) -> np.dtype[Any]:
    if dtype is None or dtype.kind not in "biufc":
        own = getattr(values, "dtype", "unknown")
        raise DataTypeError(
            f"a {type(values).__name__} on a GPU has type {own}, which NumPy does not have: "
            "convert it to float32."
        )
    return dtype


def _strides(shape: tuple[int, ...], strides: Any, itemsize: int) -> tuple[int, ...]:
    """Return the strides of an array in bytes; without ``strides``, those of C order."""
    if strides is not None:
        return tuple(map(int, strides))
    found = []
    for length in reversed(shape):
        found.append(itemsize)
        itemsize *= length
    return tuple(reversed(found))


def on_host(values: Any) -> Any:
    """Return what lies on a GPU as the same in the memory of the host; all else unchanged."""
    kind = type(values)
    if kind in _HOST_TYPES:
        return values
    if is_cudf(values) and hasattr(kind, "to_pandas"):
        return values.to_pandas()
    if kind.__module__.startswith("cupyx.scipy.sparse") and hasattr(kind, "get"):
        return values.get()
    found = gpu_array(values)
    return values if found is None else found.to_host()


def host_array(values: Any) -> npt.NDArray[Any]:
    """Return values as an array in the memory of the host; NaN or None where they are masked.

    Examples
    --------
    >>> host_array(np.ma.array([1, 2], mask=[False, True])).tolist()
    [1, None]
    """
    if isinstance(values, list | tuple):
        array: npt.NDArray[Any] = np.asarray(values)
        if array.dtype.kind not in "US":
            return array
        # Text beside NaN or numbers stays apart from their text.
        objects = np.array(values, dtype=object)
        known = {str, np.str_, bytes, np.bytes_}
        return array if set(map(type, objects.ravel().tolist())) <= known else objects
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(on_host(values))
    plain, masked = np.asarray(values), np.ma.getmaskarray(values)
    if plain.dtype.names is not None or not masked.any():
        return plain
    if plain.dtype.kind == "f":
        return np.where(masked, np.nan, plain)
    found = plain.astype(object)
    found[masked] = None
    return found


def is_cudf(values: object) -> bool:
    """Return whether this is a frame, a column or an index of cuDF."""
    return type(values).__module__.partition(".")[0] == "cudf"
