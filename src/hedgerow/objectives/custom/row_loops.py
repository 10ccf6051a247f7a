"""Loops over rows for a custom loss of one row."""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.compile.kernels import compiler_of_functions
from hedgerow.errors import CompilationError

_STEP = 2.0**-7
"""Step of numeric differentiation, for raw scores up to 1.

Differences of fourth order then have an error of about 1e-10 of the loss; half of the error is
rounding.
"""


_TAKEN = "Numba compiles plain arithmetic and functions of math."


class RowLoops(NamedTuple):
    """Loops that apply the loss of a row to many rows.

    derivatives  ``derivatives(target, raw, g, h)`` writes g and h
    losses       ``losses(target, raw, out)``
    reason       why the loops are not machine code, so that Python calls the function; or empty
    """

    derivatives: Callable[..., Any]
    losses: Callable[..., Any]
    reason: str = ""

    @property
    def compiled(self) -> bool:
        """Whether the loops are machine code."""
        return not self.reason


def loops_of(function: Callable[..., Any], target: FloatArray) -> RowLoops:
    """Return loops for ``function(y, raw)``, compiled if possible, after a trial with targets."""
    try:
        loops = _compiled(_Source(_meaning_of(function), function))
        raw, out = np.zeros(len(target)), np.empty((2, len(target)))
        loops.derivatives(target, raw, out[0], out[1])
        loops.losses(target, raw, out[0])
    except Exception as fault:  # forbidden, without Numba, or any error of Numba
        return _by_numpy(function, str(fault) if isinstance(fault, CompilationError) else _TAKEN)
    return loops


@dataclass(frozen=True, slots=True)
class _Source:
    """A function, equal to others of the same meaning."""

    meaning: Hashable
    function: Callable[..., Any] = field(compare=False)


@functools.lru_cache(maxsize=8)
def _compiled(source: _Source) -> RowLoops:
    """Compile the loops, which take 4 MB: those of the last few functions are kept."""
    compile_inner = compiler_of_functions("a loss of your own")
    from hedgerow.compile.just_in_time import compile_entry
    from hedgerow.objectives.jets import jet, lift

    loss = compile_inner(source.function)

    def derivatives(target: Any, raw: Any, g: Any, h: Any) -> None:
        for i in range(len(g)):
            found = lift(loss(target[i], jet(raw[i], 1.0, 0.0)))
            g[i] = found.first
            h[i] = found.second

    def losses(target: Any, raw: Any, out: Any) -> None:
        for i in range(len(out)):
            out[i] = loss(target[i], raw[i])

    return RowLoops(compile_entry(derivatives), compile_entry(losses))


def _meaning_of(value: Any, known: tuple[Any, ...] = ()) -> Hashable:
    """Return a key that two functions share if their code and all values that it uses agree."""
    value = getattr(value, "py_func", value)  # a function that the user compiled
    if isinstance(value, FunctionType) and value not in known:
        known = (*known, value)
        names = sorted(_globals_of(value.__code__) & value.__globals__.keys())
        used = [value.__globals__[name] for name in names]
        used += [cell.cell_contents for cell in value.__closure__ or ()]
        used += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        return value.__code__, tuple(names), tuple(_meaning_of(item, known) for item in used)
    if isinstance(value, tuple):
        return tuple(_meaning_of(item, known) for item in value)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, bool | int | float | complex | str | np.generic):
        return type(value), repr(value)  # 1 is not 1.0, and 0.0 is not -0.0
    return value if isinstance(value, Hashable) else object()


def _globals_of(code: CodeType) -> set[str]:
    """Return the names of the global variables that code reads, and functions within it."""
    found = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    inner = (_globals_of(part) for part in code.co_consts if isinstance(part, CodeType))
    return found.union(*inner)


def _by_numpy(function: Callable[..., Any], reason: str = _TAKEN) -> RowLoops:
    """Return loops in Python: on whole arrays if the function takes them."""

    def values(target: FloatArray, raw: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            try:
                found = np.asarray(function(target, raw), dtype=np.float64)
                if found.shape == target.shape:
                    return found
            except (TypeError, ValueError):
                pass  # the function takes single numbers: it compares, or calls math
            pairs = zip(target.tolist(), raw.tolist(), strict=True)
            return np.array([float(function(y, f)) for y, f in pairs])

    def derivatives(target: FloatArray, raw: FloatArray, g: FloatArray, h: FloatArray) -> None:
        step = _STEP * np.maximum(1.0, np.abs(raw))
        a, b, c, d = (values(target, raw + k * step) for k in (-2.0, -1.0, 1.0, 2.0))
        middle = values(target, raw)
        g[:] = (8.0 * (c - b) - (d - a)) / (12.0 * step)
        h[:] = (16.0 * (b + c) - 30.0 * middle - (a + d)) / (12.0 * step * step)

    def losses(target: FloatArray, raw: FloatArray, out: FloatArray) -> None:
        out[:] = values(target, raw)

    return RowLoops(derivatives, losses, reason)
