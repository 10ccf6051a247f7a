"""Conformal intervals and sets: coverage, arithmetic, groups, weights and input."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, QuantileRegressor
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from hedgerow import (
    ConformalClassifier,
    ConformalRegressor,
    HedgerowClassifier,
    HedgerowRegressor,
)
from hedgerow.errors import DataError, ParameterError
from hedgerow.estimators.conformal.classifier import row_shares
from hedgerow.estimators.conformal.scores import (
    rows_needed,
    threshold_of,
    thresholds_by_column,
    thresholds_of,
)
from hedgerow.metrics.distributions import coverage

SMALL = {"n_estimators": 8, "max_leaves": 6, "min_samples_leaf": 5, "n_jobs": 1}
RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, size=(500, 2))
Y = X[:, 0] + (0.2 + np.abs(X[:, 1])) * RNG.normal(size=500)
LABELS = np.array(["no", "maybe", "yes"])[
    np.digitize(X[:, 0] + 0.7 * RNG.normal(size=500), [-0.7, 0.7])
]
GROUPS = np.where(X[:, 1] > 1.0, "far", "near")


@parametrize_with_checks(
    [
        ConformalRegressor(LinearRegression(), level=0.5, cv=2),
        # Without a penalty, beside which the sum of weights, not their mean, would count.
        ConformalClassifier(LogisticRegression(C=np.inf), level=0.5, cv=2),
    ],
)
def test_scikit_learn_conventions(estimator, check) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        ConformalRegressor(HedgerowRegressor(**SMALL), level=0.5, cv=2, method="cqr"),
        ConformalRegressor(LinearRegression(), level=0.5, cv=3, method="cv_plus"),
        ConformalRegressor(LinearRegression(), level=0.5, cv=2, method="normalized"),
        ConformalClassifier(HedgerowClassifier(**SMALL), level=0.5, cv=2, method="raps"),
    ],
)
def test_scikit_learn_conventions_of_more(estimator, check) -> None:
    check(estimator)


# -- thresholds --------------------------------------------------------------------------


@given(n=st.integers(1, 400), level=st.sampled_from([0.01, 0.1, 0.5, 0.8, 0.9, 0.95, 0.99]))
def test_threshold_is_the_corrected_quantile(n, level) -> None:
    scores = np.random.default_rng(n).permutation(np.arange(1.0, n + 1))
    rank = math.ceil((n + 1) * Fraction(str(level)))  # naive: of decimal fractions
    expected = math.inf if rank > n else float(rank)
    assert threshold_of(scores, level) == expected
    assert (n >= rows_needed(level)) == math.isfinite(expected)
    weight = np.full(n, 0.3)
    assert threshold_of(scores, level, weight) == expected, "equal weights change nothing"
    two = np.column_stack([scores, -scores])
    for given_weight in (None, weight):
        found = thresholds_by_column(two, level, given_weight)
        assert found[0] == expected
        assert found[1] == (math.inf if rank > n else rank - 1.0 - n)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=30),
       st.sampled_from([0.2, 0.5, 0.8]))  # fmt: skip
def test_weighted_threshold_is_that_of_the_definition(rows, level) -> None:
    scores, weight = np.array(rows, dtype=float).T
    masses = [Fraction(w) for w in weight]
    likely = sum(mass * mass for mass in masses) / sum(masses)
    known = dict.fromkeys([Fraction(0), Fraction(1, 2), Fraction(9), likely])
    for own in known:
        goal = Fraction(str(level)) * (sum(masses) + own)
        known[own] = math.inf
        for score in sorted(set(scores), reverse=True):
            if sum(mass for s, mass in zip(scores, masses, strict=True) if s <= score) >= goal:
                known[own] = score
    assert threshold_of(scores, level, weight) == known[likely]
    assert thresholds_by_column(scores[:, None], level, weight)[0] == known[likely]
    for factor in (1.0, 1e6):  # weights are relative
        own = factor * np.array([float(mass) for mass in known])
        expected = list(known.values())
        assert thresholds_of(scores, level, factor * weight, own).tolist() == expected
        several = np.tile(scores[:, None], len(own))
        assert thresholds_by_column(several, level, factor * weight, own).tolist() == expected


# -- coverage ------------------------------------------------------------------------------


class Truth(RegressorMixin, BaseEstimator):
    """An estimator that knows the true mean; its fit does nothing."""

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return X[:, 0]


def share_covered(model_of, n_draws, n_rows, n_new, ties=False):
    """Return the mean coverage over draws of rows, and its standard error."""
    shares = []
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        inputs = rng.uniform(-2.0, 2.0, size=(n_rows + n_new, 2))
        y = inputs[:, 0] + (0.2 + np.abs(inputs[:, 1])) * rng.standard_t(3, n_rows + n_new)
        if ties:
            y = np.round(y)
            inputs = np.round(inputs)
        model = model_of().fit(inputs[:n_rows], y[:n_rows])
        ends = model.predict_interval(inputs[n_rows:])
        shares.append(coverage(y[n_rows:], ends))
    return np.mean(shares), np.std(shares) / math.sqrt(n_draws)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_mean_coverage_is_within_the_theoretical_bounds(level) -> None:
    n_held = 19
    found, error = share_covered(
        lambda: ConformalRegressor(Truth(), level=level, cv=ShuffleSplit(1, test_size=n_held)),
        n_draws=400, n_rows=20, n_new=40,
    )  # fmt: skip
    assert level - 4 * error < found < level + 1 / (n_held + 1) + 4 * error
    assert error < 0.01


def test_without_the_correction_coverage_would_be_too_low() -> None:
    rng = np.random.default_rng(0)
    scores = np.abs(rng.normal(size=(4000, 10)))
    plain, corrected = np.quantile(scores[:, :9], 0.9, axis=1), scores[:, :9].max(axis=1)
    assert (scores[:, 9] <= plain).mean() < 0.86
    assert threshold_of(scores[0, :9], 0.9) == corrected[0]
    assert abs((scores[:, 9] <= corrected).mean() - 0.9) < 0.02


def test_ties_only_raise_coverage() -> None:
    found, error = share_covered(
        lambda: ConformalRegressor(Truth(), level=0.8, cv=2), 300, 60, 40, ties=True
    )
    assert found > 0.8 - 4 * error


@pytest.mark.parametrize(
    ("method", "estimator", "least", "most"),
    [
        ("cqr", HedgerowRegressor(**SMALL), 0.8, 0.8 + 1 / 41),
        ("normalized", HedgerowRegressor(objective="normal", **SMALL), 0.8, 0.8 + 1 / 41),
        ("normalized", LinearRegression(), 0.8, 0.8 + 1 / 41),
        ("cv_plus", KNeighborsRegressor(5), 0.78, 0.9),
    ],
)
def test_coverage_of_methods(method, estimator, least, most) -> None:
    found, error = share_covered(
        lambda: ConformalRegressor(estimator, method=method, level=0.8, cv=3), 40, 120, 200
    )
    assert least - 4 * error < found < most + 4 * error


def test_adaptive_intervals_are_wide_where_rows_are_uncertain() -> None:
    certain, uncertain = np.abs(X[:, 1]) < 0.5, np.abs(X[:, 1]) > 1.5
    for method, objective in (("split", "auto"), ("cqr", "auto"), ("normalized", "normal"),
                              ("normalized", "auto")):  # fmt: skip
        inner = HedgerowRegressor(objective=objective, **{**SMALL, "n_estimators": 40})
        model = ConformalRegressor(inner, method=method, level=0.8).fit(X, Y)
        width = np.diff(model.predict_interval(X), axis=1)[:, 0]
        ratio = width[uncertain].mean() / width[certain].mean()
        assert ratio == pytest.approx(1.0) if method == "split" else ratio > 1.6
        assert (model.predict_interval(X, 0.5)[:, 0] >= model.predict_interval(X, 0.9)[:, 0]).all()


def test_cv_plus_is_that_of_its_definition() -> None:
    model = ConformalRegressor(LinearRegression(), method="cv_plus", level=0.8, cv=4).fit(X, Y)
    n, new = len(Y), X[:7] + 0.1
    by_row = np.stack([inner.predict(new) for inner in model.estimators_])[model._fold]
    low = np.sort(by_row - model._row_scores[:, None], axis=0)
    high = np.sort(by_row + model._row_scores[:, None], axis=0)
    k = math.ceil((n + 1) * Fraction("0.8"))
    expected = np.column_stack([low[n - k], high[k - 1]])
    np.testing.assert_allclose(model.predict_interval(new), expected, rtol=1e-12)
    np.testing.assert_allclose(model.predict(new), LinearRegression().fit(X, Y).predict(new))
    # Equal weights change nothing.
    weighted = clone(model).fit(X, Y, np.full(n, 2.0))
    np.testing.assert_allclose(weighted.predict_interval(new), expected, rtol=1e-9)
    with pytest.raises(ParameterError, match="calibrates on the rows that it trains on"):
        model.calibrate(X, Y)


def test_folds_of_boosted_trees_are_grown_together() -> None:
    given = {**SMALL, "max_bins": 255}
    apart = ConformalRegressor(HedgerowRegressor(**given), method="cv_plus", cv=3).fit(X, Y)
    at_once = HedgerowRegressor(**given, early_stopping=False)
    together = ConformalRegressor(at_once, method="cv_plus", cv=3).fit(X, Y)
    for a, b in zip(apart.estimators_, together.estimators_, strict=True):
        assert np.corrcoef(a.predict(X), b.predict(X))[0, 1] > 0.99  # bins are of other rows
    ends = together.predict_interval(X)
    width, other = (np.diff(found, axis=1).mean() for found in (ends, apart.predict_interval(X)))
    assert width == pytest.approx(other, rel=0.05)
    assert coverage(Y, ends) > 0.87


# -- groups and weights ----------------------------------------------------------------------


def test_each_group_is_covered() -> None:
    shares = {"near": [], "far": []}
    for seed in range(150):
        rng = np.random.default_rng(seed)
        inputs = rng.uniform(-2.0, 2.0, size=(300, 2))
        group = np.where(inputs[:, 1] > 1.0, "far", "near")
        y = inputs[:, 0] + np.where(group == "far", 3.0, 0.3) * rng.normal(size=300)
        model = ConformalRegressor(Truth(), level=0.8, cv=2)
        model.fit(inputs[:150], y[:150], group=group[:150])
        ends = model.predict_interval(inputs[150:], group=group[150:])
        for name in shares:
            chosen = group[150:] == name
            shares[name].append(coverage(y[150:][chosen], ends[chosen]))
    for name, found in shares.items():
        error = np.std(found) / math.sqrt(len(found))
        assert 0.8 - 4 * error < np.mean(found) < 0.8 + 1 / 10 + 4 * error, name


@pytest.mark.parametrize("method", ["split", "cv_plus"])
def test_groups_may_be_columns(method) -> None:
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "region": (X[:, 1] > 1.0).astype(float)})
    inner = HedgerowRegressor(**SMALL)
    by_array = ConformalRegressor(inner, method=method, cv=3).fit(frame, Y, group=frame["region"])
    expected = by_array.predict_interval(frame, group=frame["region"])
    by_name = ConformalRegressor(inner, method=method, cv=3, group="region").fit(frame, Y)
    np.testing.assert_array_equal(by_name.predict_interval(frame), expected)
    by_place = ConformalRegressor(inner, method=method, cv=3, group=2).fit(frame.to_numpy(), Y)
    np.testing.assert_array_equal(by_place.predict_interval(frame.to_numpy()), expected)
    with pytest.raises(DataError, match="calibrated by groups: pass group="):
        by_array.predict_interval(frame)
    with pytest.raises(
        DataError, match=r"group 7\.0 has no calibration rows; groups with calibration rows"
    ):
        by_array.predict_interval(frame[:2], group=[7.0, 0.0])
    with pytest.raises(DataError, match="X has no such column"):
        ConformalRegressor(inner, group="zone").fit(frame, Y)
    with pytest.raises(DataError, match="group is missing in row 3"):
        by_array.fit(frame, Y, group=frame["region"].where(np.arange(500) != 3))
    with pytest.raises(DataError, match="one group for each of the 500 rows"):
        by_array.fit(frame, Y, group=[1, 2])
    plain = ConformalRegressor(inner).fit(frame, Y)
    with pytest.raises(DataError, match="calibrated without groups"):
        plain.predict_interval(frame, group=frame["region"])


def test_classes_of_fewer_rows_than_folds_are_named() -> None:
    with pytest.raises(DataError, match=r"cv=5 cannot divide these 8 rows: .*each class"):
        ConformalClassifier(LogisticRegression(), level=0.5).fit(X[:8], np.arange(8) % 2)


def test_rows_of_weight_0_are_absent() -> None:
    weight = np.where(np.arange(500) < 300, 1.0, 0.0)
    held = [(np.arange(0, 400, 2), np.arange(1, 500, 2))]
    kept = [(np.arange(0, 300, 2), np.arange(1, 300, 2))]
    wild = np.where(weight > 0.0, Y, 1e6)
    a = ConformalRegressor(LinearRegression(), cv=held).fit(X, wild, weight)
    b = ConformalRegressor(LinearRegression(), cv=kept).fit(X, Y)
    np.testing.assert_allclose(a.predict_interval(X), b.predict_interval(X), rtol=1e-9)


def test_weights_make_up_for_a_shift() -> None:
    """New rows lie more often where the targets vary more."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, size=(20_000, 2))
    y = x[:, 0] + (0.2 + np.abs(x[:, 1])) * rng.normal(size=20_000)
    weight = np.where(np.abs(x[:, 1]) > 1.0, 4.0, 1.0)
    shifted = rng.choice(20_000, 20_000, p=weight / weight.sum())
    for given_weight, right in ((None, False), (weight[:10_000], True)):
        model = ConformalRegressor(Truth().fit(x, y), level=0.9)
        model.calibrate(x[:10_000], y[:10_000], given_weight)
        new = shifted[shifted >= 10_000]
        found = coverage(y[new], model.predict_interval(x[new]))
        assert (abs(found - 0.9) < 0.012) == right


