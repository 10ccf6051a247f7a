"""Offsets, groups and positions of Dask collections give the model of the same rows in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from hedgerow import (
    DaskHedgerowClassifier,
    DaskHedgerowRegressor,
    Dataset,
    HedgerowClassifier,
    train,
)
from hedgerow.distributed import Resilience
from hedgerow.distributed import train as train_on_cluster
from hedgerow.errors import DataError, DataTypeError, ParameterError
from hedgerow.io import model_to_bytes

pytest.importorskip("distributed", reason="distributed is not installed (hedgerow[dask])")
dd = pytest.importorskip(
    "dask.dataframe", reason="dask.dataframe is not installed (hedgerow[dask])"
)

N_ROWS = 300
COLUMNS = ["a", "b", "offset"]  # a feature may have any name
SMALL: dict[str, Any] = {"n_estimators": 4, "max_leaves": 5, "random_state": 3}
QUICK = Resilience(timeout=120.0, connect_timeout=20.0)


def rows_of(n_rows: int = N_ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(6)
    rows = pd.DataFrame({name: rng.normal(size=n_rows) for name in COLUMNS})
    rows["amount"] = rows["a"] - rows["b"] + rng.normal(size=n_rows)
    rows["grade"] = np.digitize(rows["amount"], [-0.5, 1.0])
    rows["query"] = np.arange(n_rows) // 15
    rows["place"] = np.arange(n_rows) % 15
    rows["weight"] = rng.choice([0.0, 0.5, 2.0], n_rows)
    for k in range(3):
        rows[f"score {k}"] = rng.normal(size=n_rows)
    return rows


ROWS = rows_of()
SCORES = [f"score {k}" for k in range(3)]
TABLES: dict[str, tuple[Any, Any]] = {
    "frame": (lambda X: X, lambda X: X),
    "array": (lambda X: X.values, lambda X: X.to_numpy()),
    "sparse": (
        lambda X: X.values.map_blocks(scipy.sparse.csr_matrix),
        lambda X: scipy.sparse.csr_matrix(X.to_numpy()),
    ),
}


@pytest.fixture(scope="module")
def client(shared_client: Any) -> Any:
    return shared_client


def same_models(found: Any, expected: Any) -> None:
    assert model_to_bytes(found.booster_.model) == model_to_bytes(expected.booster_.model)


@pytest.mark.parametrize("table", ["frame", "array"])
def test_predictions_with_offsets(client: Any, table: str) -> None:
    parts, (on_cluster, local) = dd.from_pandas(ROWS, npartitions=3), TABLES[table]
    X, offset = on_cluster(parts[COLUMNS]), on_cluster(parts["score 0"])
    model = DaskHedgerowRegressor(**SMALL).fit(X, parts["amount"], offset=offset, resilience=QUICK)
    expected = model.to_local().predict(local(ROWS[COLUMNS]), ROWS["score 0"].to_numpy())
    np.testing.assert_array_equal(np.asarray(model.predict(X, offset)), expected)
    with pytest.raises(DataTypeError, match="offset must be a Dask"):
        model.predict(X, ROWS["score 0"].to_numpy())


def test_class_weights_beside_validation_rows(client: Any) -> None:
    settings = {**SMALL, "eval_metric": "loss", "class_weight": {0: 1.0, 1: 3.0}}

    def fitted(make: Any, rows: Any, **more: Any) -> Any:
        X, y = rows[COLUMNS], rows["click"]
        return make(**settings).fit(X, y, X_val=X, y_val=y, **more)

    rows = ROWS.assign(click=(ROWS["grade"] > 1).astype(int))
    found = fitted(DaskHedgerowClassifier, dd.from_pandas(rows, npartitions=3), resilience=QUICK)
    expected = fitted(HedgerowClassifier, rows)
    same_models(found, expected)
    assert found.evals_result_ == expected.evals_result_


def test_groups_beside_validation_rows_are_the_error_of_memory(client: Any) -> None:
    parts = dd.from_pandas(ROWS, npartitions=3)
    with pytest.raises(ParameterError, match="groups has no effect here: validation rows are"):
        DaskHedgerowRegressor(**SMALL).fit(
            parts[COLUMNS], parts["amount"], groups=parts["query"], X_val=parts[COLUMNS],
            y_val=parts["amount"], resilience=QUICK,
        )  # fmt: skip


@pytest.mark.fast(2)
@pytest.mark.parametrize("strategy", ["auto", "one_output_per_tree"])
def test_validation_rows_of_several_targets(client: Any, strategy: str) -> None:
    params = {
        "n_estimators": 5, "multi_strategy": strategy, "early_stopping": True,
        "patience": 1, "eval_metric": ["r2", "mae"],
    }  # fmt: skip
    parts, weight = dd.from_pandas(ROWS, npartitions=5), ROWS["weight"]
    more = dd.from_pandas(ROWS[:90], npartitions=1)
    found = train_on_cluster(
        client, params, parts[COLUMNS], parts[SCORES], parts["weight"], X_val=more[COLUMNS],
        y_val=more[SCORES], offset=parts[COLUMNS], offset_val=more[COLUMNS], resilience=QUICK,
    )  # fmt: skip
    rows = Dataset(ROWS[COLUMNS], ROWS[SCORES], weight, offset=ROWS[COLUMNS].to_numpy())
    valid = Dataset(ROWS[:90][COLUMNS], ROWS[:90][SCORES], offset=ROWS[:90][COLUMNS].to_numpy())
    assert found.to_bytes() == train(params, rows, valid).to_bytes()
    assert found.target_names == tuple(SCORES)
    with pytest.raises(DataError, match="y_val has other columns than y"):
        train_on_cluster(
            client, params, parts[COLUMNS], parts[SCORES], X_val=more[COLUMNS],
            y_val=more[SCORES[::-1]], resilience=QUICK,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"offset_val": "score 0"}, DataError, "offset_val is given without X_val"),
        ({"offset": "score 0", "X_val": COLUMNS, "y_val": "amount"}, DataError,
         "offset is given without offset_val"),
    ],
)  # fmt: skip
def test_what_does_not_belong_together_is_refused(
    client: Any, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    parts = dd.from_pandas(ROWS, npartitions=2)
    arguments = {name: parts[column] for name, column in given.items()}
    with pytest.raises(error, match=message):
        DaskHedgerowRegressor(**SMALL).fit(parts[COLUMNS], parts["amount"], **arguments)


def test_numbers_in_memory_are_no_offset_of_a_collection(client: Any) -> None:
    parts = dd.from_pandas(ROWS, npartitions=2)
    with pytest.raises(DataTypeError, match="offset must be a Dask"):
        DaskHedgerowRegressor(**SMALL).fit(
            parts[COLUMNS], parts["amount"], offset=ROWS["score 0"].to_numpy()
        )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_offsets_that_are_not_finite_name_the_partition(client: Any, bad: float) -> None:
    rows = ROWS.copy()
    rows.loc[250, "score 0"] = bad
    parts = dd.from_pandas(rows, npartitions=2)
    with pytest.raises(DataError, match=r"partition 1.*offset"):
        DaskHedgerowRegressor(**SMALL, early_stopping=False).fit(
            parts[COLUMNS], parts["amount"], offset=parts["score 0"], resilience=QUICK
        )


def test_groups_of_classes_stay_together_on_all_workers(client: Any) -> None:
    """A class of few groups keeps a group in training, on whichever worker it is."""
    rare = ROWS["query"].isin([3, 11, 17])
    y = np.where(rare, 2, ROWS["grade"] > 1).astype(int)
    rows = ROWS.assign(label=y)
    for seed in range(3):
        params = {"n_estimators": 3, "objective": "softmax", "early_stopping": True, "seed": seed}
        params |= {"validation_fraction": 0.5}
        parts = dd.from_pandas(rows, npartitions=3)
        found = train_on_cluster(
            client, params, parts[COLUMNS], parts["label"], groups=parts["query"],
            resilience=QUICK,
        )  # fmt: skip
        data = Dataset(rows[COLUMNS], y, groups=rows["query"])
        assert found.to_bytes() == train(params, data).to_bytes()
