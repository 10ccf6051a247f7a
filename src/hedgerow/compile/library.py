"""Checks and loading of the built library that the manifest names, and its entries by kernel.

A library that is truncated, of another version or for another processor is not used: it gives
one warning, and kernels are compiled just in time.  In a checkout whose sources have changed,
entries of unchanged kernels are used.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hedgerow.compile import digests, target
from hedgerow.errors import HedgerowWarning

if TYPE_CHECKING:
    from hedgerow.compile.kernels import Kernel

# Functions that the code of an entry (:mod:`hedgerow.compile.entry_code`) looks up, in order.
FUNCTIONS = (
    "PyTuple_Size",
    "PyTuple_GetItem",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyLong_FromLongLong",
    "PyLong_FromUnsignedLongLong",
    "PyFloat_FromDouble",
    "PyBool_FromLong",
    "PyLong_AsLongLong",
    "PyLong_AsUnsignedLongLong",
    "PyFloat_AsDouble",
    "PyNumber_Index",
    "PyObject_IsTrue",
    "PyType_IsSubtype",
    "PyErr_Occurred",
    "PyErr_SetString",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "Py_IncRef",
    "Py_DecRef",
)
OBJECTS: dict[str, Any] = {
    "None": None,
    "True": True,
    "NotImplemented": NotImplemented,
    "RuntimeError": RuntimeError,
    "tuple": tuple,
    "int": int,
    "float": float,
    "bool": bool,
    "ndarray": np.ndarray,
    **{
        name: getattr(np, name)
        for name in (
            *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float32", "bool_"),
        )
    },
}
TABLE_FIELDS = ("head size", "type codes", *FUNCTIONS, *OBJECTS)

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64"),
)
"""Types of items of arrays; the code of a type is its position in this list plus one."""


class Entry(NamedTuple):
    """The built code of a kernel for arguments of certain types, as built-in functions.

    run    runs the kernel; NotImplemented for arguments of other types
    fits   True for arguments of these types, else NotImplemented
    """

    run: Callable[..., Any]
    fits: Callable[..., Any]


class _MethodDefinition(ctypes.Structure):
    """``PyMethodDef`` of the interpreter's C interface."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_TAKES_A_TUPLE = 1  # METH_VARARGS


def entries_of(kernel: Kernel) -> tuple[Entry, ...]:
    """Return the built code of a kernel, for each combination of argument types."""
    loaded = _loaded()
    if loaded is None:
        return ()
    library, entries, unchanged = loaded
    listed = entries.get(kernel.name, ())
    if listed and not unchanged:
        digest = digests.digest_of(kernel)
        listed = [entry for entry in listed if entry[1] == digest]
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    found, text = [], kernel.name.encode()
    for symbol, _ in listed:
        address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p)
        definition = _MethodDefinition(text, address, _TAKES_A_TUPLE, None)
        # Never freed: a function reads its definition even when it is deleted, and some functions
        # outlive this module while the interpreter ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(definition))
        place = ctypes.addressof(definition)
        found.append(Entry(make(place, None, kernel.name), make(place, True, kernel.name)))
    return tuple(found)


def is_usable() -> bool:
    """Return whether kernels of these sources were built for this processor."""
    loaded = _loaded()
    return loaded is not None and loaded[2]


def state() -> str:
    """Return one sentence on the built library, for errors."""
    if not (target.FOLDER / target.MANIFEST).exists():
        return "This installation has no built kernels."
    loaded = _loaded()
    if loaded is None:
        return "The built kernels of this installation cannot be used here."
    if not loaded[2]:
        return "The sources have changed since the kernels were built."
    return f"The built kernels in {target.FOLDER} do not include it."


@functools.cache
def _loaded() -> tuple[ctypes.PyDLL, dict[str, Any], bool] | None:
    """Return the library for this processor, its entries, and whether sources are unchanged."""
    if not (target.FOLDER / target.MANIFEST).exists():
        return None
    try:
        found = target.read_manifest()
        listed = found["libraries"][target.level_of(found)]
        library = _load(listed, found["build"])
    except target.UNREADABLE as error:
        warnings.warn(
            f"the built kernels in {target.FOLDER} are not used: {error}. Kernels are compiled "
            "when they are first called, which takes up to a minute; install hedgerow again to "
            "mend it.",
            HedgerowWarning,
            stacklevel=2,
        )
        return None
    return library, listed["entries"], found["sources"] == digests.source_digest()


def _load(listed: dict[str, Any], build: str) -> ctypes.PyDLL:
    """Load a library, and fill its table."""
    path = target.FOLDER / listed["file"]
    # The system ends a process that reads beyond the end of a mapped file.
    size = path.stat().st_size
    if size != listed["size"]:
        raise ValueError(f"{path.name} has {size} bytes instead of {listed['size']}")
    library = ctypes.PyDLL(str(path))
    text = (ctypes.c_char * len(build)).in_dll(library, "hedgerow_build")
    if text.value != build.encode():
        raise ValueError(f"{path.name} is of another build")
    for entries in listed["entries"].values():
        for symbol, _ in entries:
            getattr(library, symbol)  # an AttributeError names it
    table = (ctypes.c_int64 * len(TABLE_FIELDS)).in_dll(library, "hedgerow_table")
    functions = (getattr(ctypes.pythonapi, name) for name in FUNCTIONS)
    addresses = [ctypes.cast(one, ctypes.c_void_p).value or 0 for one in functions]
    words = [object.__basicsize__, ctypes.addressof(_type_codes()), *addresses]
    for k, word in enumerate([*words, *map(id, OBJECTS.values())]):
        table[k] = word
    return library


@functools.cache
def _type_codes() -> ctypes.Array[ctypes.c_uint8]:
    """Return the code of each NumPy type number, in memory that stays allocated."""
    codes = (ctypes.c_uint8 * 24)()
    for letter in "?bhilqBHILQfd":
        dtype = np.dtype(letter)
        codes[dtype.num] = DTYPES.index(dtype.name) + 1
    return codes
