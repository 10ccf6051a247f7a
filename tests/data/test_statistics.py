"""Ordered target statistics: kernels, leaks, copies, prediction, files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import HedgerowClassifier, HedgerowRegressor
from hedgerow.boosting.loop.driver import FitOptions
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.row_data.statistics import MOST_PAIRS, choose_columns, copies_of, encode
from hedgerow.boosting.validation.stopping import StoppingParams, rows_aside
from hedgerow.data.categories.recode import drop_unused_levels
from hedgerow.data.inputs import ROWS, TARGET
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import Column, Schema
from hedgerow.errors import ModelFormatError, ParameterError
from hedgerow.io import model_to_bytes
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from hedgerow.kernels.tables.statistics import ORDER_STREAM, shuffle
from hedgerow.objectives import make_objective
from hedgerow.objectives.targets import several_targets
from hedgerow.params import BoostParams
from tests.helpers.fitting import fit_sample

SQUARED, LOGISTIC = make_objective("squared_error"), make_objective("logistic")
NO_STOPPING = StoppingParams(early_stopping=False)
PARAMS = BoostParams(n_estimators=5, min_samples_leaf=2, target_statistics=True)


def table_of(codes, n_levels, numbers=None, missing=None, keys=False):
    """Return category columns, then numbers."""
    values = np.array(codes, dtype=float)
    if missing is not None:
        values[missing] = np.nan
    columns = [Column(f"c{j}", "category", tuple(range(n))) for j, n in enumerate(n_levels)]
    if numbers is not None:
        values = np.column_stack([values, numbers])
        columns += [Column(f"x{j}") for j in range(numbers.shape[1])]
    if keys:
        columns[-1] = Column("i", "int")
        stamps = np.arange(len(values)) * 2**40
        values = np.column_stack([keys_of_floats(values[:, :-1]), stamps])
    return drop_unused_levels(Table(values, Schema(tuple(columns), True)))


@st.composite
def samples(draw, most_rows=60, n_classes=0):
    rng = np.random.default_rng(draw(st.integers(0, 10**9)))
    n_rows = draw(st.integers(4, most_rows))
    n_levels = draw(st.lists(st.integers(3, 12), min_size=1, max_size=3))
    codes = np.column_stack([rng.integers(n, size=n_rows) for n in n_levels])
    missing = rng.random(codes.shape) < draw(st.sampled_from([0.0, 0.3]))
    missing[:3, 0] = False
    codes[:3, 0] = [0, 1, 2]  # one column has enough levels for statistics
    numbers = rng.normal(size=(n_rows, 2)) if draw(st.booleans()) else None
    weight = rng.choice([0.5, 1.0, 3.0], n_rows) if draw(st.booleans()) else None
    y = rng.integers(n_classes, size=n_rows) if n_classes else rng.normal(size=n_rows)
    keys = numbers is not None and draw(st.booleans())
    return Sample(table_of(codes, n_levels, numbers, missing, keys), y.astype(float), weight=weight)


def floats_of(table):
    values = table.values
    return floats_of_keys(values) if values.dtype == np.int64 else values


def joint_of(values, columns):
    """Return categories of a row as a tuple; a missing value is a category like any other."""
    return [tuple(None if v != v else int(v) for v in row[list(columns)]) for row in values]


def naive_full(joint, y, w):
    strength, prior = w.mean(), (w * y).sum() / w.sum()
    means = {}
    for key in set(joint):
        rows = [i for i, other in enumerate(joint) if other == key]
        means[key] = ((w * y)[rows].sum() + strength * prior) / (w[rows].sum() + strength)
    return means, prior


def naive_ordered(joint, y, w, order):
    """Return, for each row, the target mean of the earlier rows with the same category."""
    strength, prior = w.mean(), (w * y).sum() / w.sum()
    place = np.argsort(order)
    out = np.empty(len(y))
    for i, key in enumerate(joint):
        before = [j for j, other in enumerate(joint) if other == key and place[j] < place[i]]
        out[i] = ((w * y)[before].sum() + strength * prior) / (w[before].sum() + strength)
    return out


def order_of(n_rows, seed, copy):
    order = np.arange(n_rows)
    shuffle(seed, ORDER_STREAM + copy, order)
    return order


# -- kernels -----------------------------------------------------------------------


def test_shuffle_is_fair():
    """Each item is at each place equally often."""
    counts = np.zeros((5, 5))
    for seed in range(4000):
        counts[order_of(5, seed, 0), np.arange(5)] += 1
    assert (abs(counts - 800) < 5 * np.sqrt(800)).all()


# -- what the trees see ------------------------------------------------------------


@given(samples(), st.integers(0, 2**62), st.sampled_from([1, 2]))
def test_training_rows_have_ordered_means(sample, seed, order):
    params = replace(PARAMS, seed=seed, statistics_order=order)
    encoded = encode(sample, (), SQUARED, params)
    inputs, values = encoded.inputs, floats_of(sample.table)
    seen, n_rows = floats_of(encoded.train.table), sample.n_rows
    w = np.ones(n_rows) if sample.weight is None else sample.weight
    assert encoded.n_copies == 4
    assert len(seen) == 4 * n_rows
    for copy in range(4):
        part = seen[copy * n_rows : (copy + 1) * n_rows]
        kept = len(inputs.kept)
        np.testing.assert_array_equal(part[:, :kept], values[:, list(inputs.kept)])
        for j, statistic in enumerate(inputs.statistics):
            joint = joint_of(values, statistic.columns)
            expected = naive_ordered(joint, sample.target, w, order_of(n_rows, seed, copy))
            np.testing.assert_allclose(part[:, kept + j], expected, rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(encoded.train.target, np.tile(sample.target, 4))
    np.testing.assert_array_equal(encoded.train.weight, np.tile(w / 4, 4))


@given(samples(), samples())
def test_new_rows_have_the_means_of_all_training_rows(sample, other):
    n = min(sample.table.schema.n_features, other.table.schema.n_features)
    both = (sample, other)
    columns = [c for c in sample.table.schema.columns[:n] if c.kind == "category"]
    n = min(len(columns), sum(kind == "category" for kind in other.table.schema.kinds))
    schema = Schema(tuple(columns[:n]), True)
    sample, other = (
        replace(s, table=Table(floats_of(s.table)[:, :n].copy(), schema)) for s in both
    )
    levels = np.array([len(column.levels) for column in schema.columns])
    np.minimum(other.table.values, levels, out=other.table.values)  # the number of levels: unknown
    encoded = encode(sample, (other,), SQUARED, PARAMS)
    w = np.ones(sample.n_rows) if sample.weight is None else sample.weight
    for j, statistic in enumerate(encoded.inputs.statistics, len(encoded.inputs.kept)):
        joint = joint_of(sample.table.values, statistic.columns)
        means, prior = naive_full(joint, sample.target, w)
        new = joint_of(other.table.values, statistic.columns)
        known = [
            all(c is None or c < levels[p] for c, p in zip(key, statistic.columns, strict=True))
            for key in new
        ]
        expected = [
            means.get(key, prior) if k else prior for key, k in zip(new, known, strict=True)
        ]
        seen = encoded.validation[0].table.values[:, j]
        np.testing.assert_allclose(seen, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_columns_of_very_many_levels_have_their_number_of_rows(weighted):
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(300, size=700), rng.integers(5, size=700)], axis=1)
    codes[:300, 0] = np.arange(300)
    y, w = rng.normal(size=700), rng.uniform(0.5, 2.0, size=700) if weighted else np.ones(700)
    rows = Sample(table_of(codes, (300, 5)), y, weight=w if weighted else None)
    new_codes = np.array([[3.0, 1.0], [3.0, 4.0], [8.0, 0.0]])
    new = Sample(Table(new_codes, rows.table.schema), np.zeros(3))
    encoded = encode(rows, (new,), SQUARED, replace(PARAMS, target_statistics=True))
    assert [s.classes for s in encoded.inputs.statistics] == [(ROWS, TARGET), (TARGET,), (TARGET,)]
    place = encoded.inputs.schema(rows.table.schema).names.index("rows of c0")
    mean = sum(w) / 700
    beside = [
        sum(w[i] for i in range(700) if codes[i, 0] == codes[row, 0] and i != row) / mean
        for row in range(700)
    ]
    seen = floats_of(encoded.train.table)[:, place]
    np.testing.assert_allclose(seen, np.tile(beside, encoded.n_copies), rtol=1e-6, atol=1e-6)
    of_level = [sum(w[codes[:, 0] == level]) / mean for level in (3, 3, 8)]
    np.testing.assert_allclose(
        floats_of(encoded.validation[0].table)[:, place], of_level, rtol=1e-6
    )
    heavier = Sample(rows.table, y, weight=3.0 * w)
    again = encode(heavier, (), SQUARED, replace(PARAMS, target_statistics=True))
    np.testing.assert_array_equal(floats_of(again.train.table)[:, place], seen)


@given(samples(n_classes=3))
def test_classes_have_a_share_each(sample):
    softmax = make_objective("softmax", 3)
    encoded = encode(sample, (), softmax, replace(PARAMS, statistics_order=1))
    kept = len(encoded.inputs.kept)
    seen = floats_of(encoded.train.table)[:, kept:]
    for j, statistic in enumerate(encoded.inputs.statistics):
        assert statistic.classes == (0, 1, 2)
        np.testing.assert_allclose(seen[:, 3 * j : 3 * j + 3].sum(axis=1), 1.0, rtol=1e-6)
    names = encoded.inputs.schema(sample.table.schema).names[kept:]
    assert names[:3] == tuple(f"share of class {k} by c0" for k in range(3))


@given(samples(), st.integers(1, 3), st.booleans())
def test_each_target_has_the_means_of_its_own_statistic(sample, order, in_columns):
    """The columns are ordered as for one target; the values are those of three fits."""
    rng, params = np.random.default_rng(order), replace(PARAMS, statistics_order=1)
    order_of_axes = "F" if in_columns else "C"
    target = np.array(rng.normal(size=(sample.n_rows, 3)), order=order_of_axes)
    loss = make_objective("squared_error")
    objective = several_targets(loss, 3)
    encoded = encode(replace(sample, target=target), (), objective, params)
    assert encoded.train.target.shape == (encoded.n_copies * sample.n_rows, 3)
    kept = len(encoded.inputs.kept)
    seen = floats_of(encoded.train.table)[:, kept:]
    for k in range(3):
        own = encode(replace(sample, target=target[:, k].copy()), (), loss, params)
        np.testing.assert_array_equal(encoded.train.target[:, k], own.train.target)
        np.testing.assert_array_equal(seen[:, k::3], floats_of(own.train.table)[:, kept:])
        for statistic, single in zip(encoded.inputs.statistics, own.inputs.statistics, strict=True):
            np.testing.assert_array_equal(statistic.values[k], single.values[0])
    names = encoded.inputs.schema(sample.table.schema).names[kept:]
    assert names[:3] == tuple(f"mean target {k} of c0" for k in range(3))


@given(samples(), st.sampled_from([0.125, 1024.0, 3.7]))
def test_a_factor_on_all_weights_changes_nothing(sample, factor):
    w = np.ones(sample.n_rows) if sample.weight is None else sample.weight
    scaled = replace(sample, weight=factor * w)
    one, two = (encode(s, (), SQUARED, PARAMS) for s in (replace(sample, weight=w), scaled))
    a, b = floats_of(one.train.table), floats_of(two.train.table)
    np.testing.assert_allclose(a, b, rtol=3e-7, atol=1e-12)
    if factor != 3.7:
        np.testing.assert_array_equal(a, b)


def test_validation_rows_have_no_part_in_the_statistics():
    rng = np.random.default_rng(0)
    codes = rng.integers(30, size=(300, 2))
    y = rng.normal(size=300) + codes[:, 0] % 3
    rows = Sample(table_of(codes, (30, 30)), y)
    models = []
    for target in (y[:50], -5.0 * y[50:100]):
        validation = Sample(Table(rows.table.values[:50], rows.table.schema), target)
        models.append(
            fit_sample(rows, SQUARED, PARAMS, FitOptions(NO_STOPPING), validation=[validation])
        )
    one, two = (replace(model, training={}) for model in models)
    assert model_to_bytes(one) == model_to_bytes(two)


def test_rows_set_aside_have_no_part_in_the_statistics():
    rng = np.random.default_rng(0)
    codes = rng.integers(30, size=(400, 1))
    y = rng.normal(size=400) + codes[:, 0] % 3
    rows = Sample(table_of(codes, (30,)), y)
    model = fit_sample(rows, SQUARED, PARAMS, FitOptions(StoppingParams(early_stopping=True)))
    statistic = model.inputs.statistics[0]
    assert model.training["n_rows"] == 360
    assert statistic.prior[0] != pytest.approx(y.mean(), abs=1e-9)
    kept = np.flatnonzero(~rows_aside(y, 0.1, False, PARAMS.seed))
    means, prior = naive_full([int(code) for code in codes[kept, 0]], y[kept], np.ones(360))
    assert statistic.prior[0] == pytest.approx(prior, rel=1e-12)
    np.testing.assert_allclose(statistic.values[0], [means[k] for k in sorted(means)], rtol=1e-6)


# -- which columns -----------------------------------------------------------------


def schema_of(*n_levels):
    columns = [
        Column(f"c{j}", "category", tuple(range(n))) if n else Column(f"c{j}")
        for j, n in enumerate(n_levels)
    ]
    return Schema(tuple(columns), True)


def test_auto_is_for_columns_of_many_levels():
    assert choose_columns(schema_of(0, 254, 3), 10_000, LOGISTIC, BoostParams()) == []
    chosen = choose_columns(schema_of(0, 255, 3, 40), 10_000, LOGISTIC, BoostParams())
    assert chosen == [(1,), (1, 2), (1, 3)]
    params = BoostParams(statistics_order=1)
    assert choose_columns(schema_of(0, 255, 3), 10_000, LOGISTIC, params) == [(1,)]
    params = BoostParams(target_statistics=False)
    assert choose_columns(schema_of(0, 255, 3), 10_000, LOGISTIC, params) == []
    params = BoostParams(target_statistics=True)
    assert choose_columns(schema_of(2, 3, 0, 5), 10_000, LOGISTIC, params) == [
        (1,), (3,), (0, 1), (0, 3), (1, 3)]  # fmt: skip


def test_pairs_are_limited_and_those_with_most_combinations_are_kept():
    params = BoostParams(target_statistics=True)
    chosen = choose_columns(schema_of(*range(3, 23)), 10_000, LOGISTIC, params)
    pairs = [group for group in chosen if len(group) == 2]
    assert len(pairs) == MOST_PAIRS
    assert (0, 1) not in pairs
    assert (18, 19) in pairs
    few_rows = choose_columns(schema_of(*range(3, 23)), 43, LOGISTIC, params)
    assert (18, 19) not in few_rows  # 22 levels are more than half the rows
    assert (17, 18) in few_rows
    chosen = choose_columns(schema_of(*range(3, 23)), 10_000, make_objective("softmax", 8), params)
    assert len(chosen) == 20 + MOST_PAIRS // 8


def test_too_many_classes():
    eleven = make_objective("softmax", 11)
    assert choose_columns(schema_of(300), 10_000, eleven, BoostParams()) == []
    with pytest.raises(ParameterError, match="at most 10"):
        choose_columns(schema_of(300), 10_000, eleven, BoostParams(target_statistics=True))


def test_true_without_categories_is_an_error_that_leaves_the_estimator_alone():
    model = HedgerowRegressor(target_statistics=True)
    with pytest.raises(ParameterError, match="needs a category column"):
        model.fit(np.ones((30, 2)), np.arange(30.0))
    assert not hasattr(model, "booster_")


@pytest.mark.parametrize(
    ("given_", "match"),
    [
        ({"target_statistics": "yes"}, "True, False or 'auto'"),
        ({"target_statistics": None}, "True, False or 'auto'"),
        ({"target_statistics": 1}, "True, False or 'auto'"),
        ({"statistics_order": 3}, "statistics_order must be an integer"),
        ({"statistics_order": 0}, "statistics_order must be an integer"),
        ({"statistics_order": 1, "target_statistics": False}, "no effect"),
    ],
)
def test_parameters_are_checked(given_, match):
    with pytest.raises(ParameterError, match=match):
        BoostParams(**given_)


def test_modes_that_look_at_rows_left_out_have_each_row_once():
    assert copies_of(1000, BoostParams()) == 4
    assert copies_of(1000, BoostParams(subsample=0.5, oob_score=True)) == 1
    assert copies_of(1000, BoostParams(boosting="dart")) == 1
    assert copies_of(10**6, BoostParams()) == 1


# -- models ------------------------------------------------------------------------


def shop(n_rows=1500, n_levels=400, seed=0, n_classes=2):
    """Return informative text columns with many and with few levels, and informative numbers."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    effect = rng.normal(size=(n_levels, n_classes))
    user = rng.integers(n_levels, size=n_rows)
    size = rng.normal(size=n_rows)
    kind = rng.integers(5, size=n_rows)
    score = 2.0 * effect[user] + rng.normal(size=(n_rows, n_classes))
    score[:, 0] += size + (kind == 2)
    X = pd.DataFrame(
        {"user": [f"u{code}" for code in user], "size": size, "kind": np.array(list("abcde"))[kind]}
    )
    return X, score.argmax(axis=1)


