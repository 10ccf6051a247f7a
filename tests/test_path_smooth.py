"""``path_smooth``: values of nodes that are drawn toward those above them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor, load, train
from hedgerow.errors import ParameterError
from hedgerow.growing.path_smoothing import smooth_path
from hedgerow.io import model_to_bytes

RNG = np.random.default_rng(0)
N = 700
X = np.round(RNG.normal(size=(N, 4)), 2)
SIGNAL = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.4 * RNG.normal(size=N)
TARGETS = {
    "squared_error": SIGNAL,
    "logistic": (SIGNAL > 0.0).astype(float),
    "softmax": np.digitize(SIGNAL, [-1.0, 1.0]).astype(float),
}
BASE = {"n_estimators": 4, "max_leaves": 9, "min_samples_leaf": 3, "early_stopping": False}


def naive_smooth(values, counts, left, right, s, node=0, above=None):
    """Value of each node, from the root down; ``above`` is the smoothed value of the parent."""
    n, own = counts[node], values[node]
    found = {node: own if above is None else n / (n + s) * own + s / (n + s) * above}
    if left[node] > 0:
        for child in (left[node], right[node]):
            found |= naive_smooth(values, counts, left, right, s, child, found[node])
    return found


def random_tree(draws):
    """Children of each node (0: leaf) and its rows: each draw splits one of the leaves."""
    left, right, count = [0], [0], [100]
    for draw in draws:
        leaves = [k for k in range(len(left)) if left[k] == 0 and count[k] > 1]
        node = leaves[draw % len(leaves)]
        part = 1 + draw % (count[node] - 1)
        left[node], right[node] = len(left), len(left) + 1
        left += [0, 0]
        right += [0, 0]
        count += [part, count[node] - part]
    return np.array(left, np.int32), np.array(right, np.int32), np.array(count)


@given(st.lists(st.integers(0, 10**6), max_size=12), st.floats(0.01, 1e3), st.integers(0, 99))
def test_both_ways_are_those_of_the_naive_twin(draws, s, seed) -> None:
    left, right, count = random_tree(draws)
    values = np.random.default_rng(seed).normal(size=len(left))
    expected = naive_smooth(values, count, left, right, s)
    wanted = [expected[node] for node in range(len(left))]
    found = smooth_path(values, count.astype(float), left, right, s)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    assert values.min() - 1e-12 <= found.min()  # means of values are between them
    assert found.max() <= values.max() + 1e-12


def grown(objective="squared_error", **params):
    """The forest of a few rounds."""
    data = Dataset(X, TARGETS[objective])
    return train({**BASE, "objective": objective, **params}, data).model.forest


@pytest.mark.parametrize("method", ["hist", "exact", "approx"])
@pytest.mark.parametrize("objective", list(TARGETS))
def test_first_trees_have_the_smoothed_values_of_plain_ones(objective, method) -> None:
    plain, smooth = (
        grown(objective, n_estimators=1, tree_method=method, path_smooth=s) for s in (0.0, 7.5)
    )
    # A round grows its trees at the scores before it: the same splits with other values.
    for name in ("feature", "threshold", "left", "right", "count", "gain", "cover"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(smooth, name))
    for first, last in zip(plain.tree_start, plain.tree_start[1:], strict=False):
        part = slice(first, last)
        expected = naive_smooth(
            plain.value[part], plain.count[part], plain.left[part], plain.right[part], 7.5
        )
        wanted = [expected[node] for node in range(last - first)]
        np.testing.assert_allclose(smooth.value[part], wanted, rtol=1e-12)
    assert not np.allclose(plain.value, smooth.value)


def test_raw_scores_are_sums_of_smoothed_values() -> None:
    params = {**BASE, "path_smooth": 5.0, "subsample": 0.6, "objective": "logistic", "seed": 3}
    data = Dataset(X, TARGETS["logistic"])
    whole = train(params, data)
    # Were other values added in training, the trees after them would be others.
    first = train({**params, "n_estimators": 2}, data)
    forest, head = whole.model.forest, first.model.forest
    n_nodes = head.tree_start[-1]
    np.testing.assert_array_equal(forest.value[:n_nodes], head.value)
    more = train({**params, "n_estimators": 2}, data, init_model=first)
    np.testing.assert_allclose(more.model.forest.value, forest.value, rtol=1e-9)


@pytest.mark.parametrize(
    "more", [{}, {"subsample": 0.5}, {"boosting": "dart"}, {"boosting": "rf", "subsample": 0.5},
             {"sampling": "goss", "interaction_constraints": "pairwise"}, {"tree_method": "exact"}],
)  # fmt: skip
def test_threads_do_not_matter(more) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 6))
    data = Dataset(X, (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=4000) > 1.0).astype(float))
    params = {**BASE, "objective": "logistic", "path_smooth": 10.0, **more}
    one, two = (model_to_bytes(train({**params, "n_jobs": n}, data).model) for n in (1, 2))
    assert one == two


def test_refitting_on_the_training_rows_gives_the_values_again() -> None:
    y = TARGETS["logistic"]
    booster = train({**BASE, "objective": "logistic", "path_smooth": 4.0}, Dataset(X, y))
    again = booster.refit(X, y, decay=0.0)
    np.testing.assert_allclose(again.model.forest.value, booster.model.forest.value, atol=1e-7)


def test_values_are_those_of_lightgbm() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2, size=(900, 3)).astype(float)
    # Effects so far apart that splits are the same, however they are ranked.
    y = 100.0 * X[:, 0] + 10.0 * X[:, 0] * X[:, 1] + 1.0 * X[:, 2] + 0.01 * rng.normal(size=900)
    s = 40.0
    theirs = lightgbm.LGBMRegressor(
        n_estimators=1, learning_rate=0.5, num_leaves=3, path_smooth=s, min_child_samples=2,
        verbosity=-1,
    ).fit(X, y)  # fmt: skip
    ours = HedgerowRegressor(
        n_estimators=1, learning_rate=0.5, max_leaves=3, path_smooth=s, min_samples_leaf=2,
        reg_lambda=0.0, early_stopping=False,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)


def test_estimators_files_and_the_record_know_it(tmp_path) -> None:
    y = TARGETS["logistic"]
    model = HedgerowClassifier(n_estimators=3, path_smooth=2.5).fit(X, y)
    model.save(tmp_path / "m.hedgerow")
    again = HedgerowClassifier.load(tmp_path / "m.hedgerow")
    assert again.path_smooth == 2.5
    assert load(tmp_path / "m.hedgerow").model.training["parameters"]["path_smooth"] == 2.5
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    plain = HedgerowClassifier(n_estimators=3).fit(X, y)
    assert (plain.predict_proba(X) != model.predict_proba(X)).any()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"path_smooth": -1.0}, "path_smooth must be a number at least 0"),
        ({"path_smooth": np.nan}, "path_smooth must be"),
        ({"path_smooth": 1.0, "monotone_constraints": {0: 1}}, "path_smooth=1.0 has no effect"),
        ({"path_smooth": 1.0, "leaf_estimation": "line_search"}, "path_smooth=1.0 has no effect"),
        ({"path_smooth": 1.0, "objective": "absolute_error"}, "leaves of objective"),
    ],
)
def test_what_does_not_go_together_is_an_error(params, words) -> None:
    with pytest.raises(ParameterError, match=words):
        train({**BASE, "objective": "squared_error", **params}, Dataset(X, SIGNAL))


def test_trees_with_vectors_do_not_smooth() -> None:
    targets = np.column_stack([SIGNAL, -SIGNAL])
    with pytest.raises(ParameterError, match="does not go with path_smooth"):
        HedgerowRegressor(
            n_estimators=2, path_smooth=1.0, multi_strategy="multi_output_tree"
        ).fit(X, targets)  # fmt: skip
    HedgerowRegressor(n_estimators=2, path_smooth=1.0).fit(X, targets)  # a tree for each
