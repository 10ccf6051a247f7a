"""Fixtures and settings that all tests share."""

from __future__ import annotations

import gc
import io
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from hedgerow.compile.target import compile_policy
from hedgerow.errors import CompilationError
from hedgerow.threads import available_threads
from tests.helpers.clusters import client_of_workers
from tests.helpers.examples import FAST, THOROUGH

# No deadlines: the first example of a law may have to compile its kernels.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
_SAME_EACH_TIME = {"derandomize": True, "print_blob": True}
settings.register_profile("fast", max_examples=FAST, **_SAME_EACH_TIME, **_COMMON)
# Other examples in each run: HYPOTHESIS_PROFILE=random pytest -m hypothesis
settings.register_profile("random", max_examples=FAST, **_COMMON)
# With the slow tests: HYPOTHESIS_PROFILE=thorough pytest -m "slow or hypothesis"
settings.register_profile("thorough", max_examples=THOROUGH, **_SAME_EACH_TIME, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

# Tests call inner kernels by themselves.
os.environ.setdefault("HEDGEROW_OPEN_KERNELS", "1")

# What a test prints on stderr is its own.
os.environ.setdefault("HEDGEROW_QUIET", "1")

# Two workers of pytest on two processors: threads of OpenMP in other libraries would wait for
# each other in loops.  Fits of this package keep their threads.
os.environ.setdefault("HEDGEROW_NUM_THREADS", str(available_threads()))
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Pictures are drawn without a display.
os.environ.setdefault("MPLBACKEND", "Agg")


def _data_root() -> Path:
    """Return the folder of real data: ``$HEDGEROW_TEST_DATA`` or ``../shared/data``."""
    chosen = os.environ.get("HEDGEROW_TEST_DATA")
    if chosen:
        return Path(chosen)
    return Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Any:
    """Collect the tests without garbage collection, which took a fourth of the time.

    The collected objects stay until the end, so later garbage collections skip them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Skip tests that need the compiler if compilation is forbidden.

    They use kernels that only other kernels call.  A kernel that is missing from the built library
    is a failure.
    """
    with _skipped_without_compiler():
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Mark most cases of some tests as slow, before the command line chooses by marks."""
    cases: dict[Any, list[pytest.Function]] = {}
    for item in items:
        if item.get_closest_marker("fast") and not item.get_closest_marker("slow"):
            cases.setdefault(item.function, []).append(item)
    for of_test in cases.values():
        for item in _all_but(of_test, of_test[0].get_closest_marker("fast").args[0]):
            item.add_marker(pytest.mark.slow)
    _skip_properties_at_their_first_example(items)


def _all_but(cases: list[pytest.Function], n: int) -> list[pytest.Function]:
    """Return all but ``n`` cases, which have all values of the parameters if so few can."""
    golden = (5.0**0.5 - 1.0) / 2.0
    left = sorted(range(len(cases)), key=lambda place: place * golden % 1.0)  # far from each other
    values = [{(name, id(value)) for name, value in case.callspec.params.items()} for case in cases]
    seen: set[tuple[str, int]] = set()
    for _ in range(min(n, len(cases))):
        left.remove(best := max(left, key=lambda place: len(values[place] - seen)))
        seen |= values[best]
    return [cases[place] for place in left]


def _skip_properties_at_their_first_example(items: list[pytest.Function]) -> None:
    """Skip property tests at their first example, because hypothesis shrinks failing examples."""
    if compile_policy() != "never":
        return
    # Parametrized tests share their function.
    properties = {
        test for item in items if hasattr(test := getattr(item, "obj", None), "hypothesis")
    }
    for test in properties:
        handle = test.hypothesis
        handle.inner_test = _skipped_without_compiler()(handle.inner_test)


@contextmanager
def _skipped_without_compiler() -> Iterator[None]:
    try:
        yield
    except CompilationError as error:
        if error.could_be_built:
            raise
        pytest.skip(f"needs the compiler: {error}")


@pytest.fixture(autouse=True)
def forget_interrupts() -> None:
    """Forget interrupts of earlier tests: a second one within seconds has another effect."""
    loop = sys.modules.get("hedgerow.boosting.loop.driver")
    if loop is not None:
        loop.INTERRUPTS.last = -math.inf


@pytest.fixture
def compiler() -> None:
    """Skip the test if compilation is forbidden: it needs warnings of the compiler."""
    if compile_policy() == "never":
        pytest.skip("needs the compiler: HEDGEROW_COMPILE is 'never'")
    pytest.importorskip("numba")


@pytest.fixture
def without_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the figures of a page without drawing them, which would take seconds per page.

    Tests of the other contents of a command or a page use it.
    """

    def save(figure: Any, file: Any, **options: Any) -> None:
        text = "<svg></svg>"
        if not hasattr(file, "write"):
            Path(file).write_text(text)
        else:
            file.write(text if isinstance(file, io.TextIOBase) else text.encode())

    if find_spec("matplotlib") is not None:
        monkeypatch.setattr("matplotlib.figure.Figure.savefig", save)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Yield a Dask client of two worker processes."""
    with client_of_workers(2) as client:
        yield client


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Find a real data set: ``shared_data("california")`` is its folder, or the test is skipped."""

    def find(name: str) -> Path:
        folder = _data_root() / name
        if not folder.is_dir():
            pytest.skip(
                f"data set {name!r} is not there: set HEDGEROW_TEST_DATA to its parent folder"
            )
        return folder

    return find
