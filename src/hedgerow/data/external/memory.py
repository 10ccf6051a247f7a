"""Available memory, and conversion of memory limits."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import numbers
import os
import re
import sys
from pathlib import Path

from hedgerow.errors import ParameterError, brief

DEFAULT_SHARE = 0.5
"""Default limit as a fraction of the available memory, which leaves room for the file cache."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_TEXT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]?i?)b?\s*", re.IGNORECASE)
_UNLIMITED = 2**60
_GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
    ),
)


def memory_bytes(limit: int | float | str | None, name: str = "memory_limit") -> int:
    """Convert a limit to bytes: a number, text with a unit, or None for half of the free memory."""
    if limit is None:
        return int(DEFAULT_SHARE * available_memory())
    found: float = math.nan
    if isinstance(limit, str):
        match = _TEXT.fullmatch(limit)
        unit = match[2].lower() if match else ""
        if match and unit != "i":
            found = float(match[1]) * _UNITS[unit]
    elif isinstance(limit, numbers.Real) and not isinstance(limit, bool):
        with contextlib.suppress(OverflowError):  # an integer of hundreds of digits
            found = float(limit)
    if not (math.isfinite(found) and found >= 1):
        raise ParameterError(
            f"{name} must be a positive number of bytes, or text with a unit such as '2 GB' or "
            f"'512 MiB'; got {brief(limit)}."
        )
    return int(found)


def shown_bytes(n_bytes: int) -> str:
    """Format a number of bytes with the units of :func:`memory_bytes`."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes} B"


def available_memory() -> int:
    """Return the bytes that the machine and the control group still have for this process."""
    return min(_machine(), *(_group(*files) for files in _GROUPS))


def _machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 4 * 2**30  # a guess for systems that do not report it


def _group(most: str, used: str, stat: str) -> int:
    """Return the free memory of a control group, including its reclaimable file cache."""
    try:
        limit = Path(most).read_text().strip()
        if limit == "max" or int(limit) >= _UNLIMITED:
            return _UNLIMITED
        cached = 0
        for line in Path(stat).read_text().splitlines():
            name, _, value = line.partition(" ")
            if name in ("inactive_file", "total_inactive_file"):
                cached = max(cached, int(value))
        return max(0, int(limit) - int(Path(used).read_text()) + cached)
    except (OSError, ValueError):
        return _UNLIMITED


def give_back_memory() -> None:
    """Return free memory to the system, if possible."""
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):  # other C libraries have no such call
            _c_library().malloc_trim(0)


@functools.cache
def _c_library() -> ctypes.CDLL:
    """Return the C library of the process, opened once because each opening leaks objects."""
    return ctypes.CDLL(None)
