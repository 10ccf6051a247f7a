"""Laws of :mod:`test_laws_data` above 200,000 rows, where cuts come from a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hedgerow import Dataset, HedgerowClassifier, train
from hedgerow.data.binning.cut_sample import SAMPLE_ROWS

N_ROWS = SAMPLE_ROWS + 10_000
PARAMS: dict[str, Any] = {"n_estimators": 3, "max_leaves": 8, "early_stopping": False}


def rows() -> pd.DataFrame:
    """Return columns of many and of few values, missing values and more levels than bins."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "a": rng.normal(size=N_ROWS).astype(np.float32),
        "b": np.where(rng.random(N_ROWS) < 0.1, np.nan, rng.exponential(size=N_ROWS)),
        "c": rng.integers(0, 60, N_ROWS),
        "d": np.where(rng.random(N_ROWS) < 0.7, 0.0, rng.normal(size=N_ROWS)),
        "town": rng.choice([f"t{k:03d}" for k in range(300)], N_ROWS),
    })  # fmt: skip
    rare = rng.choice(N_ROWS, 9, replace=False)
    table.loc[rare, "c"] = 1000
    table["y"] = table.a * table.c.clip(upper=9) + table.b.fillna(2.0) + 500.0 * (table.c == 1000)
    table["w"] = rng.integers(1, 4, N_ROWS).astype(float)
    return table


ROWS = rows()
CASES = {
    "numbers": (["a", "b", "c", "d"], {}),
    "categories": (["a", "town"], {"target_statistics": False}),
    "crosses": (["a", "b", "c"], {"feature_crosses": [("a", "c", "product")]}),
}


def trained(table: pd.DataFrame, columns: list[str], more: dict[str, Any], **data: Any) -> bytes:
    return train({**PARAMS, **more}, Dataset(table[columns], table.y, **data)).to_bytes()


@pytest.mark.parametrize("case", CASES)
def test_copies_weights_and_order(case: str) -> None:
    columns, more = CASES[case]
    rng = np.random.default_rng(1)
    weighted = trained(ROWS, columns, more, weight=ROWS.w)
    order = ROWS.iloc[rng.permutation(N_ROWS)]
    assert trained(order, columns, more, weight=order.w) == weighted
    halves = trained(ROWS, columns, more | {"reg_lambda": 0.0}, weight=ROWS.w)
    copies = ROWS.iloc[np.repeat(np.arange(N_ROWS), ROWS.w.astype(int))]
    copied = trained(copies, columns, more | {"reg_lambda": 0.0})
    for first, second in zip(*(cuts_in(model) for model in (halves, copied)), strict=True):
        assert first == second


def cuts_in(model: bytes) -> list[Any]:
    from hedgerow import load

    nodes = load(model).trees_to_frame()
    return nodes[["feature", "threshold"]].astype(str).to_dict("records")


def test_a_rare_value_is_split() -> None:
    """A column of 0 and 1 with ten ones that equals the target, whatever the seed."""
    X = np.zeros((N_ROWS, 2), dtype=np.float32)
    X[:, 0] = np.random.default_rng(0).normal(size=N_ROWS)
    X[np.arange(10) * 20_011, 1] = 1.0
    for seed in range(3):
        model = HedgerowClassifier(
            n_estimators=1, early_stopping=False, min_samples_leaf=1, min_child_weight=0.0,
            random_state=seed, learning_rate=1.0,
        ).fit(X, X[:, 1])  # fmt: skip
        found = model.predict_proba(X)[:, 1]
        assert found[X[:, 1] == 1].min() > found[X[:, 1] == 0].max()


def files_cases() -> dict[str, tuple[list[str], dict[str, Any]]]:
    means = {"target_statistics": ["town"]}
    return CASES | {
        "statistics": (["a", "town"], means),
        "statistics and crosses": (
            ["a", "c", "town"], means | {"feature_crosses": [("a", "c", "product")]},
        ),
    }  # fmt: skip


@pytest.mark.parametrize("n_rows", [N_ROWS, 150_000])
@pytest.mark.parametrize("case", files_cases())
def test_batches_train_the_model_of_memory(case: str, n_rows: int) -> None:
    """With fewer rows statistics are trained on two copies, which are more."""
    columns, more = files_cases()[case]
    table = ROWS.iloc[:n_rows]
    if n_rows < N_ROWS and "statistics" not in case:
        pytest.skip("there are no copies")

    def batches() -> Any:
        for start in range(0, n_rows, 60_000):
            part = table.iloc[start : start + 60_000]
            yield part[columns], part.y, part.w

    found = train({**PARAMS, **more}, Dataset.from_batches(batches)).to_bytes()
    assert found == trained(table, columns, more, weight=table.w)


def test_sparse_and_dense() -> None:
    X = ROWS[["c", "d"]].to_numpy()
    dense = train(PARAMS, Dataset(X, ROWS.y)).to_bytes()
    assert train(PARAMS, Dataset(sparse.csr_array(X), ROWS.y)).to_bytes() == dense
