"""Cross-fitting equals fitting the folds by hand; laws of out-of-fold predictions."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedKFold,
    StratifiedKFold,
    TimeSeriesSplit,
)

from hedgerow import (
    CARTRegressor,
    CrossFit,
    DataError,
    Dataset,
    DataTypeError,
    HedgerowClassifier,
    HedgerowRanker,
    HedgerowRegressor,
    ParameterError,
    cross_fit,
    cv,
)
from hedgerow.boosting.loop import rounds_ahead
from hedgerow.boosting.validation.cross import GrownFold
from hedgerow.boosting.validation.stopping import Budget
from hedgerow.data import fit_bins, read_table
from hedgerow.io import model_to_bytes

SMALL: dict[str, Any] = {"n_estimators": 25, "learning_rate": 0.3, "max_leaves": 6}
N_ROWS = 300
FOLDS = KFold(3, shuffle=True, random_state=0)


@functools.cache
def _numbers() -> tuple[np.ndarray, np.ndarray]:
    """Return columns of few values: each fold has the cuts of all rows."""
    rng = np.random.default_rng(3)
    X = rng.integers(-2, 3, size=(N_ROWS, 4)).astype(float)
    X[rng.random(X.shape) < 0.05] = np.nan
    y = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) ** 2 + rng.normal(size=N_ROWS)
    return X, y


def _table(name: str) -> tuple[Any, np.ndarray, dict[str, Any]]:
    """Return X, y and the other arguments of a fit."""
    X, y = _numbers()
    rng = np.random.default_rng(4)
    if name == "classes":
        return X, np.array(["low", "mid", "top"])[np.digitize(y, [0.0, 3.0])], {}
    if name in ("two classes", "balanced"):
        return X, (y > 2.0).astype(int), {}
    if name == "weighted":
        return X, y, {"sample_weight": rng.integers(1, 4, size=N_ROWS).astype(float)}
    if name == "ranking":
        return X, np.clip(np.round(y), 0, 3), {"qid": rng.integers(0, 40, size=N_ROWS)}
    if name == "times":
        return X, np.abs(y) * np.where(rng.random(N_ROWS) < 0.3, -1.0, 1.0), {}
    if name == "sparse":
        return scipy.sparse.csr_array((rng.random((N_ROWS, 30)) < 0.15) * 2.0), y, {}
    if name in ("categories", "statistics"):
        levels = 290 if name == "statistics" else 6
        table = {
            "a": (rng.permutation(N_ROWS) % levels).astype(str),
            "b": X[:, 0],
            "c": rng.integers(0, 5, N_ROWS).astype(str),
        }
        return table, y + 2.0 * (table["c"] == "3"), {}
    return X, y, {}


CASES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "numbers": (HedgerowRegressor, {"eval_metric": ["rmse", "r2"]}),
    "weighted": (HedgerowRegressor, {"subsample": 0.6, "colsample_bytree": 0.7}),
    "classes": (HedgerowClassifier, {}),
    "two classes": (HedgerowClassifier, {"eval_metric": "auc"}),
    "balanced": (HedgerowClassifier, {"class_weight": "balanced"}),
    "dart": (HedgerowRegressor, {"boosting": "dart"}),
    "forest": (HedgerowRegressor, {"boosting": "rf", "learning_rate": 1.0, "subsample": 0.5}),
    "quantiles": (HedgerowRegressor, {"objective": "quantile", "quantile": [0.2, 0.8]}),
    "ranking": (HedgerowRanker, {"eval_metric": "ndcg@5"}),
    "times": (HedgerowRegressor, {"objective": "cox"}),
    "sparse": (HedgerowRegressor, {"min_samples_leaf": 5}),
    "categories": (HedgerowRegressor, {"min_data_per_group": 5}),
    "statistics": (HedgerowRegressor, {}),
}


def _estimator(name: str, **more: Any) -> Any:
    kind, given = CASES[name]
    return kind(**SMALL | given | more)


def _take(X: Any, rows: np.ndarray) -> Any:
    return {k: v[rows] for k, v in X.items()} if isinstance(X, dict) else X[rows]


def _cv(name: str, given: dict[str, Any]) -> Any:
    return GroupKFold(3) if name == "ranking" else FOLDS


@functools.cache
def _result(name: str, n_jobs: int = 1, stopping: str = "fold", model: str = "average") -> CrossFit:
    X, y, given = _table(name)
    return cross_fit(
        _estimator(name), X, y, _cv(name, given), stopping=stopping, model=model, n_jobs=n_jobs,
        **given,
    )  # fmt: skip


def _by_hand(name: str, train: np.ndarray, test: np.ndarray) -> Any:
    X, y, given = _table(name)
    fold = {key: values[train] for key, values in given.items()}
    watched = {f"{key}_val": values[test] for key, values in given.items()}
    return _estimator(name).fit(
        _take(X, train), y[train], X_val=_take(X, test), y_val=y[test], **fold, **watched
    )


# -- against fits by hand --------------------------------------------------------


@pytest.mark.fast(6)
@pytest.mark.parametrize("name", [name for name in CASES if name != "statistics"])
def test_each_fold_is_the_fit_of_its_rows(name: str) -> None:
    result = _result(name)
    X, _, _ = _table(name)
    for number, (train, test) in enumerate(result.splits):
        alone = _by_hand(name, train, test)
        booster = result.boosters[number]
        assert model_to_bytes(booster.model) == model_to_bytes(alone.booster_.model)
        assert result.best_rounds[number] == alone.n_iter_
        part = _take(X, test)
        assert np.array_equal(result.oof_raw[test], booster.predict(part, "raw"))
        expected = alone.predict_proba(part) if hasattr(alone, "classes_") else alone.predict(part)
        assert np.array_equal(result.oof_prediction[test], expected)
        for metric, curve in alone.evals_result_["validation"].items():
            found = result.curves[metric][:, number]
            assert np.array_equal(found[: len(curve)], curve)
            assert np.isnan(found[len(curve) :]).all()
            if metric != "ndcg@5" or alone.n_iter_ > 0:
                assert result.scores[metric][number] == pytest.approx(curve[alone.n_iter_ - 1])


def test_cuts_are_those_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 3))
    y = X[:, 0] + rng.normal(size=N_ROWS)
    result = cross_fit(HedgerowRegressor(**SMALL, max_bins=16), X, y, FOLDS, model=None)
    cuts = set(fit_bins(read_table(X), 16).cut_keys.tolist())
    for booster in result.boosters:
        forest = booster.model.forest
        assert set(forest.threshold[forest.feature >= 0].tolist()) <= cuts


def test_rows_that_bundles_do_not_hold_are_scored_by_their_values() -> None:
    X, y, _ = _table("sparse")
    estimator = HedgerowRegressor(
        **SMALL, min_samples_leaf=5, bundle_features=True, advanced={"max_conflict_rate": 0.2}
    )
    result = cross_fit(estimator, X, y, FOLDS, model=None)
    for (_, test), booster in zip(result.splits, result.boosters, strict=True):
        assert np.array_equal(booster.predict(X[test], "raw"), result.oof_raw[test])


# -- one model of all --------------------------------------------------------------


@pytest.mark.fast(6)
@pytest.mark.parametrize("name", CASES)
def test_averaged_model_predicts_the_mean_raw_score(name: str, tmp_path: Any) -> None:
    result = _result(name)
    X, _, _ = _table(name)
    raws = [booster.predict(X, "raw") for booster in result.boosters]
    merged = result.model.booster_
    assert np.abs(merged.predict(X, "raw") - np.mean(raws, axis=0)).max() < 1e-12
    assert merged.num_rounds == result.best_rounds.sum()
    assert merged.feature_names == result.boosters[0].feature_names
    result.model.save(tmp_path / "mean.hedgerow")
    again = type(result.model).load(tmp_path / "mean.hedgerow")
    assert np.array_equal(again.predict(X), result.model.predict(X))
    assert np.array_equal(pickle.loads(pickle.dumps(result.model)).predict(X), again.predict(X))
    with pytest.raises(ParameterError, match="mean of several"):
        next(merged.staged_predict(X))
    with pytest.raises(ParameterError, match="mean of several"):
        merged.predict(X, n_rounds=1)
    assert result.model.feature_importances_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["numbers", "balanced", "statistics", "ranking"])
def test_refitted_model_is_a_fit_of_all_rows(name: str) -> None:
    for stopping in ("fold", "pooled"):
        result = _result(name, 1, stopping, "refit")
        n_rounds = round(float(np.mean(result.best_rounds)))
        X, y, given = _table(name)
        alone = _estimator(name, n_estimators=n_rounds, early_stopping=False).fit(X, y, **given)
        assert result.model.n_iter_ == result.model.best_iteration_ == n_rounds
        assert np.array_equal(result.model.predict(X), alone.predict(X))
        assert list(result.model.evals_result_) == ["cv"]


def test_pooled_stopping_gives_all_folds_the_best_common_round() -> None:
    result = _result("weighted", 1, "pooled")
    _, y, given = _table("weighted")
    masses = [given["sample_weight"][test].sum() for _, test in result.splits]
    curve = result.curves["loss"] @ masses / np.sum(masses)
    assert not np.isnan(curve).any()
    assert set(result.best_rounds.tolist()) == {int(np.argmin(curve)) + 1}
    assert np.allclose(result.model.evals_result_["cv"]["loss"], curve)
    total = 0.5 * np.average((y - result.oof_prediction) ** 2, weights=given["sample_weight"])
    assert total == pytest.approx(curve.min())


# -- laws ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["numbers", "balanced", "statistics", "categories"])
def test_no_prediction_depends_on_the_target_of_its_row(name: str) -> None:
    X, y, given = _table(name)
    estimator = _estimator(name, early_stopping=False, n_estimators=8)
    before = cross_fit(estimator, X, y, FOLDS, model=None, **given)
    for row in (0, 17, 118):
        changed = y.copy()
        changed[row] = 1 - y[row] if name == "balanced" else y[row] + 50.0
        after = cross_fit(estimator, X, changed, FOLDS, model=None, **given)
        assert np.array_equal(after.oof_raw[row], before.oof_raw[row])
        number = next(k for k, (_, test) in enumerate(before.splits) if row in test)
        same = after.boosters[number].model, before.boosters[number].model
        assert np.array_equal(same[0].forest.value, same[1].forest.value)
        assert not np.array_equal(after.oof_raw, before.oof_raw)


def test_rows_of_weight_zero_are_predicted_and_have_no_part() -> None:
    X, y = _numbers()
    weight = np.random.default_rng(0).integers(0, 3, size=N_ROWS).astype(float)
    kept = weight > 0.0
    folds = list(FOLDS.split(X))
    place = np.cumsum(kept) - 1
    inner = [tuple(place[rows[kept[rows]]] for rows in pair) for pair in folds]
    for make in (lambda: HedgerowRegressor(**SMALL), lambda: HedgerowClassifier(**SMALL)):
        target = y if isinstance(make(), HedgerowRegressor) else (y > 1.0).astype(int)
        whole = cross_fit(make(), X, target, folds, sample_weight=weight)
        part = cross_fit(make(), X[kept], target[kept], inner, sample_weight=weight[kept])
        assert np.array_equal(whole.oof_raw[kept], part.oof_raw)
        assert whole.scores["loss"].tolist() == part.scores["loss"].tolist()
        models = [result.model.booster_.model for result in (whole, part)]
        assert model_to_bytes(models[0]) == model_to_bytes(models[1])
        assert not np.isnan(whole.oof_prediction).any()
        for (_, test), booster in zip(folds, whole.boosters, strict=True):
            assert np.array_equal(booster.predict(X[test], "raw"), whole.oof_raw[test])


def test_offsets_join_the_raw_scores() -> None:
    X, y = _numbers()
    offset = np.linspace(-1.0, 1.0, N_ROWS)
    result = cross_fit(HedgerowRegressor(**SMALL), X, y, FOLDS, offset=offset)
    moved = cross_fit(HedgerowRegressor(**SMALL), X, y - offset, FOLDS, offset=0.0 * offset)
    assert np.allclose(result.oof_raw - offset, moved.oof_raw, atol=1e-5)
    for (_, test), booster in zip(result.splits, result.boosters, strict=True):
        assert np.allclose(booster.predict(X[test]) + offset[test], result.oof_raw[test])


# -- folds -----------------------------------------------------------------------


def test_repeated_rows_have_means_and_others_nothing() -> None:
    X, y = _numbers()
    target = (y > 1.0).astype(int)
    repeated = cross_fit(
        HedgerowClassifier(**SMALL),
        X,
        target,
        RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    )
    assert len(repeated.boosters) == 6
    raw, share = np.zeros(N_ROWS), np.zeros((N_ROWS, 2))
    for (_, test), booster in zip(repeated.splits, repeated.boosters, strict=True):
        raw[test] += booster.predict(X[test], "raw") / 2.0
        share[test] += booster.predict(X[test], "probability") / 2.0
    assert np.allclose(repeated.oof_raw, raw, atol=1e-12)
    assert np.allclose(repeated.oof_prediction, share, atol=1e-12)
    series = cross_fit(HedgerowRegressor(**SMALL), X, y, TimeSeriesSplit(2))
    tested = np.concatenate([test for _, test in series.splits])
    assert np.isnan(series.oof_raw).sum() == N_ROWS - len(tested) > 0
    assert not np.isnan(series.oof_prediction[tested]).any()


def test_numbers_of_folds_splitters_and_masks() -> None:
    X, y = _numbers()
    estimator = HedgerowClassifier(**SMALL, early_stopping=False)
    target = (y > 3.5).astype(int)
    drawn = cross_fit(estimator, X, target, 4)
    shares = [target[test].mean() for _, test in drawn.splits]
    assert max(shares) - min(shares) < 0.02
    other = cross_fit(clone(estimator).set_params(random_state=1), X, target, 4, model=None)
    assert not np.array_equal(other.splits[0][1], drawn.splits[0][1])
    number = np.arange(N_ROWS) % 3
    by_number = cross_fit(estimator, X, target, PredefinedSplit(number), model=None)
    masks = [(number != k, number == k) for k in range(3)]
    by_mask = cross_fit(estimator, X, target, masks, model=None)
    assert np.array_equal(by_number.oof_raw, by_mask.oof_raw)
    stratified = cross_fit(estimator, X, target, StratifiedKFold(3), model=None)
    for found, pair in zip(stratified.splits, StratifiedKFold(3).split(X, target), strict=True):
        assert np.array_equal(found[0], pair[0])
        assert np.array_equal(found[1], pair[1])


def test_groups_and_queries_stay_whole() -> None:
    X, y = _numbers()
    groups = np.random.default_rng(0).integers(0, 20, size=N_ROWS)
    estimator = HedgerowRegressor(**SMALL)
    for folds in (4, GroupKFold(4)):
        result = cross_fit(estimator, X, y, folds, groups=groups, model=None)
        for train, test in result.splits:
            assert not set(groups[train]) & set(groups[test])
    by_row = list(KFold(4).split(X))
    with pytest.raises(DataError, match="divides the group"):
        cross_fit(estimator, X, y, by_row, groups=groups)
    labels = np.clip(np.round(y), 0, 3)
    ranked = cross_fit(HedgerowRanker(**SMALL), X, labels, 3, qid=groups)
    for train, test in ranked.splits:
        assert not set(groups[train]) & set(groups[test])
    with pytest.raises(DataError, match="divides the group or query"):
        cross_fit(HedgerowRanker(**SMALL), X, labels, by_row, qid=groups)


def test_a_class_may_be_absent_from_a_fold() -> None:
    X, _ = _numbers()
    target = (np.arange(N_ROWS) >= 200).astype(int) + (np.arange(N_ROWS) >= 290)
    for more in ({}, {"class_weight": "balanced"}):
        result = cross_fit(HedgerowClassifier(**SMALL, **more), X, target, KFold(3))
        assert result.oof_prediction.shape == (N_ROWS, 3)
        assert np.allclose(result.oof_prediction.sum(axis=1), 1.0)


# -- what is refused ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "given", "error", "words"),
    [
        ({"callbacks": print}, {}, ParameterError, "callbacks"),
        ({"progress": True}, {}, ParameterError, "progress"),
        ({"blend": 2}, {}, ParameterError, "blend=2 has no effect in cross_fit"),
        ({"early_stopping": "cv"}, {}, ParameterError, "separate folds"),
        ({"early_stopping": False}, {"stopping": "fold"}, ParameterError, "no effect"),
        ({}, {"stopping": "best"}, ParameterError, "'pooled' or 'fold'"),
        ({}, {"model": "mean"}, ParameterError, "'average', 'refit' or None"),
        ({}, {"cv": 1}, ParameterError, "at least 2"),
        ({}, {"cv": 301}, ParameterError, "at most the number of rows, 300"),
        ({}, {"cv": "five"}, ParameterError, "number of folds"),
        ({}, {"cv": []}, ParameterError, "no splits"),
        ({}, {"cv": [[1, 2, 3]]}, ParameterError, "split 0 must be a pair"),
        ({}, {"cv": [([0, 1], [1, 2])]}, DataError, "row 1 is among both the train rows and"),
        ({}, {"cv": [([0, 0], [2])]}, DataError, "contain a row twice"),
        ({}, {"cv": [([0, 1], [])]}, DataError, "no test rows of split 0"),
        ({}, {"cv": [([0, 1], [300])]}, DataError, "contain row 300"),
        ({}, {"cv": [([0.5], [1])]}, DataTypeError, "row numbers"),
        ({}, {"qid": np.zeros(N_ROWS)}, ParameterError, "qid has an effect only"),
        ({}, {"groups": np.zeros(3)}, DataError, "groups"),
    ],
)
def test_what_cannot_be_used_is_named(
    change: dict[str, Any], given: dict[str, Any], error: type[Exception], words: str
) -> None:
    X, y = _numbers()
    with pytest.raises(error, match=words):
        cross_fit(HedgerowRegressor(**SMALL | change), X, y, **given)


@pytest.mark.parametrize("part", ["train", "test"])
def test_folds_without_weight_have_one_error(part: str) -> None:
    """``cross_fit`` and ``cv`` agree."""
    X, y = _numbers()
    half = N_ROWS // 2
    first, second = np.arange(half), np.arange(half, N_ROWS)
    weight = np.ones(N_ROWS)
    weight[first if part == "train" else second] = 0.0
    words = f"all {part} rows of split 1 have weight 0"
    third = np.arange(0, N_ROWS, 2), np.arange(1, N_ROWS, 2)
    splits = [third, (first, second)]
    with pytest.raises(DataError, match=f"cv: {words}"):
        cross_fit(HedgerowRegressor(**SMALL), X, y, splits, sample_weight=weight)
    with pytest.raises(DataError, match=f"folds: {words}"):
        cv({"n_estimators": 2}, Dataset(X, y, weight=weight), splits)


def test_other_estimators_are_refused() -> None:
    X, y = _numbers()
    with pytest.raises(ParameterError, match="got CARTRegressor"):
        cross_fit(CARTRegressor(), X, y)
    labels = np.clip(np.round(y), 0, 3)
    with pytest.raises(ParameterError, match="groups has no effect with qid"):
        cross_fit(
            HedgerowRanker(**SMALL), X, labels, qid=np.arange(N_ROWS) % 9, groups=np.zeros(N_ROWS)
        )

    def broken(y_true: Any, prediction: Any, weight: Any) -> float:
        raise ValueError("no score")

    with pytest.raises(Exception, match="fold 0, round 1: eval_metric 'broken' raised"):
        cross_fit(HedgerowRegressor(**SMALL, eval_metric=broken), X, y, n_jobs=1)


# -- what models remember ---------------------------------------------------------


def test_probabilities_are_free_of_class_weights() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] + rng.normal(size=600) > 1.6).astype(int)
    settings = {"n_estimators": 30, "early_stopping": False, "class_weight": {0: 1.0, 1: 8.0}}
    result = cross_fit(HedgerowClassifier(**settings), X, y)
    assert abs(result.oof_prediction[:, 1].mean() - y.mean()) < 0.4 * y.mean()
    raw = [booster.predict(X, "raw") for booster in result.boosters]
    assert np.allclose(result.model.booster_.predict(X, "raw"), np.mean(raw, axis=0))
    assert result.model.predict(X).mean() > 1.5 * (result.model.predict_proba(X)[:, 1] > 0.5).mean()
    with pytest.raises(ParameterError, match="init_model is the mean"):
        HedgerowClassifier(**settings).fit(X, y, init_model=result.model)
    with pytest.raises(ParameterError, match="mean of several fold models"):
        result.model.booster_.refit(X, y)


def test_a_column_may_be_the_offset() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(4)
    table = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abo"))
    y = table.a + table.o + rng.normal(size=200)
    model = HedgerowRegressor(**SMALL)
    named = cross_fit(model, table, y, offset="o")
    given = cross_fit(model, table[["a", "b"]], y, offset=table.o)
    assert named.oof_prediction.tobytes() == given.oof_prediction.tobytes()
    expected = given.model.predict(table[["a", "b"]], offset=table.o)
    assert named.model.predict(table).tobytes() == expected.tobytes()


def test_folds_know_of_no_fitted_model() -> None:
    with pytest.raises(ParameterError, match="warm_start=True"):
        cross_fit(HedgerowRegressor(warm_start=True), np.ones((9, 1)), np.arange(9.0))


class Clock:
    """A clock on which each round of a fold takes a second; the budget is 31."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        before = GrownFold.advance

        def advance(fit: Any) -> bool:
            self.now += 1.0
            return before(fit)

        def budget_of(stopping: Any) -> Budget:
            return Budget(31.0, 0.0, clock=lambda: self.now)

        monkeypatch.setattr(GrownFold, "advance", advance)
        monkeypatch.setattr(rounds_ahead, "_MOST_ROUNDS", 1)  # a turn is a round
        monkeypatch.setattr("hedgerow.estimators.cross.budget_of", budget_of)


