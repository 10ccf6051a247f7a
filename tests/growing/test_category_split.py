"""Category columns in the engine: best sets, growth, prediction and unknown values."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.boosting.loop.driver import FitOptions
from hedgerow.boosting.loop.sample import Sample
from hedgerow.data import bin_table, fit_bins
from hedgerow.data.categories.recode import drop_unused_levels
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import Column, Schema
from hedgerow.errors import ModelFormatError
from hedgerow.io import model_to_bytes
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.model.predict import Predictor
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from tests.helpers import engine
from tests.helpers.examples import examples
from tests.helpers.fitting import fit_sample
from tests.reference import naive, naive_category

STRIDE = 16

category_rules = st.builds(
    engine.CategoryRules,
    st.integers(1, 6),
    st.integers(1, 10),
    st.sampled_from([0.0, 1.0, 3.0]),
    st.sampled_from([0.0, 2.0]),
    st.integers(1, 6),
)
rules = st.builds(
    naive.Rules,
    st.integers(1, 4),
    st.sampled_from([0.0, 2.0]),
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([0.0, 1.5]),
    st.just(0.0),
    st.sampled_from([0.0, 0.5]),
)


@st.composite
def histograms(draw, most_rows=60):
    rng = np.random.default_rng(draw(st.integers(0, 10**9)))
    n_rows = draw(st.integers(1, most_rows))
    n_used = draw(st.integers(1, STRIDE))
    bins = rng.choice(rng.permutation(STRIDE)[:n_used], n_rows)
    g, h, n = (np.zeros(STRIDE, dtype=np.int64) for _ in range(3))
    rows_g = rng.integers(-9, 10, n_rows)
    rows_h = np.ones(n_rows, np.int64) if draw(st.booleans()) else rng.integers(0, 4, n_rows)
    for sums, values in ((g, rows_g), (h, rows_h), (n, np.ones(n_rows, np.int64))):
        np.add.at(sums, bins, values)
    return g, h, n, (int(rows_g.sum()), int(rows_h.sum()), n_rows)


def bins_in(words):
    return {b for b in range(STRIDE) if int(words[b // 64]) >> (b % 64) & 1}


bounds = st.one_of(
    st.none(),
    st.tuples(*[st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0])] * 2).map(lambda b: tuple(sorted(b))),
)


@given(histograms(), rules, category_rules, bounds)
def test_best_set_is_the_best_of_those_tried(node_data, chosen, category, bounds) -> None:
    """Also the best with the leaf values that bounds allow, not the best without bounds."""
    g, h, n, node = node_data
    score_found, found = engine.search_categories(g, h, n, node, chosen, category, bounds=bounds)
    sums = g.tolist(), h.tolist(), n.tolist()
    within = bounds and tuple(map(Fraction, bounds))
    tried = list(naive_category.sets_tried(*sums, node, chosen, category, within))
    if not tried:
        assert found is None
        return
    best = max(score for score, _ in tried)
    slack = max(abs(best), 1) * Fraction(1, 10**12)
    good = [bins for score, bins in tried if score >= best - slack]
    present = {b for b in range(STRIDE) if n[b] > 0}
    left = bins_in(found.words)
    assert left & present in good
    sums = [int(sum(values[b] for b in left)) for values in (g, h, n)]
    assert (found.g, found.h, found.n) == tuple(sums)
    assert score_found == pytest.approx(float(best), rel=1e-12, abs=1e-12)
    # Bins without a row go with the larger part.
    absent = set(range(STRIDE)) - present
    assert left & absent == (absent if 2 * found.n >= node[2] else set())
    assert found.missing_left == (STRIDE - 1 in left)


# -- whole fits --------------------------------------------------------------------------


def table_of(seed, n_rows=400, levels=(2, 5, 30, 400), keys=False):
    """Return category columns with missing values, a number, and a target that depends on them."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, k, n_rows) for k in levels]
    effects = [rng.standard_normal(k) for k in levels]
    number = rng.standard_normal(n_rows)
    y = sum(effect[code] for effect, code in zip(effects, codes, strict=True)) + number
    y = y + 0.1 * rng.standard_normal(n_rows)
    values = np.column_stack([*codes, number])
    values[rng.random(values.shape) < 0.05] = np.nan
    columns = [Column(f"c{k}", "category", tuple(f"v{i:05d}" for i in range(k))) for k in levels]
    schema = Schema((*columns, Column("x", "int" if keys else "float")), named=True)
    if keys:
        whole = np.where(np.isnan(number), 0, np.round(100 * number)).astype(np.int64)
        values = np.column_stack([keys_of_floats(values[:, :-1]), whole])
    return drop_unused_levels(Table(values, schema)), y