@pytest.fixture(scope="module")
def model():
    X, y = shop()
    return HedgerowClassifier(n_estimators=20, target_statistics="auto").fit(X, y), X, y


def test_counts_and_limits_are_those_of_the_users_rows(model):
    estimator, _, y = model
    forest = estimator.booster_.model.forest
    roots = forest.tree_start[:-1]
    assert (forest.count[roots] == len(y)).all()
    assert forest.count[forest.feature < 0].min() >= 20
    assert estimator.booster_.model.training["n_rows"] == len(y)
    assert estimator.booster_.model.training["copies"] == 4


def test_importance_is_shared_by_the_columns_of_a_pair(model):
    estimator, _, _ = model
    booster = estimator.booster_
    inner = booster.model.forest.feature >= 0
    gain = booster.feature_importance("gain")
    assert gain.shape == (3,)
    assert gain.sum() == pytest.approx(booster.model.forest.gain[inner].sum())
    assert booster.feature_importance("split").sum() == inner.sum()
    assert gain[0] > gain[2]
    sources = booster.model.inputs.sources
    by_hand = np.zeros(3)
    for feature, amount in zip(
        booster.model.forest.feature[inner], booster.model.forest.gain[inner], strict=True
    ):
        for column in sources[feature]:
            by_hand[column] += amount / len(sources[feature])
    np.testing.assert_allclose(gain, by_hand)


