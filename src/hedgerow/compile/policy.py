"""The policy of compilation at run time, and the target processor of compiled code."""

from __future__ import annotations

import functools
import importlib
import os
import platform
import sys

import numpy as np

from hedgerow.errors import ParameterError

POLICIES = ("auto", "strict", "never", "always")


@functools.cache
def compile_policy() -> str:
    """Return the value of ``HEDGEROW_COMPILE``: when kernels are compiled at run time.

    ``auto``    if no built kernel fits (the default)
    ``strict``  the same, but a kernel that the built library should contain raises
                :class:`~hedgerow.errors.CompilationError`, for tests of the library
    ``never``   any compilation raises :class:`~hedgerow.errors.CompilationError`
    ``always``  built kernels are not used (the default with ``NUMBA_BOUNDSCHECK=1``:
                built code checks no index)
    """
    checked = os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0")
    chosen = os.environ.get("HEDGEROW_COMPILE") or ("always" if checked else "auto")
    if chosen not in POLICIES:
        raise ParameterError(
            f"the environment variable HEDGEROW_COMPILE must be 'auto', 'strict', 'never' or "
            f"'always', got {chosen!r}: unset it for 'auto'."
        )
    return chosen


_V3 = ("AVX2", "FMA3")
_V4 = ("AVX512F", "AVX512CD", "AVX512_SKX")


@functools.cache
def processor_features() -> frozenset[str]:
    """Return the instruction sets of this processor that NumPy knows."""
    core = "numpy._core" if int(np.__version__.partition(".")[0]) >= 2 else "numpy.core"
    features = importlib.import_module(f"{core}._multiarray_umath").__cpu_features__
    return frozenset(name for name, has in features.items() if has)


@functools.cache
def target_levels() -> tuple[str, ...]:
    """Return the names of the libraries that this processor can run, the best first.

    ``HEDGEROW_PROCESSOR`` chooses one of them, for tests and for comparisons:
    ``x86-64-v4``, ``x86-64-v3``, ``x86-64-v2`` or ``aarch64``.
    """
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        has = processor_features()
        levels = ["x86-64-v2"] if "SSE42" in has or "X86_V2" in has else []
        if "X86_V3" in has or has.issuperset(_V3):
            levels.insert(0, "x86-64-v3")
        if "X86_V4" in has or has.issuperset(_V4):
            levels.insert(0, "x86-64-v4")
    else:
        levels = ["aarch64"] if machine in ("aarch64", "arm64") else []
    chosen = os.environ.get("HEDGEROW_PROCESSOR")
    if not chosen:
        return tuple(levels)
    if chosen not in levels:
        raise ParameterError(
            f"the environment variable HEDGEROW_PROCESSOR is {chosen!r}, but this processor "
            f"runs {', '.join(levels) or 'none of the built libraries'}: unset it."
        )
    return (chosen,)


def target_system() -> str:
    """Return the name of the operating system in the file names of libraries."""
    return {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
