"""Random fits on batches and chunks give the bytes, or the error, of a table in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import Dataset, train
from hedgerow.boosting.row_data import statistics
from hedgerow.errors import HedgerowError
from tests.helpers.chunked import divided_into

Params = dict[str, Any]
NUMBERS = "abc"


def of_all(y: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradient and hessian of all rows at once."""
    return raw - y - (raw - y).mean() / 2.0, np.ones(len(y))


LOSSES: tuple[Any, ...] = (
    *("squared_error", "logistic", "softmax", "cox", "lambdarank", "rank_xendcg", "poisson"),
    *("quantile", "absolute_error", "normal", "aft", of_all),
)
OPTIONS: dict[str, tuple[Any, ...]] = {
    "grow_policy": ("symmetric", "depthwise"),
    "sampling": ("goss", "mvs"),
    "boosting": ("dart", "rf"),
    "subsample": (0.5, 0.8),
    "colsample_bynode": (0.5,),
    "colsample_bytree": (0.6,),
    "path_smooth": (1.0,),
    "extra_trees": (True,),
    "interaction_constraints": ("pairwise", "no_interactions"),
    "multi_strategy": ("multi_output_tree",),
    "linear_leaves": (True,),
    "tree_method": ("exact", "approx"),
    "sketch": ("local",),
    "early_stopping": (True, "auto", "oob"),
    "target_statistics": (True, False),
    "num_parallel_tree": (2,),
    "leaf_estimation": ("line_search", "gradient"),
    "max_bins": (5, 31),
    "oob_score": (True,),
    "train_scores": (True,),
    "reg_alpha": (0.3,),
    "learning_rate": (0.5,),
    "zero_as_missing": (True,),
    "max_delta_step": (0.7,),
    "monotone_constraints": ("drawn",),
    "feature_penalties": ("drawn",),
    "forced_splits": ("drawn",),
}


