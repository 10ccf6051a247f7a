"""Linear leaves of rows that are read batch by batch: the bytes of a fit in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow import Dataset, train
from hedgerow.boosting.external.dataset import resident
from hedgerow.errors import ParameterError
from tests.helpers.chunked import TableData

N = 400
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 4))
X[RNG.random(X.shape) < 0.1] = np.nan
X[7, 1], X[8, 1] = np.inf, -np.inf
Y = np.nan_to_num(X[:, 0]) * 3.0 + np.sin(np.nan_to_num(X[:, 2])) + RNG.normal(size=N) / 9.0
LINES: dict[str, Any] = {"linear_leaves": True, "n_estimators": 5, "early_stopping": False}


def batches_of(values: Any, target: np.ndarray, size: int = 70, **more: Any) -> Dataset:
    def batches() -> Iterator[Any]:
        for start in range(0, len(target), size):
            yield values[start : start + size], target[start : start + size]

    return Dataset.from_batches(batches, **more)


@pytest.fixture(autouse=True)
def no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if rows are read as a table."""
    monkeypatch.setattr(resident, "in_memory", None)


@pytest.mark.parametrize("size", [1, 30, 61, 400])
def test_any_chunks(size: int) -> None:
    expected = train(LINES, Dataset(X, Y)).to_bytes()
    assert train(LINES, TableData(Dataset(X, Y), size)).to_bytes() == expected


@pytest.mark.parametrize("size", [61, 400])
def test_values_that_no_leaf_needs(size: int) -> None:
    params = LINES | {"linear_leaves": False}
    expected = train(params, Dataset(X, Y)).to_bytes()
    assert train(params, TableData(Dataset(X, Y), size)).to_bytes() == expected


def test_columns_of_wide_integers_and_dates() -> None:
    """Values that are not floats are rounded to the same floats."""
    columns = {
        "wide": RNG.integers(2**60, 2**61, N),
        "day": np.datetime64("2020-01-01") + RNG.integers(0, 900, N).astype("timedelta64[D]"),
        "narrow": RNG.normal(size=N).astype(np.float32),
        "town": RNG.choice(list("abc"), N),
    }
    target = columns["wide"] / 2.0**60 + columns["narrow"]

    def batches() -> Iterator[Any]:
        for start in range(0, N, 90):
            part = slice(start, start + 90)
            yield {**{name: values[part] for name, values in columns.items()}, "y": target[part]}

    expected = train(LINES, Dataset(columns, target))
    assert set(expected.model.forest.slopes.column.tolist()) >= {0, 2}
    found = train(LINES, Dataset.from_batches(batches, "y"))
    assert found.to_bytes() == expected.to_bytes()
    assert train(LINES, TableData(Dataset(columns, target), 37)).to_bytes() == expected.to_bytes()


@pytest.mark.parametrize("boosting", ["gbdt", "dart", "rf"])
def test_validation_rows(boosting: str) -> None:
    more = {"boosting": boosting, "subsample": 0.7} if boosting == "rf" else {"boosting": boosting}
    params = LINES | more | {"n_estimators": 20, "early_stopping": True, "patience": 2}
    memory, other = Dataset(X[:300], Y[:300]), Dataset(X[300:], Y[300:])
    expected = train(params, memory, other)
    chunks, files = TableData(memory, 40), batches_of(X[300:], Y[300:])
    for rows in (other, TableData(other, 30), files):
        found = train(params, chunks, rows)
        assert found.to_bytes() == expected.to_bytes()
        assert found.evals_result == expected.evals_result
    assert train(params, batches_of(X[:300], Y[:300]), files).to_bytes() == expected.to_bytes()


def test_a_checkpoint_continues_with_the_same_values(tmp_path: Path) -> None:
    params = LINES | {"boosting": "dart", "max_bins": 8}
    rows = TableData(Dataset(X, Y), 60)
    expected = train(params, Dataset(X, Y)).to_bytes()
    keep = {"checkpoint": tmp_path, "checkpoint_every": 0.0}
    train({**params, "n_estimators": 3}, rows, **keep)
    assert train(params, rows, **keep).to_bytes() == expected
    others = X.copy()
    others[np.argmax(np.where(np.isfinite(X[:, 0]), X[:, 0], -np.inf)), 0] += 1.0  # the same bin
    with pytest.raises(ParameterError, match=r"another fit: X has changed\."):
        train(params, TableData(Dataset(others, Y), 60), **keep)


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_do_not_fit(threads: int) -> None:
    n_rows = 300_000
    rng = np.random.default_rng(threads)
    values = rng.normal(size=(n_rows, 8))
    target = values[:, 0] + np.abs(values[:, 1])
    params = LINES | {"n_estimators": 2, "n_jobs": threads, "max_leaves": 12}
    rows = batches_of(values, target, 50_000, memory_limit="32 MB")
    assert train(params, rows).to_bytes() == train(params, Dataset(values, target)).to_bytes()