def test_inputs_have_names(model):
    booster = model[0].booster_
    names = booster.model.split_schema.names
    assert names[:2] == ("size", "kind")
    assert {"rows of user", "mean target of user"} <= set(names)
    assert not any("rows of" in name and " x " in name for name in names)
    assert "mean target of user" in booster.to_text()
    assert set(booster.to_frame(None)["feature"]) <= {*names, None}
    assert booster.feature_names == ("user", "size", "kind")
    assert booster.num_features == 3


def test_unknown_and_missing_values_have_the_mean_of_all(model):
    estimator, X, _ = model
    booster = estimator.booster_
    inputs, schema = booster.model.inputs, booster.model.schema
    row = np.array([[np.nan, 0.0, 1.0], [len(schema.columns[0].levels), 0.0, 1.0]])
    seen = inputs.values(row, schema)
    begin = len(inputs.kept)
    for statistic in inputs.statistics:
        part = seen[:, begin : begin + len(statistic.classes)]
        begin += len(statistic.classes)
        if 0 in statistic.columns:  # no training row lacks it
            np.testing.assert_array_equal(part, np.tile(statistic.prior, (2, 1)))
            assert statistic.prior[0] == 0.0 or statistic.classes[0] != ROWS
    strange = X.head(2).assign(user=["nobody", None])
    probability = estimator.predict_proba(strange.assign(size=0.0, kind="a"))
    np.testing.assert_array_equal(probability[0], probability[1])
    assert booster.unseen_categories["user"] >= 1


