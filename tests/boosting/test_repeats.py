"""Rows with the same values: folds keep copies together, but divide repeated observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import HedgerowClassifier
from hedgerow.boosting.automatic.recipe import plain_values
from hedgerow.boosting.automatic.repeats import find_repeats
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.validation.folds import Fold, divided
from hedgerow.data import read_any
from hedgerow.errors import DataError
from tests.helpers.examples import examples

PLAIN = plain_values() | {"early_stopping": False}


def sample_of(x: Any, y: Any, weight: Any = None) -> Sample:
    weights = None if weight is None else np.array(weight, dtype=float)
    return Sample(
        read_any(np.array(x, dtype=float)[:, None]), np.array(y, dtype=float), weight=weights
    )


def are_observations(*columns: Any, is_classes: bool = True) -> bool:
    found = find_repeats(sample_of(*columns), 0, is_classes)
    return found is not None and found.observed is not None


def folds_of(sample: Sample, n_folds: int = 5, is_classes: bool = True) -> list[Fold]:
    return divided(sample, n_folds, is_classes, 0)[0]


# -- copies or observations ----------------------------------------------------


def test_the_targets_tell_copies_from_observations() -> None:
    x = np.repeat(np.arange(10), 3)
    assert not are_observations(x, x % 2)
    assert not are_observations(x[1:], x[1:] % 2)
    assert not are_observations(x, x / 7.0, is_classes=False)
    assert are_observations(x, np.arange(30) % 2)
    assert are_observations(x, np.arange(30.0), is_classes=False)
    x = np.repeat(np.arange(20), 3)
    few = (np.arange(60) % 2) * (x < 1)  # 3 of 60 repeated rows differ
    assert not are_observations(x, few)
    assert are_observations(np.where(x < 1, x, np.arange(60) + 10), few)  # all that are repeated


def test_a_row_of_each_class_is_no_repetition() -> None:
    x, y = np.repeat(np.arange(20), 2), np.tile([0, 1], 20)
    assert not are_observations(x, y)  # matched pairs
    assert not are_observations(x, y, np.linspace(0.1, 0.9, 40))  # shares of a whole
    assert are_observations(x, y, np.arange(40) + 2)  # counts


def test_rows_that_are_there_very_often_are_observations_whatever_their_targets() -> None:
    x = np.arange(150) % 12
    assert are_observations(x, x % 2)
    assert not are_observations(x[:144], x[:144] % 2)  # each twelve times: a table that is repeated
    assert not are_observations(np.arange(12), np.arange(12) % 2, np.full(12, 25))  # large weights


def test_rows_that_columns_of_few_values_must_repeat_are_observations() -> None:
    rng = np.random.default_rng(0)
    few = rng.integers(0, 3, size=(120, 3)).astype(float)
    some = rng.normal(size=(40, 3))[rng.integers(0, 40, 120)]
    for X, expected in ((few, True), (some, False), (np.repeat(few[:40], 3, axis=0), False)):
        y = (X.sum(axis=1) > X.sum(axis=1).mean()).astype(float)
        found = find_repeats(Sample(read_any(X), y), 0, True)
        assert found is not None
        assert (found.observed is not None) == expected


def test_hardly_any_repeated_rows_change_nothing() -> None:
    assert find_repeats(sample_of(np.zeros(5), np.arange(5)), 0, True) is None
    assert not are_observations(np.arange(50), np.arange(50) % 2)


# -- folds -----------------------------------------------------------------------


def test_copies_are_in_one_fold_whatever_their_class() -> None:
    x = np.repeat(np.arange(30), 3)
    y = (x % 2).astype(float)
    y[4] = 1.0 - y[4]
    assert not are_observations(x, y)
    folds = folds_of(sample_of(x, y))
    assert len(folds) == 5
    for fold in folds:
        assert not set(x[fold.train]) & set(x[fold.test])
    assert np.sort(np.concatenate([f.test for f in folds])).tolist() == list(range(90))


cells = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(1, 9)), min_size=2, max_size=20
)


@settings(max_examples=examples(60), deadline=None)
@given(cells, st.integers(2, 6), st.booleans())
def test_a_weight_of_k_is_divided_as_k_rows_are(
    table: list[tuple[int, int, int]], n_folds: int, is_classes: bool
) -> None:
    x, y, times = np.array(table).T
    weighted = sample_of(x, y, times)
    row = np.repeat(np.arange(len(x)), times)
    repeated = sample_of(x[row], y[row])
    kinds = [are_observations(x, y, times, is_classes=is_classes)]
    kinds.append(are_observations(x[row], y[row], is_classes=is_classes))
    if len(set(x)) < 2 or kinds[0] != kinds[1]:
        assert len(set(x)) < 2 or len(row) >= 10 * len(set(x))
        return
    found = []
    for sample in (repeated, weighted):
        try:
            found.append(folds_of(sample, n_folds, is_classes))
        except DataError:  # one row, or one of each class, is too few
            found.append(None)
    if None in found:  # only where no class has rows of two values
        assert found == [None, None]
        assert is_classes
        assert len(set(zip(x, y, strict=True))) == len(set(y))
        return
    for light, heavy in zip(*found, strict=True):
        for part in ("train", "test"):
            counted: dict[Any, float] = {}
            for i in row[getattr(light, part)]:
                counted[x[i], y[i]] = counted.get((x[i], y[i]), 0.0) + 1.0
            rows, weight = getattr(heavy, part), getattr(heavy, f"{part}_weight")
            weight = times[rows] if weight is None else weight
            summed: dict[Any, float] = {}
            for i, w in zip(rows, weight, strict=True):
                summed[x[i], y[i]] = summed.get((x[i], y[i]), 0.0) + w
            assert counted == pytest.approx(summed)


def test_observations_are_dealt_out_by_chance() -> None:
    """The held-out rows of a value do not mirror its training rows."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 100, 1000), rng.integers(0, 2, 1000)
    found = []
    for fold in folds_of(sample_of(x, y)):
        sizes = [np.bincount(x[rows], minlength=100) for rows in (fold.train, fold.test)]
        ones = [np.bincount(x[r], weights=y[r], minlength=100) for r in (fold.train, fold.test)]
        there = (sizes[0] > 0) & (sizes[1] > 0)
        shares = [one[there] / size[there] for one, size in zip(ones, sizes, strict=True)]
        found.append(np.corrcoef(*shares)[0, 1])
        assert abs(y[fold.test].mean() - y.mean()) < 0.01  # but each class is spread evenly
    assert abs(np.mean(found)) < 0.12


