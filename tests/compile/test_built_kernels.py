"""The built library has every kernel, gives the same bytes, and is refused on wrong processors."""

from __future__ import annotations

import functools
import importlib
import json
import os
import pkgutil
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hedgerow
from hedgerow.compile import Kernel, digests, library, ptx
from hedgerow.compile import target as code_here
from hedgerow.compile.target import target_levels, target_system
from hedgerow.compile.variants import LIST, read_variants

needs_library = pytest.mark.skipif(
    not library.is_usable(), reason="the package was installed without built kernels"
)


def entry_kernels() -> set[str]:
    """Return names of all kernels of the package that Python calls."""
    names = set()
    for found in pkgutil.walk_packages(hedgerow.__path__, "hedgerow."):
        if found.name.endswith("_llvm"):
            continue
        if found.name.split(".")[1] not in {*digests.KERNEL_SOURCES} - {"compile"}:
            continue
        module = importlib.import_module(found.name)
        names |= {
            value.name
            for value in vars(module).values()
            if isinstance(value, Kernel) and not value.inner
        }
    return names


def called_by_kernels_only() -> set[str]:
    """Return kernels with an entry that Python never calls: they should be inner kernels."""
    listed = [*read_variants(), *read_variants(ptx.LIST)]
    return entry_kernels() - {variant.kernel for variant in listed}


def test_an_edit_of_any_file_with_kernels_is_noticed() -> None:
    """Else the built code of older sources would run."""
    package = Path(hedgerow.__path__[0])
    files = [
        one.relative_to(package) for one in package.rglob("*.py") if "@kernel" in one.read_text()
    ]
    assert {one.parts[0] for one in files} <= set(digests.KERNEL_SOURCES)


def test_every_kernel_that_python_calls_is_in_the_list() -> None:
    assert called_by_kernels_only() == set()


def test_every_line_of_the_list_is_a_kernel_and_its_types() -> None:
    pytest.importorskip("numba")
    from hedgerow.compile.variants import parse_types

    variants = [*read_variants(), *read_variants(ptx.LIST)]
    assert {variant.kernel for variant in variants} <= entry_kernels()
    assert len(set(variants)) == len(variants)
    for variant in variants:
        assert parse_types(variant.types)
    lines = LIST.read_text().splitlines()
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("hedgerow.kernels.tables.statistics:shuffle(sed=int64)", "has no argument sed"),
        ("hedgerow.kernels.tables.binning:bin_rows", "binning:bin_rows: .* compiled for"),
    ],
)
def test_a_line_without_types_is_an_error(line: str, error: str, tmp_path: Path) -> None:
    path = tmp_path / "variants.txt"
    path.write_text(line)
    with pytest.raises(TypeError, match=error):
        read_variants(path)


@needs_library
def test_every_variant_is_in_the_library() -> None:
    from hedgerow.compile.variants import find_kernel

    expected: dict[str, int] = {}
    for variant in read_variants():
        expected[variant.kernel] = expected.get(variant.kernel, 0) + 1
    found = {name: len(library.entries_of(find_kernel(name))) for name in expected}
    assert found == expected


@needs_library
class TestArguments:
    """An entry accepts only the argument types that it was built for."""

    @staticmethod
    def entry():
        from hedgerow.kernels.tables.statistics import number_keys

        (entry,) = library.entries_of(number_keys)
        keys, slots = np.array([3, 3, 5]), np.full(4, -1)
        return entry, (keys, slots, np.zeros(3, dtype=np.int64), np.zeros(4, dtype=np.int64))

    def test_result(self) -> None:
        entry, good = self.entry()
        assert entry.run(*good) == 2

    @pytest.mark.parametrize(
        "array",
        [
            np.zeros(4, dtype=np.int32),
            np.zeros(4, dtype=np.uint64),
            np.zeros(4),
            np.zeros((2, 2), dtype=np.int64),
            np.zeros(8, dtype=np.int64)[::2],
            np.zeros(4, dtype=">i8"),
            np.zeros(4, dtype="m8[s]"),
            np.frombuffer(bytes(32), dtype=np.int64),
            np.frombuffer(bytes(33), dtype=np.uint8)[1:].view(np.int64),
            [0, 0, 0, 0],
            None,
            1,
        ],
        ids=str,
    )
    def test_other_arrays_do_not_fit(self, array) -> None:
        entry, good = self.entry()
        assert entry.fits(*good[:-1], array) is NotImplemented
        assert entry.run(*good[:-1], array) is NotImplemented

    def test_other_numbers_of_arguments_do_not_fit(self) -> None:
        entry, good = self.entry()
        for arguments in ((), good[:1], (*good, 1)):
            assert entry.fits(*arguments) is NotImplemented

    def test_same_type_under_another_number_fits(self) -> None:
        entry, good = self.entry()
        assert entry.fits(*good[:-1], np.zeros(4, dtype=np.longlong)) is True

    def test_subclass_of_array_fits(self, tmp_path) -> None:
        entry, good = self.entry()
        mapped = np.memmap(tmp_path / "codes", dtype=np.int64, mode="w+", shape=4)
        assert entry.fits(*good[:-1], mapped) is True

    def test_numbers(self) -> None:
        from hedgerow.kernels.tables.statistics import shuffle

        (entry,), order = library.entries_of(shuffle), np.arange(2)
        for number in (1, np.int64(1), True):
            assert entry.fits(0, number, order) is True
        for number in (1.0, None, "1", np.float64(1.0), np.uint64(1), np.zeros(1, dtype=np.int64)):
            assert entry.fits(0, number, order) is NotImplemented
        with pytest.raises(OverflowError):
            entry.run(0, 1 << 70, order)

    def test_references_are_not_lost(self) -> None:
        entry, good = self.entry()
        before = [sys.getrefcount(item) for item in (*good, None, NotImplemented)]
        for _ in range(1000):
            entry.run(*good)
            entry.run(*good[:-1], None)
            entry.fits(*good)
        after = [sys.getrefcount(item) for item in (*good, None, NotImplemented)]
        assert all(abs(a - b) < 100 for a, b in zip(before, after, strict=True))


