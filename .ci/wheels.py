"""Builds the wheels of all systems on one machine, and checks them.

    python .ci/wheels.py build --out dist            # each wheel, the sources, and all checks
    python .ci/wheels.py build --out dist --only linux-x86_64,pure
    python .ci/wheels.py try dist                    # install the wheel of this machine, and fit
    python .ci/wheels.py tagged dist v0.2.0          # all have this version

``build`` needs a network, for the packages of the build; ``try`` downloads the wheels of the
dependencies first, and then installs without one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("linux-x86_64", "linux-aarch64", "macos-arm64", "windows-amd64", "pure")
LEVELS = {
    "linux-x86_64": {"x86-64-v3", "x86-64-v4"},
    "linux-aarch64": {"aarch64"},
    "macos-arm64": {"aarch64"},
    "windows-amd64": {"x86-64-v3", "x86-64-v4"},
}
MOST_BYTES = 8_000_000
MOST_SECONDS = 10.0
FIRST_FIT = """
import numpy as np, hedgerow
X = np.random.default_rng(0).normal(size=(1000, 5))
model = hedgerow.HedgerowRegressor(n_estimators=20).fit(X, X[:, 0])
assert model.score(X, X[:, 0]) > 0.9
print(hedgerow.__version__, "fits")
"""


def build(out: Path, targets: list[str]) -> None:
    """Build the sources and the wheel of each target, and check what they hold."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tools = Path(folder) / "tools"
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tools)]
        subprocess.run([*install, "build", "lief"], check=True)
        environment = {**os.environ, "PYTHONPATH": str(tools)}
        command = [sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)]
        subprocess.run([*command, "--sdist"], env=environment, check=True)
        for target in targets:
            began = time.monotonic()
            chosen = {"HEDGEROW_PURE": "1"} if target == "pure" else {"HEDGEROW_TARGET": target}
            before = set(out.glob("*.whl"))
            subprocess.run([*command, "--wheel"], env=environment | chosen, check=True)
            wheels = set(out.glob("*.whl")) - before
            if len(wheels) != 1:
                raise SystemExit(f"{target}: made {sorted(wheels)}; begin with an empty folder.")
            check(wheels.pop(), target, environment)
            print(f"{target}: built in {time.monotonic() - began:.0f} s", flush=True)


def check(wheel: Path, target: str, environment: dict[str, str]) -> None:
    """Raise SystemExit if a wheel lacks something, holds something else, or is too large."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        names = [path.relative_to(folder) for path in Path(folder).rglob("*") if path.is_file()]
        strange = [
            str(name)
            for name in names
            if name.parts[0] != "hedgerow" and not name.parts[0].endswith(".dist-info")
        ]
        strange += [str(name) for name in names if name.suffix in (".pyc", ".pyo")]
        built = Path(folder) / "hedgerow" / "built"
        faults = [f"holds {name}" for name in strange]
        if not (Path(folder) / "hedgerow" / "py.typed").exists():
            faults.append("lacks hedgerow/py.typed")
        if wheel.stat().st_size > MOST_BYTES:
            faults.append(f"has {wheel.stat().st_size:,} bytes, at most {MOST_BYTES:,} are allowed")
        faults += check_metadata(next(Path(folder).glob("*.dist-info")), target)
        if target == "pure":
            faults += ["holds libraries"] * built.exists()
        else:
            found = json.loads((built / "manifest.json").read_text())
            missing = LEVELS[target] - set(found["libraries"])
            faults += [f"lacks the library of {level}" for level in sorted(missing)]
            if not target.startswith("macos") and not list(built.glob("*.ptx*")):
                faults.append("lacks the code for GPUs")
            faults += check_glibc(built) if target.startswith("linux") else []
            program = [sys.executable, str(ROOT / ".ci" / "symbols.py"), str(built)]
            if subprocess.run(program, env=environment, check=False).returncode:
                faults.append("has a library that needs something or lacks an entry (above)")
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes")
    if faults:
        raise SystemExit("\n".join(f"{wheel.name} {fault}" for fault in faults))


def check_metadata(folder: Path, target: str) -> list[str]:
    """Return what is wrong in the metadata of a wheel."""
    read = Parser().parsestr((folder / "METADATA").read_text("utf-8"))
    needed = read.get_all("Requires-Dist") or []
    always = {re.split(r"[<>=!~ ;\[]", one)[0] for one in needed if "extra ==" not in one}
    expected = {"numpy", "scikit-learn", "narwhals"} | ({"numba"} if target == "pure" else set())
    faults = [] if always == expected else [f"depends on {sorted(always)}"]
    if read["License-Expression"] != "Apache-2.0" or not (folder / "licenses" / "LICENSE").exists():
        faults.append("lacks its license")
    if not (folder / "entry_points.txt").read_text().count("hedgerow.cli.main:main"):
        faults.append("lacks the command hedgerow")
    return faults


def check_glibc(built: Path) -> list[str]:
    """Return the symbols that ask for a newer C library than the wheel's tag, glibc 2.17."""
    return [
        f"{library.name} asks for glibc 2.{version.decode()}"
        for library in built.glob("*.so")
        for version in set(re.findall(rb"GLIBC_2\.([0-9]+)", library.read_bytes()))
        if int(version) > 17
    ]