@pytest.mark.parametrize(
    ("early_stopping", "stopping"), [(False, "pooled"), (True, "pooled"), (True, "fold")]
)
def test_a_time_budget_ends_all_folds(
    monkeypatch: pytest.MonkeyPatch, early_stopping: bool, stopping: Any
) -> None:
    X, y = _numbers()
    settings = {"n_estimators": 1000, "early_stopping": early_stopping, "learning_rate": 0.001}
    clock = Clock(monkeypatch)
    model = HedgerowRegressor(**settings, time_budget=100.0)
    found = cross_fit(model, X, y, 3, stopping=stopping, n_jobs=1)
    monkeypatch.undo()
    # 95% of 31 seconds: ten rounds of all three folds.
    assert clock.now == 30.0
    assert set(found.best_rounds) == {10}
    assert {one.stopped_by for one in found.boosters} == {"time_budget"}
    assert found.model.stopped_by_ == "time_budget"
    if stopping == "pooled":
        assert {len(curve) for curve in found.curves.values()} == {10}
        whole = cross_fit(
            HedgerowRegressor(**{**settings, "n_estimators": 10, "early_stopping": False}), X, y, 3
        )
        np.testing.assert_array_equal(found.oof_raw, whole.oof_raw)
        for one, other in zip(found.boosters, whole.boosters, strict=True):
            assert one.to_text() == other.to_text()


def test_folds_leave_time_for_the_refit(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = _numbers()
    clock = Clock(monkeypatch)
    model = HedgerowRegressor(n_estimators=1000, early_stopping=False, time_budget=100.0)
    found = cross_fit(model, X, y, 3, model="refit", n_jobs=1)
    # Three folds of two thirds of the rows: two of three parts of the time are theirs.
    assert clock.now == 20.0
    assert found.model.n_iter_ == found.best_rounds[0] == 6
    assert found.model.stopped_by_ == "time_budget"


def test_a_spent_budget_leaves_the_first_batch_of_rounds() -> None:
    X, y = _numbers()
    model = HedgerowRegressor(n_estimators=500, early_stopping=False, time_budget=1e-9)
    for how in ("average", "refit"):
        found = cross_fit(model, X, y, 3, model=how)
        assert found.best_rounds.tolist() == [4, 4, 4]
        assert found.model.stopped_by_ == "time_budget"