# -- quality -----------------------------------------------------------------------


def log_loss(y, p):
    return -np.log(np.where(y == 1, p, 1 - p)).mean()


@pytest.mark.fast(1)
@pytest.mark.parametrize("n_levels", [1000, 300, 20_000])
def test_noise_does_not_leak(n_levels):
    """Noise columns do hardly any harm."""
    pd = pytest.importorskip("pandas")
    cost = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        n = 8000
        X = pd.DataFrame({f"x{j}": rng.normal(size=n) for j in range(3)})
        y = (X["x0"] + X["x1"] * X["x2"] + rng.logistic(size=n) > 0).to_numpy().astype(int)
        noisy = X.assign(
            **{f"noise{j}": [f"v{c}" for c in rng.integers(n_levels, size=n)] for j in range(2)}
        )
        losses = []
        for table in (X, noisy):
            model = HedgerowClassifier(random_state=seed, early_stopping=False)
            model.fit(table[:4000], y[:4000])
            losses.append(log_loss(y[4000:], model.predict_proba(table[4000:])[:, 1]))
        cost.append(losses[1] - losses[0])
    assert np.mean(cost) < 0.01, cost


# -- files -------------------------------------------------------------------------


def small_model():
    rng = np.random.default_rng(0)
    codes = rng.integers((4, 5), size=(120, 2))
    y = rng.normal(size=120) + codes[:, 0]
    rows = Sample(table_of(codes, (4, 5), rng.normal(size=(120, 1))), y)
    params = BoostParams(n_estimators=2, min_samples_leaf=5, target_statistics=True)
    return fit_sample(rows, SQUARED, params)


