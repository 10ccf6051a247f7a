"""Compiled kernels: kept, found again, callable from where they should be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hedgerow.compile import _Flags

MODULE = """
import numpy as np
from hedgerow.compile import kernel

@kernel(inner=True)
def add(a, b):
    return a + b

@kernel(inner=True)
def add_twice(a, b):
    return add(add(a, b), b)

@kernel
def total(values):
    sum_ = np.int64(0)
    for value in values:
        sum_ = add_twice(sum_, value)
    return sum_

@kernel
def total_float(values):
    sum_ = 0.0
    for value in values:
        sum_ = add_twice(sum_, value)
    return sum_

@kernel(inner=True)
def first_of(row):
    return row[0]

@kernel
def sum_of_rows(table):
    sum_ = 0.0
    for row in range(len(table)):
        sum_ += first_of(table[row])
    return sum_

@kernel(allocates=True)
def declared(values):
    return (values + values)[0]

@kernel
def undeclared(values):
    return (values + values)[0]
"""

RUN = """
import numpy as np
from numba.core import event

compiled = []

class Listener(event.Listener):
    def on_start(self, e):
        compiled.append(e.data["dispatcher"].py_func.__name__)
    def on_end(self, e):
        pass

event.register("numba:compile", Listener())
from kernels_of_test import add, total, total_float
print(total(np.arange(5)), total_float(np.arange(5.0)), total(np.arange(5)))
print(*(name for name in compiled if name in ("add", "add_twice", "total", "total_float")))
"""


def run(folder: Path, cache: Path, code: str = RUN, **variables: str) -> list[str]:
    (folder / "kernels_of_test.py").write_text(MODULE)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), **variables}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("opened", ["", "1"])
def test_second_process_compiles_nothing(tmp_path, opened) -> None:
    first = run(tmp_path, tmp_path / "cache", HEDGEROW_OPEN_KERNELS=opened)
    assert first[0] == "20 20.0 20"
    assert sorted(first[1].split()) == [
        "add", "add", "add_twice", "add_twice", "total", "total_float",
    ]  # fmt: skip
    assert run(tmp_path, tmp_path / "cache", HEDGEROW_OPEN_KERNELS=opened) == [first[0], ""]


def test_cache_that_cannot_be_written_only_costs_time(tmp_path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    for _ in range(2):
        out = run(tmp_path, blocked)
        assert out[0] == "20 20.0 20"
        assert "total" in out[1].split()


def test_inner_kernel_called_from_python_is_an_error_not_a_crash(tmp_path) -> None:
    code = RUN + "\ntry:\n    add(1, 2)\nexcept TypeError:\n    print('TypeError')\n"
    for _ in range(2):  # compiled here, then with the others from the cache
        assert run(tmp_path, tmp_path / "cache", code, HEDGEROW_OPEN_KERNELS="")[2] == "TypeError"


def test_inner_kernel_can_be_opened_for_tests(tmp_path) -> None:
    code = RUN + "\nprint(add(1, 2))\n"
    out = run(tmp_path, tmp_path / "cache", code, HEDGEROW_OPEN_KERNELS="1")
    assert out[2] == "3"


COUNTED = """
import numpy as np
from numba.core.errors import NumbaError
from kernels_of_test import declared, sum_of_rows, undeclared

print(sum_of_rows(np.ones((3, 2))), declared(np.arange(2.0, 5.0)))
counted = ["NRT_incref" in code for code in sum_of_rows.inspect_llvm().values()]
print(counted)
try:
    undeclared(np.arange(3.0))
except NumbaError as error:
    print("NRT required" in str(error))
"""


@pytest.mark.parametrize("opened", ["", "1"])
def test_references_are_not_counted_unless_a_kernel_makes_arrays(tmp_path, opened) -> None:
    out = run(tmp_path, tmp_path / "cache", COUNTED, HEDGEROW_OPEN_KERNELS=opened)
    assert out == ["3.0 4.0", "[False]", "True"]


def test_quick_flags_compare_like_those_of_numba() -> None:
    from numba.core.compiler import Flags

    plain, other = Flags(), Flags()
    other.nrt = True
    for a in (plain, other):
        for b in (plain, other):
            assert (_Flags(a) == b) == (a == b) == (_Flags(a) == _Flags(b))
            assert hash(_Flags(a)) == hash(a)
    explicit = Flags()
    explicit.nrt = plain.nrt  # set, but to the default
    assert _Flags(explicit) == plain == _Flags(plain)