@dataclass(frozen=True)
class Case:
    """A random fit.

    ``roles``: weights, queries, groups and offsets.  ``n_train``: the other rows validate.
    """

    params: Params
    table: pd.DataFrame
    target: np.ndarray
    roles: dict[str, np.ndarray]
    n_train: int
    size: int
    continues: bool

    def part(self, start: int, stop: int) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
        known = {role: values[start:stop] for role, values in self.roles.items()}
        if start > 0:
            known.pop("groups", None)
        return self.table[start:stop], known

    def memory(self, start: int, stop: int) -> Dataset:
        rows, known = self.part(start, stop)
        if "offset" in known:
            rows = rows.assign(_offset=known["offset"])
            return Dataset(rows, self.target[start:stop], **known | {"offset": "_offset"})
        return Dataset(rows, self.target[start:stop], **known)

    def batches(self, start: int, stop: int) -> Dataset:
        rows, known = self.part(start, stop)
        named = {f"_{role}": values for role, values in known.items()}
        rows = rows.assign(_y=self.target[start:stop], **named)

        def read() -> Iterator[pd.DataFrame]:
            for first in range(0, len(rows), self.size):
                yield rows[first : first + self.size]

        return Dataset.from_batches(read, target="_y", **{role: f"_{role}" for role in known})

    def init_model(self) -> Any:
        if not self.continues:
            return None
        kept = ("objective", "num_parallel_tree", "zero_as_missing")
        params = {name: self.params[name] for name in kept if name in self.params}
        rows = self.memory(0, max(2, self.n_train // 2))
        rows.groups = None
        try:
            return train({**params, "n_estimators": 2}, rows)
        except HedgerowError:
            return None


def targets_of(loss: Any, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if loss == "logistic":
        return (y > 0.0).astype(float)
    if loss in ("softmax", "lambdarank", "rank_xendcg"):
        return np.clip(np.round(y) + 1.0, 0, 2)
    if loss in ("cox", "aft"):
        return np.exp(y) * np.where(rng.random(len(y)) < 0.3, -1.0, 1.0)
    return np.floor(np.exp(y)) if loss == "poisson" else y


def draw(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    n_rows = int(rng.integers(30, 500))
    rows = pd.DataFrame(
        {
            "a": rng.normal(size=n_rows),
            "b": rng.integers(0, 9, n_rows).astype(float),
            "c": np.where(rng.random(n_rows) < 0.1, np.nan, rng.random(n_rows)),
            "town": rng.choice(list("uvwxyz"), n_rows),
            "street": rng.integers(0, max(3, n_rows // 2), n_rows).astype(str),
        }
    )
    columns = rng.permutation(rows.columns.to_numpy())[: rng.integers(2, 6)].tolist()
    numbers = [name for name in columns if name in NUMBERS]
    loss = LOSSES[rng.integers(len(LOSSES))]
    y = rows.a.to_numpy() + rng.normal(size=n_rows) / 3
    params: Params = {"objective": loss, "n_estimators": int(rng.integers(1, 8))}
    params |= {"min_samples_leaf": int(rng.integers(1, 15)), "n_jobs": int(rng.integers(1, 3))}
    for name in rng.choice(list(OPTIONS), size=int(rng.integers(0, 4)), replace=False).tolist():
        choices = OPTIONS[name]
        params[name] = choices[rng.integers(len(choices))]
    for name, value in {
        "monotone_constraints": dict.fromkeys(numbers[:1], 1) or None,
        "feature_penalties": {columns[0]: 0.5},
        "forced_splits": {"feature": numbers[0], "threshold": 0.2} if numbers else None,
    }.items():
        if name in params:
            params[name] = value
    if params.get("boosting") == "rf":
        params.setdefault("subsample", 0.6)
    roles: dict[str, np.ndarray] = {}
    if rng.random() < 0.4:
        roles["weight"] = rng.integers(0, 3, n_rows).astype(float)
    if rng.random() < 0.2 and loss not in ("softmax", "normal"):
        roles["offset"] = rng.normal(size=n_rows)
    if loss in ("lambdarank", "rank_xendcg"):
        roles["qid"] = rng.integers(0, max(2, n_rows // 9), n_rows)
    elif rng.random() < 0.2:
        roles["groups"] = rng.integers(0, 9, n_rows)
    n_train = int(0.7 * n_rows) if rng.random() < 0.25 else n_rows
    target = targets_of(loss, y, rng)
    size, continues = int(rng.integers(7, n_rows + 1)), bool(rng.random() < 0.3)
    return Case(params, rows[columns], target, roles, n_train, size, continues)


def outcome(case: Case, rows: list[Any], model: Any) -> bytes | str:
    try:
        return train(case.params, *rows, init_model=model).to_bytes()
    except HedgerowError as error:
        return str(error)


def draw_with_copies(seed: int, monkeypatch: pytest.MonkeyPatch) -> Case:
    """Draw a random fit; every second one has target statistics that copy the rows."""
    monkeypatch.setattr(statistics, "COPIED_ROWS", (1, 400_000)[seed % 2])
    return draw(seed)


def compare(seed: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Compare one fit; return whether it trains."""
    case = draw_with_copies(seed, monkeypatch)
    model, stop = case.init_model(), len(case.table)
    parts = [(0, case.n_train)] + ([(case.n_train, stop)] if case.n_train < stop else [])
    expected = outcome(case, [case.memory(*part) for part in parts], model)
    if isinstance(expected, str):
        return False
    found = outcome(case, [case.batches(*part) for part in parts], model)
    assert found == expected, (seed, case.params, list(case.roles), str(found)[:300])
    return True


def compare_chunks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that small chunks give the same bytes, or need all rows."""
    case = draw_with_copies(seed, monkeypatch)
    model = case.init_model()
    expected = outcome(case, [case.memory(0, case.n_train)], model)
    with divided_into(64):
        found = outcome(case, [case.batches(0, case.n_train)], model)
    if isinstance(expected, bytes) and isinstance(found, bytes):
        assert found == expected, (seed, case.params, list(case.roles))


@pytest.mark.filterwarnings("ignore")
def test_some_random_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(compare(seed, monkeypatch) for seed in range(40)) > 20
    for seed in range(120, 145):
        compare_chunks(seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_random_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(compare(seed, monkeypatch) for seed in range(1000, 1500)) > 260
    for seed in range(2500, 2850):
        compare_chunks(seed, monkeypatch)
