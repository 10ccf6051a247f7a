"""The build of the kernels: levels, their order, and the state after it is killed."""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hedgerow.compile.build import SYSTEMS, _ordered, levels_of
from hedgerow.compile.digests import extent_of
from hedgerow.compile.target import target_levels
from hedgerow.compile.variants import find_kernel, read_variants
from tests.helpers.clocks import wait_until


@pytest.mark.fast(1)
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
            with contextlib.suppress(psutil.NoSuchProcess):  # a command that a worker has run
                return any(child.cpu_times().user > 1 for child in children)
            return False

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


def test_levels() -> None:
    assert levels_of("native", "linux-x86_64") == target_levels()[:1]
    assert levels_of("all", "linux-aarch64") == SYSTEMS["linux-aarch64"].levels
    assert levels_of("x86-64-v2,x86-64-v3", "linux-x86_64") == ["x86-64-v2", "x86-64-v3"]


ROOT = Path(__file__).resolve().parents[2]
HOW = ("HEDGEROW_LEVELS", "HEDGEROW_GPU")


class Hook:
    """Stands for the classes of hatchling that hooks derive from."""

    root = str(ROOT)

    def __class_getitem__(cls, item: object) -> type:
        return cls


def run_of_hook(version: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of the build."""
    base = SimpleNamespace(BuildHookInterface=Hook, MetadataHookInterface=Hook)
    for name in ("builders.hooks.plugin", "metadata.plugin"):  # hatchling need not be installed
        monkeypatch.setitem(sys.modules, f"hatchling.{name}.interface", base)
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))["KernelBuildHook"]
    runs = []
    monkeypatch.setattr(subprocess, "run", lambda command, env, check: runs.append((command, env)))
    hook().initialize(version, {"artifacts": []})
    return runs[0]


@pytest.mark.parametrize(
    ("version", "chosen", "expected"),
    [
        ("editable", {}, {}),
        ("standard", {}, {"HEDGEROW_LEVELS": "all", "HEDGEROW_GPU": "1"}),
        (
            "standard",
            {"HEDGEROW_LEVELS": "native", "HEDGEROW_GPU": "0"},
            {"HEDGEROW_LEVELS": "native", "HEDGEROW_GPU": "0"},
        ),
    ],
)
def test_a_wheel_is_for_every_processor_and_a_checkout_for_this_one(
    version: str, chosen: dict[str, str], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HEDGEROW_LEVELS", "HEDGEROW_GPU", "HEDGEROW_PURE", "HEDGEROW_TARGET"):
        monkeypatch.delenv(name, raising=False)
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    _, environment = run_of_hook(version, monkeypatch)
    found = {name: environment[name] for name in HOW if name in environment}
    assert found == expected


def test_the_build_finds_its_sources_beside_an_earlier_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The isolation of pip takes the folder of an editable install off the path."""
    with monkeypatch.context() as patch:
        patch.delenv("HEDGEROW_PURE", raising=False)
        command, environment = run_of_hook("editable", patch)
    isolation = (
        f"import sys; sys.path[:] = [one for one in sys.path if one != {str(ROOT / 'src')!r}]"
    )
    (tmp_path / "sitecustomize.py").write_text(isolation)
    path = os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])
    done = subprocess.run(
        [*command, "--help"], env={**environment, "PYTHONPATH": path}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("usage:"), done.stderr


def test_the_build_needs_numpy_alone_beside_the_compilers() -> None:
    """The others that the package needs are not installed where ``pyproject.toml`` builds it."""
    program = (
        "import sys\n"
        "for name in ('scipy', 'sklearn', 'narwhals', 'joblib'): sys.modules[name] = None\n"
        "from hedgerow.compile import build, ptx, variants\n"
        "for one in (*variants.read_variants(), *variants.read_variants(ptx.LIST)):\n"
        "    build.digests.digest_of(variants.find_kernel(one.kernel))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_slow_variants_are_at_both_ends() -> None:
    ordered = _ordered(read_variants())
    assert sorted(ordered) == sorted(read_variants())
    assert ordered[0].kernel == "hedgerow.growing.core.grow:work"
    costs = [extent_of(find_kernel(variant.kernel)) for variant in ordered]
    grows = [variant.kernel.startswith("hedgerow.growing.") for variant in ordered]
    n_grow = sum(grows)
    assert all(grows[:n_grow])
    assert costs[:n_grow] == sorted(costs[:n_grow], reverse=True)
    assert costs[n_grow:] == sorted(costs[n_grow:])
