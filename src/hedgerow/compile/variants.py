"""The kernels that are built, and the types of their arguments: the list ``variants.txt``.

Each line is a kernel that Python calls.  It is compiled for the types of its annotations
(:mod:`hedgerow.kernel_types`); the fields of a named tuple are those of its class.  A kernel that
takes several types has a line for each, which gives the types of the arguments that differ, in
Numba's notation::

    hedgerow.growing.core.grow:work
    hedgerow.kernels.tables.binning:bin_rows(values=const float32[:, :, :], lowest=float32)
    hedgerow.kernels.tables.binning:bin_rows(values=const float64[:, :, :], lowest=float64)

``uint8[:, ::1]`` is an array in C order, ``uint8[:, :]`` one in any order; ``const`` accepts
read-only arrays, too.  The package build compiles the list into the library; ``hedgerow warmup``
compiles it where there is no library.
"""

from __future__ import annotations

import importlib
import typing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

LIST = Path(__file__).with_name("variants.txt")


class Variant(NamedTuple):
    """A kernel, ``module:function``, and the types of its arguments in Numba's notation."""

    kernel: str
    types: str


def read_variants(path: Path = LIST) -> list[Variant]:
    """Return the variants of the list, in order."""
    found = []
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        name, _, given = line.removesuffix(")").partition("(")
        types = dict(part.split("=") for part in _parts(given))
        function = find_kernel(name).py_func
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        if unknown := types.keys() - set(names):
            raise TypeError(f"{name} has no argument {min(unknown)}")
        hints = typing.get_type_hints(function, include_extras=True)
        try:
            listed = [types.get(one) or text_of(hints[one]) for one in names]
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        found.append(Variant(name, ", ".join(listed)))
    return found


def find_kernel(name: str) -> Any:
    """Return the kernel of this name."""
    module, function = name.split(":")
    return getattr(importlib.import_module(module), function)


def text_of(hint: Any) -> str:
    """Return the type that an annotation stands for, in Numba's notation."""
    if hint in (int, float):
        return f"{hint.__name__}64"
    if hasattr(hint, "__metadata__"):
        text, *marks = hint.__metadata__
        text = text.replace("::1", ":") if "strided" in marks else text
        return f"const {text}" if "const" in marks else text
    if typing.get_origin(hint) is tuple:
        return f"({', '.join(map(text_of, typing.get_args(hint)))})"
    if isinstance(hint, type) and issubclass(hint, np.generic):
        return hint.__name__
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        fields = typing.get_type_hints(hint, include_extras=True).values()
        return f"{hint.__module__}.{hint.__qualname__}({', '.join(map(text_of, fields))})"
    raise TypeError(f"{hint} is not a type that kernels are compiled for")


def parse_types(text: str) -> tuple[Any, ...]:
    """Return Numba's types of a text of types."""
    return tuple(map(_parse_type, _parts(text)))


def _parts(text: str) -> list[str]:
    """Return the parts between commas that stand in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _parse_type(text: str) -> Any:
    from numba import types

    if text.endswith(")"):
        path, _, fields = text[:-1].partition("(")
        module, _, name = path.rpartition(".")
        named = (getattr(importlib.import_module(module), name),) if path else ()
        return types.BaseTuple.from_types(parse_types(fields), *named)
    name, _, steps = text.removeprefix("const ").partition("[")
    dtype = types.boolean if name == "bool" else getattr(types, name)
    if not steps:
        return dtype
    axes = [axis.strip() for axis in steps[:-1].split(",")]
    layout = "C" if axes[-1] == "::1" else "A"
    return types.Array(dtype, len(axes), layout, readonly=text.startswith("const "))
