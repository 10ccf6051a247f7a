"""Checks libraries of kernels for other systems: what they hold, and what they ask for.

    python .ci/symbols.py FOLDER

``FOLDER`` holds a manifest and its libraries.  Needs the package lief.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lief

ALLOWED = {
    "macos": {"/usr/lib/libSystem.B.dylib"},
    "windows": {"kernel32.dll", "msvcrt.dll", "ntdll.dll"},
    "linux": {"libm.so.6", "libc.so.6", "libpthread.so.0", "ld-linux-aarch64.so.1"},
}
"""Libraries of the system that ours may ask for; C runtimes of Windows beside them."""


def check(path: Path, system: str, entries: list[str]) -> None:
    """Raise SystemExit if an entry is missing, or another library is needed."""
    binary = lief.parse(str(path))
    held = {str(each.name).lstrip("_") for each in binary.exported_functions}
    missing = [name for name in entries if name.lstrip("_") not in held]
    needed = {each if isinstance(each, str) else each.name for each in binary.libraries}
    foreign = (
        {
            name
            for name in needed
            if name.lower() not in ALLOWED[system]
            and not name.lower().startswith("api-ms-win-crt-")
        }
        - ALLOWED[system]
        - {f"@rpath/{path.name}"}
    )
    print(f"{path.name}: {len(entries)} entries, {len(missing)} missing; needs {sorted(needed)}")
    if missing or foreign:
        raise SystemExit(f"{path}: missing {missing[:3]}, needs {sorted(foreign)}")


def main() -> None:
    """Check each library of a folder."""
    folder = Path(sys.argv[1])
    manifest = json.loads((folder / "manifest.json").read_text())
    for found in manifest["libraries"].values():
        entries = [entry[0] for listed in found["entries"].values() for entry in listed]
        check(folder / found["file"], manifest["system"], entries)


if __name__ == "__main__":
    main()
