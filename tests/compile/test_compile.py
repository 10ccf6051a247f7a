"""Kernels compiled just in time: cached, found again, and callable from other kernels."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

numba = pytest.importorskip("numba")

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

@kernel
def makes_an_array(values):
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
from kernels_of_test import add, total, total_float, sum_of_rows
print(total(np.arange(5)), total_float(np.arange(5.0)), total(np.arange(5)))
print(sum_of_rows(np.ones((3, 2))))
print(*sorted(compiled))
"""
NAMES = ["add", "add", "add_twice", "add_twice", "first_of", "sum_of_rows", "total", "total_float"]


def run(
    folder: Path,
    cache: Path,
    code: str = RUN,
    module: str = MODULE,
    options: Sequence[str] = (),
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    (folder / "kernels_of_test.py").write_text(module)
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(cache),
        "HEDGEROW_COMPILE": "auto",
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
        **variables,
    }
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the module, and a cache that holds its kernels."""
    folder = tmp_path_factory.mktemp("compiled")
    first = run(folder, folder / "cache", HEDGEROW_OPEN_KERNELS="1", HEDGEROW_QUIET="1")
    assert lines(first) == ["20 20.0 20", "3.0", " ".join(NAMES)]
    assert first.stderr == ""
    return folder


@pytest.fixture
def cache(compiled: Path, tmp_path: Path) -> Path:
    """Return a copy of that cache, which a test may change."""
    return shutil.copytree(compiled / "cache", tmp_path / "cache")


def test_second_process_compiles_nothing(compiled, cache) -> None:
    """Both processes may call kernels that only other kernels call; the next test forbids it."""
    again = run(compiled, cache, RUN + "\nprint(add(1, 2))\n", HEDGEROW_OPEN_KERNELS="1")
    assert lines(again) == ["20 20.0 20", "3.0", "", "3"]


def test_inner_kernel_called_from_python_is_an_error_not_a_crash(tmp_path) -> None:
    code = RUN + "\ntry:\n    add(1, 2)\nexcept TypeError:\n    print('TypeError')\n"
    # Compiled here, then with the others from the cache.
    for names in (" ".join(NAMES), ""):
        done = run(tmp_path, tmp_path / "cache", code, HEDGEROW_OPEN_KERNELS="")
        assert lines(done) == ["20 20.0 20", "3.0", names, "TypeError"]


WITH_DOCSTRINGS = """
from hedgerow.compile import kernel

LIMIT = 3

def plus(a, b):
    '''Return a sum.'''
    assert a < LIMIT
    return a + b

@kernel
def add(a, b):
    '''Add two numbers.'''
    total = plus(a, b)
    return None if total > 100 else total
"""
PRINT_DIGESTS = """
import sys
from pathlib import Path
from hedgerow.compile.digests import digest_of

folder = Path("{folder}")
text = (folder / "kernels_of_test.py").read_text()
for old, new in {edits}:
    edited = folder / new
    edited.mkdir(exist_ok=True)
    (edited / "kernels_of_test.py").write_text(text.replace(old, new))
    sys.path.insert(0, str(edited))
    sys.modules.pop("kernels_of_test", None)
    from kernels_of_test import add
    print(digest_of(add))
"""


def test_digests_depend_on_code_and_not_on_text(tmp_path) -> None:
    edits = [
        ("Add two", "Sum up two"),
        ("LIMIT = 3", "LIMIT = 4"),
        ("> 100", "> 101"),
        ("a < LIMIT", "b < LIMIT"),
    ]
    code = PRINT_DIGESTS.format(folder=tmp_path.as_posix(), edits=[("a", "a"), *edits])

    # -B: a .pyc file of the last edit would look current within a second.
    done = run(tmp_path, tmp_path / "cache", code, WITH_DOCSTRINGS, ("-B",))
    original, other_text, *edited = lines(done)
    assert other_text == original
    assert len({original, *edited}) == 4


def test_an_edit_compiles_what_depends_on_it(compiled, cache) -> None:
    edited = MODULE.replace("return row[0]", "return row[1] + 1.0")
    edited = edited.replace("return a + b", "return a + b  # a comment\n\n")
    after = lines(run(compiled, cache, module=edited))
    assert after == ["20 20.0 20", "6.0", "first_of sum_of_rows"]


@pytest.mark.fast(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "index", [b"chedgerow.old\nSlopes\n.", b"not a pickle", b""], ids=["moved", "text", "none"]
)
def test_an_index_that_cannot_be_read_is_written_anew(compiled, cache, index) -> None:
    for kept in cache.rglob("*.nbi"):
        kept.write_bytes(pickle.dumps(numba.__version__) + index)
    out = lines(run(compiled, cache))
    assert out[0] == "20 20.0 20"
    assert out[2].split() == NAMES
    assert lines(run(compiled, cache))[2] == ""


def test_cache_that_cannot_be_written_only_costs_time(tmp_path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    assert lines(run(tmp_path, blocked, CALL)) == ["20"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_cache_that_can_only_be_read_is_used(compiled, cache) -> None:
    folder = next((cache / "hedgerow").iterdir())
    folder.chmod(0o500)
    try:
        assert lines(run(compiled, cache))[2] == ""
    finally:
        folder.chmod(0o700)


COUNTED = """
import numpy as np
from numba.core.errors import NumbaError
from kernels_of_test import makes_an_array, sum_of_rows