def changed(model, **fields):
    statistic = replace(model.inputs.statistics[0], **fields)
    statistics = (statistic, *model.inputs.statistics[1:])
    return replace(model, inputs=replace(model.inputs, statistics=statistics))


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"columns": ()}, "one column or two"),
        ({"columns": (0, 1, 1)}, "ascend"),
        ({"columns": (1, 0)}, "ascend"),
        ({"columns": (0, 9)}, "ascend"),
        ({"columns": (-1,)}, "ascend"),
        ({"columns": (2,)}, "does not hold categories"),
        ({"classes": ()}, "classes"),
        ({"classes": (-3, -1)}, "classes"),
        ({"classes": (-4, -3)}, "classes"),
        ({"classes": (-3, -3)}, "classes"),
        ({"classes": (-3, 0)}, "classes"),
        ({"classes": (-1, -2)}, "classes"),
        ({"classes": (-2, -2)}, "classes"),
        ({"classes": (0, 0)}, "classes"),
        ({"prior": np.array([np.nan])}, "finite"),
        ({"prior": np.zeros(2)}, "do not fit"),
        ({"keys": np.zeros(0, np.int64)}, "do not fit"),
        ({"keys": np.zeros(4), "values": np.zeros((1, 4))}, "dtype"),
        ({"keys": np.array([0, 1, 1]), "values": np.zeros((1, 3))}, "ascend"),
        ({"keys": np.array([-1, 1, 2]), "values": np.zeros((1, 3))}, "ascend"),
        ({"keys": np.array([0, 1, 2**50]), "values": np.zeros((1, 3))}, "ascend"),
        ({"keys": np.array([0]), "values": np.full((1, 1), np.inf)}, "finite"),
    ],
)
def test_save_refuses_statistics_that_cannot_be_used(fields, match):
    with pytest.raises(ModelFormatError, match=match):
        model_to_bytes(changed(small_model(), **fields))


