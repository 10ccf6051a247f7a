"""Arrays of other libraries through DLPack: where they lie, and of which type they are.

An object with ``__dlpack__`` gives a capsule around a C structure.  As long as the capsule lives,
the memory of the array does.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

CUDA_DEVICES = (2, 13)
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


class Exported(NamedTuple):
    """An array that a library has exported.

    Attributes
    ----------
    address : int
        Of the first element.
    strides : tuple of int, optional
        In bytes; None in C order.
    dtype : numpy.dtype or None
        None for a type that NumPy does not have.
    capsule : object
        Keeps the memory alive.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: np.dtype[Any] | None
    capsule: object


def exported(capsule: object) -> Exported:
    """Take the capsule of ``__dlpack__`` apart."""
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.argtypes, pointer_of.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    tensor = _Tensor.from_address(pointer_of(capsule, b"dltensor"))
    n_axes, n_bytes = tensor.n_axes, tensor.type.bits // 8
    kind = _KINDS.get(tensor.type.code) if tensor.type.lanes == 1 else None
    try:
        dtype = None if kind is None else np.dtype(f"{kind}{n_bytes}")
    except TypeError:
        dtype = None
    strides = tuple(n_bytes * step for step in tensor.strides[:n_axes]) if tensor.strides else None
    address = (tensor.data or 0) + tensor.first_byte
    return Exported(address, tuple(tensor.shape[:n_axes]), strides, dtype, capsule)
