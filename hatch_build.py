"""Build hooks: compile the kernels into shared libraries inside the wheel.

With ``HEDGEROW_PURE=1``, and on systems for which no library is built, nothing is
compiled: the wheel is for every platform and depends on Numba, which compiles kernels when
they are first called.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# Wheels by what HEDGEROW_TARGET may name; without it, the machine that builds.
TARGETS = {
    # musl's loader takes its own library for libc.so.6 and libm.so.6.
    "linux-x86_64": "manylinux_2_17_x86_64.musllinux_1_2_x86_64",
    "linux-aarch64": "manylinux_2_17_aarch64",
    "macos-arm64": "macosx_11_0_arm64",
    "windows-amd64": "win_amd64",
}
SUPPORTED = {("linux", "x86_64"), ("linux", "aarch64")}
LINKERS = ("cc", "gcc", "clang")


def _target() -> str:
    """What ``HEDGEROW_TARGET`` names."""
    target = os.environ.get("HEDGEROW_TARGET", "")
    if target and target not in TARGETS:
        raise ValueError(f"HEDGEROW_TARGET must be one of {', '.join(TARGETS)}, got {target!r}.")
    return target


def _is_pure() -> bool:
    """Whether the wheel is to hold no compiled kernels."""
    if os.environ.get("HEDGEROW_PURE", "") not in ("", "0"):
        return True
    here = sys.platform, platform.machine().lower()
    return not _target() and here not in SUPPORTED


def _tag() -> str:
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"py3-none-{TARGETS.get(_target(), system)}"


class DependencyHook(MetadataHookInterface):
    """A wheel without compiled kernels depends on Numba."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the dependencies that ``pyproject.toml`` lists for this hook."""
        extras = metadata.get("optional-dependencies", {})
        numba = extras.get("jit", []) if _is_pure() else []
        metadata["dependencies"] = [*self.config["dependencies"], *numba]


class KernelBuildHook(BuildHookInterface[Any]):
    """Runs :mod:`hedgerow.compile.build` and adds what it makes to the wheel."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What the compilation needs: none for a pure wheel."""
        if _is_pure():
            return []
        has_linker = not _target() and any(map(shutil.which, LINKERS))
        linker = [] if has_linker else ["ziglang"]
        return [*self.config["compilers"], *linker]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; ``version`` is "editable" for an editable install."""
        built = Path(self.root) / "src" / "hedgerow" / "built"
        if _is_pure():
            shutil.rmtree(built, ignore_errors=True)
            return
        # The packages of an isolated build are found by this process's path alone.  The sources
        # come first in the program: pip's isolation takes the folder of an earlier editable
        # install off the path of a new process.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        program = (
            f"import sys; sys.path.insert(0, {str(built.parents[1])!r}); "
            "from hedgerow.compile.build import main; main()"
        )
        command = [sys.executable, "-c", program, "--folder", str(built)]
        if version != "editable":  # a wheel runs anywhere, and a checkout here
            environment.setdefault("HEDGEROW_LEVELS", "all")
            environment.setdefault("HEDGEROW_GPU", "1")
        subprocess.run(command, env=environment, check=True)
        build_data["pure_python"] = False
        build_data["tag"] = _tag()
        build_data["artifacts"].append("src/hedgerow/built/*")
