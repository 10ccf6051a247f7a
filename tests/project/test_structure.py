"""Rules of structure: one place for compilation, and a budget of lines."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.sources import syntax_trees

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "hedgerow"
FILES = sorted(SOURCE.rglob("*.py"))

ONLY_IN_COMPILE = {"jit", "njit", "prange", "vectorize", "guvectorize", "jitclass", "stencil"}

pytestmark = pytest.mark.skipif(not FILES, reason="runs in a checkout only")


@cache
def nodes(file: Path) -> list[ast.AST]:
    return list(ast.walk(syntax_trees(SOURCE)[file]))


def relative(file: Path) -> str:
    return file.relative_to(SOURCE).as_posix()


BUDGET = {
    "boosting": 10_990,
    "cart": 2_900,
    "cli": 2_040,
    "comm": 1_230,
    "compile": 2_320,
    "convert": 5_050,
    "cuda": 790,
    "data": 8_000,
    "datasets": 70,
    "distributed": 2_280,
    "estimators": 2_990,
    "explain": 1_320,
    "growing": 9_030,
    "inspection": 1_320,
    "io": 2_610,
    "kernels": 9_600,
    "metrics": 1_720,
    "model": 2_460,
    "modules": 4_580,
    "objectives": 4_940,
    "plot": 2_520,
    "report": 1_660,
    "serving": 960,
}
"""Most lines of each package, and of the modules beside them: it may be lowered, never raised."""


def test_packages_keep_their_budget() -> None:
    """A feature that needs more lines first looks for what can go."""
    lines: Counter[str] = Counter()
    for file in FILES:
        package, *below = file.relative_to(SOURCE).parts
        lines[package if below else "modules"] += len(file.read_text("utf-8").splitlines())
    over = {package: n for package, n in lines.items() if n > BUDGET.get(package, 0)}
    assert not over, over


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
    """Only the compiler and LLVM hints of kernels import Numba."""
    allowed = {
        "compile/just_in_time.py",
        "compile/entry_code.py",
        "compile/gpu_code.py",
        "compile/read_arguments.py",
        "compile/variants.py",
        "kernels/cuda/intrinsics_llvm.py",
        "kernels/primitives/intrinsics_llvm.py",
        "kernels/simd/lanes_llvm.py",
    }
    found = {
        relative(file)
        for file in FILES
        for name in imported_modules(file)
        if name.partition(".")[0] in ("numba", "llvmlite")
    }
    # Asked for only to say in an error that it is not there.
    assert found - {"compile/kernels.py"} == allowed


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


_STEPS = """
import sys

def print_loaded(*names):
    print(sorted(set(names) & set(sys.modules)))

import hedgerow
print_loaded("numba", "sklearn", "numpy", "pandas")
from hedgerow import Dataset
print_loaded("hedgerow.booster")
import numpy as np
from hedgerow.data import read_table
read_table(np.ones((2, 2))), read_table([[1, 2]])
print_loaded("pandas", "polars", "pyarrow", "narwhals")
X = np.arange(100.0).reshape(-1, 1)
booster = hedgerow.train({"n_estimators": 2, "n_jobs": 1}, Dataset(X, X[:, 0]))
booster.predict(X)
print_loaded("sklearn", "pandas", "polars", "matplotlib")
from hedgerow.plot import forest_frame, tree_rules, tree_text
for show in (tree_text, tree_rules, forest_frame):
    show(booster.model)
print_loaded("pandas", "matplotlib")
from hedgerow import HedgerowRegressor
print_loaded(*(name for name in sys.modules if name.startswith("hedgerow.data.sources")))
"""


def test_nothing_is_loaded_before_it_is_needed() -> None:
    result = subprocess.run(
        [sys.executable, "-c", _STEPS], capture_output=True, text=True, check=True
    )
    assert result.stdout.split("\n") == ["[]"] * 6 + [""]


def test_public_names_are_there() -> None:
    import hedgerow

    for name in hedgerow.__all__:
        assert getattr(hedgerow, name) is not None
    assert set(hedgerow.__all__) <= set(dir(hedgerow))
    assert not {"Any", "TYPE_CHECKING", "annotations", "import_module"} & set(dir(hedgerow))
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
