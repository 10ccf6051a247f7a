"""Rounds of a default fit if the rarest class has too few rows for the folds."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow import HedgerowClassifier, HedgerowRegressor
from hedgerow.boosting.validation.folds import can_judge, draw_folds, folds_to_test


def table(n_rows: int, n_rare: int, *, separable: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_rows + n_rare)
    X, y = rng.normal(size=(n_rows, 4)), np.zeros(n_rows)
    rare = np.argsort(-X[:, 0]) if separable else rng.permutation(n_rows)
    y[rare[:n_rare]] = 1.0
    return X, y


@pytest.mark.parametrize(
    ("n_rows", "n_rare"),
    [(30, 1), (600, 1), (1000, 2), (1000, 3), (4000, 1), (4000, 3), (11000, 2)],
)
@pytest.mark.parametrize("separable", [True, False])
def test_few_rows_of_a_class_take_few_rounds(n_rows: int, n_rare: int, separable: bool) -> None:
    X, y = table(n_rows, n_rare, separable=separable)
    model = HedgerowClassifier(random_state=0, n_jobs=1).fit(X, y)
    assert model.n_iter_ <= (300 if separable else 20)
    n_folds, n_tested = model.chosen_params_["folds"]
    assert (n_tested == 0) == (n_rare == 1)
    assert n_folds in (5, 10)


def test_classes_of_one_row_beside_a_frequent_one() -> None:
    X, y = table(600, 0, separable=False)
    y[[3, 5]] = 1.0, 2.0
    assert HedgerowClassifier(random_state=0, n_jobs=1).fit(X, y).n_iter_ <= 20
    y[300:] = 3.0  # the folds compare the two frequent classes
    assert HedgerowClassifier(random_state=0, n_jobs=1).fit(X, y).chosen_params_["folds"] == [5, 5]


def test_copies_of_one_row_are_one_row() -> None:
    X, y = table(600, 1, separable=False)
    copies = np.repeat(np.arange(600), np.where(y == 1.0, 30, 1))
    model = HedgerowClassifier(random_state=0, n_jobs=1).fit(X[copies], y[copies])
    assert model.n_iter_ <= 20


@pytest.mark.parametrize("n_rare", [1, 4])
def test_a_group_with_all_rows_of_a_class(n_rare: int) -> None:
    X, y = table(600, 0, separable=False)
    y[100 : 100 + n_rare] = 1.0
    model = HedgerowClassifier(random_state=0, n_jobs=1).fit(X, y, groups=np.arange(600) // 5)
    assert model.n_iter_ <= 20


def test_one_count_among_zeros() -> None:
    X, y = table(12_000, 1, separable=False)
    model = HedgerowRegressor(objective="poisson", random_state=0, n_jobs=1).fit(X, y)
    assert model.n_iter_ <= 20


@pytest.mark.parametrize("several", [False, True])
def test_folds_with_rare_targets_are_tested(several: bool) -> None:
    y = np.zeros(100)
    y[:3] = 1.0
    folds = draw_folds(y, 10, stratify=True, seed=0)
    target = np.column_stack([np.ones(100), y]) if several else y
    assert [int(y[fold.test].sum()) for fold in folds] == [0] * 7 + [1] * 3
    assert not can_judge(folds[:7], target)
    assert can_judge(folds[6:8], target)
    tested = folds_to_test(folds, target, 2)
    assert tested == folds[7:9]
    assert folds_to_test(folds, target, 10) == folds
    assert folds_to_test(folds[6:], target, 2) == folds[6:8]  # the first ones can judge
    assert can_judge(folds[:2], np.ones((100, 2)) if several else np.ones(100))
    in_one_group = draw_folds(y, 5, stratify=False, seed=0, groups=np.arange(100) // 4)
    assert not can_judge(in_one_group, target)