def test_huge_weights_are_divided_in_time() -> None:
    x, y = np.repeat(np.arange(14), 2), np.tile([0, 1], 14)
    weight = np.arange(28) * 1e9 + 1e8
    folds = folds_of(sample_of(x, y, weight))
    tested = sum(np.bincount(f.test, weights=f.test_weight, minlength=28) for f in folds)
    np.testing.assert_allclose(tested, weight)


# -- fits --------------------------------------------------------------------------


def few_values(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return three columns of 4, 2 and 2 values, and a class."""
    rng = np.random.default_rng(seed)
    rank, age, sex = (
        rng.choice(4, n_rows, p=[0.15, 0.13, 0.32, 0.4]), rng.random(n_rows) < 0.95,
        rng.random(n_rows) < 0.8,
    )  # fmt: skip
    score = np.array([2.0, 1.0, 0.3, 0.8])[rank] - 2.4 * sex - age + 1.5 * (rank == 2) * sex
    y = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-score))
    return np.column_stack([rank, age, sex]).astype(float), y.astype(int)


def log_losses(model: Any, X: Any, y: Any) -> np.ndarray:
    return -np.log(np.maximum(model.predict_proba(X)[np.arange(len(y)), y], 1e-15))


def test_folds_are_scored_alike_with_counts_and_with_rows() -> None:
    X, y = few_values(2_201)
    table, first, times = np.unique(
        np.column_stack([X, y]), axis=0, return_index=True, return_counts=True
    )
    order = np.argsort(first)  # the order of the rows may change the folds
    table, times = table[order], times[order]
    params: dict[str, Any] = PLAIN | {"early_stopping": "cv", "min_samples_leaf": 1, "patience": 10}
    rows = HedgerowClassifier(**params).fit(X, y)
    counts = HedgerowClassifier(**params).fit(table[:, :-1], table[:, -1], sample_weight=times)
    curves = [model.evals_result_["cv"]["loss"] for model in (rows, counts)]
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-6)
    assert rows.n_iter_ == counts.n_iter_ > 10
    np.testing.assert_allclose(rows.predict_proba(X), counts.predict_proba(X), rtol=1e-5)


@pytest.mark.parametrize("counted", [False, True])
def test_few_different_rows_are_learned(counted: bool) -> None:
    X, y = few_values(2_201)
    X_new, y_new = few_values(20_000, seed=1)
    plain = log_losses(HedgerowClassifier(**PLAIN).fit(X, y), X_new, y_new).mean()
    if counted:
        table, times = np.unique(np.column_stack([X, y]), axis=0, return_counts=True)
        model = HedgerowClassifier(random_state=0, n_jobs=1)
        model.fit(table[:, :-1], table[:, -1], sample_weight=times)
    else:
        model = HedgerowClassifier(random_state=0, n_jobs=1).fit(X, y)
    assert log_losses(model, X_new, y_new).mean() < plain + 0.003
