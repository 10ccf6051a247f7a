"""Arrays of other libraries in the memory of a GPU: recognise them, and copy them to the host.

::

    CuPy, PyTorch, Numba, JAX    __cuda_array_interface__   --.
    others                       __dlpack__                 ---> GpuArray  -- to_host -->  ndarray
    cuDF                         to_pandas                  ---------------- on_host --->  frame
    sparse matrices of CuPy      get                        ---------------- on_host --->  matrix

No library is imported: arrays are recognised by their attributes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.cuda.dlpack import CUDA_DEVICES, exported
from hedgerow.cuda.memory import ALL_STREAMS, gpu_memory
from hedgerow.errors import DataError, DataTypeError

_LEGACY = 1
"""The default stream, by its number in both protocols."""

_BLOCK_BYTES = 1 << 26
"""Bytes copied at a time, if only some of them belong to the array."""

_MOST_WASTE = 1.25
"""Most bytes that are copied at once for each byte of an array."""

_HOST_TYPES = (np.ndarray, list, tuple, dict, str, bytes, int, float, type(None))


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
        """Return the number of the GPU.

        Raise ``DeviceError`` if there is no driver, or the memory is not of this process.
        """
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
    """Return an array in the memory of a GPU; None if ``values`` is anything else.

    Raise ``DataTypeError`` if the array has a mask, or a type that NumPy does not have.
    Raise ``DataError`` if its library does not give access to it.
    """
    kind = type(values)
    if kind in _HOST_TYPES:
        return None
    if hasattr(kind, "__cuda_array_interface__"):
        _refuse_tracked(values)
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


def _refuse_tracked(values: Any) -> None:
    if getattr(values, "requires_grad", False) is True and getattr(values, "is_cuda", False):
        raise DataError(
            f"a {type(values).__name__} on a GPU records gradients: pass its detach() instead."
        )


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


def _of_dlpack(values: Any) -> GpuArray | None:
    """Return an array by DLPack; None if it is not on a GPU of NVIDIA."""
    try:
        device, _ = values.__dlpack_device__()
    except (AttributeError, BufferError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None
    if int(device) not in CUDA_DEVICES:
        return None
    try:
        found = exported(values.__dlpack__(stream=_LEGACY))
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise DataError(
            f"a {type(values).__name__} on a GPU cannot be read ({error}): copy it to the host."
        ) from error
    dtype = _known_type(found.dtype, values)
    strides = _strides(found.shape, found.strides, dtype.itemsize)
    held = (values, found.capsule)
    return GpuArray(found.shape, strides, dtype, found.address, _LEGACY, held)


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
        return _array_of_list(values)
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


def _array_of_list(values: Sequence[Any]) -> npt.NDArray[Any]:
    """Return a list as an array; text beside NaN or numbers stays apart from their text."""
    array: npt.NDArray[Any] = np.asarray(values)
    if array.dtype.kind not in "US":
        return array
    objects = np.array(values, dtype=object)
    known = {str, np.str_, bytes, np.bytes_}
    return array if set(map(type, objects.ravel().tolist())) <= known else objects


def is_cudf(values: object) -> bool:
    """Return whether this is a frame, a column or an index of cuDF."""
    return type(values).__module__.partition(".")[0] == "cudf"
