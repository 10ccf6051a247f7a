"""The build of the kernels: what is left when it is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.clocks import wait_until


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_the_build(tmp_path: Path, number: signal.Signals) -> None:
    pytest.importorskip("numba")
    psutil = pytest.importorskip("psutil")
    build = subprocess.Popen(
        [sys.executable, "-m", "hedgerow.compile.build", "--folder", str(tmp_path / "built")],
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
