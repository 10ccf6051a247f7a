"""The argument types for which kernels are built: the list ``variants.txt``.

Each line is a kernel and the types of its arguments, in Numba's notation.  Named tuples stand
above, once each, with the types of their fields; numbers tell apart those of one name::

    Team = hedgerow.kernels.primitives.barrier.Team(int64, int64[::1])
    State_2 = hedgerow.growing.core.state.State(Team, none)

    hedgerow.kernels.primitives.hashing:hash64(uint64, int64, int64)
    hedgerow.growing.core.grow:work(int64, State_2, int64)

``uint8[:, ::1]`` is an array in C order, ``uint8[::1, :]`` in Fortran order, ``uint8[:, :]``
in any order; ``const`` accepts read-only arrays, too.  The package build compiles the list
into the library; ``hedgerow warmup`` compiles it where there is no library.  The list is
recorded from runs: with ``HEDGEROW_RECORD=folder`` each process writes a file of the kernels
that it calls, and ``python -m hedgerow.compile.variants folder`` makes the list from these
files.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

LIST = Path(__file__).with_name("variants.txt")


class Variant(NamedTuple):
    """A kernel, ``module:function``, and the types of its arguments."""

    kernel: str
    types: str

    def __str__(self) -> str:
        return f"{self.kernel}({self.types})"


def read_variants(path: Path = LIST) -> list[Variant]:
    """Return the variants of the list, in order, with all named tuples spelled out."""
    variants, tuples = [], dict[str, str]()
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            name, equals, text = line.rpartition(" = ")
            text = _NAME.sub(lambda match: tuples[match[0]], text)
            if equals:
                tuples[name] = text
            else:
                kernel, types = text.split("(", 1)
                variants.append(Variant(kernel, types.removesuffix(")")))
    return variants


_NAME = re.compile(r"(?<![\w.])[A-Z]\w*")
# Fields may be plain tuples, of plain tuples, too; named ones were replaced by their names before.
_PLAIN = r"(?:[^().]|\((?:[^().]|\([^().]*\))*\))*"
_NAMED_TUPLE = re.compile(rf"[\w.]+\.(\w+)\({_PLAIN}\)")


def text_of_list(variants: Iterable[Variant]) -> str:
    """Return the text of a list, with each named tuple once."""
    names: dict[str, str] = {}

    def name_of(match: re.Match[str]) -> str:
        if match[0] not in names:
            of_class = [name for name in names.values() if name.partition("_")[0] == match[1]]
            number = f"_{len(of_class) + 1}" if of_class else ""
            names[match[0]] = f"{match[1]}{number}"
        return names[match[0]]

    lines = []
    for variant in variants:
        types, n_replaced = variant.types, 1
        while n_replaced:
            types, n_replaced = _NAMED_TUPLE.subn(name_of, types)
        lines.append(str(variant._replace(types=types)))
    tuples = [f"{name} = {text}" for text, name in names.items()]
    return "\n".join([*tuples, "", *lines, ""])


def find_kernel(name: str) -> Any:
    """Return the kernel of this name."""
    module, function = name.split(":")
    return getattr(importlib.import_module(module), function)


# -- notation -----------------------------------------------------------------------------


def text_of(kind: Any) -> str:
    """Return a Numba type in the notation of the list."""
    from numba import types

    if isinstance(kind, types.Array):
        steps = [":"] * kind.ndim
        if kind.layout == "C":
            steps[-1] = "::1"
        elif kind.layout == "F":
            steps[0] = "::1"
        return f"{'' if kind.mutable else 'const '}{kind.dtype}[{', '.join(steps)}]"
    if isinstance(kind, types.BaseTuple):
        items = ", ".join(text_of(item) for item in kind.types)
        cls = getattr(kind, "instance_class", tuple)
        name = "" if cls is tuple else f"{cls.__module__}.{cls.__qualname__}"
        return f"{name}({items})"
    if isinstance(kind, types.Omitted):
        raise TypeError("a kernel call omits an argument that has a default: pass all arguments")
    return str(kind)


def parse_types(text: str) -> tuple[Any, ...]:
    """Return the Numba types of a list in this notation."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return tuple(_parse_type(part.strip()) for part in parts if part)


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
    layout = "C" if axes[-1] == "::1" else "F" if axes[0] == "::1" else "A"
    return types.Array(dtype, len(axes), layout, readonly=text.startswith("const "))


# -- recording ----------------------------------------------------------------------------


class Recorder:
    """A record of the kernels that this process calls, with the types of their arguments."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file, self._seen = folder / f"{os.getpid()}.txt", set[Variant]()

    def note(self, name: str, dispatcher: Any, arguments: Iterable[Any]) -> None:
        """Record one call."""
        kinds = (text_of(dispatcher.typeof_pyval(argument)) for argument in arguments)
        variant = Variant(name, ", ".join(kinds))
        if variant not in self._seen:
            self._seen.add(variant)
            with self._file.open("a") as file:
                file.write(f"{variant}\n")


def recorder() -> Recorder | None:
    """Return the recorder of this process if ``HEDGEROW_RECORD`` names a folder, else None."""
    folder = os.environ.get("HEDGEROW_RECORD")
    return Recorder(Path(folder)) if folder else None


def merged(folder: Path) -> list[Variant]:
    """Return the recorded variants, each once, in order.

    Variants that differ only in read-only marks of arrays become one variant.  A variant of
    the present list replaces all variants that it covers: a person may have edited the list
    so that an array can have any strides.
    """
    joined: dict[Variant, Variant] = {}
    for path in folder.glob("*.txt"):
        for variant in read_variants(path):
            # Tests call inner kernels, and kernels of their own.
            if variant.kernel.startswith("hedgerow.") and not find_kernel(variant.kernel).inner:
                plain = variant._replace(types=variant.types.replace("const ", ""))
                joined[plain] = _joined(joined.get(plain, plain), variant)
    present = read_variants()
    return sorted(
        {next((wide for wide in present if covers(wide, one)), one) for one in joined.values()}
    )


_ARRAY = re.compile(r"(const )?(\w+)\[([^\]]*)\]")


def _joined(one: Variant, other: Variant) -> Variant:
    """Return the variant whose arrays are read-only if they are read-only in either variant."""
    marks = [match[1] is not None for match in _ARRAY.finditer(other.types)]
    kept = iter(marks)

    def mark(match: re.Match[str]) -> str:
        readonly = next(kept) or match[1] is not None
        return f"{'const ' if readonly else ''}{match[2]}[{match[3]}]"

    return one._replace(types=_ARRAY.sub(mark, one.types))


def covers(wide: Variant, one: Variant) -> bool:
    """Return whether code that is built for ``wide`` accepts all arguments of ``one``."""
    if wide.kernel != one.kernel or _ARRAY.sub("", wide.types) != _ARRAY.sub("", one.types):
        return False
    pairs = zip(_ARRAY.finditer(wide.types), _ARRAY.finditer(one.types), strict=True)
    return all(_array_covers(a, b) for a, b in pairs)


def _array_covers(wide: re.Match[str], one: re.Match[str]) -> bool:
    if wide[2] != one[2] or wide[3].count(",") != one[3].count(",") or (one[1] and not wide[1]):
        return False
    return "1" not in wide[3] or wide[3] == one[3]


if __name__ == "__main__":
    print(text_of_list(merged(Path(sys.argv[1]))), end="")