@pytest.mark.parametrize("n_rows", [20, 100])
@pytest.mark.parametrize("kind", ["split", "cv_plus", "lac"])
def test_few_weighted_rows_cover_rows_of_known_weight(kind, n_rows) -> None:
    """New rows lie where calibration rows are rare and the targets vary more."""
    covered, without = [], []
    for seed in range(80 if kind == "cv_plus" else 250):
        rng = np.random.default_rng(seed)
        x, new = rng.normal(size=(n_rows, 1)), 1.5 + rng.normal(size=(20, 1))
        y, y_new = (np.exp(0.5 * at[:, 0]) * rng.normal(size=len(at)) for at in (x, new))
        weight, own = np.exp(1.5 * x[:, 0]), np.exp(1.5 * new[:, 0])
        if kind == "lac":
            model = ConformalClassifier(Chances().fit(x, y > 0.0), level=0.9)
            model.calibrate(x, y > 0.0, weight)
            rows, column = np.arange(20), (y_new > 0.0).astype(int)
            covered.append(model.predict_set(new, sample_weight=own)[rows, column].mean())
            without.append(model.predict_set(new)[rows, column].mean())
            continue
        if kind == "split":
            model = ConformalRegressor(Nothing().fit(x, y), level=0.9).calibrate(x, y, weight)
        else:
            model = ConformalRegressor(Nothing(), method="cv_plus", cv=4).fit(x, y, weight)
        covered.append(coverage(y_new, model.predict_interval(new, sample_weight=own)))
        without.append(coverage(y_new, model.predict_interval(new)))
    assert np.mean(covered) > 0.9 - 3.0 * np.std(covered) / math.sqrt(len(covered))
    assert np.mean(without) < np.mean(covered)