def test_save_refuses_inputs_that_do_not_fit():
    model = small_model()
    for kept in ((), (0, 2), (9,), (2, 2)):
        inputs = replace(model.inputs, kept=kept)
        with pytest.raises(ModelFormatError, match=r"inputs|sets"):
            model_to_bytes(replace(model, inputs=inputs))
    with pytest.raises(ModelFormatError):
        model_to_bytes(replace(model, inputs=None))


SMALL = model_to_bytes(small_model())


def test_statistics_need_their_record():
    from tests.io.test_model_file import refused, with_metadata

    refused(with_metadata(SMALL, inputs=None), "arrays are missing or unknown")
    refused(with_metadata(SMALL, n_features="2"), "columns")


# -- constraints -------------------------------------------------------------------


def branches_of(forest, tree):
    """Yield inputs that split each way from the root to a leaf."""
    tree = forest.tree(tree)

    def walk(node, used):
        if tree.feature[node] < 0:
            yield used
            return
        used = used | {int(tree.feature[node])}
        yield from walk(tree.left[node], used)
        yield from walk(tree.right[node], used)

    yield from walk(0, frozenset())


@pytest.mark.parametrize(
    ("constraint", "groups"),
    [
        ("no_interactions", [{0}, {1}, {2}, {3}]),
        ("pairwise", [{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}]),
        ([["user", "shop"], ["kind", "size"]], [{0, 3}, {1, 2}]),
        ([["user", "size"]], [{0, 1}, {2, 3}]),
    ],
)
def test_interactions_are_those_of_the_columns(constraint, groups):
    X, y = shop(3000)
    X["shop"] = [f"s{c}" for c in np.random.default_rng(0).integers(300, size=len(X))]
    booster = HedgerowClassifier(n_estimators=10, interaction_constraints=constraint).fit(X, y)
    model = booster.booster_.model
    met = set()
    for tree in range(model.forest.n_trees):
        for branch in branches_of(model.forest, tree):
            columns = {column for i in branch for column in model.inputs.sources[i]}
            assert any(columns <= group for group in groups), columns
            met |= columns
    assert {0, 1} <= met


def test_penalty_0_leaves_out_a_column_and_its_pairs():
    X, y = shop()
    model = HedgerowClassifier(n_estimators=10, feature_penalties={"kind": 0.0}).fit(X, y)
    gain = model.booster_.feature_importance("gain")
    assert gain[2] == 0.0
    assert gain[0] > 0.0


def test_monotone_beside_statistics():
    X, y = shop()
    model = HedgerowClassifier(n_estimators=30, monotone_constraints={"size": -1}).fit(X, y)
    assert model.booster_.model.inputs is not None
    assert model.verify_monotone().verdict == "proved"
    free = HedgerowClassifier(n_estimators=30).fit(X, y)
    assert free.verify_monotone("size", 1).verdict == "unknown"


def test_bins_by_feature_are_those_of_the_columns():
    X, y = shop()
    params = {"n_estimators": 10, "max_bins_by_feature": {"size": 2, "user": 3}}
    model = HedgerowClassifier(**params).fit(X, y).booster_.model
    for i, source in enumerate(model.inputs.sources):
        chosen = model.forest.threshold[model.forest.feature == i]
        most = {0: 2, 1: 1}.get(source[0]) if source != (2,) else None
        if most is not None:
            assert len(np.unique(chosen)) <= most
