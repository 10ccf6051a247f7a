"""Load the numeric columns of real tables.  A table without its folder is skipped."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np


class MissingDataError(Exception):
    """The data set, or a library that reads it, is missing."""


def _root() -> Path:
    chosen = os.environ.get("HEDGEROW_TEST_DATA")
    return Path(chosen) if chosen else Path(__file__).resolve().parents[2] / "shared" / "data"


def _columns(name: str, file: str = "data.parquet") -> dict[str, np.ndarray]:
    path = _root() / name / file
    if not path.exists():
        raise MissingDataError(
            f"no data set {name!r}: HEDGEROW_TEST_DATA names the folder above it"
        )
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingDataError("pyarrow is not installed") from error
    table = parquet.read_table(path)
    return {column: table.column(column).to_pandas().to_numpy() for column in table.column_names}


def _split(
    columns: dict[str, np.ndarray], target: str, drop: tuple[str, ...] = ()
) -> tuple[np.ndarray, np.ndarray]:
    numeric = [
        np.asarray(values, dtype=np.float64)
        for name, values in columns.items()
        if name != target and name not in drop and np.asarray(values).dtype.kind in "iufb"
    ]
    return np.column_stack(numeric), columns[target]


def california() -> tuple[np.ndarray, np.ndarray]:
    X, y = _split(_columns("california"), "median_house_value")
    return X, y.astype(np.float64)


def adult() -> tuple[np.ndarray, np.ndarray]:
    train, test = _columns("adult", "train.parquet"), _columns("adult", "test.parquet")
    both = {name: np.concatenate((train[name], test[name])) for name in train}
    X, y = _split(both, "income")
    largest = max(str(value) for value in set(y))
    return X, np.array([str(value) == largest for value in y], dtype=np.float64)


def flights() -> tuple[np.ndarray, np.ndarray]:
    """Load delays of 3 million flights with hour, weekday, day of the year and distance."""
    columns = _columns("flights3m")
    seconds = columns["date"].astype("datetime64[s]").astype(np.int64)
    day = seconds // 86_400
    X = np.column_stack(
        (
            columns["distance"].astype(np.float32),
            (seconds % 86_400 / 60).astype(np.float32),
            ((day + 3) % 7).astype(np.float32),
            (day - day.min()).astype(np.float32),
        )
    )
    return X, columns["delay"].astype(np.float64)


def fremtpl2() -> tuple[np.ndarray, np.ndarray]:
    """Load the number of claims per policy, with squared error as the loss."""
    X, y = _split(_columns("fremtpl2"), "ClaimNb", drop=("IDpol", "ClaimAmount"))
    return X, np.minimum(y.astype(np.float64), 4.0)


def weather() -> tuple[np.ndarray, np.ndarray]:
    """Load measurements of weather, a tenth of them missing; the target is rain tomorrow."""
    X, y = _split(_columns("weather_aus"), "RainTomorrow", drop=("Date",))
    return X, np.array([str(value) == "Yes" for value in y], dtype=np.float64)
