"""Validation rows for early stopping: groups stay whole, and every class stays in training."""

from __future__ import annotations

import datetime as dt
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor, train
from hedgerow.boosting.row_data.queries import first_values_aside, read_groups
from hedgerow.boosting.validation.stopping import VALIDATION_STREAM, StoppingParams, rows_aside
from hedgerow.comm.base import Alone
from hedgerow.errors import DataError, DataTypeError, ParameterError
from hedgerow.kernels.primitives.hashing import hash_numbers
from tests.helpers.examples import examples

RNG = np.random.default_rng(0)
N = 900
PERSON = RNG.integers(0, 60, N)
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + RNG.normal(size=60)[PERSON] + 0.3 * RNG.normal(size=N)
STOPS = {"n_estimators": 30, "early_stopping": True}


def split(groups, target=None, fraction=0.2, stratify=False, seed=0):
    keys = read_groups(groups, len(groups))
    y = np.zeros(len(groups)) if target is None else np.asarray(target, dtype=float)
    hashes = partial(hash_numbers, seed, VALIDATION_STREAM)
    aside = first_values_aside(keys, y, fraction, stratify, Alone(), hashes)
    return np.flatnonzero(~aside), np.flatnonzero(aside)


@settings(max_examples=examples(60), deadline=None)
@given(
    groups=st.lists(st.integers(0, 12), min_size=2, max_size=80).filter(lambda g: len(set(g)) > 1),
    fraction=st.floats(0.02, 0.9),
    seed=st.integers(0, 2**63 - 1),
)
def test_groups_are_whole_and_both_parts_have_some(groups, fraction, seed) -> None:
    kept, aside = split(groups, fraction=fraction, seed=seed)
    codes = np.array(groups)
    assert len(kept)
    assert len(aside)
    assert sorted([*kept, *aside]) == list(range(len(groups)))
    assert set(codes[kept]).isdisjoint(codes[aside])


@settings(max_examples=examples(60), deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=4, max_size=60),
    seed=st.integers(0, 100),
)
def test_every_class_stays_in_training(rows, seed) -> None:
    groups, labels = (np.array(part) for part in zip(*rows, strict=True))
    try:
        kept, aside = split(groups, labels, 0.5, stratify=True, seed=seed)
    except DataError as error:
        assert "one group" in str(error) or "all rows of a class" in str(error)  # noqa: PT017
        return
    assert set(labels[kept]) == set(labels)
    assert set(groups[kept]).isdisjoint(groups[aside])


def test_the_order_of_rows_and_other_types_change_nothing() -> None:
    kept, aside = split(PERSON)
    order = RNG.permutation(N)
    _, turned = split(PERSON[order])
    assert sorted(order[turned]) == aside.tolist()
    for same in (
        PERSON.astype(float),
        PERSON.astype(object),
        PERSON.astype(np.uint8),
        list(PERSON),
    ):
        np.testing.assert_array_equal(split(same)[1], aside)
    # Groups that are not there do not move the others' places in the order.
    fewer = PERSON < 50
    _, some = split(PERSON[fewer])
    names = set(PERSON[fewer][some])
    assert len(names & set(PERSON[aside])) >= 0.6 * len(names)
    assert len(aside) == pytest.approx(0.2 * N, abs=0.5 * np.bincount(PERSON).max() + 1)
    assert len(kept) + len(aside) == N
    assert not np.array_equal(split(PERSON, seed=1)[1], aside)


def test_names_of_any_type() -> None:
    texts = np.array([f"person {i}" for i in PERSON])
    np.testing.assert_array_equal(split(texts)[1], split(texts.astype(object))[1])
    days = np.datetime64("2024-01-01") + PERSON
    assert len(split(days)[1])
    dates = [dt.date(2024, 1, 1) + dt.timedelta(int(i)) for i in PERSON]
    assert len(split(dates)[1])
    pandas = pytest.importorskip("pandas")
    np.testing.assert_array_equal(split(pandas.Series(texts, dtype="category"))[1], split(texts)[1])
    np.testing.assert_array_equal(split(pandas.Series(PERSON))[1], split(PERSON)[1])