def train(table, y, n_jobs=1, objective="squared_error", **more):
    params = BoostParams(**{"n_estimators": 12, "min_samples_leaf": 3, "cat_smooth": 2.0,
                            "min_data_per_group": 5, "target_statistics": False,
                            **more})  # fmt: skip
    return fit_sample(
        Sample(table, y), make_objective(objective), params, FitOptions(n_jobs=n_jobs)
    )


def same(a, b):
    return np.array_equal(np.asarray(a).view(np.int64), np.asarray(b).view(np.int64))


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("max_bins", [255, 20])
def test_prediction_equals_the_naive_walk(keys, max_bins) -> None:
    table, y = table_of(1, keys=keys)
    model = train(table, y, max_bins=max_bins)
    assert model.forest.has_sets.any()
    predictor = Predictor(model.forest, table.schema.kinds)
    expected = naive_category.raw_scores(model.forest, table.schema.kinds, table.values)
    assert same(predictor.raw_scores(table.values), expected)
    assert same(predictor.raw_scores(table.values[:5]), expected[:, :5])
    nodes = [
        [naive_category.leaf_of(model.forest, table.schema.kinds, t, row) for t in range(12)]
        for row in table.values[:40]
    ]
    assert np.array_equal(predictor.leaves(table.values[:40]), nodes)


def test_levels_beyond_the_bins_share_one() -> None:
    table, _ = table_of(4, n_rows=3000, levels=(400,))
    spec = fit_bins(table, max_bins=32)
    bins = spec.bins_of(0)
    counts = np.bincount(table.values[~np.isnan(table.values[:, 0]), 0].astype(int), minlength=400)
    own = np.flatnonzero(bins < 31)
    assert spec.n_bins(0) == 32
    assert len(own) == 31
    assert counts[own].min() >= np.delete(counts, own).max()
    assert (np.diff(bins[own].astype(int)) > 0).all()
    matrix = bin_table(table, spec)
    missing = np.isnan(table.values[:, 0])
    assert (matrix.by_column[0, :3000][missing] == spec.missing_bin).all()
    present = table.values[~missing, 0].astype(int)
    assert np.array_equal(matrix.by_column[0, :3000][~missing], bins[present])


def test_inner_nodes_have_the_mean_of_searched_leaves() -> None:
    table, y = table_of(9, levels=(6,))
    model = train(table, y, objective="absolute_error", n_estimators=3)
    forest = model.forest
    for tree in range(3):
        one = forest.tree(tree)
        for node in np.flatnonzero(one.feature >= 0)[::-1]:
            a, b = one.left[node], one.right[node]
            mean = np.average(one.value[[a, b]], weights=one.cover[[a, b]])
            assert one.value[node] == pytest.approx(mean, rel=1e-12, abs=1e-15)


@settings(max_examples=examples(20))
@given(st.integers(0, 10**6), st.floats(0.0, 0.6))
def test_rows_with_unknown_values_end_where_the_naive_walk_does(seed, share) -> None:
    table, y = table_of(seed, n_rows=300, levels=(3, 20))
    model = train(table, y, n_estimators=4)
    values = table.values.copy()
    rng = np.random.default_rng(seed)
    for j, n_levels in enumerate((3, 20)):
        values[rng.random(len(values)) < share, j] = n_levels
    kinds = table.schema.kinds
    predictor = Predictor(model.forest, kinds)
    expected = naive_category.raw_scores(model.forest, kinds, values)
    assert same(predictor.raw_scores(values), expected)
    for stage, raw in enumerate(predictor.staged(values), start=1):
        part = naive_category.raw_scores(model.forest.first_rounds(stage), kinds, values)
        assert same(raw, part)


def replace_tables(model, **changed):
    tables = replace(model.forest.categories, **changed)
    return replace(model, forest=replace(model.forest, categories=tables))


def test_model_file_refuses_bad_sets() -> None:
    table, y = table_of(7)
    model = train(table, y)
    tables = model.forest.categories
    high = tables.sets.copy()
    high[0, 3] |= np.uint64(1 << 62)
    unknown = tables.level_bin.copy()
    unknown[0] = 254
    for changed, match in (
        ({"sets": tables.sets[:-1]}, "has no set"),
        ({"sets": high}, "below 254"),
        ({"level_bin": unknown}, "below 254"),
        ({"level_bin": tables.level_bin[:-1]}, "one entry per level"),
        ({"level_start": tables.level_start + 1}, "do not fit"),
    ):
        with pytest.raises(ModelFormatError, match=match):
            model_to_bytes(replace_tables(model, **changed))
    bare = replace(model, forest=replace(model.forest, categories=None))
    with pytest.raises(ModelFormatError, match="must be sets"):
        model_to_bytes(bare)
