"""The build of the kernels: levels, their order, and the state after it is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hedgerow.compile.build import _cost, _levels, _ordered
from hedgerow.compile.policy import target_levels
from hedgerow.compile.variants import read_variants
from tests.helpers.clocks import wait_until


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_the_build(tmp_path: Path, number: signal.Signals) -> None:
    pytest.importorskip("numba")
    psutil = pytest.importorskip("psutil")
    options = ["--folder", str(tmp_path / "built"), "--levels", "native", "--workers", "1"]
    build = subprocess.Popen(
        [sys.executable, "-m", "hedgerow.compile.build", *options],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    children = []
    try:

        def is_compiling() -> bool:
            children[:] = psutil.Process(build.pid).children(recursive=True)
            return any(child.cpu_times().user > 1 for child in children)

        wait_until(is_compiling)
        build.send_signal(number)
        assert build.wait(60) == -number
        _, alive = psutil.wait_procs(children, 60)
        assert alive == []
    finally:
        for process in (build, *children):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def test_an_unknown_level_is_an_error() -> None:
    command = [sys.executable, "-m", "hedgerow.compile.build"]
    ended = subprocess.run(
        command, env={**os.environ, "HEDGEROW_LEVELS": "x86-64-v9"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "not x86-64-v9" in ended.stderr


def test_the_level_of_this_processor() -> None:
    assert _levels("native") == target_levels()[:1]
    assert _levels("x86-64-v2,x86-64-v3") == ["x86-64-v2", "x86-64-v3"]


def test_slow_variants_are_at_both_ends() -> None:
    ordered = _ordered(read_variants())
    assert sorted(ordered) == sorted(read_variants())
    costs = [_cost(variant) for variant in ordered]
    lowest = costs.index(min(costs))
    grows = [variant.kernel.startswith("hedgerow.growing.") for variant in ordered]
    n_grow = sum(grows)
    assert all(grows[:n_grow])
    assert costs[:n_grow] == sorted(costs[:n_grow], reverse=True)
    assert costs[n_grow:] == sorted(costs[n_grow:])
    assert lowest >= n_grow
