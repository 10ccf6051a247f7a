"""Rules of structure: short functions and files, and one place for compilation."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.sources import syntax_trees

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "hedgerow"
FILES = sorted(SOURCE.rglob("*.py"))

MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 500
MAX_KERNEL_ARGUMENTS = 12
ONLY_IN_COMPILE = {"jit", "njit", "prange", "vectorize", "guvectorize", "jitclass", "stencil"}

pytestmark = pytest.mark.skipif(not FILES, reason="runs in a checkout only")


@cache
def nodes(file: Path) -> list[ast.AST]:
    return list(ast.walk(syntax_trees(SOURCE)[file]))


def functions(file: Path) -> Iterator[ast.FunctionDef]:
    for node in nodes(file):
        if isinstance(node, ast.FunctionDef):
            yield node


def body_lines(function: ast.FunctionDef) -> int:
    """Count the lines of a function without its docstring."""
    total = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        docstring = function.body[0]
        total -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return total


def is_kernel(function: ast.FunctionDef) -> bool:
    names = {
        node.id
        for decorator in function.decorator_list
        for node in ast.walk(decorator)
        if isinstance(node, ast.Name)
    }
    return "kernel" in names


def relative(file: Path) -> str:
    return file.relative_to(SOURCE).as_posix()


def lists_parameters(file: Path, function: ast.FunctionDef) -> bool:
    """Return whether a function may be long: constructors of estimators name every parameter."""
    simple = (ast.Assign, ast.Expr)
    body = all(isinstance(statement, simple) for statement in function.body)
    return function.name == "__init__" and "estimators" in file.parts and body


def test_functions_are_short() -> None:
    long = [
        f"{relative(file)}:{function.lineno} {function.name}: {body_lines(function)} lines"
        for file in FILES
        for function in functions(file)
        if body_lines(function) > MAX_FUNCTION_LINES and not lists_parameters(file, function)
    ]
    assert not long, long


def test_files_are_short() -> None:
    long = {
        relative(file): lines
        for file in FILES
        if (lines := len(file.read_text(encoding="utf-8").splitlines())) > MAX_FILE_LINES
    }
    assert not long, long


def test_kernels_have_few_arguments() -> None:
    wide = [
        f"{relative(file)}:{function.lineno} {function.name}: {len(function.args.args)} arguments"
        for file in FILES
        for function in functions(file)
        if is_kernel(function) and len(function.args.args) > MAX_KERNEL_ARGUMENTS
    ]
    assert not wide, wide


def test_numba_compilers_are_named_in_compile_only() -> None:
    found = []
    for file in FILES:
        if relative(file) == "compile/just_in_time.py":
            continue
        for node in nodes(file):
            name = (
                node.id
                if isinstance(node, ast.Name)
                else node.attr
                if isinstance(node, ast.Attribute)
                else node.name
                if isinstance(node, ast.alias)
                else ""
            )
            if name.rpartition(".")[2] in ONLY_IN_COMPILE:
                found.append(f"{relative(file)}:{getattr(node, 'lineno', '?')} {name}")
            if isinstance(node, ast.keyword) and node.arg == "parallel":
                found.append(f"{relative(file)}:{node.value.lineno} parallel=")
    assert not found, found


def imported_modules(file: Path) -> Iterator[str]:
    for node in nodes(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_numba_is_imported_by_few() -> None:
    """Only the compiler, LLVM hints of kernels, and custom losses import Numba."""
    allowed = {
        "compile/just_in_time.py",
        "compile/entry_code.py",
        "compile/gpu_code.py",
        "compile/read_arguments.py",
        "compile/variants.py",
        "kernels/cuda/intrinsics_llvm.py",
        "kernels/simd/bit_lanes_llvm.py",
        "kernels/primitives/intrinsics_llvm.py",
        "kernels/simd/lanes_llvm.py",
        "kernels/simd/row_lanes_llvm.py",
        "objectives/jets.py",
    }
    found = {
        relative(file)
        for file in FILES
        for name in imported_modules(file)
        if name.partition(".")[0] in ("numba", "llvmlite")
    }
    # Asked for only to say in an error that it is not there.
    assert found - {"compile/kernels.py"} == allowed


def test_threads_are_named_in_threads_only() -> None:
    found = [
        f"{relative(file)}:{node.lineno}"
        for file in FILES
        if relative(file) not in ("threads.py", "compile/build.py")
        for node in nodes(file)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
        )
        if name == "multiprocessing" or name.startswith("concurrent")
    ]
    assert not found, found


def test_different_values_are_found_by_sorting() -> None:
    """See :func:`hedgerow.arrays.distinct` for what is wrong with NumPy's hash table."""
    found = [
        f"{relative(file)}:{node.lineno}"
        for file in FILES
        for node in nodes(file)
        if isinstance(node, ast.Call)
        and (
            ast.unparse(node.func) == "np.union1d"
            or (ast.unparse(node.func) == "np.unique" and not node.keywords)
        )
    ]
    assert not found, found


def test_nothing_is_left_to_do() -> None:
    marks = ("TO" + "DO", "FIX" + "ME")
    found = [
        f"{relative(file)}:{number}"
        for file in FILES
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if any(mark in line for mark in marks)
    ]
    assert not found, found


def test_import_loads_neither_numba_nor_scikit_learn() -> None:
    code = (
        "import sys, hedgerow; "
        "print(sorted({'numba', 'sklearn', 'numpy', 'pandas'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_public_names_are_there() -> None:
    import hedgerow

    for name in hedgerow.__all__:
        assert getattr(hedgerow, name) is not None
    assert set(hedgerow.__all__) <= set(dir(hedgerow))
    with pytest.raises(AttributeError, match="no attribute 'HedgerowTransformer'"):
        _ = hedgerow.HedgerowTransformer


def test_frozen_classes_with_slots_have_no_state_of_their_own() -> None:
    """Before version 3.11.4, Python replaces their ``__getstate__``."""
    wrong = []
    for file in FILES:
        for node in nodes(file):
            if not isinstance(node, ast.ClassDef):
                continue
            names = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            decorators = " ".join(map(ast.unparse, node.decorator_list))
            if "slots=True" in decorators and {"__getstate__", "__setstate__"} & names:
                wrong.append(f"{relative(file)}: {node.name}")
    assert not wrong, wrong
