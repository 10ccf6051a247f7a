"""A blend is one model whose raw score is the weighted sum of those of its members."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from hedgerow import (
    Booster,
    Dataset,
    HedgerowClassifier,
    HedgerowRegressor,
    InterruptedFitWarning,
    ParameterError,
)
from hedgerow.boosting.automatic import evidence
from hedgerow.boosting.automatic.blending import MOST_MEMBERS, weights_of
from hedgerow.boosting.automatic.defaults import choose
from hedgerow.boosting.automatic.recipe import AUTOMATIC, DataSize
from hedgerow.boosting.external.file_dataset import check_parts
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.validation.folds import Fold
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data import read_any
from hedgerow.errors import AllRowsNeededError
from hedgerow.io import model_to_bytes
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams

FIXED = {"n_estimators": 12, "learning_rate": 0.2, "random_state": 5}
LEAVES = {"weight": 0.5}
FOUR = {"weight": 0.3, "max_leaves": 4, "min_samples_leaf": 3, "n_estimators": 20, "subsample": 0.6}
LEVELS = {"grow_policy": "symmetric", "max_leaves": None, "max_depth": 3}
LINES = {"weight": 0.2, **LEVELS, "linear_leaves": True, "n_estimators": 7, "learning_rate": 0.1}
CROSSED = {"weight": 0.2, "feature_crosses": [("a", "b", "ratio"), ("a", "n", "product")]}


def mixed(n_rows: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    town = rng.integers(0, 9, n_rows)
    frame = pd.DataFrame({
        "a": rng.normal(size=n_rows),
        "b": np.where(rng.random(n_rows) < 0.1, np.nan, rng.random(n_rows)),
        "town": pd.Categorical([f"t{k}" for k in town]),
        "n": rng.integers(0, 5, n_rows),
    })  # fmt: skip
    raw = frame["a"] + np.isin(town, [1, 4]) + 0.3 * frame["n"] + 0.5 * rng.normal(size=n_rows)
    return frame, raw.to_numpy()


X, Y = mixed()
CASES: dict[str, tuple[Any, Any, list[dict[str, Any]], dict[str, Any]]] = {
    "lines": (HedgerowRegressor, Y, [LEAVES, FOUR, LINES], {}),
    "crosses": (HedgerowRegressor, Y, [LEAVES, FOUR, CROSSED], {}),
    "crosses of the first": (
        HedgerowRegressor, Y, [LEAVES, {**FOUR, "weight": 0.5, "feature_crosses": None}],
        {"feature_crosses": CROSSED["feature_crosses"]},
    ),
    "two classes": (
        HedgerowClassifier, Y > 0.5, [LEAVES, FOUR, LINES], {"class_weight": "balanced"},
    ),
    "classes": (HedgerowClassifier, np.digitize(Y, [0.0, 1.0]), [LEAVES, FOUR, LINES], {}),
    "vectors": (
        HedgerowClassifier, np.digitize(Y, [0.0, 1.0]), [LEAVES, {**FOUR, "weight": 0.5}],
        {"multi_strategy": "multi_output_tree"},
    ),
    "statistics": (
        HedgerowRegressor, Y, [LEAVES, FOUR, CROSSED], {"target_statistics": True},
    ),
    "counts": (
        HedgerowRegressor, np.round(np.exp(Y)), [LEAVES, FOUR, LINES], {"objective": "poisson"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_raw_score_is_the_weighted_sum_of_those_of_the_members(
    case: str, tmp_path: Path
) -> None:
    estimator, y, members, more = CASES[case]
    model = estimator(**FIXED, **more, blend=members).fit(X, y)
    total = 0.0
    for member in members:
        values = {name: value for name, value in member.items() if name != "weight"}
        alone = estimator(**{**FIXED, **more, **values}).fit(X, y)
        total = total + member["weight"] * alone.booster_.raw_scores(X)
    raw = model.booster_.raw_scores(X)
    np.testing.assert_allclose(raw, total, rtol=1e-9, atol=1e-9)
    assert [one["n_estimators"] for one in model.chosen_params_["blend"]] == [
        member.get("n_estimators", 12) for member in members
    ]
    assert model.n_iter_ == sum(member.get("n_estimators", 12) for member in members)
    stages = list(model.booster_.staged_raw_scores(X))
    np.testing.assert_array_equal(stages[-1], raw)
    row = model.booster_.predict_one(X.iloc[3].tolist(), "raw")
    np.testing.assert_allclose(row, raw[:, 3] if len(raw) > 1 else raw[0, 3], rtol=1e-12)
    again = type(model)(**model.repeat_params_).fit(X, y)
    assert model_to_bytes(again.booster_.model) == model_to_bytes(model.booster_.model)
    model.booster_.save(tmp_path / "model.hedgerow")
    read = Booster.load(tmp_path / "model.hedgerow")
    np.testing.assert_array_equal(read.raw_scores(X), raw)


def test_default_fits_are_blended_alike_on_all_threads_and_storages() -> None:
    frame, y = mixed(500)
    values = frame[["a", "b", "n"]].fillna(0.0).to_numpy()
    model = HedgerowRegressor(random_state=1, n_jobs=1).fit(values, y)
    blend, tried = model.chosen_params_["blend"], model.chosen_params_["tried"]
    assert 2 <= len(blend) <= MOST_MEMBERS
    weights = [entry["weight"] for entry in tried if "weight" in entry]
    assert sorted(weights) == sorted(one["weight"] for one in blend)
    (best,) = [entry for entry in tried if entry.get("chosen")]
    assert best["weight"] == blend[0]["weight"]
    assert model.n_iter_ == sum(one["n_estimators"] for one in blend)
    for rows, n_jobs in ((values, 3), (sparse.csr_matrix(values), 1)):
        other = HedgerowRegressor(random_state=1, n_jobs=n_jobs).fit(rows, y)
        assert model_to_bytes(other.booster_.model) == model_to_bytes(model.booster_.model)
    two = HedgerowRegressor(random_state=1, blend=2).fit(values, y)
    assert len(two.chosen_params_["blend"]) == 2
    alone = HedgerowRegressor(random_state=1, blend=False).fit(values, y)
    assert "blend" not in alone.chosen_params_
    assert alone.n_iter_ == blend[0]["n_estimators"]


@pytest.mark.parametrize(
    ("most", "changes"),
    [
        (MOST_MEMBERS, {}),
        (1, {"blend": False}),
        (5, {"blend": 5}),
        (MOST_MEMBERS, {"n_rows": 9_999}),
        (1, {"n_rows": 10_000}),
        (MOST_MEMBERS, {"n_rows": 10_000, "blend": True}),
        (MOST_MEMBERS, {"n_rows": 99_999, "n_outputs": 8}),
        (1, {"n_rows": 100_000, "n_outputs": 8}),
        (1, {"objective": "lambdarank"}),
        (1, {"time_budget": 60.0}),
        (1, {"fixed": {"n_estimators"}}),
    ],
    ids=str,
)
def test_when_a_fit_may_be_a_blend(most: int, changes: dict[str, Any]) -> None:
    objective = make_objective(changes.get("objective", "squared_error"))
    stopping = StoppingParams(
        blend=changes.get("blend", "auto"), time_budget=changes.get("time_budget")
    )
    automatic = frozenset(AUTOMATIC) - changes.get("fixed", set())
    size = DataSize(changes.get("n_rows", 1_000), 5, changes.get("n_outputs", 1))
    _, chosen = choose(BoostParams(), stopping, automatic, objective, size, False)
    assert chosen.search.most_members == most


def of_folds(raw: list[list[float]]) -> list[Any]:
    watch = SimpleNamespace(objective=make_objective("squared_error"))
    return [SimpleNamespace(raw=np.array([part]), watch=watch) for part in raw]


def test_weights_are_those_of_the_smallest_loss() -> None:
    y = np.array([0.0, 1.0, 2.0, 3.0])
    sample = Sample(read_any(np.zeros((4, 1))), y)
    numbers = np.arange(4)
    folds = [Fold(numbers[2:], numbers[:2]), Fold(numbers[:2], numbers[2:])]
    tested = evidence.TestedRows(sample, folds, None)
    best = of_folds([[0.4, 1.4], [2.4, 3.4]])
    opposite = of_folds([[-0.6, 0.4], [1.4, 2.4]])  # errors of -0.6 beside 0.4
    useless = of_folds([[9.0, 9.0], [9.0, 9.0]])
    assert weights_of(tested, [useless, best, opposite], 1, 4) == [0.0, 0.6, 0.4]
    assert weights_of(tested, [useless, best, opposite], 1, 1) == [0.0, 1.0, 0.0]
    assert weights_of(tested, [best, best], 1, 4) == [0.0, 1.0]  # equal ones: no blend


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"blend": "yes"}, "blend must be True, False, 'auto'"),
        ({"blend": 0}, "blend must be True, False, 'auto'"),
        ({"blend": [{"max_leaves": 4}]}, "a mapping of parameters with a 'weight'"),
        ({"blend": [{"weight": 1.0, "max_leafs": 4}]}, "Did you mean 'max_leaves'"),
        ({"blend": [{"weight": 0.5}, {"weight": 0.4}]}, "their sum must be 1"),
        ({"blend": True}, "blend=True has no effect here"),
        ({"blend": 2, "n_estimators": "auto", "time_budget": 1.0}, "blend=2 has no effect here"),
        ({"blend": [LEAVES, LEAVES], "n_estimators": "auto"}, "n_estimators must be a number"),
        ({"blend": [LEAVES, LEAVES], "early_stopping": True}, "early_stopping must be False"),
        ({"blend": [LEAVES, LEAVES], "boosting": "dart"}, "boosting must be 'gbdt'"),
        ({"blend": [LEAVES, LEAVES], "warm_start": True}, "must start without a model"),
        (
            {"blend": [LEAVES, {**LEAVES, "max_bins": 5}]},
            "different max_bins divide categories differently",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_blended_is_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        HedgerowRegressor(**{**FIXED, **params}).fit(X, Y)


@pytest.mark.parametrize("blend", [True, np.bool_(True), 2, [LEAVES, LEAVES]], ids=str)
def test_rows_in_files_and_on_clusters_are_blended_as_a_table(blend: Any) -> None:
    data = Dataset.from_batches(lambda: iter([X.assign(y=Y)]), target="y")
    estimator = HedgerowRegressor(**FIXED, blend=blend)
    if isinstance(blend, list):
        expected = clone(estimator).fit(X, Y).booster_
        assert estimator.fit(data, None).booster_.to_bytes() == expected.to_bytes()
    else:
        with pytest.raises(ParameterError, match=f"blend={blend} has no effect here"):
            estimator.fit(data, None)
    words = "^blend=.*use blend='auto', or give the rows as a table"
    with pytest.raises(AllRowsNeededError, match=words):
        check_parts(None, estimator._params(), estimator._stopping())


def test_a_blend_is_continued_but_not_refitted() -> None:
    values = X[["a", "b", "n"]]
    model = HedgerowRegressor(**FIXED, blend=[LEAVES, {**FOUR, "weight": 0.5}]).fit(values, Y)
    more = HedgerowRegressor(**FIXED).fit(values, Y, init_model=model)
    assert more.n_iter_ == model.n_iter_ + 12
    np.testing.assert_array_equal(
        more.booster_.raw_scores(values, n_rounds=model.n_iter_), model.booster_.raw_scores(values)
    )
    for blended in (model, more):
        with pytest.raises(ParameterError, match="a blend of several kinds of trees"):
            blended.booster_.refit(values, Y)


def test_what_ends_a_fit_leaves_complete_members(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = HedgerowRegressor(**FIXED).fit(X, Y)
    blend = [LEAVES, {**FOUR, "weight": 0.25}, {**FOUR, "weight": 0.25}]
    stopped = HedgerowRegressor(**FIXED, blend=blend, callbacks=lambda state: state.round == 5).fit(
        X, Y
    )
    assert stopped.n_iter_ == 5
    assert "blend" not in stopped.chosen_params_

    from hedgerow.boosting.loop.watch import Watch

    after_round: Callable[..., bool] = Watch.after_round
    rounds = [0]

    def interrupted(self: Watch, state: Any) -> bool:
        rounds[0] += 1
        if rounds[0] == 12 + 20 + 3:
            raise KeyboardInterrupt
        return after_round(self, state)

    monkeypatch.setattr(Watch, "after_round", interrupted)
    with pytest.warns(InterruptedFitWarning, match="which the model now lacks"):
        model = HedgerowRegressor(**FIXED, blend=blend).fit(X, Y)
    assert [one["weight"] for one in model.chosen_params_["blend"]] == [0.5 / 0.75, 0.25 / 0.75]
    assert alone.n_iter_ + 20 == model.n_iter_
