"""Training on files continues a model to the bytes of a table in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import Booster, Dataset, train
from hedgerow.boosting.external.dataset import resident
from hedgerow.errors import ParameterError
from tests.helpers.chunked import TableData
from tests.helpers.marking import every_second

N = 400
RNG = np.random.default_rng(3)
TABLE = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["a", "b", "c"]).assign(
    town=RNG.choice(list("uvwxyz"), N), floor=RNG.integers(-3, 2**60, N)
)
TABLE.loc[::9, "b"] = np.nan
Y = TABLE.a.to_numpy() * 2.0 - (TABLE.town == "u") + RNG.normal(size=N) / 3
LABEL = np.clip(np.round(Y + 1.0), 0, 2)
WEIGHT = RNG.integers(0, 4, N) / 2.0
QUERY = np.sort(RNG.integers(0, 30, N))
FIRST = slice(0, 250)
SMALL = {"n_estimators": 4, "min_samples_leaf": 8, "n_jobs": 2}

MODELS: dict[str, tuple[dict[str, Any], dict[str, Any], np.ndarray]] = {
    "plain": ({}, {}, Y),
    "other trees": ({"max_leaves": 4}, {"grow_policy": "symmetric", "max_depth": 3}, Y),
    "GOSS": ({}, {"sampling": "goss"}, Y),
    "softmax": ({"objective": "softmax"}, {"objective": "softmax"}, LABEL),
    "vectors": (
        {"objective": "softmax", "multi_strategy": "multi_output_tree"},
        {"objective": "softmax"},
        LABEL,
    ),
    "one tree each": (
        {"objective": "softmax", "multi_strategy": "multi_output_tree"},
        {"objective": "softmax", "multi_strategy": "one_output_per_tree"},
        LABEL,
    ),
    "after lines": ({"linear_leaves": True}, {}, Y),
    "lines after values": ({}, {"linear_leaves": True}, Y),
    "lines after lines": (
        {"linear_leaves": True},
        {"linear_leaves": True, "sampling": "goss", "linear_lambda": 0.1},
        Y,
    ),
    "rates": ({"learning_rate": 0.3}, {"learning_rate": [0.5, 0.4, 0.3, 0.2]}, Y),
    "quantile": (
        {"objective": "quantile", "quantile": 0.3},
        {"objective": "quantile", "quantile": 0.3, "subsample": 0.7},
        Y,
    ),
    "forests": ({"num_parallel_tree": 2, "subsample": 0.7}, {"num_parallel_tree": 2}, Y),
}


def first_model(params: dict[str, Any], target: np.ndarray, **more: Any) -> Booster:
    return train(SMALL | params, Dataset(TABLE[FIRST], target[FIRST], **more))


def later_rows() -> pd.DataFrame:
    """Return rows with a category that the model does not know."""
    rows = TABLE.copy()
    rows.loc[:20, "town"] = "new"
    return rows


def batches_of(rows: pd.DataFrame, target: np.ndarray, **more: Any) -> Dataset:
    def batches() -> Iterator[pd.DataFrame]:
        for start in range(0, N, 170):
            some = slice(start, start + 170)
            yield rows[some].assign(y=target[some], **{k: v[some] for k, v in more.items()})

    return Dataset.from_batches(batches, target="y", **{name: name for name in more})


@pytest.fixture
def no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if rows of files are read as a table."""
    monkeypatch.setattr(resident, "in_memory", None)


@pytest.mark.parametrize(("name", "weight"), every_second(MODELS, [None, WEIGHT]))
def test_chunks_and_batches_give_the_bytes_of_memory(
    name: str, weight: Any, no_table: None
) -> None:
    before, after, target = MODELS[name]
    model, rows = first_model(before, target), later_rows()
    data, params = Dataset(rows, target, weight=weight), SMALL | after
    expected = train(params, data, init_model=model).to_bytes()
    more = {} if weight is None else {"weight": weight}
    files = batches_of(rows, target, **more)
    assert train(params, files, init_model=model).to_bytes() == expected
    if name not in ("vectors",):
        assert train(params, TableData(data, 60), init_model=model).to_bytes() == expected


def test_columns_of_many_levels_stay_in_files(no_table: None) -> None:
    rows = TABLE.assign(code=[f"code {k % 300}" for k in range(N)])
    model = train(SMALL | {"target_statistics": False}, Dataset(rows[FIRST], Y[FIRST]))
    expected = train(SMALL, Dataset(rows, Y), init_model=model).to_bytes()
    assert train(SMALL, batches_of(rows, Y), init_model=model).to_bytes() == expected


@pytest.mark.parametrize("stops", [False, True, "valid"])
def test_early_stopping_compares_with_the_model(stops: Any, no_table: None) -> None:
    model, rows = first_model({}, Y), later_rows()
    params = SMALL | {"n_estimators": 12, "patience": 2, "early_stopping": bool(stops)}
    params |= {"train_scores": True}
    valid = Dataset(TABLE[:90], Y[:90]) if stops == "valid" else None
    expected = train(params, Dataset(rows, Y), valid, init_model=model)
    for data in (batches_of(rows, Y), TableData(Dataset(rows, Y), 60)):
        found = train(params, data, valid, init_model=model)
        assert found.to_bytes() == expected.to_bytes()
    assert expected.model.training["init_rounds"] == 4