def test_a_fit_sets_groups_aside() -> None:
    model = HedgerowRegressor(**STOPS).fit(X, Y, groups=PERSON)
    kept, aside = split(PERSON, fraction=0.1)
    assert model.booster_.model.training["n_rows"] == len(kept)
    by_hand = HedgerowRegressor(**STOPS).fit(X[kept], Y[kept], X_val=X[aside], y_val=Y[aside])
    assert model.evals_result_ == by_hand.evals_result_
    booster = train(STOPS, Dataset(X, Y, groups=PERSON))
    assert booster.evals_result == model.evals_result_


def test_classes_of_few_rows_stay_in_training() -> None:
    y = np.where(np.arange(N) < 2, "rare", np.where(X[:, 0] > 0, "a", "b"))
    for more in ({}, {"groups": PERSON}):
        model = HedgerowClassifier(n_estimators=3, early_stopping=True, validation_fraction=0.5)
        assert model.fit(X, y, **more).classes_.tolist() == ["a", "b", "rare"]
        assert np.isfinite(model.predict_proba(X)).all()
        assert (model.predict_proba(X)[:, 2] > 1e-9).all()


@settings(max_examples=examples(60), deadline=None)
@given(
    labels=st.lists(st.integers(0, 4), min_size=2, max_size=60).filter(
        lambda values: max(map(values.count, values)) > 1
    ),
    fraction=st.floats(0.01, 0.99),
    seed=st.integers(0, 1000),
)
def test_stratified_rows_leave_one_of_each_class(labels, fraction, seed) -> None:
    target = np.array(labels, dtype=float)
    chosen = rows_aside(target, fraction, True, seed)
    kept, aside = np.flatnonzero(~chosen), np.flatnonzero(chosen)
    assert set(target[kept]) == set(target)
    assert len(aside) > 0
    for label in set(labels):
        wanted = fraction * labels.count(label)
        found = (target[aside] == label).sum()
        assert abs(found - wanted) <= 1.0 or labels.count(label) - found == 1


# -- what does not go ------------------------------------------------------------------


def test_bad_groups_are_named() -> None:
    fresh = HedgerowRegressor(**STOPS)
    for wrong, kind, words in [
        (PERSON[:5], DataError, "groups has 5 values for 900 rows"),
        (np.array([400, 500]), DataError, "look like sizes of groups"),
        (
            np.where(PERSON == 3, np.nan, PERSON),
            DataError,
            "groups is missing in .* every row needs its group",
        ),
        ([None, *PERSON[1:]], DataError, "the first is row 0"),
        (np.zeros((N, 2)), DataError, "groups should be a 1d array"),
        (np.array([{}] * N), DataTypeError, "groups must hold numbers or text"),
        (np.zeros(N), DataError, "all rows are in one group"),
    ]:
        with pytest.raises(kind, match=words):
            fresh.fit(X, Y, groups=wrong)


def test_groups_without_effect_are_an_error() -> None:
    with pytest.raises(ParameterError, match="groups has no effect here: early_stopping=False"):
        HedgerowRegressor(early_stopping=False).fit(X, Y, groups=PERSON)
    with pytest.raises(ParameterError, match="groups has no effect here: early_stopping='auto'"):
        HedgerowRegressor(n_estimators=5).fit(X, Y, groups=PERSON)
    with pytest.raises(
        ParameterError, match="groups has no effect here: validation rows are given"
    ):
        HedgerowRegressor().fit(X, Y, X_val=X, y_val=Y, groups=PERSON)
    with pytest.raises(ParameterError, match="rankings hold out complete queries"):
        train({"objective": "lambdarank"}, Dataset(X, np.zeros(N), qid=PERSON, groups=PERSON))
    with pytest.warns(UserWarning, match="each of the 900 groups has one row"):
        HedgerowRegressor(**STOPS).fit(X, Y, groups=np.arange(N))
    assert StoppingParams().early_stopping == "auto"


def test_two_groups_that_divide_the_classes() -> None:
    y = (np.arange(N) < N // 2).astype(int)
    with pytest.raises(DataError, match="each candidate group holds all rows of a class"):
        HedgerowClassifier(**STOPS).fit(X, y, groups=y)
