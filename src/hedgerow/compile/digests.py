"""Digests of everything that compiled code depends on.

The digest of a kernel covers its own code, the kernels and constants that it uses, and so on
recursively: an edit of one kernel changes the digests of the kernel and its callers, and no
others.  Comments, docstrings and line numbers of kernels do not count; of an intrinsic the complete
file counts.  The digest of a kernel that depends on the number of SIMD lanes differs between code
with and without AVX-512.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib.util
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.compile.target import lanes_of_code

_PACKAGE = Path(__file__).parents[1]
_KERNELS = "hedgerow.compile.kernels"
"""Which imports this module, and cannot be imported when Python ends."""

KERNEL_SOURCES = (
    "arrays.py", "kernel_types.py", "cart", "compile", "kernels", "growing", "model", "objectives",
)  # fmt: skip
"""Where kernels are, and what they import: a library of other sources is asked kernel by kernel."""


@functools.cache
def source_digest() -> str:
    """Return the digest of all files that kernels are made from."""
    digest = hashlib.blake2b(digest_size=10)
    for name in KERNEL_SOURCES:
        place = _PACKAGE / name
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(file.relative_to(_PACKAGE).as_posix().encode() + b"\0")
            digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()


@functools.cache
def digest_of(function: Any) -> str:
    """Return the digest of a kernel, or of a Python function, and of everything that it uses."""
    function = getattr(function, "py_func", function)
    digest = hashlib.blake2b(digest_size=10)
    digest.update(sys.implementation.cache_tag.encode())
    for part in _parts_of(function):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def _parts_of(function: Any) -> Iterator[str]:
    """Yield everything that determines what the code of a function does."""
    code = function.__code__
    yield from _code_parts(code)
    yield repr(function.__defaults__)
    attributes = sorted(set(_names(code, "LOAD_ATTR")))
    for name in sorted(set(_names(code, "LOAD_GLOBAL"))):
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        yield name
        yield from _value_parts(value)
        if isinstance(value, types.ModuleType) and value.__name__.startswith("hedgerow."):
            for attribute in attributes:
                if hasattr(value, attribute):
                    yield attribute
                    yield from _value_parts(getattr(value, attribute))
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield name
        yield from _value_parts(cell.cell_contents)


def _code_parts(code: types.CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars))
    # The first constant is the docstring, or None.
    for constant in code.co_consts[1:]:
        if isinstance(constant, types.CodeType):
            yield from _code_parts(constant)
        else:
            yield repr(constant)


def _names(code: types.CodeType, instruction_name: str) -> Iterator[str]:
    """Yield the names that instructions of one kind load."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == instruction_name:
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant, instruction_name)


def _value_parts(value: Any) -> Iterator[str]:
    """Yield parts of a global: another kernel, an intrinsic, a constant, a class or a module."""
    kind = type(value).__name__ if type(value).__module__ == _KERNELS else ""
    if kind == "Kernel":
        yield f"{digest_of(value)} {value.inline} {value.inner}"
    elif kind == "Intrinsic":
        yield f"{_file_digest(value.module)} {value.name}"
        if value.counts_lanes:
            yield str(lanes_of_code())
    elif isinstance(value, types.FunctionType):
        yield digest_of(value)
    elif isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
        yield f"{value.__qualname__}{value._fields}"
    elif isinstance(value, types.ModuleType):
        yield value.__name__
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    elif isinstance(value, int | float | str | tuple | np.generic | None):
        yield f"{type(value).__name__} {value!r}"
    else:
        yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"


def extent_of(kernel: Any) -> int:
    """Return the bytes of Python's code of a kernel and of all kernels that it calls."""
    from hedgerow.compile.kernels import Kernel

    found, rest = set[Any](), [kernel.py_func]
    while rest:
        function = rest.pop()
        if function not in found:
            found.add(function)
            used = map(function.__globals__.get, function.__code__.co_names)
            rest += [one.py_func for one in used if isinstance(one, Kernel)]
    return sum(len(function.__code__.co_code) for function in found)


@functools.cache
def _file_digest(module: str) -> str:
    found = importlib.util.find_spec(module)
    assert found is not None
    assert found.origin is not None
    return hashlib.blake2b(Path(found.origin).read_bytes(), digest_size=10).hexdigest()
