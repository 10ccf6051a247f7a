"""The argument types for which kernels are built: the list ``variants.txt``.

Each line is a kernel and the types of its arguments, in Numba's notation::

    hedgerow.kernels.primitives.hashing:hash64(uint64, int64, int64)
    hedgerow.growing.core.grow:work(int64, hedgerow.growing.core.state.State(...), int64)

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
    """Return the variants of the list, in order."""
    variants = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            kernel, types = line.split("(", 1)
            variants.append(Variant(kernel, types.removesuffix(")")))
    return variants


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


_TOKEN = re.compile(r"\s*(const |[\w.]+|\[[^\]]*\]|[(),])")


def parse_types(text: str) -> tuple[Any, ...]:
    """Return the Numba types of a list in this notation."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens).replace(" ", "") != text.replace(" ", ""):
        raise ValueError(f"not a list of types: {text!r}")
    reader = _TypeReader(tokens)
    return tuple(reader.items(end=None))


class _TypeReader:
    """Recursive descent over the tokens of a list of types."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = [*tokens, None]
        self._at = 0

    def _take(self) -> str | None:
        self._at += 1
        return self._tokens[self._at - 1]

    def items(self, end: str | None) -> list[Any]:
        """Return the types up to the token ``end``, and skip this token."""
        found: list[Any] = []
        while self._tokens[self._at] != end:
            found.append(self._item())
            if self._tokens[self._at] == ",":
                self._at += 1
        self._at += 1
        return found

    def _item(self) -> Any:
        from numba import types

        first = self._take()
        if first == "(":
            return types.BaseTuple.from_types(self.items(")"))
        readonly = first == "const "
        name = self._take() if readonly else first
        assert name is not None
        following = self._tokens[self._at]
        if following == "(":
            self._at += 1
            module, cls = name.rsplit(".", 1)
            pyclass = getattr(importlib.import_module(module), cls)
            return types.BaseTuple.from_types(self.items(")"), pyclass)
        dtype = types.boolean if name == "bool" else getattr(types, name)
        if following is not None and following.startswith("["):
            steps = [step.strip() for step in str(self._take())[1:-1].split(",")]
            layout = "C" if steps[-1] == "::1" else "F" if steps[0] == "::1" else "A"
            return types.Array(dtype, len(steps), layout, readonly=readonly)
        return dtype


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
    for line in merged(Path(sys.argv[1])):
        print(line)
