"""Temporary folders of the package: one function, helpful errors, no leftovers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

import hedgerow
from hedgerow import Booster, Dataset, train
from hedgerow.data.external import scratch
from hedgerow.data.external.scratch import LOCK, scratch_folder
from hedgerow.errors import StorageError

X = np.random.default_rng(0).normal(size=(60, 2))


@pytest.fixture(scope="module")
def booster() -> Booster:
    return train({"n_estimators": 2, "early_stopping": False}, Dataset(X, X[:, 0]))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the system's folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_scratch_folder_is_deleted_with_its_block(temporary: Path) -> None:
    with scratch_folder() as folder:
        (folder / "file").write_text("content")
        assert folder.parent == temporary
    with pytest.raises(ZeroDivisionError), scratch_folder(temporary):
        raise ZeroDivisionError
    assert list(temporary.iterdir()) == []


def test_no_writable_folder_names_the_remedy(
    booster: Booster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", fail)
    with pytest.raises(StorageError, match=r"no folder for temporary files .* set TMPDIR"):
        booster.export(tmp_path / "model.py", check=X)
    booster.export(tmp_path / "other.py")  # only a check needs a folder


def test_no_module_makes_temporary_folders_of_its_own() -> None:
    package = Path(hedgerow.__file__).parent
    found = [
        f"{file.relative_to(package).as_posix()}: {line.strip()}"
        for file in sorted(package.rglob("*.py"))
        if file.relative_to(package).as_posix() != "compile/build.py"  # not at run time
        for line in file.read_text(encoding="utf-8").splitlines()
        if ("TemporaryDirectory(" in line or "mkdtemp(" in line) and ">>>" not in line
    ]
    assert found == []


def test_a_process_looks_for_leftovers_once_in_a_while(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listing a folder of 50,000 files takes 0.1 seconds, at each fit from files."""
    for number, seconds in enumerate((1e9, 1e9, 1e-3)):
        left = temporary / f"hedgerow-{number:016x}.scratch"
        left.mkdir()
        (left / LOCK).write_text("machine\n1\n")
        monkeypatch.setattr(scratch, "_SEARCH_SECONDS", seconds)
        with scratch_folder():
            pass
        kept = [path.name for path in temporary.iterdir()]
        assert kept == ([left.name] if number == 1 else [])
