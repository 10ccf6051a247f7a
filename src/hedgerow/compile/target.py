"""The code that this process runs: when kernels are compiled, its processor, and what was built.

``built/`` in the package holds one shared library for each level of processors and
``manifest.json``, which lists their contents::

    {"format": 1, "machine": "x86_64", "system": "linux", "sources": "<digest>",
     "build": "<name>", "libraries": {"x86-64-v3": {
        "file": "kernels-x86-64-v3.so", "size": 1234567,
        "entries": {"hedgerow.growing.core.grow:work": [["hedgerow_17", "<digest>"], ...]}}}}

An entry has a symbol and the digest of its sources.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.errors import ParameterError

FOLDER = Path(__file__).parents[1] / "built"
MANIFEST = "manifest.json"
FORMAT = 1

UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)
"""Errors of a manifest that is absent, damaged or for another machine."""

_WIDE = "x86-64-v4"


POLICIES = ("auto", "strict", "never", "always")


@functools.cache
def compile_policy() -> str:
    """Return the value of ``HEDGEROW_COMPILE``: when kernels are compiled at run time."""
    # Built code checks no index, so Numba's check of bounds compiles all kernels.
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
def target_levels() -> tuple[str, ...]:
    """Return the names of the libraries that this processor can run, the best first."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        # The instruction sets of this processor that NumPy knows.
        core = "numpy._core" if int(np.__version__.partition(".")[0]) >= 2 else "numpy.core"
        features = importlib.import_module(f"{core}._multiarray_umath").__cpu_features__
        has = frozenset(name for name, is_there in features.items() if is_there)
        levels = ["x86-64-v2"] if "SSE42" in has or "X86_V2" in has else []
        if "X86_V3" in has or has.issuperset(_V3):
            levels.insert(0, "x86-64-v3")
        if "X86_V4" in has or has.issuperset(_V4):
            levels.insert(0, "x86-64-v4")
    else:
        levels = ["aarch64"] if machine in ("aarch64", "arm64") else []
    # One of them, for tests and for comparisons.
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


def read_manifest() -> dict[str, Any]:
    """Return the manifest; one that this machine cannot use raises an error of ``UNREADABLE``."""
    manifest: dict[str, Any] = json.loads((FOLDER / MANIFEST).read_bytes())
    if manifest["format"] != FORMAT:
        raise ValueError(f"they have the format {manifest['format']!r}, not {FORMAT}")
    built_for = manifest["system"], manifest["machine"]
    here = target_system(), platform.machine().lower()
    if built_for != here:
        raise ValueError(f"they are for {' '.join(built_for)}, this is {' '.join(here)}")
    return manifest


def level_of(manifest: dict[str, Any]) -> str:
    """Return the level of the best library that this processor can run; else a ValueError."""
    for level in target_levels():
        if level in manifest["libraries"]:
            return level
    raise ValueError(
        f"they are for {', '.join(manifest['libraries'])}, which this processor is not"
    )


@functools.cache
def lanes_of_code() -> int:
    """Return the number of int64 in a vector of the code that this process runs, at least four."""
    # Built code and just-in-time code of one process must agree on it, as arrays are laid out for
    # it. The library decides: it may have been built for shorter vectors than this processor has.
    if compile_policy() != "always":
        try:
            return 8 if level_of(read_manifest()) == _WIDE else 4
        except UNREADABLE:
            pass  # kernels are compiled just in time
    features = os.environ.get("NUMBA_CPU_FEATURES")
    if features is not None:
        return 8 if "+avx512f" in features.split(",") else 4
    return 8 if target_levels()[:1] == (_WIDE,) else 4
