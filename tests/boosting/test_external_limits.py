"""What training on files refuses, and how it is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import Dataset, train
from hedgerow.boosting.row_data import statistics
from hedgerow.data import read_table
from hedgerow.errors import (
    AllRowsNeededError,
    ParameterError,
)
from hedgerow.params import boost_params
from tests.helpers.chunked import Rows

N = 600
RNG = np.random.default_rng(5)
TABLE = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "b": RNG.integers(0, 9, N).astype(float),
        "town": RNG.choice(list("uvwxyz"), N),
        "street": RNG.integers(0, 300, N).astype(str),
        "q": np.arange(N) // 12,
        "place": np.arange(N) % 12,
        "group": RNG.integers(0, 40, N),
        "one": np.zeros(N),
        "w": RNG.integers(0, 4, N) / 2.0,
    }
)
TABLE["y"] = TABLE.a * TABLE.b + (TABLE.town == "u") + RNG.normal(size=N)
TABLE["class"] = np.clip(TABLE.y // 3, 0, 2)
ROWS = Rows(TABLE, ["a", "b", "town"])
SMALL = {"n_estimators": 4, "max_leaves": 7, "n_jobs": 2}
FOLDS = {**SMALL, "early_stopping": "cv", "patience": 2, "n_estimators": 8, "learning_rate": 0.9}
"""Large steps, so that cross-validation stops some fits early."""


# -- folds -------------------------------------------------------------------------------


def test_a_time_budget_ends_the_folds() -> None:
    params = {**FOLDS, "time_budget": 1e-3, "n_estimators": 10_000, "patience": 10_000}
    assert train(params, ROWS.in_batches()).num_rounds < 100


def test_what_folds_cannot_do() -> None:
    valid = ROWS.in_batches()
    with pytest.raises(ParameterError, match="validation rows have no effect"):
        train(FOLDS, ROWS.in_batches(), valid)
    first = train({"n_estimators": 1}, ROWS.in_memory())
    with pytest.raises(ParameterError, match="have seen the rows of all folds"):
        train(FOLDS, ROWS.in_batches(), init_model=first)


# -- statistics --------------------------------------------------------------------------


def test_what_needs_a_table_names_the_columns() -> None:
    params = boost_params({"target_statistics": True})
    schema = read_table(TABLE[["street", "a", "town"]]).schema
    with pytest.raises(AllRowsNeededError, match=r"'street', 'town', of several copies"):
        statistics.check_copies([(0,), (2,)], schema, N, params)
    statistics.check_copies([(0,), (2,)], schema, 10**6, params)


# -- models to continue, checkpoints -------------------------------------------------


def test_what_cannot_be_continued_is_refused_as_in_memory() -> None:
    model = train(SMALL, ROWS.in_memory())
    for params, match in (
        ({"objective": "huber"}, "was trained with objective 'squared_error'"),
        ({"boosting": "dart"}, "rescales trees"),
        ({"num_parallel_tree": 2}, "has 1 trees of each output"),
    ):
        for data in (ROWS.in_memory(), ROWS.in_batches()):
            with pytest.raises(ParameterError, match=match):
                train(SMALL | params, data, init_model=model)


def test_a_checkpoint_belongs_to_a_model_and_rows(tmp_path: Path) -> None:
    model = train(SMALL, ROWS.in_memory())
    kept = {"checkpoint": tmp_path, "checkpoint_every": 0.0}
    train(SMALL, ROWS.in_batches(), init_model=model, **kept)
    other = train(SMALL | {"max_leaves": 3}, ROWS.in_memory())
    with pytest.raises(ParameterError, match="init_model has changed"):
        train(SMALL, ROWS.in_batches(), init_model=other, **kept)
    ranking = SMALL | {"objective": "lambdarank"}
    queries = Rows(TABLE, ["a", "b"], "class", {"qid": "q"})
    train(ranking, queries.in_batches(), checkpoint=tmp_path / "queries")
    halves = replace(queries, table=TABLE.assign(q=TABLE.q // 2))
    with pytest.raises(ParameterError, match="qid has changed"):
        train(ranking, halves.in_batches(), checkpoint=tmp_path / "queries")


def test_a_checkpoint_of_lines_belongs_to_the_values_of_rows(tmp_path: Path) -> None:
    params = SMALL | {"linear_leaves": True, "max_bins": 8}
    train(params, ROWS.in_batches(), checkpoint=tmp_path, checkpoint_every=0.0)
    largest = TABLE.a == TABLE.a.max()
    other = replace(ROWS, table=TABLE.assign(a=TABLE.a + largest))  # in the same bin
    with pytest.raises(ParameterError, match=r"another fit: X has changed\."):
        train(params, other.in_batches(), checkpoint=tmp_path, checkpoint_every=0.0)


def test_validation_rows_are_not_kept_by_the_loss() -> None:
    """The loss of all rows needs memory for training rows only."""

    def batches(n_batches: int) -> Any:
        def read() -> Iterator[Any]:
            for seed in range(n_batches):
                X = np.random.default_rng(seed).normal(size=(100_000, 2))
                yield X, np.exp(X[:, 0])

        return read

    seen = Dataset.from_batches(batches(1), memory_limit="32 MB")
    unseen = Dataset.from_batches(batches(3), memory_limit="32 MB")
    booster = train({"objective": "cox", "n_estimators": 1}, seen, unseen)
    assert booster.num_rounds == 1