def install_and_fit(folder: Path) -> None:
    """Install the wheel of this machine without a network, in an empty environment, and fit."""
    with tempfile.TemporaryDirectory() as work:
        wheels, home = Path(work) / "wheels", Path(work) / "environment"
        pip = [sys.executable, "-m", "pip"]
        chosen = ["--quiet", "--only-binary", ":all:", "--dest", str(wheels)]
        subprocess.run(
            [*pip, "download", *chosen, "--find-links", str(folder), "--pre", "hedgerow"],
            check=True,
        )
        (mine,) = wheels.glob("hedgerow-*.whl")
        if not (folder / mine.name).exists():
            raise SystemExit(f"pip chose {mine.name}, which is not one of {folder}.")
        venv.create(home, with_pip=True)
        python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        began = time.monotonic()
        offline = ["--quiet", "--no-index", "--find-links", str(wheels), "hedgerow"]
        subprocess.run([str(python), "-m", "pip", "install", *offline], check=True)
        installed = time.monotonic() - began
        environment = {**os.environ, "HOME": work}
        if "none-any" not in mine.name:
            environment["HEDGEROW_COMPILE"] = "never"
        began = time.monotonic()
        subprocess.run([str(python), "-c", FIRST_FIT], env=environment, cwd=work, check=True)
        fitted = time.monotonic() - began
        print(f"{mine.name}: installed in {installed:.1f} s, first fit in {fitted:.1f} s")
        if installed > MOST_SECONDS:
            raise SystemExit(f"The installation took more than {MOST_SECONDS:.0f} s.")


def check_tag(folder: Path, tag: str) -> None:
    """Raise SystemExit if a file of a folder has another version than a tag."""
    files = sorted(folder.iterdir())
    others = [one.name for one in files if not one.name.startswith(f"hedgerow-{tag[1:]}")]
    if not files or others:
        raise SystemExit(f"The tag is {tag}, but {folder} holds {others or 'nothing'}.")


def main() -> None:
    """Do what the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("build", help="build and check wheels")
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("--only", default=",".join(TARGETS), help=f"of {', '.join(TARGETS)}")
    one = commands.add_parser("try", help="install the wheel of this machine, and fit")
    one.add_argument("folder", type=Path)
    one = commands.add_parser("tagged", help="check that all have the version of a tag")
    one.add_argument("folder", type=Path)
    one.add_argument("tag")
    given = parser.parse_args()
    if given.command == "build":
        build(given.out.resolve(), given.only.split(","))
    elif given.command == "try":
        install_and_fit(given.folder.resolve())
    else:
        check_tag(given.folder, given.tag)


if __name__ == "__main__":
    main()
