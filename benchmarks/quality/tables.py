"""The real tables of the comparison, and how each is divided into training and test rows.

A table of the suite has five folds, given by a hash of the row number; the larger tables
have the one split that their README gives, which counts as fold 0.
"""

from __future__ import annotations

import csv
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

ROOT = Path(
    os.environ.get("HEDGEROW_TEST_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
)
FOLDS = 5
Task = Literal["binary", "multiclass", "regression"]


@dataclass(frozen=True)
class Problem:
    """Training and test rows; categories are text, missing values NaN or None."""

    task: Task
    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray
    categories: list[str]

    def score(self, prediction: np.ndarray) -> float:
        """Log loss of probabilities (n_rows, n_classes), or root mean squared error."""
        if self.task == "regression":
            return float(np.sqrt(np.mean((self.y_test - prediction) ** 2)))
        chosen = prediction[np.arange(len(self.y_test)), self.y_test]
        return float(-np.mean(np.log(np.clip(chosen, 1e-15, 1.0))))


def fold_of(n_rows: int) -> np.ndarray:
    """Fold of each row of a table of the suite."""
    hashed = (np.arange(n_rows, dtype=np.uint64) * np.uint64(2654435761)) & np.uint64(0xFFFFFFFF)
    return ((hashed * np.uint64(FOLDS)) >> np.uint64(32)).astype(np.int64)


def _index() -> dict[str, dict[str, str]]:
    with (ROOT / "suite" / "index.csv").open(encoding="utf-8") as lines:
        return {row["name"]: row for row in csv.DictReader(lines)}


def suite_names() -> list[str]:
    """Tables of the suite."""
    return list(_index())


def _problem(frame: pd.DataFrame, target: str, new: np.ndarray, task: Task, cats: list[str]):
    frame = frame.reset_index(drop=True)
    y = frame.pop(target)
    for name in cats:
        column = frame[name].astype(object)
        frame[name] = column.where(column.isna(), column.astype(str))
    if task == "regression":
        labels = y.to_numpy(dtype=np.float64)
    else:
        text = y.astype(str).to_numpy()
        # Nobody can predict a class that no training row has.
        known = np.isin(text, np.unique(text[~new]))
        frame, text, new = frame[known].reset_index(drop=True), text[known], new[known]
        classes = np.unique(text[~new])
        labels = np.searchsorted(classes, text)
        task = "binary" if len(classes) == 2 else "multiclass"
    return Problem(
        task, frame[~new].reset_index(drop=True), labels[~new],
        frame[new].reset_index(drop=True), labels[new], cats,
    )  # fmt: skip


def _suite(name: str, fold: int) -> Problem:
    row = _index()[name]
    cats = [column for column in row["cat_columns"].split("|") if column]
    frame = pd.read_csv(ROOT / "suite" / f"{name}.csv.gz", dtype=dict.fromkeys(cats, str))
    new = fold_of(len(frame)) == fold
    return _problem(frame, "target", new, row["task"], cats)  # type: ignore[arg-type]


def _text_columns(frame: pd.DataFrame, target: str) -> list[str]:
    return [
        name for name in frame.columns
        if name != target and not pd.api.types.is_numeric_dtype(frame[name].dtype)
    ]  # fmt: skip


def _two_files(name: str, target: str, task: Task) -> Problem:
    parts = [pd.read_parquet(ROOT / name / f"{part}.parquet") for part in ("train", "test")]
    new = np.repeat([False, True], [len(part) for part in parts])
    frame = pd.concat([part.astype(dict.fromkeys(part.select_dtypes("category").columns, object))
                       for part in parts])  # fmt: skip
    cats = _text_columns(frame, target)
    if name == "amazon":
        cats = [column for column in frame.columns if column != target]
    return _problem(frame, target, new, task, cats)


def _one_file(name: str, target: str, task: Task, drop: tuple[str, ...] = ()) -> Problem:
    frame = pd.read_parquet(ROOT / name / "data.parquet").drop(columns=list(drop))
    new = fold_of(len(frame)) == 0
    return _problem(frame, target, new, task, _text_columns(frame, target))


def _bike_hour() -> Problem:
    frame = pd.read_parquet(ROOT / "bike_hour" / "data.parquet")
    day = pd.to_datetime(frame["dteday"].astype(str))
    frame = frame.drop(columns=["index", "casual", "registered", "dteday"], errors="ignore")
    return _problem(frame, "cnt", (day >= "2012-07-01").to_numpy(), "regression", [])


def _weather_aus() -> Problem:
    frame = pd.read_parquet(ROOT / "weather_aus" / "data.parquet")
    frame = frame.sort_values("Date", kind="stable").reset_index(drop=True)
    new = np.arange(len(frame)) >= int(0.8 * len(frame))
    frame = frame.assign(month=pd.to_datetime(frame["Date"].astype(str)).dt.month)
    frame = frame.drop(columns="Date")
    return _problem(frame, "RainTomorrow", new, "binary", _text_columns(frame, "RainTomorrow"))


LARGER: dict[str, Callable[[], Problem]] = {
    "adult": lambda: _two_files("adult", "income", "binary"),
    "amazon": lambda: _two_files("amazon", "ACTION", "binary"),
    "california": lambda: _one_file("california", "median_house_value", "regression"),
    "diamonds": lambda: _one_file("diamonds", "price", "regression"),
    "bike_hour": _bike_hour,
    "weather_aus": _weather_aus,
}


def load(name: str, fold: int) -> Problem:
    """One division of one table."""
    return LARGER[name]() if name in LARGER else _suite(name, fold)


def half(name: str) -> int:
    """0: defaults were chosen on this table; 1: they were only checked on it."""
    return zlib.crc32(name.encode()) % 2


def jobs(names: list[str], folds: list[int]) -> list[tuple[str, int]]:
    """Table and fold of every fit of a model."""
    return [(name, fold) for name in names for fold in (folds if name not in LARGER else [0])]
