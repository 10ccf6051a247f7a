"""The table of all splits of category columns has exactly the sets that the search tries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from hedgerow.boosting.inspect.category_table import LevelSums, category_splits, sum_levels
from hedgerow.boosting.inspect.split_table import split_table
from hedgerow.boosting.loop.fit import fit
from hedgerow.boosting.loop.sample import Sample
from hedgerow.data import Column, Schema, Table
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from tests.growing.test_category_split import category_rules, histograms, rules
from tests.helpers import engine
from tests.helpers.examples import examples
from tests.reference import naive, naive_category

STRIDE = 16


def params_of(chosen, category):
    return BoostParams(
        min_samples_leaf=chosen.min_samples_leaf,
        min_child_weight=chosen.min_child_weight,
        reg_lambda=chosen.reg_lambda,
        reg_alpha=chosen.reg_alpha,
        max_delta_step=chosen.max_delta_step,
        max_cat_to_onehot=category.most_one_hot,
        max_cat_threshold=category.most,
        cat_smooth=category.smooth,
        cat_l2=category.penalty,
        min_data_per_group=category.min_group,
    )


def rows_of(table):
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


@settings(max_examples=examples(300))
@given(histograms(), rules, category_rules)
def test_sets_are_those_of_the_naive_search(node_data, chosen, category) -> None:
    """The histograms are integers; each level has a bin, and missing values have the last one."""
    g, h, n, node = node_data
    levels, level_bin = tuple(range(STRIDE - 1)), np.arange(STRIDE - 1, dtype=np.uint8)
    sums = LevelSums(levels, level_bin, g.astype(float)[None], h.astype(float)[None], n)
    table = rows_of(category_splits(sums, params_of(chosen, category)))
    present = frozenset(np.flatnonzero(n).tolist())

    def division(row):
        left = {*row["left_levels"], *[STRIDE - 1] * (row["missing"] == "left")} & present
        return frozenset([left := frozenset(left), present - left])

    shown = {division(row): row for row in table}
    assert len(shown) == len(table)  # no division twice
    tried = {}
    lists = (g.tolist(), h.tolist(), n.tolist())
    for score, bins in naive_category.sets_tried(*lists, node, chosen, category):
        tried.setdefault(frozenset([bins, present - bins]), score)
    assert {key for key, row in shown.items() if row["allowed"]} == set(tried)
    parent = 2 * naive.loss_reduction(node[0], node[1], naive.exact_rules(chosen))
    for key, score in tried.items():
        expected = float((score - parent) / 2)
        assert shown[key]["gain"] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    for row in table:
        left = [b for b in range(STRIDE - 1) if b in row["left_levels"]]
        left += [STRIDE - 1] * (row["missing"] == "left")
        assert row["g_left"] == sum(g[b] for b in left)
        assert row["n_left"] + row["n_right"] == node[2]
        assert row["n_left"] == sum(n[b] for b in left)
        assert (row["missing"] is None) == (n[-1] == 0)
        assert row["threshold"] is None


@settings(max_examples=examples(200))
@given(histograms(), rules, category_rules)
def test_best_set_is_the_one_of_the_engine(node_data, chosen, category) -> None:
    g, h, n, node = node_data
    found = engine.search_categories(g, h, n, node, chosen, category)
    levels, level_bin = tuple(range(STRIDE - 1)), np.arange(STRIDE - 1, dtype=np.uint8)
    sums = LevelSums(levels, level_bin, g.astype(float)[None], h.astype(float)[None], n)
    allowed = [
        row for row in rows_of(category_splits(sums, params_of(chosen, category))) if row["allowed"]
    ]
    assert (found.score >= 0) == bool(allowed)
    if not allowed:
        return
    best = max(row["gain"] for row in allowed)
    left = [b for b in range(STRIDE - 1) if int(found.words[0]) >> b & 1]
    side = None if n[-1] == 0 else "left" if found.missing_left else "right"
    same = [row for row in allowed if (row["left_levels"], row["missing"]) == (left, side)]
    assert [row["gain"] for row in same] == [pytest.approx(best, rel=1e-9, abs=1e-9)]


# -- by hand --------------------------------------------------------------------------------

LEVELS = ("a", "b", "c", "d")


def fitted(codes, y, **more):
    """Return a model of one category column and its rows (y has mean 0, so g = -y and h = 1)."""
    schema = Schema((Column("c", "category", LEVELS),), named=True)
    values = np.array(codes, dtype=float)[:, None]
    offset = np.zeros((1, len(y)))
    sample = Sample(Table(values, schema), np.array(y, dtype=float), None, offset)
    settings = {"n_estimators": 1, "min_samples_leaf": 1, "learning_rate": 1.0, "cat_l2": 2.0,
                "cat_smooth": 1.0, "min_data_per_group": 1, **more}  # fmt: skip
    objective = make_objective("squared_error")
    return fit(sample, objective, BoostParams(**settings)), objective, sample


def test_few_levels_by_hand() -> None:
    # G = -2, 1, 1, lambda = 1: a alone 1/2 [4/2 + 4/3 - 0], b alone 1/2 [1/2 + 1/3 - 0]
    model, objective, sample = fitted([0, 1, 2], [2.0, -1.0, -1.0], max_leaves=2)
    table = rows_of(split_table(model, objective, sample, 0, 0))
    assert [row["left_levels"] for row in table] == [["a"], ["b"], ["c"]]
    gains = [0.5 * (4 / 2 + 4 / 3), *[0.5 * (1 / 2 + 1 / 3)] * 2]
    assert [row["gain"] for row in table] == pytest.approx(gains)
    assert [(row["g_left"], row["h_right"]) for row in table] == [
        (-2.0, 2.0),
        (1.0, 2.0),
        (1.0, 2.0),
    ]
    assert {row["feature"] for row in table} == {"c"}
    assert model.forest.gain[0] == pytest.approx(gains[0])
    assert all(row["allowed"] for row in table)


def test_sorted_levels_by_hand() -> None:
    # G / (H + 1): c -4/2, a -1/2, missing 0/2, b 3/3, d 2/2 (b before d: the lower bin).
    codes, y = [0, 1, 1, 2, 3, np.nan], [1.0, -1.0, -2.0, 4.0, -2.0, 0.0]
    model, objective, sample = fitted(codes, y, max_leaves=2)
    table = rows_of(split_table(model, objective, sample, 0, 0))
    # Three groups of five from either end: all four cuts.  Absent levels there are none.
    seen = [(row["left_levels"], row["missing"]) for row in table]
    assert seen == [
        (["c"], "right"),
        (["a", "c"], "right"),
        (["a", "c"], "left"),
        (["d"], "right"),
    ]

    def gain(g, h):  # lambda 1, cat_l2 2; the node itself pays lambda alone: G = 0
        return 0.5 * (g * g / (h + 3.0) + g * g / (6.0 - h + 3.0))

    expected = [gain(-4.0, 1.0), gain(-5.0, 2.0), gain(-5.0, 3.0), gain(2.0, 1.0)]
    assert [row["gain"] for row in table] == pytest.approx(expected)
    assert model.forest.gain[0] == pytest.approx(max(expected))
    assert [row["n_left"] for row in table] == [1, 2, 3, 1]


def test_small_levels_go_together_and_groups_need_rows() -> None:
    codes, y = [0, 0, 0, 1, 1, 1, 2, 3, np.nan], [5.0] * 3 + [-5.0] * 3 + [1.0, 2.0, 0.0]
    model, objective, sample = fitted(codes, y, cat_smooth=2.0, min_data_per_group=4)
    table = rows_of(split_table(model, objective, sample, 0, 0))
    # c, d and missing values have fewer than two rows; they stand between a and b.
    assert [(row["left_levels"], row["missing"], row["allowed"]) for row in table] == [
        (["a"], "right", False),  # three rows, of four
        (["a", "c", "d"], "left", False),  # leaves three
    ]
    model, objective, sample = fitted(codes, y, cat_smooth=2.0, min_data_per_group=3)
    table = rows_of(split_table(model, objective, sample, 0, 0))
    assert [row["allowed"] for row in table] == [True, True]
    assert max(row["gain"] for row in table) == pytest.approx(model.forest.gain[0])


BINS = np.arange(4, dtype=np.uint8)


def sums_of(codes):
    ones = np.ones((1, len(codes)))
    return sum_levels(LEVELS, BINS, np.array(codes), ones, ones)


def test_levels_without_a_row_go_with_the_larger_side() -> None:
    (row,) = rows_of(category_splits(sums_of([0, 0, 1]), BoostParams()))
    assert (row["left_levels"], row["missing"], row["n_left"]) == (["a", "c", "d"], None, 2)
    (row,) = rows_of(category_splits(sums_of([0, 1, 1]), BoostParams()))
    assert (row["left_levels"], row["missing"], row["n_left"]) == (["a"], None, 1)


def test_unknown_and_missing_values_are_one() -> None:
    assert sums_of([0, 0, 1, 5, 4]).n.tolist() == [2, 1, 0, 0, 2]


def test_a_node_with_one_level_has_no_set() -> None:
    assert rows_of(category_splits(sums_of([2, 2]), BoostParams())) == []
