"""Load the real tables of the comparison, and split each into training and test rows.

A table of the suite has five folds, assigned by a hash of the row number.  A larger table has
only the split that its README gives, which counts as fold 0.
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
    """Training and test rows of a table.  Categories are text; missing values are NaN or None."""

    task: Task
    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray
    categories: list[str]

    def score(self, prediction: np.ndarray) -> float:
        """Return the log loss of probabilities (n_rows, n_classes), or the RMSE of values."""
        if self.task == "regression":
            return float(np.sqrt(np.mean((self.y_test - prediction) ** 2)))
        p_true = prediction[np.arange(len(self.y_test)), self.y_test]
        return float(-np.mean(np.log(np.clip(p_true, 1e-15, 1.0))))


def assign_folds(n_rows: int) -> np.ndarray:
    """Return the fold of each row of a table of the suite."""
    hashed = (np.arange(n_rows, dtype=np.uint64) * np.uint64(2654435761)) & np.uint64(0xFFFFFFFF)
    return ((hashed * np.uint64(FOLDS)) >> np.uint64(32)).astype(np.int64)


def load_index() -> dict[str, dict[str, str]]:
    with (ROOT / "suite" / "index.csv").open(encoding="utf-8") as lines:
        return {row["name"]: row for row in csv.DictReader(lines)}


def suite_names() -> list[str]:
    """Return the names of the tables of the suite."""
    return list(load_index())


def make_problem(
    frame: pd.DataFrame, target: str, is_test: np.ndarray, task: Task, cats: list[str]
) -> Problem:
    frame = frame.reset_index(drop=True)
    y = frame.pop(target)
    for name in cats:
        column = frame[name].astype(object)
        frame[name] = column.where(column.isna(), column.astype(str))
    if task == "regression":
        labels = y.to_numpy(dtype=np.float64)
    else:
        text = y.astype(str).to_numpy()
        # No model can predict a class that no training row has.
        known = np.isin(text, np.unique(text[~is_test]))
        frame, text, is_test = frame[known].reset_index(drop=True), text[known], is_test[known]
        classes = np.unique(text[~is_test])
        labels = np.searchsorted(classes, text)
        task = "binary" if len(classes) == 2 else "multiclass"
    return Problem(
        task, frame[~is_test].reset_index(drop=True), labels[~is_test],
        frame[is_test].reset_index(drop=True), labels[is_test], cats,
    )  # fmt: skip


def _load_suite(name: str, fold: int) -> Problem:
    row = load_index()[name]
    cats = [column for column in row["cat_columns"].split("|") if column]
    frame = pd.read_csv(ROOT / "suite" / f"{name}.csv.gz", dtype=dict.fromkeys(cats, str))
    is_test = assign_folds(len(frame)) == fold
    return make_problem(frame, "target", is_test, row["task"], cats)  # type: ignore[arg-type]


def text_columns(frame: pd.DataFrame, target: str) -> list[str]:
    return [
        name for name in frame.columns
        if name != target and not pd.api.types.is_numeric_dtype(frame[name].dtype)
    ]  # fmt: skip


def _load_two_files(name: str, target: str, task: Task) -> Problem:
    parts = [pd.read_parquet(ROOT / name / f"{part}.parquet") for part in ("train", "test")]
    is_test = np.repeat([False, True], [len(part) for part in parts])
    frame = pd.concat([part.astype(dict.fromkeys(part.select_dtypes("category").columns, object))
                       for part in parts])  # fmt: skip
    cats = text_columns(frame, target)
    if name == "amazon":
        cats = [column for column in frame.columns if column != target]
    return make_problem(frame, target, is_test, task, cats)


def _load_one_file(name: str, target: str, task: Task, drop: tuple[str, ...] = ()) -> Problem:
    frame = pd.read_parquet(ROOT / name / "data.parquet").drop(columns=list(drop))
    is_test = assign_folds(len(frame)) == 0
    return make_problem(frame, target, is_test, task, text_columns(frame, target))


def _load_bike_hour() -> Problem:
    frame = pd.read_parquet(ROOT / "bike_hour" / "data.parquet")
    day = pd.to_datetime(frame["dteday"].astype(str))
    frame = frame.drop(columns=["index", "casual", "registered", "dteday"], errors="ignore")
    return make_problem(frame, "cnt", (day >= "2012-07-01").to_numpy(), "regression", [])


def _load_weather_aus() -> Problem:
    frame = pd.read_parquet(ROOT / "weather_aus" / "data.parquet")
    frame = frame.sort_values("Date", kind="stable").reset_index(drop=True)
    is_test = np.arange(len(frame)) >= int(0.8 * len(frame))
    frame = frame.assign(month=pd.to_datetime(frame["Date"].astype(str)).dt.month)
    frame = frame.drop(columns="Date")
    return make_problem(
        frame, "RainTomorrow", is_test, "binary", text_columns(frame, "RainTomorrow")
    )


LARGER: dict[str, Callable[[], Problem]] = {
    "adult": lambda: _load_two_files("adult", "income", "binary"),
    "amazon": lambda: _load_two_files("amazon", "ACTION", "binary"),
    "california": lambda: _load_one_file("california", "median_house_value", "regression"),
    "diamonds": lambda: _load_one_file("diamonds", "price", "regression"),
    "bike_hour": _load_bike_hour,
    "weather_aus": _load_weather_aus,
}


def load(name: str, fold: int) -> Problem:
    """Load one fold of a table."""
    return LARGER[name]() if name in LARGER else _load_suite(name, fold)


def half_of(name: str) -> int:
    """Return 0 if the defaults were chosen on this table, 1 if it only checks them."""
    return zlib.crc32(name.encode()) % 2


def jobs(names: list[str], folds: list[int]) -> list[tuple[str, int]]:
    """Return the table and the fold of every fit of a model."""
    return [(name, fold) for name in names for fold in (folds if name not in LARGER else [0])]
