"""Loops over rows for a custom loss of one row."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
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


class RowLoops(NamedTuple):
    """Loops that apply the loss of a row to many rows.

    derivatives  ``derivatives(target, raw, g, h)`` writes g and h
    losses       ``losses(target, raw, out)``
    compiled     whether the loops are machine code; otherwise Python calls the function
    """

    derivatives: Callable[..., Any]
    losses: Callable[..., Any]
    compiled: bool


def loops_of(function: Callable[..., Any], target: FloatArray) -> RowLoops:
    """Return loops for ``function(y, raw)``, compiled if Numba can compile it.

    Parameters
    ----------
    function : callable
        Takes two floats and returns one.
    target : float64 (n_rows,)
        Some targets, for a trial call.
    """
    try:
        loops = _compiled(function, _constants(function))
        raw, out = np.zeros(len(target)), np.empty((2, len(target)))
        loops.derivatives(target, raw, out[0], out[1])
        loops.losses(target, raw, out[0])
    except CompilationError:  # compilation is not allowed, or Numba is not installed
        raise
    except Exception:  # any error of Numba: Python calls the function instead
        return _by_numpy(function)
    return loops


def _constants(function: Any) -> tuple[Any, ...]:
    """Return the global numbers and texts that the compiled function contains."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ()
    outside = inspect.getclosurevars(function)
    known = {**outside.globals, **outside.nonlocals}
    plain = (int, float, str, bool)
    return tuple((name, value) for name, value in known.items() if isinstance(value, plain))


@functools.lru_cache(maxsize=32)
def _compiled(function: Callable[..., Any], constants: tuple[Any, ...]) -> RowLoops:
    """Compile the loops; ``constants`` distinguish functions with different globals."""
    compile_inner = compiler_of_functions("a loss of your own")
    from hedgerow.objectives.jets import jet, lift

    loss = compile_inner(function)

    def derivatives(target: Any, raw: Any, g: Any, h: Any) -> None:
        for i in range(len(g)):
            found = lift(loss(target[i], jet(raw[i], 1.0, 0.0)))
            g[i] = found.first
            h[i] = found.second

    def losses(target: Any, raw: Any, out: Any) -> None:
        for i in range(len(out)):
            out[i] = loss(target[i], raw[i])

    return RowLoops(compile_inner(derivatives), compile_inner(losses), True)


def _by_numpy(function: Callable[..., Any]) -> RowLoops:
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

    return RowLoops(derivatives, losses, False)
