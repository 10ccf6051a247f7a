"""``tree_method="exact"`` on rows in files: the bytes of the same fit in memory."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hedgerow import Dataset, ParameterError, train
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.data.reading import mapped_table
from hedgerow.data.reading.mapped_table import RowFile
from hedgerow.errors import StorageError
from tests.helpers.file_tables import split, write

N_ROWS = 900
LIMIT = 60_000_000


@pytest.fixture(autouse=True)
def mapped_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Map the lists of little data, too, and copy rows in several parts."""
    monkeypatch.setattr(mapped_table, "_LIST_SHARE", 0.0)
    monkeypatch.setattr("hedgerow.boosting.loop.scores.BLOCK_ROWS", 100)
    monkeypatch.setattr(mapped_table, "BLOCK_ROWS", 130)


def make_rows(n_rows: int, seed: int, wide: bool = False) -> pa.Table:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n_rows).astype(np.float32)
    a[rng.random(n_rows) < 0.1] = np.nan
    b = rng.integers(0, 5, n_rows).astype(np.float32)
    c = rng.normal(size=n_rows).astype(np.float64 if wide else np.float32)
    y = np.nan_to_num(a) + b * c + rng.normal(size=n_rows)
    columns = {"a": a, "b": b, "c": c, "y": y, "k": (y > 0).astype(np.int64)}
    columns |= {"t": rng.integers(0, 3, n_rows), "w": rng.choice([0.0, 1.0, 2.5], n_rows)}
    return pa.table({**columns, "o": rng.normal(size=n_rows)})


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return make_rows(N_ROWS, 0)


@pytest.fixture(scope="module")
def files(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("exact")
    return [
        write(part, folder / f"{place}.parquet", 200)
        for place, part in enumerate(split(table, [250, 600]))
    ]


def make_file_dataset(
    paths: Any, folder: Path, target: str, weight: str | None, offset: str | None
) -> FileDataset:
    data = Dataset.from_files(
        paths, target, weight=weight, offset=offset, features=["a", "b", "c"],
        cache_dir=folder, memory_limit=LIMIT,
    )  # fmt: skip
    assert isinstance(data, FileDataset)
    return data


def test_columns_that_cannot_be_sorted(table: pa.Table, tmp_path: Path) -> None:
    text = table.set_column(0, "a", pa.array([f"t{n % 3}" for n in range(N_ROWS)]))
    data = make_file_dataset(write(text, tmp_path / "text.parquet"), tmp_path, "y", None, None)
    with pytest.raises(ParameterError, match="column 'a' is a category"):
        train({"tree_method": "exact"}, data)
    assert [item.name for item in tmp_path.iterdir()] == ["text.parquet"]


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="reserves no space")
@pytest.mark.parametrize("fail_at", [1, 2])
def test_a_full_disk_leaves_nothing(
    fail_at: int, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve, sizes = os.posix_fallocate, []

    def failing(file: int, offset: int, size: int) -> None:
        sizes.append(size)
        if len(sizes) == fail_at:
            raise OSError(errno.ENOSPC, "no space left")
        reserve(file, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", failing)
    data = make_file_dataset(files, tmp_path, "y", None, None)
    with pytest.raises(StorageError, match=r"cannot reserve space in .*; free space there"):
        train({"tree_method": "exact"}, data)
    assert len(sizes) == fail_at
    assert list(tmp_path.iterdir()) == []


def test_row_files_widen(tmp_path: Path) -> None:
    file = RowFile(str(tmp_path))
    parts = [np.ones((3, 2), np.float32), np.full((2, 2), 0.1), np.zeros((1, 2), np.float32)]
    for part in parts:
        file.append(part)
    found = file.finish()
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.concatenate(parts))
