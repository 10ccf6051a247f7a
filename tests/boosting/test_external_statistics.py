"""Target statistics of rows in files: the bytes of a table in memory."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import Dataset, train
from hedgerow.boosting.external.dataset import encoded, resident
from hedgerow.boosting.external.external_sample import StorePlan
from hedgerow.boosting.row_data import statistics
from hedgerow.data import read_table
from hedgerow.errors import AllRowsNeededError, ParameterError
from hedgerow.objectives import make_objective
from hedgerow.params import boost_params
from tests.helpers.chunked import never_join_chunks

N = 700
RNG = np.random.default_rng(7)
TABLE = pd.DataFrame(
    {
        "street": RNG.integers(0, 300, N).astype(str),
        "a": RNG.normal(size=N),
        "town": RNG.choice([*"uvwxyz", None], N),
        "b": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
        "wide": RNG.integers(0, 2**60, N),
    }
)
EFFECT = RNG.normal(size=300)
Y = TABLE.a.to_numpy() + EFFECT[TABLE.street.astype(int)] + RNG.normal(size=N) / 3
CLASSES = np.digitize(Y, [-0.5, 0.7]).astype(float)
WEIGHT = RNG.integers(0, 4, N) / 2.0
SMALL = {"n_estimators": 4, "min_samples_leaf": 8, "max_leaves": 7, "n_jobs": 2}


@pytest.fixture(autouse=True)
def one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one copy, as with more than 200,000 rows; fail if rows of files are read as a table."""
    monkeypatch.setattr(statistics, "COPIED_ROWS", 1)
    monkeypatch.setattr(resident, "in_memory", None)


def batches_of(rows: pd.DataFrame, target: np.ndarray, **more: Any) -> Dataset:
    n_rows = len(rows)

    def batches() -> Iterator[pd.DataFrame]:
        for start in range(0, n_rows, 190):
            some = slice(start, start + 190)
            yield rows[some].assign(y=target[some], **{k: v[some] for k, v in more.items()})

    return Dataset.from_batches(batches, target="y", **{name: name for name in more})


FITS: dict[str, tuple[dict[str, Any], np.ndarray]] = {
    "many levels": ({}, Y),
    "all columns": ({"target_statistics": True}, Y),
    "single columns": ({"target_statistics": True, "statistics_order": 1}, Y),
    "classes": ({"objective": "softmax"}, CLASSES),
    "two classes": ({"objective": "logistic", "target_statistics": True}, (Y > 0) * 1.0),
    "quantile": ({"objective": "quantile"}, Y),
    "symmetric": ({"grow_policy": "symmetric", "max_depth": 3}, Y),
    "DART": ({"boosting": "dart"}, Y),
    "forest": ({"boosting": "rf", "subsample": 0.6}, Y),
    "GOSS": ({"sampling": "goss"}, Y),
    "constraints": (
        {
            "monotone_constraints": {"a": 1},
            "interaction_constraints": [["a", "street"], ["b", "town", "wide"]],
            "max_bins_by_feature": {"a": 9},
            "forced_bins": {"b": [0.25]},
            "feature_penalties": {"b": 0.5},
        },
        Y,
    ),
    "crosses": ({"feature_crosses": [("a", "b", "ratio"), ("b", "a", "product")]}, Y),
    "crosses alone": (
        {"feature_crosses": [("a", "b", "difference")], "target_statistics": False},
        Y,
    ),
    "no splits on statistics": ({"feature_penalties": {"street": 0.0, "town": 0.0}}, Y),
}


def model(params: dict[str, Any], *rows: Any, **more: Any) -> bytes:
    params = SMALL | params
    if params.get("grow_policy") == "symmetric":
        del params["max_leaves"]
    return train(params, *rows, **more).to_bytes()


@pytest.mark.parametrize(
    ("columns", "weight"),
    [
        (list(TABLE), None),
        (["street", "a", "town", "b"], WEIGHT),
        pytest.param(list(TABLE), WEIGHT, marks=pytest.mark.slow),
    ],
    ids=["", "weights, no integers", "weights"],
)
@pytest.mark.parametrize("name", FITS)
def test_batches_give_the_bytes_of_memory(name: str, columns: list[str], weight: Any) -> None:
    params, target = FITS[name]
    rows = TABLE[columns]
    if "wide" not in columns and "interaction_constraints" in params:
        params = params | {"interaction_constraints": [["a", "street"], ["b", "town"]]}
    more = {} if weight is None else {"weight": weight}
    found = model(params, batches_of(rows, target, **more))
    assert found == model(params, Dataset(rows, target, weight=weight))


