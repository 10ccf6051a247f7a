"""PTX code for GPUs: its contents, and the choice of the version."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hedgerow.compile import ptx
from hedgerow.compile import target as code_here
from hedgerow.compile.target import compile_policy
from hedgerow.compile.variants import find_kernel, read_variants
from hedgerow.errors import CompilationError

pytest.importorskip("numba")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compile_policy() == "never", reason="needs the compiler"),
]


@pytest.fixture(scope="module")
def code() -> str:
    """Compile the code and return it."""
    return ptx.compile_ptx().decode()


def test_every_kernel_has_an_entry_and_calls_nothing_else(code: str) -> None:
    entries = re.findall(r"\.visible \.entry (\w+)\(", code)
    kernels = [find_kernel(one.kernel) for one in read_variants(ptx.LIST)]
    assert sorted(entries) == sorted(ptx.symbol_of(kernel) for kernel in kernels)
    assert f".target {ptx.PROCESSOR}" in code
    assert ".func" not in code
    assert "call" not in re.findall(r"^\s*(\w+)", code, flags=re.MULTILINE)


def test_sums_are_whole_numbers(code: str) -> None:
    """Sums of floats would depend on the order of the threads."""
    assert not re.findall(r"(?:atom|red)\.\S*\.f\d\d", code)
    assert not re.findall(r"\b(?:fma|mad)\.\S*\.f\d\d", code)


def test_cells_are_in_shared_memory(code: str) -> None:
    histogram = code[code.index("hedgerow_add_histogram(") :]
    histogram = histogram[: histogram.index(".visible .entry", 10)]
    assert histogram.count("atom.shared.add.u32") >= 2
    assert "atom.add" not in histogram


def test_compiling_again_gives_the_same(code: str) -> None:
    assert ptx.compile_ptx().decode() == code


def test_the_file_of_the_package_is_used_if_it_is_whole(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = ptx.write_ptx(tmp_path, code.encode())
    manifest: dict[str, Any] = {"sources": "others", "cuda": listed}
    (tmp_path / code_here.MANIFEST).write_text(json.dumps(manifest))
    monkeypatch.setattr(code_here, "FOLDER", tmp_path)
    monkeypatch.setattr(ptx, "compile_policy", lambda: "never")
    ptx.load_ptx.cache_clear()
    try:
        assert ptx.load_ptx() == (tmp_path / ptx.FILE).read_bytes()
        ptx.load_ptx.cache_clear()
        (tmp_path / ptx.FILE).write_bytes(b"// damaged")
        with pytest.raises(CompilationError, match="device='cuda' needs code for the GPU"):
            ptx.load_ptx()
    finally:
        ptx.load_ptx.cache_clear()


def test_code_of_other_sources_is_not_used(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = ptx.write_ptx(tmp_path, code.encode()) | {"sources": "others"}
    (tmp_path / code_here.MANIFEST).write_text(json.dumps({"sources": "others", "cuda": listed}))
    monkeypatch.setattr(code_here, "FOLDER", tmp_path)
    monkeypatch.setattr(ptx, "compile_policy", lambda: "never")
    ptx.load_ptx.cache_clear()
    try:
        with pytest.raises(CompilationError, match="install a wheel"):
            ptx.load_ptx()
    finally:
        ptx.load_ptx.cache_clear()


def test_code_is_built_where_a_driver_is_or_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptx, "find_library", lambda name: None)
    for chosen, expected in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv("HEDGEROW_GPU", chosen)
        assert ptx.is_wanted() is expected
    monkeypatch.setattr(ptx, "find_library", {"cuda": "libcuda.so.1"}.get)
    assert ptx.is_wanted()