def test_offsets_come_on_top(no_table: None) -> None:
    offset = TABLE.c.to_numpy() / 2.0
    model = first_model({}, Y, offset=offset[FIRST])
    expected = train(SMALL, Dataset(TABLE, Y, offset=offset), init_model=model).to_bytes()
    found = train(SMALL, TableData(Dataset(TABLE, Y, offset=offset), 60), init_model=model)
    assert found.to_bytes() == expected
    model = first_model({}, Y)
    columns = TABLE.assign(o=offset)
    expected = train(SMALL, Dataset(columns, Y, offset="o"), init_model=model).to_bytes()
    found = train(SMALL, batches_of(TABLE, Y, offset=offset), init_model=model)
    renamed = train(
        SMALL, Dataset(TABLE.assign(offset=offset), Y, offset="offset"), init_model=model
    )
    assert found.to_bytes() == renamed.to_bytes() != expected


def test_rankings_and_losses_of_all_rows(no_table: None) -> None:
    def of_all(y: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return raw - y - (raw - y).mean() / 2.0, np.ones(len(y))

    model = train(
        SMALL | {"objective": "lambdarank"}, Dataset(TABLE[FIRST], LABEL[FIRST], qid=QUERY[FIRST])
    )
    data, params = Dataset(TABLE, LABEL, qid=QUERY), SMALL | {"objective": "lambdarank"}
    expected = train(params, data, init_model=model).to_bytes()
    assert train(params, TableData(data, 60), init_model=model).to_bytes() == expected
    files = batches_of(TABLE, LABEL, qid=QUERY)
    assert train(params, files, init_model=model).to_bytes() == expected
    model, params = first_model({"objective": of_all}, Y), SMALL | {"objective": of_all}
    data = Dataset(TABLE, Y)
    expected = train(params, data, init_model=model).to_bytes()
    assert train(params, TableData(data, 60), init_model=model).to_bytes() == expected


def test_a_checkpoint_belongs_to_the_model(tmp_path: Path, no_table: None) -> None:
    model, rows = first_model({}, Y), batches_of(TABLE, Y)
    whole = train(SMALL | {"n_estimators": 6}, rows, init_model=model).to_bytes()
    train(SMALL, rows, init_model=model, checkpoint=tmp_path, checkpoint_every=0.0)
    params = SMALL | {"n_estimators": 6}
    assert train(params, rows, init_model=model, checkpoint=tmp_path).to_bytes() == whole
    other = first_model({"max_leaves": 3}, Y)
    with pytest.raises(ParameterError, match="init_model has changed"):
        train(params, rows, init_model=other, checkpoint=tmp_path)


def test_what_does_not_fit_is_refused_as_in_memory(no_table: None) -> None:
    model, rows = first_model({}, Y), batches_of(TABLE, Y)
    for params, match in (
        ({"objective": "huber"}, "was trained with objective 'squared_error'"),
        ({"boosting": "dart"}, "rescales trees"),
        ({"num_parallel_tree": 2}, "has 1 trees of each output"),
    ):
        for data in (Dataset(TABLE, Y), rows):
            with pytest.raises(ParameterError, match=match):
                train(SMALL | params, data, init_model=model)


@pytest.mark.parametrize("change", ["order", "kind"])
def test_other_columns_are_read_as_a_table(change: str) -> None:
    model = first_model({}, Y)
    rows = TABLE[["b", "a", "c", "town", "floor"]] if change == "order" else TABLE.copy()
    if change == "kind":
        rows["c"] = np.arange(N)
    found = train(SMALL, batches_of(rows, Y), init_model=model).to_bytes()
    assert found == train(SMALL, Dataset(rows, Y), init_model=model).to_bytes()


@pytest.mark.parametrize("offset", [None, TABLE.c.to_numpy() / 2.0], ids=["", "offset"])
def test_cox_ends_with_a_record_of_all_scores(offset: Any, no_table: None) -> None:
    time, params = np.exp(Y) * RNG.choice([-1.0, 1.0], N), SMALL | {"objective": "cox"}
    model = first_model({"objective": "cox"}, time)
    more = {} if offset is None else {"o": offset}
    rows = Dataset(TABLE.assign(**more), time, offset="o" if more else None)
    expected = train(params, rows, init_model=model).to_bytes()

    def batches() -> Iterator[pd.DataFrame]:
        for start in range(0, N, 70):
            yield TABLE.assign(y=time, **more)[start : start + 70]

    files = Dataset.from_batches(batches, target="y", offset="o" if more else None)
    assert train(params, files, init_model=model).to_bytes() == expected
    if offset is None:
        found = train(params, TableData(Dataset(TABLE, time), 60), init_model=model)
        assert found.to_bytes() == expected


@pytest.mark.parametrize(
    ("more", "target"),
    [
        ({"tree_method": "exact"}, Y),
        ({"tree_method": "approx", "objective": "cox"}, np.exp(Y)),
        ({"tree_method": "exact", "objective": "softmax", "subsample": 0.7}, LABEL),
        (
            {
                "tree_method": "exact",
                "objective": "softmax",
                "early_stopping": True,
                "patience": 1,
            },
            LABEL,
        ),
    ],
)
@pytest.mark.parametrize("before", [{}, {"tree_method": "hist"}])
def test_sorted_columns_go_on(
    more: dict[str, Any], target: np.ndarray, before: dict[str, Any], no_table: None
) -> None:
    numbers = TABLE[["a", "b", "floor"]]
    params = SMALL | more
    model = train(params | before, Dataset(numbers[FIRST], target[FIRST]))
    data = Dataset(numbers, target, weight=WEIGHT)
    expected = train(params, data, init_model=model).to_bytes()
    files = batches_of(numbers, target, weight=WEIGHT)
    assert train(params, files, init_model=model).to_bytes() == expected