PROGRAM = Path(__file__).resolve().parents[1] / "digests_of_fits.py"
FIT = f"""
import runpy, sys
runpy.run_path({str(PROGRAM)!r}, run_name="__main__")
print("numba" in sys.modules)
"""


CALL = """
import numpy as np
from hedgerow.kernels.primitives.exact_sum import exact_sum
exact_sum(np.ones(10))
"""


def fit(
    folder: Path | None = None, before: str = "", program: str = FIT, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Train some models in a new process, with the library in ``folder``.

    A shorter ``program`` saves time if no test needs its models.
    """
    code = before + program
    if folder is not None:
        code = (
            "import pathlib\nfrom hedgerow.compile import target\n"
            f"target.FOLDER = pathlib.Path({str(folder)!r})\n{before}{program}"
        )
    environment = {**os.environ, "HEDGEROW_COMPILE": "auto", "HEDGEROW_QUIET": "1", **variables}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


@functools.cache
def digest_of_fits(level: str) -> str:
    """Return the digest of the models of :data:`PROGRAM` with the library of a processor level."""
    done = fit(HEDGEROW_PROCESSOR=level, HEDGEROW_COMPILE="never")
    assert done.returncode == 0, done.stderr
    digest, numba_loaded = done.stdout.split()
    assert numba_loaded == "False"
    return digest


@needs_library
def test_same_bytes_from_every_library() -> None:
    manifest = json.loads((code_here.FOLDER / code_here.MANIFEST).read_text())
    levels = [level for level in target_levels() if level in manifest["libraries"]]
    assert levels
    digests = {level: digest_of_fits(level) for level in levels}
    assert len(set(digests.values())) == 1, digests


@needs_library
def test_numba_may_be_set_not_to_compile() -> None:
    """``NUMBA_DISABLE_JIT`` ran kernels as Python, which instructions of compiled code broke."""
    assert fit(program=CALL, NUMBA_DISABLE_JIT="1").returncode == 0
    pytest.importorskip("numba")
    done = fit(program=CALL, NUMBA_DISABLE_JIT="1", HEDGEROW_COMPILE="always")
    assert "has to be compiled, but NUMBA_DISABLE_JIT is set." in done.stderr
    assert "Unset it" in done.stderr


@needs_library
@pytest.mark.slow
def test_same_bytes_just_in_time() -> None:
    pytest.importorskip("numba")
    manifest = json.loads((code_here.FOLDER / code_here.MANIFEST).read_text())
    level = next(level for level in target_levels() if level in manifest["libraries"])
    done = fit(HEDGEROW_COMPILE="always")
    assert done.returncode == 0, done.stderr
    digest, numba_loaded = done.stdout.split()
    assert numba_loaded == "True"
    assert digest == digest_of_fits(level)


LATE = """
import sys
import numpy as np
from hedgerow.kernels.primitives import exact_sum
exact_sum.exact_sum(np.ones(10))
function = exact_sum.add_digits._entries[0].run
# Nothing of this module, so that the modules end before the object does.
names = {"stderr": sys.__stderr__}
exec(
    "class Late:\\n    def __del__(self, out=stderr): out.write(self.function.__name__)", names
)
late = sys.late = names["Late"]()
late.function = function
"""


@needs_library
def test_functions_outlive_the_modules_when_the_interpreter_ends() -> None:
    environment = {**os.environ, "HEDGEROW_COMPILE": "auto", "PYTHONMALLOC": "debug"}
    done = subprocess.run(
        [sys.executable, "-c", LATE], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "hedgerow.kernels.primitives.exact_sum:add_digits"


def truncate(folder: Path, manifest: dict) -> str:
    for path in folder.glob("kernels-*"):
        path.write_bytes(path.read_bytes()[:-100])
    return "bytes instead of"


def name_other_build(folder: Path, manifest: dict) -> str:
    manifest["build"] = "0" * len(manifest["build"])
    return "is of another build"


def name_other_machine(folder: Path, manifest: dict) -> str:
    manifest["machine"] = "s390x"
    return "they are for linux s390x"


def name_other_processor(folder: Path, manifest: dict) -> str:
    manifest["libraries"] = {"x86-64-v9": {}}
    return "x86-64-v9"


def name_other_format(folder: Path, manifest: dict) -> str:
    manifest["format"] = 99
    return "format 99"


def remove_entries(folder: Path, manifest: dict) -> str:
    for listed in manifest["libraries"].values():
        del listed["entries"]
    return "entries"


def name_other_symbols(folder: Path, manifest: dict) -> str:
    for listed in manifest["libraries"].values():
        for entries in listed["entries"].values():
            for entry in entries:
                entry[0] = "hedgerow_nothing"
    return "hedgerow_nothing"


def replace_by_text(folder: Path, manifest: dict) -> str:
    for path in folder.glob("kernels-*"):
        path.write_bytes(b"x" * path.stat().st_size)
    return "are not used"


@pytest.mark.fast(2)
@needs_library
@pytest.mark.parametrize(
    "alter",
    [
        truncate,
        remove_entries,
        name_other_build,
        name_other_machine,
        name_other_processor,
        name_other_format,
        name_other_symbols,
        replace_by_text,
    ],
)
def test_library_that_does_not_fit_is_one_warning(alter, tmp_path) -> None:
    folder = tmp_path / "built"
    shutil.copytree(code_here.FOLDER, folder)
    manifest = json.loads((folder / code_here.MANIFEST).read_text())
    reason = alter(folder, manifest)
    (folder / code_here.MANIFEST).write_text(json.dumps(manifest))
    # This test does not check whether kernels can be compiled afterwards.
    done = fit(folder, program=CALL, HEDGEROW_COMPILE="never")
    assert done.returncode == 1
    assert done.stderr.count("HedgerowWarning: the built kernels in") == 1, done.stderr
    assert reason in done.stderr
    assert "CompilationError" in done.stderr


@needs_library
def test_manifest_of_no_json_is_one_warning(tmp_path) -> None:
    folder = tmp_path / "built"
    shutil.copytree(code_here.FOLDER, folder)
    (folder / code_here.MANIFEST).write_bytes(b"\xff{")
    done = fit(folder, program=CALL, HEDGEROW_COMPILE="never")
    assert done.stderr.count("HedgerowWarning: the built kernels in") == 1, done.stderr


@pytest.mark.parametrize(
    ("built", "processor", "lanes"),
    [
        (["x86-64-v3"], ["x86-64-v4", "x86-64-v3"], 4),
        (["x86-64-v3", "x86-64-v4"], ["x86-64-v4", "x86-64-v3"], 8),
        (["x86-64-v3", "x86-64-v4"], ["x86-64-v3"], 4),
        ([], ["x86-64-v4", "x86-64-v3"], 8),
        (["x86-64-v4"], ["x86-64-v3"], 4),
    ],
)
def test_the_library_decides_on_the_width_of_vectors(
    built: list[str],
    processor: list[str],
    lanes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library may have shorter vectors than the processor; arrays follow the library."""
    written = {
        "format": code_here.FORMAT,
        "system": target_system(),
        "machine": platform.machine().lower(),
        "libraries": {level: {} for level in built},
    }
    (tmp_path / code_here.MANIFEST).write_text(json.dumps(written))
    monkeypatch.setattr(code_here, "FOLDER", tmp_path)
    monkeypatch.setattr(code_here, "target_levels", lambda: tuple(processor))
    monkeypatch.setattr(code_here, "compile_policy", lambda: "auto")
    monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
    assert code_here.lanes_of_code.__wrapped__() == lanes
    monkeypatch.setattr(code_here, "compile_policy", lambda: "always")
    expected = 8 if processor[0] == "x86-64-v4" else 4
    assert code_here.lanes_of_code.__wrapped__() == expected


WIDER = """
import atexit
from hedgerow.compile import lanes_of_code, target
atexit.register(lambda: print(lanes_of_code()))
levels = target.target_levels()
target.target_levels = lambda: ("x86-64-v4", *levels)
"""


@needs_library
def test_same_bytes_on_a_processor_with_longer_vectors(tmp_path: Path) -> None:
    """A processor with AVX-512 runs a package that was built on one without."""
    folder = tmp_path / "built"
    shutil.copytree(code_here.FOLDER, folder)
    found = json.loads((folder / code_here.MANIFEST).read_text())
    found["libraries"].pop("x86-64-v4", None)
    if not set(found["libraries"]) & set(target_levels()):
        pytest.skip("no library for shorter vectors was built")
    (folder / code_here.MANIFEST).write_text(json.dumps(found))
    done = fit(folder, before=WIDER, HEDGEROW_COMPILE="never")
    assert done.returncode == 0, done.stderr
    level = next(level for level in target_levels() if level in found["libraries"])
    assert done.stdout.split() == [digest_of_fits(level), "False", "4"]  # lanes


def test_processor_that_is_not_there_is_an_error() -> None:
    done = fit(program=CALL, HEDGEROW_PROCESSOR="x86-64-v9")
    assert "HEDGEROW_PROCESSOR is 'x86-64-v9', but this processor runs" in done.stderr
