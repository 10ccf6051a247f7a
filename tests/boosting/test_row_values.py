"""Every value of a row in the table reaches every front door.

Each door trains twice, with two different choices of one value.  The models differ, or the door
names the argument in an error: a value that was forgotten on a path would be None there, and the
models the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from hedgerow import Dataset, HedgerowRanker, HedgerowRegressor, Training, cross_fit, cv, train
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.boosting.row_data.row_values import ROW_VALUES, RowValue
from hedgerow.cli.main import main
from hedgerow.errors import HedgerowError
from hedgerow.io import model_to_bytes
from tests.helpers.rank_trainings import cut, train_ranks

pytest.importorskip("pyarrow", reason="pyarrow is not installed (hedgerow[files])")

N_ROWS = 240
RNG = np.random.default_rng(5)
X = pd.DataFrame(RNG.normal(size=(N_ROWS, 3)), columns=["a", "b", "c"])
Y = pd.Series(np.digitize(X["a"] + X["b"] + RNG.normal(size=N_ROWS), [-1.0, 0.5]), name="y")
QID = pd.Series(np.repeat(np.arange(24), 10))

TWO_CHOICES: dict[str, tuple[Any, Any]] = {
    "weight": (RNG.choice([1.0, 3.0], N_ROWS), RNG.choice([1.0, 3.0], N_ROWS)),
    "offset": (RNG.normal(size=N_ROWS), RNG.normal(size=N_ROWS)),
    "qid": (QID, np.repeat(np.arange(12), 20)),
    "groups": (np.arange(N_ROWS) % 40, np.arange(N_ROWS) // 6),
    "time": (np.arange(N_ROWS), RNG.normal(size=N_ROWS)),
}
"""Two choices of each value."""

RANKED = ("qid",)
"""Values of rankings."""

SMALL: dict[str, Any] = {"n_estimators": 4, "learning_rate": 0.3, "max_leaves": 4}


def settings(name: str, **more: Any) -> dict[str, Any]:
    """Return parameters of a fit on which the value has an effect."""
    return SMALL | {"early_stopping": name in ("groups", "time")} | more


def objective(name: str) -> dict[str, Any]:
    return {"objective": "lambdarank" if name in RANKED else "squared_error"}


def estimator(name: str, **more: Any) -> Any:
    kind = HedgerowRanker if name in RANKED else HedgerowRegressor
    return kind(**settings(name, **more))


def of_fit(given: dict[str, Any]) -> dict[str, Any]:
    names = {value.name: value.of_fit for value in ROW_VALUES}
    return {names[name]: values for name, values in given.items()}


def dataset(given: dict[str, Any]) -> Dataset:
    return Dataset(X, Y, **given)


def files(given: dict[str, Any], folder: Path) -> Any:
    """Return the rows as a dataset of two files, with a column for each value."""
    return Dataset.from_files(*stored(given, folder), **{name: f"{name} of row" for name in given})


def stored(given: dict[str, Any], folder: Path) -> tuple[list[str], str]:
    named = {f"{name} of row": np.asarray(values) for name, values in given.items()}
    table = X.assign(y=Y.astype(float), **named)
    paths = [str(folder / f"{k}.parquet") for k in range(2)]
    for path, rows in zip(paths, (table[:100], table[100:]), strict=True):
        rows.to_parquet(path)
    return paths, "y"


def batches(given: dict[str, Any]) -> Any:
    table = X.assign(y=Y.astype(float), **{name: np.asarray(own) for name, own in given.items()})

    def read() -> Iterator[pd.DataFrame]:
        yield table[:100]
        yield table[100:]

    return Dataset.from_batches(read, "y", **{name: name for name in given})


def trained(name: str, rows: Any, **more: Any) -> bytes:
    return model_to_bytes(train(objective(name) | settings(name, **more), rows).model)


def stepwise(name: str, given: dict[str, Any], folder: Path) -> bytes:
    params = {key: value for key, value in settings(name).items() if key != "n_estimators"}
    params["early_stopping"] = False
    with Training(objective(name) | params, dataset(given)) as training:
        for _ in range(4):
            training.update()
        return training.booster().to_bytes()


def models_of_cv(name: str, given: dict[str, Any], folder: Path) -> bytes:
    found = cv(objective(name) | settings(name), dataset(given), 3, keep_models=True)
    return b"".join(booster.to_bytes() for booster in found.boosters)


def command_line(name: str, given: dict[str, Any], folder: Path) -> bytes:
    """Train by the command line, with options named as the values."""
    paths, target = stored(given, folder)
    options = [f"--{value}={value} of row" for value in given]
    changed = [f"--set={key}={value}" for key, value in settings(name).items()]
    task = [] if name in RANKED else ["--task=regression"]
    model = str(folder / "model.hedgerow")
    Path(model).unlink(missing_ok=True)
    words = ["train", *paths, "--target", target, "--model", model]
    assert main([*words, *task, *options, *changed]) == 0
    return Path(model).read_bytes()


def files_of_command_line(name: str, given: dict[str, Any], folder: Path) -> bytes:
    with mock.patch.object(FileDataset, "bytes_of_table", 10**12):
        return command_line(name, given, folder)


def ranks(name: str, given: dict[str, Any], folder: Path) -> bytes:
    """Train the partitions of a cluster."""
    rows = {key: pd.Series(np.asarray(values)) for key, values in given.items()}
    parts, params = cut([70, 130], X, Y.astype(float), **rows), objective(name) | settings(name)
    return train_ranks(2, parts, folder, **params)


def checkpoint(name: str, given: dict[str, Any], folder: Path) -> bytes:
    """Resume the fit of other values; the error names the value."""
    model = estimator(name)
    model.fit(X, Y, **of_fit(given), checkpoint=folder / "kept", checkpoint_every=0.0)
    return model_to_bytes(model.booster_.model)


Door = Callable[[str, dict[str, Any], Path], bytes]

DOORS: dict[str, Door] = {
    "fit": lambda name, given, folder: model_to_bytes(
        estimator(name).fit(X, Y, **of_fit(given)).booster_.model
    ),
    "validation rows": lambda name, given, folder: model_to_bytes(
        estimator(name)
        .fit(X, Y, **of_fit(given), X_val={"new": Dataset(X, Y, **given)})
        .booster_.model
    ),
    "train": lambda name, given, folder: trained(name, dataset(given)),
    "train by folds": lambda name, given, folder: trained(
        name, dataset(given), early_stopping="cv", patience=2
    ),
    "Training": stepwise,
    "cv": models_of_cv,
    "cross_fit": lambda name, given, folder: cross_fit(
        estimator(name), X, Y, 3, **of_fit(given)
    ).oof_prediction.tobytes(),
    "files": lambda name, given, folder: trained(name, files(given, folder)),
    "files by folds": lambda name, given, folder: trained(
        name, files(given, folder), early_stopping="cv", patience=2
    ),
    "files, exact": lambda name, given, folder: trained(
        name, files(given, folder), tree_method="exact"
    ),
    "batches": lambda name, given, folder: trained(name, batches(given)),
    "command line": command_line,
    "command line, files": files_of_command_line,
    "ranks": ranks,
    "checkpoint": checkpoint,
}


@pytest.mark.fast(45)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("value", ROW_VALUES, ids=lambda value: value.name)
def test_every_value_reaches_every_door(value: RowValue, door: str, tmp_path: Path) -> None:
    one, other = (outcome(value.name, door, choice, tmp_path) for choice in TWO_CHOICES[value.name])
    for error in (one, other):
        assert isinstance(error, bytes) or value.name in error, error
    assert one != other or isinstance(one, str)


def outcome(name: str, door: str, choice: Any, folder: Path) -> bytes | str:
    """Return what a door makes of a choice of a value, or its error."""
    try:
        return DOORS[door](name, {name: choice}, folder)
    except (HedgerowError, TypeError) as error:
        return str(error)
