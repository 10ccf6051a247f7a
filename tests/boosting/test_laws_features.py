"""Laws that each feature of a fit obeys.

The model has the same bytes for any threads, with little memory for histograms, and without the
rows of weight 0; a file gives it back.  Recorded scores are those of
its predictions.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hedgerow import load, train
from hedgerow.boosting.loop.setup import resolved
from hedgerow.boosting.validation import cross
from hedgerow.data.binning import bins, matrix
from hedgerow.growing.core import grower
from tests.helpers.features import FEATURES, ROWS, parts_of, table


@pytest.fixture
def threads_for_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the requested number of threads for small data, too."""
    monkeypatch.setattr(resolved, "_CELLS_PER_THREAD", 1)
    monkeypatch.setattr(cross, "_CELLS_SIDE_BY_SIDE", 1)
    for module in (bins, matrix):
        monkeypatch.setattr(module, "_VALUES_PER_THREAD", 1)


@functools.cache
def many_rows() -> pd.DataFrame:
    """Return rows of several blocks, whose large nodes are divided between threads."""
    return table(20_500)


MANY = """
categories + weights + sample
random cuts + left out
depth-wise + monotone + interactions + penalties + smooth
high + stops early + weights + columns of nodes
classes + GOSS + DART
quantile + MVS + line search
normal + forest + score of rows left out
boosted forests + classes
ranking
two targets + lines + weights + sample
vectors + classes + columns of trees
symmetric + sample + options of columns
symmetric + classes + DART
symmetric + median
vectors + symmetric + two targets + categories + towns
exact + sample
exact + GOSS + weights
exact + monotone + interactions + penalties + depth-wise
approx + sample + columns of nodes
approx + local + MVS
statistics + crosses
conflicts + GOSS
lines + sample
lines + symmetric + classes
"""


@pytest.mark.fast(12)
@pytest.mark.parametrize("feature", MANY.split("\n")[1:-1])
def test_threads_change_nothing_of_many_rows(feature: str, threads_for_few_rows: None) -> None:
    params, rows = parts_of(feature, many_rows())
    params["n_estimators"] = 3
    one, *others = (train({**params, "n_jobs": n}, rows.in_memory()).to_bytes() for n in (1, 3))
    assert others == [one]


def strangers(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows with values and levels that no other row has."""
    found = table.copy()
    for name in found:
        if pd.api.types.is_numeric_dtype(found[name]):
            found[name] = 1000 * found[name].fillna(1.0) + np.arange(len(found))
        elif pd.api.types.is_string_dtype(found[name]):
            found[name] = "~" + found[name]
    return found


@pytest.mark.fast(90)
@pytest.mark.parametrize("feature", FEATURES)
def test_rows_of_weight_0_threads_and_memory_change_nothing(
    feature: str, threads_for_few_rows: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Arrays of pandas are read-only: no kernel needs another variant, or writes to them."""
    params, rows = parts_of(feature)
    own = ROWS[rows.roles["weight"]] if "weight" in rows.roles else 1.0
    # A query has one weight; XE-NDCG draws by the number of a row.
    absent = (ROWS.q % 3 == 0) & ("XE-NDCG" not in feature)
    weighted = ROWS.assign(mass=own * ~absent)
    weighted.loc[absent, rows.features] = strangers(ROWS.loc[absent, rows.features])
    roles = {**rows.roles, "weight": "mass"}
    whole = replace(rows, table=weighted, roles=roles)
    kept = replace(whole, table=weighted[weighted.mass > 0.0].reset_index(drop=True))
    booster = train({**params, "n_jobs": 1}, kept.in_memory())
    if FEATURES.index(feature) % 2:  # the fuzz crosses threads, memory and features at random
        monkeypatch.setattr(grower, "_SLOT_BYTES", 1)  # no histogram is kept
    assert train({**params, "n_jobs": 3}, whole.in_memory()).to_bytes() == booster.to_bytes()
    booster.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.to_bytes() == booster.to_bytes()
    table = whole.in_memory().X
    np.testing.assert_array_equal(loaded.predict(table), booster.predict(table))


NO_CURVE = {
    "of all", "absolute of all", "weighted squares of all", "own classes", "one leaf", "folds",
    "groups", "left out",
}  # fmt: skip
"""Pieces without a score of each round: losses of all rows, one leaf, and other early stopping."""

OTHER_SCORES = {"statistics", "streets", "conflicts", "bundles by degree"}
"""Training rows are scored by other inputs than rows that are predicted."""


def pieces(feature: str) -> set[str]:
    return set(feature.split(" + "))


RECORDED = [name for name in FEATURES if not pieces(name) & NO_CURVE]


@pytest.mark.fast(65)
@pytest.mark.parametrize("feature", RECORDED)
def test_recorded_scores_are_those_of_predictions(feature: str) -> None:
    params, rows = parts_of(feature)
    params |= {"early_stopping": False, "eval_metric": "loss"}
    params.pop("patience", None)
    params.pop("train_scores", None)
    seen, unseen = rows.part(0, 400).in_memory(), rows.part(400, 600).in_memory()
    sets = (
        {"unseen": unseen} if pieces(feature) & OTHER_SCORES else {"train": seen, "unseen": unseen}
    )
    booster = train(params, seen, sets)
    for name, data in sets.items():
        expected = booster.eval(data, "loss")["loss"]
        assert booster.evals_result[name]["loss"][-1] == pytest.approx(expected, rel=1e-9)
