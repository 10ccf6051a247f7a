"""Laws of :mod:`test_laws_data` above 200,000 rows, where cuts come from a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hedgerow import Booster, Dataset, HedgerowClassifier, train
from hedgerow.data.binning.cut_sample import SAMPLE_ROWS

N_ROWS = SAMPLE_ROWS + 10_000
PARAMS: dict[str, Any] = {
    "n_estimators": 3, "max_leaves": 8, "early_stopping": False,
    "min_samples_leaf": 1, "cat_smooth": 0.0, "min_data_per_group": 1,
}  # fmt: skip


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
    table["y"] = table.a * table.c.clip(upper=9) + table.b.fillna(2.0) + 9.0 * (table.c == 1000)
    table["w"] = rng.integers(1, 4, N_ROWS).astype(float)
    return table


ROWS = rows()
CASES = {
    "numbers": (["a", "b", "c", "d"], {}),
    "categories": (["a", "town"], {"target_statistics": False}),
    "crosses": (["a", "b", "c"], {"feature_crosses": [("a", "c", "product")]}),
}


def trained(table: pd.DataFrame, columns: list[str], more: dict[str, Any], **data: Any) -> Booster:
    return train({**PARAMS, **more}, Dataset(table[columns], table.y, **data))


@pytest.mark.parametrize("case", CASES)
def test_copies_weights_and_order(case: str) -> None:
    columns, more = CASES[case]
    weighted = trained(ROWS, columns, more, weight=ROWS.w)
    order = ROWS.iloc[np.random.default_rng(1).permutation(N_ROWS)]
    copies = ROWS.iloc[np.repeat(np.arange(N_ROWS), ROWS.w.astype(int))]
    ours = weighted.model.forest
    for other in (trained(order, columns, more, weight=order.w), trained(copies, columns, more)):
        theirs = other.model.forest
        np.testing.assert_array_equal(ours.feature, theirs.feature)
        np.testing.assert_array_equal(ours.threshold, theirs.threshold)
        np.testing.assert_allclose(other.predict(ROWS[columns]), weighted.predict(ROWS[columns]))


def test_a_rare_value_is_split() -> None:
    """A column of 0 and 1 with ten ones that equals the target, whatever the seed."""
    X = np.zeros((N_ROWS, 2), dtype=np.float32)
    X[:, 0] = np.random.default_rng(0).normal(size=N_ROWS)
    X[np.arange(10) * 20_011, 1] = 1.0
    for seed in range(2):
        model = HedgerowClassifier(
            n_estimators=1, early_stopping=False, min_samples_leaf=1, min_child_weight=0.0,
            random_state=seed, learning_rate=1.0,
        ).fit(X, X[:, 1])  # fmt: skip
        found = model.predict_proba(X)[:, 1]
        assert found[X[:, 1] == 1].min() > found[X[:, 1] == 0].max()


def files_cases() -> dict[str, tuple[list[str], dict[str, Any]]]:
    means = {"target_statistics": True}
    crossed = means | {"feature_crosses": [("a", "c", "product")]}
    return CASES | {
        "statistics": (["a", "town"], means),
        "statistics and crosses": (["a", "c", "town"], crossed),
        "statistics alone": (["town"], means),
    }


@pytest.mark.fast(4)
@pytest.mark.parametrize(
    ("case", "n_rows"), [*((case, N_ROWS) for case in files_cases()), ("statistics", 150_000)]
)
def test_batches_train_the_model_of_memory(case: str, n_rows: int) -> None:
    """With fewer rows statistics are trained on two copies, which are more."""
    columns, more = files_cases()[case]
    table = ROWS.iloc[:n_rows]

    def batches() -> Any:
        for start in range(0, n_rows, 60_000):
            part = table.iloc[start : start + 60_000]
            yield part[columns], part.y, part.w

    found = train({**PARAMS, **more}, Dataset.from_batches(batches))
    assert found.to_bytes() == trained(table, columns, more, weight=table.w).to_bytes()


def test_sparse_and_dense() -> None:
    X = ROWS[["c", "d"]].to_numpy()
    dense = train(PARAMS, Dataset(X, ROWS.y)).to_bytes()
    assert train(PARAMS, Dataset(sparse.csr_array(X), ROWS.y)).to_bytes() == dense