class Nothing(RegressorMixin, BaseEstimator):
    """An estimator that predicts 0."""

    def fit(self, X, y, sample_weight=None):
        self.n_features_in_ = 1
        return self

    def predict(self, X):
        return np.zeros(len(X))


class Chances(ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are overconfident for large values."""

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.array([False, True]), 1
        return self

    def predict_proba(self, X):
        first = 0.5 + 0.45 * np.tanh(X[:, 0])
        return np.column_stack([first, 1.0 - first])


@pytest.mark.parametrize("method", ["split", "normalized", "cqr", "cv_plus"])
def test_equal_weights_change_nothing(method) -> None:
    inner = HedgerowRegressor(**SMALL, early_stopping=False)
    model = ConformalRegressor(inner, method=method, cv=3)
    expected = clone(model).fit(X, Y).predict_interval(X)
    for weight in (7.0, 0.3):
        again = clone(model).fit(X, Y, np.full(500, weight))
        np.testing.assert_array_equal(again.predict_interval(X), expected)
        own = again.predict_interval(X, sample_weight=np.full(500, weight))
        np.testing.assert_array_equal(own, expected)


def test_calibration_weights_are_relative() -> None:
    """The weights of a calibration may have any scale, because no model is trained with them."""
    some = RNG.uniform(0.5, 2.0, 500)
    model = Truth().fit(X, Y)
    a, b = (ConformalRegressor(model).calibrate(X, Y, f * some) for f in (1.0, 1024.0))
    np.testing.assert_array_equal(a.predict_interval(X), b.predict_interval(X))
    one, other = (m.predict_interval(X[:9], sample_weight=f * some[:9])
                  for m, f in ((a, 1.0), (b, 1024.0)))  # fmt: skip
    np.testing.assert_array_equal(one, other)


def test_a_row_heavier_than_all_others_has_no_finite_interval() -> None:
    model = ConformalRegressor(Truth().fit(X, Y), level=0.9).calibrate(X, Y, np.ones(500))
    ends = model.predict_interval(X[:3], sample_weight=[1.0, 55.0, 56.0])
    assert np.isfinite(ends[:2]).all()
    assert ends[2].tolist() == [-math.inf, math.inf]
    classes = ConformalClassifier(LogisticRegression().fit(X, LABELS)).calibrate(
        X, LABELS, np.ones(500)
    )
    assert classes.predict_set(X[:1], sample_weight=[60.0]).all()


def test_weights_of_rows_to_predict_are_checked() -> None:
    model = ConformalRegressor(Truth().fit(X, Y)).calibrate(X, Y)
    with pytest.raises(ParameterError, match="relative to the calibration weights"):
        model.predict_interval(X, sample_weight=np.ones(500))
    model.calibrate(X, Y, np.ones(500))
    with pytest.raises(DataError, match="must not be negative, but row 2"):
        model.predict_interval(X[:3], sample_weight=[1.0, 1.0, -1.0])


# -- estimators of all kinds -------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [
        GradientBoostingRegressor(loss="quantile", n_estimators=20),
        QuantileRegressor(alpha=0.0),
        make_pipeline(StandardScaler(), GradientBoostingRegressor(loss="quantile", n_estimators=9)),
    ],
    ids=["gradient boosting", "linear", "pipeline"],
)
def test_cqr_of_others(estimator) -> None:
    model = ConformalRegressor(estimator, method="cqr", level=0.8).fit(X, Y)
    ends = model.predict_interval(X)
    assert 0.7 < coverage(Y, ends) < 0.95
    middle = model.predict(X)
    assert ((ends[:, 0] <= middle) & (middle <= ends[:, 1])).mean() > 0.95


def test_fitted_models_are_calibrated() -> None:
    fitted = LinearRegression().fit(X[:200], Y[:200])
    model = ConformalRegressor(fitted, level=0.8).calibrate(X[200:], Y[200:])
    assert model.estimator_ is fitted
    found = np.abs(Y[200:] - fitted.predict(X[200:]))
    width = np.diff(model.predict_interval(X), axis=1)
    np.testing.assert_allclose(width, 2 * np.sort(found)[math.ceil(301 * 0.8) - 1])
    quantiles = HedgerowRegressor(objective="quantile", quantile=[0.1, 0.9], **SMALL)
    quantiles.fit(X[:200], Y[:200])
    cqr = ConformalRegressor(quantiles, method="cqr", level=0.8).calibrate(X[200:], Y[200:])
    assert coverage(Y[200:], cqr.predict_interval(X[200:])) >= 0.8
    assert cqr.predict(X).shape == (500,)
    normal = HedgerowRegressor(objective="normal", **SMALL).fit(X[:200], Y[:200])
    spread = ConformalRegressor(normal, method="normalized").calibrate(X[200:], Y[200:])
    width = np.diff(spread.predict_interval(X), axis=1)[:, 0]
    np.testing.assert_allclose(np.ptp(width / normal.predict_distribution(X).std), 0.0, atol=1e-9)
    with pytest.raises(NotFittedError):
        ConformalRegressor(LinearRegression()).calibrate(X, Y)
    with pytest.raises(ParameterError, match="needs a fitted model that predicts distributions"):
        ConformalRegressor(fitted, method="normalized").calibrate(X, Y)
    with pytest.raises(DataError, match="predicts one number for a row"):
        ConformalRegressor(fitted, method="cqr").calibrate(X, Y)
    with pytest.raises(DataError, match="predicts 2 numbers for a row"):
        ConformalRegressor(quantiles).calibrate(X, Y)


def test_they_are_estimators(tmp_path) -> None:
    model = ConformalRegressor(HedgerowRegressor(**SMALL), level=0.8)
    search = GridSearchCV(
        model, {"estimator__max_leaves": [2, 6], "method": ["split", "cqr"]}, cv=2
    )
    assert search.fit(X, Y).best_params_["estimator__max_leaves"] == 6
    again = pickle.loads(pickle.dumps(model.fit(X, Y)))
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))
    assert clone(model).get_params()["level"] == 0.8
    first = ConformalRegressor(HedgerowRegressor(**SMALL), random_state=1).fit(X, Y)
    other = ConformalRegressor(HedgerowRegressor(**SMALL), random_state=2).fit(X, Y)
    assert not np.array_equal(first.predict_interval(X), other.predict_interval(X))
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(c=pd.Categorical(LABELS))
    named = ConformalRegressor().fit(frame, Y)
    assert list(named.feature_names_in_) == ["a", "b", "c"]
    assert named.predict_interval(frame).shape == (500, 2)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ConformalRegressor(method="splitt"), r"method must be one of 'split'.*Did you mean"),
        (ConformalRegressor(level=1.0), "level must be"),
        (ConformalRegressor(cv=1), "cv must be an integer at least 2"),
        (ConformalRegressor(scale_estimator=Truth()), "scale_estimator has no effect with method="),
        (ConformalRegressor(LinearRegression(), method="cqr"), "needs an estimator of quantiles"),
        (ConformalRegressor(GradientBoostingRegressor(), method="cqr"), "set its loss to 'quant"),
        (ConformalRegressor(random_state="x"), "random_state must be"),
        (ConformalClassifier(method="apps"), r"method must be one of 'lac'.*Did you mean"),
        (ConformalClassifier(raps_rank=1), "raps_rank=1 has no effect with method='lac'"),
        (ConformalClassifier(method="raps", raps_penalty=-1.0), "raps_penalty must be a number at"),
        (ConformalClassifier(allow_empty="no"), "allow_empty must be True or False"),
    ],
)
def test_parameters_are_checked(model, message) -> None:
    with pytest.raises(ParameterError, match=message):
        model.fit(X, Y if isinstance(model, ConformalRegressor) else LABELS)


def test_bad_data_is_named() -> None:
    model = ConformalRegressor(Truth(), level=0.95)
    with pytest.raises(
        DataError, match=r"level=0.95 needs at least 19 calibration rows; there are 8"
    ):
        model.fit(X[:40], Y[:40])
    few = np.where(np.arange(500) < 5, "rare", "usual")
    with pytest.raises(DataError, match=r"rows of group 'rare'; there are .*join groups"):
        model.fit(X, Y, group=few)
    model.fit(X, Y)
    with pytest.raises(DataError, match=r"level=0.999 needs at least 999 calibration rows"):
        model.predict_interval(X, 0.999)
    with pytest.raises(ParameterError, match="level must be"):
        model.predict_interval(X, 90)
    with pytest.raises(ParameterError, match="fit of Truth does not support sample_weight"):
        model.fit(X, Y, np.ones(500))
    with pytest.raises(NotFittedError):
        ConformalRegressor().predict_interval(X)


# -- sets of classes ---------------------------------------------------------------------------


class Known(ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are the columns."""

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return self.classes_[X.argmax(axis=1)]


def draw_classes(rng, n, n_classes=4):
    p = rng.dirichlet(np.full(n_classes, 0.6), n)
    return p, (p.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).clip(0, n_classes - 1)


@pytest.mark.parametrize("method", ["lac", "aps", "raps"])
def test_coverage_of_sets(method) -> None:
    shares, sizes = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        p, y = draw_classes(rng, 130)
        model = ConformalClassifier(Known().fit(p, np.arange(4)), method=method, level=0.8)
        sets = model.calibrate(p[:49], y[:49]).predict_set(p[49:])
        shares.append(sets[np.arange(81), y[49:]].mean())
        sizes.append(sets.sum(axis=1).mean())
    error = np.std(shares) / math.sqrt(300)
    assert 0.8 - 4 * error < np.mean(shares) < 0.8 + 1 / 50 + 4 * error
    assert 1.0 < np.mean(sizes) < 3.0


def test_sets_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(5)
    p, y = draw_classes(rng, 400)
    shares = row_shares(p, 0)
    assert (abs(np.sort(shares) - np.linspace(0, 1, 400)) < 0.1).all()
    np.testing.assert_array_equal(shares[7:9], row_shares(p[7:9], 0))
    assert not np.array_equal(shares, row_shares(p, 1))
    for method in ("aps", "raps"):
        model = ConformalClassifier(Known().fit(p, y), method=method).calibrate(p, y)
        found = model._class_scores(p)
        for row in range(20):
            order = sorted(range(4), key=lambda k: -p[row, k])
            for rank, k in enumerate(order):
                expected = sum(p[row, j] for j in order[:rank]) + shares[row] * p[row, k]
                if method == "raps":
                    expected += 0.05 * max(0, rank + 1 - 2)
                assert found[row, k] == pytest.approx(expected)
        threshold = threshold_of(found[np.arange(400), y], 0.9)
        np.testing.assert_array_equal(model.predict_set(p), found <= threshold)
    lac = ConformalClassifier(Known().fit(p, y), level=0.3).calibrate(p, y)
    assert (lac.predict_set(p).sum(axis=1) == 0).any()
    lac.set_params(allow_empty=False)
    assert (lac.predict_set(p)[np.arange(400), p.argmax(axis=1)]).all()
    assert (lac.predict_set(p, 0.9) >= lac.predict_set(p, 0.5)).all()


def test_classifiers_of_all_kinds() -> None:
    for inner in (HedgerowClassifier(**SMALL), RandomForestClassifier(20, random_state=0)):
        model = ConformalClassifier(inner, method="aps", level=0.8).fit(X, LABELS, np.ones(500))
        assert list(model.classes_) == ["maybe", "no", "yes"]
        sets = model.predict_set(X)
        hit = sets[np.arange(500), np.searchsorted(model.classes_, LABELS)]
        assert hit.mean() > 0.75
        np.testing.assert_array_equal(model.predict(X), model.estimator_.predict(X))
        assert model.predict_proba(X).shape == (500, 3)
        assert model.score(X, LABELS) > 0.6
    grouped = ConformalClassifier(HedgerowClassifier(**SMALL)).fit(X, LABELS, group=GROUPS)
    assert grouped.predict_set(X, group=GROUPS).shape == (500, 3)


def test_classes_that_the_model_does_not_know_are_never_covered() -> None:
    p, y = draw_classes(np.random.default_rng(0), 200)
    model = ConformalClassifier(Known().fit(p, np.arange(4)), level=0.8)
    model.calibrate(p, np.where(np.arange(200) < 50, 9, y))
    assert model.predict_set(p).all(), "a quarter is never covered: no set is too large"
    with pytest.raises(DataError, match="are not classes of the model"):
        model.calibrate(p, np.full(200, 9))


def test_several_targets_need_an_estimator_each() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(DataError, match="takes one target, but y has several columns"):
        ConformalRegressor().fit(X, X)