print(sum_of_rows(np.ones((3, 2))))
print(["NRT_incref" in code for code in sum_of_rows.dispatcher.inspect_llvm().values()])
try:
    makes_an_array(np.arange(3.0))
except NumbaError as error:
    print("NRT required" in str(error))
"""


@pytest.mark.fast(1)
@pytest.mark.parametrize("opened", ["", "1"])
def test_no_kernel_makes_arrays_or_counts_references(tmp_path, opened) -> None:
    done = run(tmp_path, tmp_path / "cache", COUNTED, HEDGEROW_OPEN_KERNELS=opened)
    assert lines(done) == ["3.0", "[False]", "True"]


CALL = "import numpy as np\nfrom kernels_of_test import total\nprint(total(np.arange(5)))\n"


def test_never_makes_compilation_an_error(tmp_path) -> None:
    done = run(tmp_path, tmp_path / "cache", CALL, HEDGEROW_COMPILE="never")
    assert done.returncode == 1
    assert "CompilationError: kernels_of_test:total has to be compiled" in done.stderr
    assert "HEDGEROW_COMPILE is 'never'" in done.stderr


NOT_LISTED = """
from hedgerow.kernels.primitives.exact_sum import add_digits
digits, spans = np.zeros((1, 72), dtype=np.int64), np.zeros((1, 2), dtype=np.int64)
add_digits(np.ones((1, 4), dtype=np.float32), digits, spans)
"""


@pytest.mark.fast(1)
@pytest.mark.parametrize("opened", ["", "1"])
def test_strict_compiles_all_but_what_belongs_in_the_library(tmp_path, opened) -> None:
    strict = {"HEDGEROW_COMPILE": "strict", "HEDGEROW_OPEN_KERNELS": opened}
    done = run(tmp_path, tmp_path / "cache", CALL + NOT_LISTED, **strict)
    assert (done.returncode, done.stdout) == (1, "20\n")
    assert "exact_sum:add_digits has to be compiled" in done.stderr
    assert "HEDGEROW_COMPILE is 'strict'" in done.stderr


def test_another_policy_is_an_error_that_lists_all(tmp_path) -> None:
    done = run(tmp_path, tmp_path / "cache", CALL, HEDGEROW_COMPILE="sometimes")
    assert done.returncode == 1
    assert "must be 'auto', 'strict', 'never' or 'always', got 'sometimes'" in done.stderr


def test_without_numba_the_error_names_the_extra(tmp_path) -> None:
    code = "import sys\nsys.modules['numba'] = None\n" + CALL
    done = run(tmp_path, tmp_path / "cache", code)
    assert done.returncode == 1
    assert "pip install 'hedgerow[jit]'" in done.stderr


def test_compilation_is_announced_unless_it_is_quiet(compiled, tmp_path) -> None:
    """The kernels of ``compiled`` were compiled without a message."""
    loud = run(tmp_path, tmp_path / "cache", CALL, HEDGEROW_QUIET="")
    assert loud.stdout == "20\n"
    assert loud.stderr.startswith("hedgerow: compiling kernels (once per machine, kept in ")
    assert run(tmp_path, tmp_path / "cache", CALL, HEDGEROW_QUIET="").stderr == ""


def test_quick_flags_compare_like_those_of_numba() -> None:
    from numba.core.compiler import Flags

    from hedgerow.compile.just_in_time import _Flags

    plain, other = Flags(), Flags()
    other.nrt = True
    for a in (plain, other):
        for b in (plain, other):
            assert (_Flags(a) == b) == (a == b) == (_Flags(a) == _Flags(b))
            assert hash(_Flags(a)) == hash(a)
    explicit = Flags()
    explicit.nrt = plain.nrt  # set, but to the default
    assert _Flags(explicit) == plain == _Flags(plain)
