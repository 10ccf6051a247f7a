"""Code for GPUs: kernels as one PTX module, which the driver of the GPU turns into machine code.

The kernels are Python functions like all others, and Numba and LLVM compile them: nothing of
CUDA is needed to build them, and only the driver to run them.  PTX is text for a virtual
machine, so one file serves all GPUs from :data:`PROCESSOR` on::

    cuda_variants.txt  ->  LLVM code  ->  PTX  (build of the wheel, or just in time)
    PTX  ->  machine code  (the driver, when a process first uses the GPU; it keeps the result)

An entry has a parameter for each number, and two for each array: its address and its length.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
from ctypes.util import find_library
from pathlib import Path
from typing import Any

from hedgerow.compile import digests, target
from hedgerow.compile.target import compile_policy
from hedgerow.compile.variants import find_kernel, parse_types, read_variants
from hedgerow.errors import CompilationError

PROCESSOR = "sm_75"
"""The oldest GPUs that the code runs on: those of 2018 (Turing) and later."""

LIST = Path(__file__).with_name("cuda_variants.txt")
FILE = "kernels.ptx"
_TOOLS = ("gpu_code.py", "just_in_time.py")  # they decide what the code is, too


def symbol_of(kernel: Any) -> str:
    """Return the name of a kernel's entry."""
    return f"hedgerow_{kernel.name.partition(':')[2]}"


def compile_ptx() -> bytes:
    """Compile all kernels of the list, which needs Numba."""
    from hedgerow.compile import just_in_time

    chosen = [(find_kernel(one.kernel), parse_types(one.types)) for one in read_variants(LIST)]
    entries = [(kernel, types, symbol_of(kernel)) for kernel, types in chosen]
    virtual = just_in_time.Target("nvptx64-nvidia-cuda", PROCESSOR, "")
    return just_in_time.build_ptx(entries, virtual)


def is_wanted() -> bool:
    """Return whether the package is to hold the code: a driver is here, or HEDGEROW_GPU=1."""
    chosen = os.environ.get("HEDGEROW_GPU")
    return chosen != "0" if chosen else any(map(find_library, ("cuda", "nvcuda")))


def write_ptx(folder: Path, code: bytes) -> dict[str, object]:
    """Write the file of the package; return its entry in the manifest."""
    (folder / FILE).write_bytes(code)
    return {"file": FILE, "sources": _digest_of_list(), "digest": _digest(code)}


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=10).hexdigest()


def _digest_of_list() -> str:
    """Return the digest of all that the code depends on."""
    kernels = [
        f"{digests.digest_of(find_kernel(name))} {types}" for name, types in read_variants(LIST)
    ]
    tools = [Path(__file__).with_name(name).read_text("utf-8") for name in _TOOLS]
    return _digest(" ".join((PROCESSOR, *tools, *kernels)).encode())


@functools.cache
def load_ptx() -> bytes:
    """Return the code for GPUs: that of the package, or else compiled now."""
    built = _built() if compile_policy() != "always" else None
    if built is not None:
        return built
    if compile_policy() == "never" or importlib.util.find_spec("numba") is None:
        raise CompilationError(
            "device='cuda' needs code for the GPU, which this installation does not have: install "
            "a wheel of hedgerow that has kernels, or Numba (pip install 'hedgerow[jit]')."
        )
    from hedgerow.compile import just_in_time

    # Compiled code, of an earlier process if that kept it.
    folder = just_in_time.cache_folder()
    path = None if folder is None else folder / f"{_digest_of_list()}.ptx"
    try:
        return path.read_bytes() if path is not None else compile_ptx()
    except OSError:
        code = compile_ptx()
    if path is not None:
        just_in_time.keep(path, code)
    return code


def _built() -> bytes | None:
    """Return the file of the package if it is complete and matches the sources."""
    try:
        found = json.loads((target.FOLDER / target.MANIFEST).read_bytes())
        code = (target.FOLDER / FILE).read_bytes()
        listed = found["cuda"]
        is_whole = listed["digest"] == _digest(code)
        is_same = found["sources"] == digests.source_digest()
        is_same = is_same or listed["sources"] == _digest_of_list()
        return code if is_whole and is_same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