@pytest.fixture(params=[False, True], ids=["one chunk", "chunks"])
def division(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Split the rows into one chunk, or chunks of 128 rows that are never joined."""
    if request.param:
        never_join_chunks(monkeypatch)


COPIED: dict[str, tuple[dict[str, Any], np.ndarray]] = {
    "many levels": ({"train_scores": True, "eval_metric": ["mae", "median_error"]}, Y),
    "held out": ({"early_stopping": True, "patience": 2, "train_scores": True}, Y),
    "vectors": ({"objective": "softmax", "multi_strategy": "multi_output_tree"}, CLASSES),
    "quantile": ({"objective": "quantile", "leaf_estimation": "line_search"}, Y),
    "line search": ({"objective": "huber", "leaf_estimation": "line_search"}, Y),
    "symmetric": ({"grow_policy": "symmetric", "max_depth": 3, "target_statistics": True}, Y),
    "categories": ({"max_cat_to_onehot": 1, "min_data_per_group": 20, "cat_smooth": 30.0}, Y),
    "DART": ({"boosting": "dart"}, Y),
    "sample": ({"subsample": 0.6, "path_smooth": 2.0}, Y),
    "left out": ({"early_stopping": "oob", "subsample": 0.6}, Y),
    "GOSS": ({"sampling": "goss"}, Y),
    "of all rows": ({"objective": lambda y, raw: (raw - y - y.mean(), np.ones(len(y)))}, Y),
    "crosses": ({"feature_crosses": [("a", "b", "ratio")], "linear_leaves": True}, Y),
}


@functools.cache
def copied_in_memory(name: str, weighted: bool) -> bytes:
    """Train on :data:`statistics.COPIED_ROWS` copies of the rows in memory; return the model."""
    params, target = COPIED[name]
    return model(params, Dataset(TABLE, target, weight=WEIGHT if weighted else None))


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weights"])
@pytest.mark.parametrize("name", COPIED)
def test_copied_rows(
    name: str, weight: Any, division: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row has three copies, as in a table of 133,000 rows."""
    params, target = COPIED[name]
    n_rows = N if weight is None else np.count_nonzero(weight)
    monkeypatch.setattr(statistics, "COPIED_ROWS", 3 * int(n_rows) + 2)
    more = {} if weight is None else {"weight": weight}
    found = model(params, batches_of(TABLE, target, **more))
    assert found == copied_in_memory(name, weight is not None)


def test_copied_rows_of_queries(division: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "COPIED_ROWS", 4 * N)
    q, params = np.arange(N) // 12, {"objective": "rank_pairwise", "train_scores": True}
    expected = model(params, Dataset(TABLE, CLASSES, qid=q))
    assert model(params, batches_of(TABLE, CLASSES, qid=q)) == expected
    params |= {"early_stopping": True, "patience": 2}
    expected = model(params, Dataset(TABLE, CLASSES, qid=q))
    assert model(params, batches_of(TABLE, CLASSES, qid=q)) == expected


@pytest.mark.parametrize("kind", ["held out", "batches", "table"])
def test_rows_for_early_stopping(kind: str) -> None:
    params = {"early_stopping": True, "patience": 2, "n_estimators": 15, "train_scores": True}
    params["feature_crosses"] = [("wide", "a", "ratio")]
    seen, unseen = slice(0, 500), slice(500, None)
    if kind == "held out":
        assert model(params, batches_of(TABLE, Y)) == model(params, Dataset(TABLE, Y))
        return
    rows = batches_of(TABLE[seen], Y[seen])
    table = Dataset(TABLE[unseen], Y[unseen])
    valid = table if kind == "table" else batches_of(TABLE[unseen], Y[unseen])
    expected = model(params, Dataset(TABLE[seen], Y[seen]), table)
    assert model(params, rows, valid) == expected


def test_offsets_and_checkpoints(tmp_path: Path) -> None:
    offset = TABLE.a.to_numpy() / 2.0
    rows = batches_of(TABLE, Y, offset=offset)
    expected = model({}, Dataset(TABLE.assign(offset=offset), Y, offset="offset"))
    assert model({}, rows) == expected
    model({"n_estimators": 3}, rows, checkpoint=tmp_path, checkpoint_every=0.0)
    assert model({}, rows, checkpoint=tmp_path) == expected


def test_many_rows_in_many_chunks() -> None:
    """The table has more rows than the sample for cuts, and more than one chunk."""
    n_rows = 260_000
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(n_rows, 10)), columns=[f"x{j}" for j in range(10)])
    rows["code"] = rng.integers(0, 3000, n_rows).astype(str)
    y = rows.x0.to_numpy() + rng.normal(size=3000)[rows.code.astype(int)]

    def batches() -> Iterator[pd.DataFrame]:
        for start in range(0, n_rows, 50_000):
            yield rows[start : start + 50_000].assign(y=y[start : start + 50_000])

    files = Dataset.from_batches(batches, target="y", memory_limit="48 MB")
    for params in ({}, {"feature_crosses": [("x0", "x1", "ratio")], "target_statistics": False}):
        assert model(params, files) == model(params, Dataset(rows, y))


def test_fewer_threads_where_memory_is_short() -> None:
    loss, groups = make_objective("squared_error"), [(0,), (0, 1)]
    limits = (1, 150, 400, 4000)  # in MB
    found = [encoded.threads_that_fit(groups, 10**6, loss, 16, mb * 10**6) for mb in limits]
    assert found == [1, 1, 4, 16]  # 48 bytes a row, and 56 for each thread


def test_what_does_not_fit_names_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(statistics, "COPIED_ROWS", 1)
    monkeypatch.setattr(encoded, "_ROW_SHARE", 1e-12)
    monkeypatch.setattr(resident, "_BYTES_OF_A_CELL", 10**12)
    with pytest.raises(ParameterError, match=r"takes \d+ bytes of each of 700 rows in memory"):
        train(SMALL, batches_of(TABLE, Y))


@pytest.mark.parametrize("by_folds", [False, True])
def test_what_needs_a_table_names_the_columns(
    by_folds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    loss, params = make_objective("squared_error"), boost_params({"target_statistics": True})
    plan = StorePlan(params, objective=loss, by_folds=by_folds)
    schema = read_table(TABLE).schema
    why = "rows of each fold" if by_folds else "several copies"
    with pytest.raises(AllRowsNeededError, match=rf"'street', 'town', of (the )?{why}"):
        encoded.statistics_of(schema, N, plan, 2, 10**9)
    assert encoded.statistics_of(schema, 10**6, replace(plan, by_folds=False), 2, 10**9)
