"""Ranking on partitions and ranks gives the bytes of a fit in memory, for any order of queries."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import DaskHedgerowRanker, Dataset, train
from hedgerow.boosting.loop.setup.job import LossSpec
from hedgerow.boosting.row_data.queries import gathered_queries, read_groups, read_qid
from hedgerow.comm.base import Alone
from hedgerow.distributed.partition import Partition, checksum_of
from hedgerow.errors import DataError, DataTypeError, ParameterError
from hedgerow.io import model_to_bytes
from tests.helpers import rank_trainings
from tests.helpers.examples import examples
from tests.helpers.rank_trainings import cut
from tests.helpers.ranks import run_ranks

N_ROWS = 480
PARAMS: dict[str, Any] = {"n_estimators": 3, "max_leaves": 5, "seed": 3, "min_samples_leaf": 5}


def table(kind: str = "sorted", n_rows: int = N_ROWS) -> tuple[pd.DataFrame, Any, Any, Any]:
    """Return rows of queries of all sizes; with ``mixed``, the rows of a query are not adjacent."""
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"a": rng.normal(size=n_rows), "b": rng.integers(0, 6, n_rows) * 1.0})
    y = pd.Series(np.clip(np.round(X["a"] + rng.normal(size=n_rows) + 1), 0, 3))
    qid = np.sort(rng.integers(0, n_rows // 8, n_rows)) * 7 % 1000
    if kind != "sorted":
        qid = rng.permutation(qid)
    weights = rng.choice([0.0, 1.0, 2.0], 1000)
    return X, y, pd.Series(weights[qid]), pd.Series(qid)


def train_ranks(
    n_ranks: int, parts: list[Partition], folder: Path, *more: Any, **params: Any
) -> bytes:
    params = {"objective": "lambdarank"} | PARAMS | params
    return rank_trainings.train_ranks(n_ranks, parts, folder, *more, **params)


def train_local(X: Any, y: Any, weight: Any, qid: Any, valid: Any = None, **params: Any) -> bytes:
    params = {"objective": "lambdarank"} | PARAMS | params
    return model_to_bytes(train(params, Dataset(X, y, weight, qid=qid), valid).model)


@pytest.mark.parametrize("objective", ["rank_map", "rank_xendcg"])
def test_the_model_is_that_of_the_table_in_memory(objective: str, tmp_path: Path) -> None:
    X, y, _, qid = table("mixed")
    expected = train_local(X, y, None, qid, objective=objective)
    for n_ranks, borders in ((1, [100, 101]), (2, [231]), (3, [1, 2, 470]), (4, [300, 300])):
        parts = cut(borders, X, y, qid=qid)
        assert train_ranks(n_ranks, parts, tmp_path, objective=objective) == expected


def test_validation_rows_that_are_given(tmp_path: Path) -> None:
    X, y, _, qid = table()
    names = qid.map(lambda number: f"query {number}")
    X_val, y_val, _, qid_val = table("mixed", 150)
    expected = train_local(X, y, None, names, Dataset(X_val, y_val, qid=qid_val))
    found = train_ranks(
        2, cut([200], X, y, qid=names), tmp_path, cut([20, 90], X_val, y_val, qid=qid_val)
    )
    assert found == expected


def test_rows_without_queries_are_refused() -> None:
    X, y, _, _ = table(n_rows=120)
    with pytest.raises(DataError, match=r"qid is missing: fit\(..., qid=...\)"):
        DaskHedgerowRanker().fit(X, y)


def test_one_query_is_not_divided(tmp_path: Path) -> None:
    X, y, _, qid = table(n_rows=120)
    parts = cut([40], X, y, qid=0 * qid)
    with pytest.raises(DataError, match="there is only one"):
        train_ranks(2, parts, tmp_path, early_stopping=True)


def test_what_rankings_do_not_do(tmp_path: Path) -> None:
    X, y, _, qid = table(n_rows=120)
    parts = cut([40], X, y, qid=qid)
    with pytest.raises(ParameterError, match="out-of-bag rows are parts of queries"):
        train_ranks(2, parts, tmp_path, subsample=0.5, oob_score=True)
    with pytest.raises(ParameterError, match="line_search"):
        train_ranks(2, parts, tmp_path, leaf_estimation="line_search")
    with pytest.raises(ParameterError, match="qid has no effect with objective 'squared_error'"):
        LossSpec("squared_error", has_queries=True)
    with pytest.raises(DataError, match=r"'lambdarank' compares .*, but qid is missing"):
        LossSpec("lambdarank", has_queries=False)


def test_partitions_with_other_queries_are_refused(tmp_path: Path) -> None:
    X, y, _, qid = table(n_rows=20)
    one, other = Partition(X, y, {"qid": qid}), Partition(X, y, {"qid": qid + 1})
    assert checksum_of(one) != checksum_of(other)
    parts = cut([10], X, y, qid=qid.where(qid.index != 12))
    with pytest.raises(DataError, match="partition 1: qid is missing in 1 of 10 rows"):
        train_ranks(2, parts, tmp_path)


# ---- numbers of queries ------------------------------------------------------------------


def numbers_of(parts: list[Any], ranks: Any) -> Any:
    read = [read_groups(part, len(part), "qid") for part in parts]
    return gathered_queries(read, ranks)


@settings(max_examples=examples(40), deadline=None)
@given(
    values=st.lists(st.integers(-3, 3), min_size=1, max_size=30),
    borders=st.lists(st.integers(0, 30), max_size=3),
    kind=st.sampled_from(["int", "float", "text", "date", "category"]),
)
def test_numbers_of_queries(values: list[int], borders: list[int], kind: str) -> None:
    whole: Any = np.array(values)
    if kind == "float":
        whole = whole / 2
    elif kind == "text":
        whole = np.array([f"q{value}" for value in values], dtype=object)
    elif kind == "date":
        whole = whole.astype("datetime64[D]")
    elif kind == "category":
        whole = pd.Series([f"q{value}" for value in values], dtype="category")
    places = [0, *sorted(min(border, len(values)) for border in borders), len(values)]
    parts = [whole[i:j] for i, j in pairwise(places)]
    n_ranks = len(parts)

    def number(ranks: Any) -> Any:
        return numbers_of([parts[ranks.rank]], ranks)

    found = np.concatenate(run_ranks(n_ranks, number))
    np.testing.assert_array_equal(found, read_qid(whole, len(values)))


def test_queries_are_the_same_if_values_are() -> None:
    parts = [np.array([1, 2]), np.array([2.0, 1.5]), np.array([True, 2], dtype=object)]
    assert numbers_of(parts, Alone()).tolist() == [0, 1, 1, 2, 0, 1]
    with pytest.raises(DataTypeError, match="qid must hold numbers, text or dates"):
        numbers_of([np.array([object(), 3], dtype=object)], Alone())
