"""The manifest of the built libraries, and the choice of the library of this process.

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
import json
import os
import platform
from pathlib import Path
from typing import Any

from hedgerow.compile.policy import compile_policy, target_levels, target_system

FOLDER = Path(__file__).parents[1] / "built"
MANIFEST = "manifest.json"
FORMAT = 1

UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)
"""Errors of a manifest that is absent, damaged or for another machine."""

_WIDE = "x86-64-v4"


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
    """Return the number of int64 in a vector of the code that this process runs, at least four.

    Kernels use this many lanes, and arrays are laid out for them, so built code and
    just-in-time code of one process must agree on the number.  The library decides: it may have
    been built for processors with shorter vectors than those of this one.
    """
    if compile_policy() != "always":
        try:
            return 8 if level_of(read_manifest()) == _WIDE else 4
        except UNREADABLE:
            pass  # kernels are compiled just in time
    features = os.environ.get("NUMBA_CPU_FEATURES")
    if features is not None:
        return 8 if "+avx512f" in features.split(",") else 4
    return 8 if target_levels()[:1] == (_WIDE,) else 4
