"""Exclusive feature bundling: the search for bundles, their cells, and the trees on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import HedgerowRegressor
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.data import Column, Schema, bin_table, fit_bins, read_any
from hedgerow.data.binning.bundles import BundleRules, lay_out, may_pay
from hedgerow.data.binning.matrix import bin_bundled, bin_unseen
from hedgerow.errors import ParameterError
from hedgerow.growing.core import grower as grower_module
from hedgerow.io import model_to_bytes
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams, grouped
from tests.helpers.engine import TREE_FIELDS, rounds
from tests.helpers.examples import examples
from tests.reference import naive_bundles as naive

sparse = pytest.importorskip("scipy.sparse")


def one_hot(seed, n_rows=300, levels=(5, 9, 30), values=1.0):
    """Return indicators of several categories side by side."""
    rng = np.random.default_rng(seed)
    blocks = [np.eye(k, dtype=np.float32)[rng.integers(0, k, n_rows)] for k in levels]
    return values * np.hstack(blocks)


def mixed(seed, n_rows=150, n_features=14, missing=0.02):
    """Return sparse columns of several values, signs, and densities."""
    rng = np.random.default_rng(seed)
    X = np.round(2 * rng.standard_normal((n_rows, n_features)))
    X[rng.random(X.shape) > rng.choice([0.01, 0.05, 0.1, 0.5, 0.9], n_features)] = 0.0
    X[rng.random(X.shape) < missing * rng.random(n_features)] = np.nan
    return (X + 0.0).astype(np.float32)


def prepared(X, zero_missing=False, max_bins=255):
    table = read_any(sparse.csr_array(X), zero_missing=zero_missing)
    return table, fit_bins(table, max_bins)


every_rule = st.builds(
    BundleRules,
    when=st.just(True),
    order=st.sampled_from(["count", "degree"]),
    conflicts=st.sampled_from(["sum", "max"]),
    max_conflict_rate=st.sampled_from([0.0, 0.01, 0.05, 0.3]),
)
seeds = st.integers(0, 2**32 - 1)


# -- the search ------------------------------------------------------------------------------


@given(seeds, every_rule, st.booleans(), st.integers(1, 3))
def test_bundles_are_those_of_the_naive_search(seed, rules, zero_missing, n_threads):
    table, spec = prepared(mixed(seed), zero_missing)
    layout = lay_out(table, spec, rules, n_threads)
    expected, n_conflicts = naive.bundles(table, spec, rules)
    found = {
        frozenset(layout.members[a:b].tolist())
        for a, b in zip(layout.member_start, layout.member_start[1:], strict=False)
    }
    assert found == expected
    assert layout.n_conflicts == n_conflicts


def test_more_bundles_than_can_be_open_and_more_cells_than_a_column_has():
    rng = np.random.default_rng(0)
    dense = (rng.random((64, 200)) < 0.4).astype(np.float32)  # all in conflict: many bundles
    table, spec = prepared(np.hstack([dense, one_hot(0, 64, (64,))]))
    layout = lay_out(table, spec, BundleRules(True))
    expected, _ = naive.bundles(table, spec, BundleRules(True))
    assert layout.n_columns == len(expected) > 128
    X = one_hot(1, 4000, (400,))
    table, spec = prepared(X)
    layout = lay_out(table, spec, BundleRules(True))
    assert layout.n_columns == 2
    assert layout.n_cells.max() == 255
    assert layout.stride == 256


def test_a_table_with_nothing_in_it_has_one_column():
    table, spec = prepared(np.zeros((30, 4), np.float32))
    layout = lay_out(table, spec, BundleRules())
    assert (layout.n_columns, layout.column.tolist()) == (1, [0, -1, -1, -1])


# -- cells ---------------------------------------------------------------------------------------


@given(seeds, every_rule, st.booleans())
def test_cells_give_the_codes_back(seed, rules, zero_missing):
    table, spec = prepared(mixed(seed), zero_missing)
    layout = lay_out(table, spec, rules)
    matrix = bin_table(table, spec, 2, layout=layout)
    plain = bin_table(table, spec)
    for feature in range(table.n_features):
        bins = plain.by_column[feature, : table.n_rows].astype(int)
        codes = np.where(bins == spec.missing_bin, spec.n_bins(feature), bins)
        found = naive.codes_in(matrix, feature)
        differ = found != codes
        assert (found[differ] == layout.default_bin[feature]).all()
        if layout.n_conflicts == 0:
            assert not differ.any()


def test_indicators_stand_in_front_of_their_bundle():
    X = np.hstack([one_hot(0), -one_hot(1), 2 * one_hot(2) * (1 + np.arange(300)[:, None] % 2)])
    table, spec = prepared(X)
    layout = lay_out(table, spec, BundleRules(True))
    single = (layout.count == 1) & (layout.default_bin == 0)
    assert layout.n_single.sum() == single[layout.first >= 0].sum() > 0
    for c, n in enumerate(layout.n_single):
        members = layout.members[layout.member_start[c] : layout.member_start[c + 1]]
        assert single[members[:n]].all()
        assert (np.diff(members[:n]) > 0).all()
        assert layout.first[members[:n]].tolist() == list(range(1, n + 1))


# -- trees -----------------------------------------------------------------------------------


def grown(table, spec, y, rules, weight=None, n_threads=1, **params):
    """Return trees on bundles, by feature."""
    params = BoostParams(**{"n_estimators": 3, "min_samples_leaf": 2, **params})
    matrix = bin_bundled(table, spec, rules, n_threads)
    data = TrainingData(matrix, np.asarray(y, dtype=np.float64), weight)
    *_, last = rounds(data, make_objective("squared_error"), params, n_threads=n_threads)
    forest = last.freeze()
    names = [name for name in TREE_FIELDS if name != "bin"]
    return matrix, b"".join(getattr(forest, name).tobytes() for name in [*names, "threshold"])


OF_LEVELS = (
    {},
    {"monotone_constraints": (1, 0, -1) + (0,) * 26, "path_smooth": 3.0},
    {"interaction_constraints": (tuple(range(15)), tuple(range(10, 29)))},
    {"colsample_bytree": 0.5, "colsample_bylevel": 0.7, "colsample_bynode": 0.7},
    {"subsample": 0.5, "reg_alpha": 0.5},
)
OF_NODES = ({"extra_trees": True},)


@settings(max_examples=examples(60))
@given(
    seeds,
    st.booleans(),
    st.tuples(st.sampled_from(OF_LEVELS), st.sampled_from(["leafwise", "symmetric"]))
    | st.tuples(st.sampled_from(OF_NODES), st.just("leafwise")),
    st.booleans(),
    st.booleans(),
)
def test_trees_are_the_same_bytes_with_and_without_bundles(
    seed, zero_missing, grown_by, weighted, keeps_slots
):
    params, policy = grown_by
    rng = np.random.default_rng(seed)
    X = np.hstack([mixed(seed, 300, 12), one_hot(seed, 300, (3, 8)), -one_hot(seed + 1, 300, (6,))])
    table, spec = prepared(X, zero_missing)
    y = np.nansum(X[:, ::3], axis=1) + rng.standard_normal(len(X))
    weight = rng.random(len(X)) + 0.1 if weighted else None
    if policy == "symmetric":
        params = {"grow_policy": "symmetric", "max_depth": 4, **params}
    _, plain = grown(table, spec, y, BundleRules(False), weight, **params)
    with pytest.MonkeyPatch.context() as patch:
        if not keeps_slots:
            patch.setattr(grower_module, "_SLOT_BYTES", 1)
        for n_threads in (1, 2, 3):
            matrix, bundled = grown(table, spec, y, BundleRules(True), weight, n_threads, **params)
            assert matrix.layout is not None
            assert matrix.layout.has_bundles
            assert bundled == plain


@pytest.mark.parametrize("policy", ["leafwise", "symmetric"])
def test_equal_gains_go_to_the_lower_feature(policy):
    X = one_hot(0, 400, (6,))
    X = np.hstack([X, X[:, ::-1], X[:, [3]]])  # every indicator twice or three times
    y = X[:, 3] * 2.0 + X[:, 1]
    for order in ("count", "degree"):
        model = HedgerowRegressor(
            n_estimators=4, bundle_features=True, early_stopping=False,
            grow_policy=policy, advanced={"bundle_order": order},
        ).fit(X, y)  # fmt: skip
        used = np.flatnonzero(model.booster_.feature_importance("split"))
        assert used.max() < 6


@settings(max_examples=examples(15))
@given(seeds, every_rule, st.sampled_from(["leafwise", "symmetric"]))
def test_conflicts_change_training_only_and_alike_for_dense_tables(seed, rules, policy):
    X = mixed(seed, 400, 20, missing=0.0)
    y = np.nansum(X[:, :5], axis=1) + np.random.default_rng(0).standard_normal(len(X))
    params = {
        "n_estimators": 4,
        "min_samples_leaf": 5,
        "early_stopping": False,
        "bundle_features": rules.when,
        "bundle_order": rules.order,
        "max_conflict_rate": rules.max_conflict_rate,
        "grow_policy": policy,
    }
    if rules.max_conflict_rate > 0.0:
        params["bundle_conflicts"] = rules.conflicts
    dense, model = (
        HedgerowRegressor(**grouped(params)).fit(t, y) for t in (X, sparse.csr_array(X))
    )
    assert model_to_bytes(dense.booster_.model) == model_to_bytes(model.booster_.model)
    np.testing.assert_array_equal(model.predict(sparse.csr_array(X)), model.predict(X))
    forest = model.booster_.model.forest
    raw = forest.base_score[0] + naive.walk(forest, X)
    np.testing.assert_allclose(model.predict(X), raw, rtol=1e-12, atol=1e-12)


# -- rows that were not trained on -----------------------------------------------------------------


def test_validation_rows_with_conflicts_or_new_missing_values_are_scored_as_they_are():
    X = one_hot(4, 500)
    y = X @ np.arange(X.shape[1], dtype=float)
    twice, gone = X[:100].copy(), X[:100].copy()
    twice[:, :3] = 1.0
    gone[5, 7] = np.nan
    table = read_any(sparse.csr_array(X))
    matrix = bin_bundled(table, fit_bins(table, 255), BundleRules(True))
    plain = bin_unseen(read_any(X[:100]), matrix)
    assert plain.layout is matrix.layout
    for unseen in (X[:100], twice, gone):
        histories = [
            HedgerowRegressor(n_estimators=5, bundle_features=bundled)
            .fit(X, y, X_val=unseen, y_val=y[:100])
            .evals_result_
            for bundled in (True, False)
        ]
        assert histories[0] == histories[1]
        found = bin_unseen(read_any(unseen, table.schema), matrix)
        assert hasattr(found, "by_row") == (unseen is not twice and unseen is not gone)


# -- when ----------------------------------------------------------------------------------------


def test_dense_tables_are_bundled_where_that_pays():
    rng = np.random.default_rng(0)
    numbers, indicators = rng.standard_normal((500, 20)), one_hot(0, 500)
    auto = BundleRules()
    assert not may_pay(read_any(numbers), auto)
    assert may_pay(read_any(indicators), auto)
    assert may_pay(read_any(np.hstack([numbers, indicators])), auto)
    assert not may_pay(read_any(np.hstack([numbers, indicators[:, :3]])), auto)
    assert not may_pay(read_any(indicators), BundleRules(False))
    assert may_pay(read_any(indicators, zero_missing=True), auto)
    for table, bundled in ((numbers, False), (indicators, True)):
        dense = read_any(table)
        layout = bin_bundled(dense, fit_bins(dense, 255), auto).layout
        assert (layout is not None and layout.has_bundles) == bundled


def test_bundles_and_categories_do_not_mix():
    table = read_any(np.tile([[0.0, 1.0], [1.0, 0.0]], (20, 1)))
    schema = Schema((Column("a", "category", ("x", "y")), Column("b", "float")))
    table = type(table)(table.values, schema)
    spec = fit_bins(table, 255)
    with pytest.raises(ParameterError, match="'a' is a category"):
        bin_bundled(table, spec, BundleRules(True))
    assert bin_bundled(table, spec, BundleRules()).layout is None


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"bundle_features": "yes"}, "bundle_features must be True, False or 'auto'"),
        ({"bundle_order": "counts"}, "Did you mean 'count'"),
        ({"max_conflict_rate": 1.0}, "max_conflict_rate must be"),
        ({"bundle_features": False, "bundle_order": "degree"}, "bundle_order='degree' has no"),
        ({"bundle_features": False, "max_conflict_rate": 0.1}, "max_conflict_rate=0.1 has no"),
        ({"tree_method": "exact", "bundle_features": True}, "bundle_features=True has no effect"),
        ({"bundle_conflicts": "max"}, "bundle_conflicts='max' has no effect"),
        ({"zero_as_missing": 1}, "zero_as_missing must be True or False"),
    ],
)
def test_parameters_are_checked(params, words):
    with pytest.raises(ParameterError, match=words):
        HedgerowRegressor(**grouped(params)).fit(np.eye(30), np.arange(30.0))


@pytest.mark.fast(2)
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_lists_of_cells_give_the_same_histograms(n_threads, monkeypatch):
    X = mixed(6, 9000, 150, missing=0.01)  # more rows and columns than one thread and tile take
    X = np.hstack([np.where(np.arange(150) % 3 == 0, -X, X), one_hot(0, 9000, (40, 5))])
    y = np.nansum(X[:, :9], axis=1) + np.random.default_rng(0).standard_normal(len(X))
    table, spec = prepared(X)
    found = []
    for filled in (0.0, 1 / 8, 1.1):
        monkeypatch.setattr(grower_module, "_FILLED", filled)
        matrix, trees = grown(table, spec, y, BundleRules(), n_threads=n_threads)
        found.append(trees)
        lists = grower_module.make_row_lists(matrix)
        assert matrix.n_tiles > 1
        assert lists.listed.sum() == {0.0: 0, 1.1: matrix.n_tiles}.get(filled, lists.listed.sum())
    assert found[0] == found[1] == found[2]
