"""Several targets of rows in files give the model of the same rows in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import Booster, Dataset, ParameterError, train
from hedgerow.errors import DataError
from tests.helpers.chunked import divided_into

RNG = np.random.default_rng(3)
N_ROWS = 500
COLUMNS, TARGETS = ["a", "b"], ["y", "z"]
APART = {"multi_strategy": "one_output_per_tree", "n_estimators": 5, "n_jobs": 2}


def table() -> pd.DataFrame:
    rows = pd.DataFrame({"a": RNG.normal(size=N_ROWS), "b": RNG.integers(0, 9, N_ROWS) * 1.0})
    rows["y"] = rows.a * rows.b + RNG.normal(size=N_ROWS) / 5
    rows["z"] = 100.0 + rows.b - rows.a
    rows["p"], rows["q"] = rows.a / 2, rows.b / 3
    return rows


ROWS = table()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[Path]]:
    """Yield two files, which are read into chunks of 64 rows and never as a table."""
    pytest.importorskip("pyarrow", reason="files need pyarrow")
    found = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    ROWS[:300].to_parquet(found[0])
    ROWS[300:].to_parquet(found[1])
    with divided_into(64):
        yield found


def make_file_dataset(paths: Any, target: Any = TARGETS, **more: Any) -> Dataset:
    return Dataset.from_files(paths, target, features=COLUMNS, **more)


def in_memory(rows: pd.DataFrame = ROWS, **more: Any) -> Dataset:
    return Dataset(rows[COLUMNS], rows[TARGETS], **more)


def test_the_number_of_targets_of_validation_rows(files: list[Path]) -> None:
    one = Dataset(ROWS[COLUMNS], ROWS.y.to_numpy())
    message = "y of valid has 1 column, but y has 2 columns"
    for valid in (one, make_file_dataset(files, "y")):
        with pytest.raises(DataError, match=message):
            train(APART, make_file_dataset(files), valid)
    with pytest.raises(DataError, match="y of valid has 2 columns, but y has 1 column"):
        train({}, make_file_dataset(files, "y"), in_memory())


def test_evaluation_of_files(files: list[Path]) -> None:
    booster: Booster = train(APART, in_memory())
    metrics = ["loss", "mae"]
    assert booster.eval(make_file_dataset(files), metrics) == booster.eval(in_memory(), metrics)


def test_targets_outside_the_domain_of_the_loss(files: list[Path]) -> None:
    ROWS[:300].assign(y=1.0).to_parquet(files[0])
    ROWS[300:].assign(y=1.0, z=-1.0).to_parquet(files[1])
    message = r"target 'z': objective 'poisson' needs targets in .*; row 300 holds -1.0"
    with pytest.raises(DataError, match=message):
        train(APART | {"objective": "poisson"}, make_file_dataset(files))
    with pytest.raises(ParameterError, match="'softmax' has one target, but y has several"):
        train({"objective": "softmax"}, make_file_dataset(files))


def test_missing_targets_name_their_column(files: list[Path]) -> None:
    ROWS.assign(z=np.nan).to_parquet(files[0])
    with pytest.raises(DataError, match="y \\(column 'z'\\)"):
        train(APART, make_file_dataset(files[0]))
