"""Describe the machine of the measurements, without its name."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("numpy", "numba", "llvmlite", "scikit-learn")


def describe() -> dict[str, object]:
    """Return the processor, cores, memory, load, and the versions of Python and the libraries."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gib": _memory_gib(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
    }


def folder_name(cpu: str) -> str:
    """Return the name of the folder of a processor's results, such as ``"amd-epyc-26-2"``."""
    words = re.sub(r"\(R\)|\bfamily\b|\bmodel\b|\bProcessor\b|\bCPU\b|@ [\d.]+GHz", " ", cpu)
    return "-".join(re.findall(r"[a-z0-9.]+", words.lower()))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    fields: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
    except OSError:
        return platform.processor() or platform.machine()
    family, model = fields.get("cpu family"), fields.get("model")
    detail = f" (family {family}, model {model})" if family and model else ""
    return fields.get("model name", platform.machine()) + detail


def _memory_gib() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (AttributeError, ValueError, OSError):
        return None
