"""The package cannot run from a zip file; importing it there says so."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import hedgerow


@pytest.mark.parametrize("command", [["-c", "import hedgerow"], ["-m", "hedgerow", "--version"]])
def test_a_zip_file_is_refused_with_what_to_do(tmp_path: Path, command: list[str]) -> None:
    packed = tmp_path / "hedgerow.zip"
    package = Path(hedgerow.__file__).parent
    with zipfile.ZipFile(packed, "w") as file:
        for name in ("__init__.py", "__main__.py", "once.py"):
            file.write(package / name, f"hedgerow/{name}")
    environment = {**os.environ, "PYTHONPATH": str(packed)}
    ended = subprocess.run(
        [sys.executable, *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert ended.returncode == 1
    assert "hedgerow cannot run from a zip file, as here from " in ended.stderr
    assert "Unpack the zip file, or install it with pip." in ended.stderr
