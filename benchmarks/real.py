"""Real tables, numeric columns only; each is skipped where its folder is absent."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np


class Absent(Exception):
    """The data set or a library that reads it is not there."""


def _root() -> Path:
    chosen = os.environ.get("HEDGEROW_TEST_DATA")
    return Path(chosen) if chosen else Path(__file__).resolve().parents[2] / "shared" / "data"


def _columns(name: str, file: str = "data.parquet") -> dict[str, np.ndarray]:
    path = _root() / name / file
    if not path.exists():
        raise Absent(f"no data set {name!r}: HEDGEROW_TEST_DATA names the folder above it")
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise Absent("pyarrow is not installed") from error
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
    """Delay of 3 million flights from hour, weekday, day of the year and distance."""
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
    """Claims per policy; a count, here as squared error."""
    X, y = _split(_columns("fremtpl2"), "ClaimNb", drop=("IDpol", "ClaimAmount"))
    return X, np.minimum(y.astype(np.float64), 4.0)


def weather() -> tuple[np.ndarray, np.ndarray]:
    """Rain tomorrow, from measurements of which a tenth are missing."""
    X, y = _split(_columns("weather_aus"), "RainTomorrow", drop=("Date",))
    return X, np.array([str(value) == "Yes" for value in y], dtype=np.float64)
