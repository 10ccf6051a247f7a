"""Kernels of single trees equal plain Python."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.cart import search as cart
from hedgerow.cart.categories import order_column, scratch_groups, sort_groups
from hedgerow.cart.impurity import ENTROPY, GINI, SQUARED_ERROR, counts_impurity, logarithm, x_log_x
from hedgerow.cart.training import masses, sort_column, thresholds_between
from hedgerow.growing.limits.pruning import prune
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from tests.reference import naive_cart

NAMES = {GINI: "gini", ENTROPY: "entropy", SQUARED_ERROR: "squared_error"}


@given(st.floats(1e-290, 1e300))
def test_logarithm_is_that_of_the_library(x) -> None:
    assert logarithm(x) == pytest.approx(math.log(x), rel=4e-16, abs=3e-16)


def test_x_log_x_of_nothing_is_nothing() -> None:
    assert x_log_x(0.0) == 0.0
    assert x_log_x(1.0) == 0.0
    assert x_log_x(-0.0) == 0.0


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=6).filter(any))
def test_impurity_of_counts(counts) -> None:
    labels, total = np.arange(len(counts)), float(sum(counts))
    for criterion in (GINI, ENTROPY):
        got = counts_impurity(criterion, np.array(counts, dtype=float), len(counts), total)
        assert got == pytest.approx(
            naive_cart.impurity(NAMES[criterion], labels, counts), abs=1e-12
        )


# -- columns -------------------------------------------------------------------

FLOATS = st.one_of(st.floats(allow_nan=True, width=32), st.sampled_from([0.0, -0.0, 1.0, np.nan]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(values=st.lists(FLOATS, min_size=1, max_size=40))
def test_sorted_column(dtype, values) -> None:
    values = np.array(values, dtype=dtype)
    cells = np.empty(len(values), dtype=np.uint64)
    different = sort_column(values, cells)
    rows, ranks = (cells & np.uint64(0xFFFFFFFF)).astype(int), (cells >> np.uint64(32)).astype(int)
    assert sorted(rows.tolist()) == list(range(len(values)))
    present = sorted((float(v) + 0.0, i) for i, v in enumerate(values.tolist()) if v == v)
    assert rows.tolist() == [i for _, i in present] + np.flatnonzero(np.isnan(values)).tolist()
    assert floats_of_keys(different).tolist() == sorted({v for v, _ in present})
    for row, rank in zip(rows, ranks, strict=True):
        if np.isnan(values[row]):
            assert rank == cart.MISSING_RANK
        else:
            assert floats_of_keys(different[rank : rank + 1])[0] == values[row]


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_threshold_of_floats_divides_them(a, b) -> None:
    low, high = keys_of_floats(np.array([min(a, b)])), keys_of_floats(np.array([max(a, b)]))
    if low < high:
        middle = thresholds_between(low, high, "float")
        assert low <= middle < high
        value = floats_of_keys(middle)[0]
        exact = min(a, b) / 2.0 + max(a, b) / 2.0
        assert value == exact or not min(a, b) <= exact < max(a, b)


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.integers(-(2**63) + 1, 2**63 - 1))
def test_threshold_of_integers_is_rounded_down(a, b) -> None:
    if a != b:
        middle = thresholds_between(np.array([min(a, b)]), np.array([max(a, b)]), "int")
        assert middle[0] == (a + b) // 2


# -- cuts ----------------------------------------------------------------------


@st.composite
def nodes(draw):
    """Return values with ties and gaps, targets and weights of a node, and limits."""
    n = draw(st.integers(2, 14))
    values = draw(
        st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0, np.nan]), min_size=n, max_size=n)
    )
    target = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    weight = draw(st.none() | st.lists(st.sampled_from([0.5, 1.0, 2.5]), min_size=n, max_size=n))
    return np.array(values), np.array(target), weight, draw(st.integers(1, 3))


def scan(criterion, values, target, weight, least, n_classes=0, categorical=False):
    """Return the best cut by the kernels: (score, rows on the left)."""
    n = len(values)
    cells = np.empty(n, dtype=np.uint64)
    sort_column(values, cells)
    mass = np.empty(0) if weight is None else np.array(weight)
    w = np.ones(n) if weight is None else mass
    y = target.astype(float)
    rows = cart.Rows(target.astype(np.uint32), mass, w * y)
    totals = np.array([w.sum(), (w * y).sum(), *(w[target == k].sum() for k in range(n_classes))])
    scratch = cart.Scratch(
        np.empty(4 * n_classes), np.empty(n, np.uint64), np.empty(n, np.uint64),
        *scratch_groups(n, n_classes),
    )  # fmt: skip
    missing = cart.find_missing(cells, 0, n)
    assert missing == np.isnan(values).sum()
    column = cart.Column(cells, np.int64(0), np.int64(n - missing), np.int64(missing))
    limits = cart.Least(np.int64(least), 0.0)
    aim = cart.Aim(rows, limits, totals, np.int64(criterion), np.int64(n_classes))
    if categorical:
        column = order_column(column, aim, scratch)
    best, found = -np.inf, None
    for side in range(2 if missing else 1):
        if n_classes > 2 or criterion == ENTROPY:
            score, cut = cart.scan_counts(column, aim, side, best, scratch.counts)
        else:
            score, cut = cart.scan_shares(column, aim, side, best)
        if cut >= 0:
            flags = np.zeros(n, dtype=np.uint8)
            cart.raise_flags(column, cut, side, flags)
            best, found = score, flags == 1
    return best, found


@given(node=nodes(), seed=st.integers(0, 1000))
def test_equal_divisions_have_equal_scores_to_the_bit(node, seed) -> None:
    """Neither the order of rows nor a swap of the sides changes a score.

    Sums of masses are exact, and sums of mass times target are exact if they need few bits.
    """
    values, target, weight, _ = node
    values = np.where(np.isnan(values), 5.0, values)
    shuffled = np.random.default_rng(seed).permutation(len(values))
    given_mass = None if weight is None else np.array(weight)
    any_mass = None if weight is None else masses(given_mass * 0.1)[0]
    for criterion, n_classes, mass in (
        (GINI, 4, any_mass),
        (ENTROPY, 4, any_mass),
        (SQUARED_ERROR, 0, given_mass),
    ):
        one, _ = scan(criterion, values, target, mass, 1, n_classes)
        other, _ = scan(
            criterion, -values[shuffled], target[shuffled],
            None if mass is None else mass[shuffled], 1, n_classes,
        )  # fmt: skip
        assert one == other


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30), st.integers(3, 300))
def test_groups_are_sorted(keys, n) -> None:
    keys = np.array((keys * n)[:n])
    order = np.empty(len(keys), dtype=np.int64)
    sort_groups(keys, order, len(keys))
    assert order.tolist() == np.argsort(keys, kind="stable").tolist()


def test_many_categories_of_many_classes() -> None:
    """With more than ten categories, the split is as good as one-vs-rest and the class orders."""
    rng = np.random.default_rng(5)
    values = rng.integers(0, 25, 400).astype(float)
    target = (values.astype(int) % 3 + (rng.random(400) < 0.3)) % 3
    w = np.ones(400)
    for criterion in (GINI, ENTROPY):
        name = NAMES[criterion]
        _, left = scan(criterion, values, target, None, 1, 3, categorical=True)
        got = naive_cart.decrease(name, target, w, left)
        for value in np.unique(values):
            assert got >= naive_cart.decrease(name, target, w, values == value) - 1e-9
        for k in range(3):
            share = {v: (target[values == v] == k).mean() for v in np.unique(values)}
            order = sorted(share, key=share.__getitem__)
            for i in range(1, len(order)):
                chosen = np.isin(values, order[:i])
                assert got >= naive_cart.decrease(name, target, w, chosen) - 1e-9


# -- division, masses, pruning ---------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@given(flags=st.lists(st.booleans(), min_size=1, max_size=30), seed=st.integers(0, 99))
def test_division_keeps_the_order(dtype, flags, seed) -> None:
    n = len(flags)
    rows = np.random.default_rng(seed).permutation(n)
    high = np.arange(n) << (32 if dtype == np.uint64 else 0)
    cells = np.concatenate(([7], rows + (high if dtype == np.uint64 else 0), [8])).astype(dtype)
    by_row = np.array(flags, dtype=np.uint8)
    expected = [c for c in cells[1:-1] if by_row[int(c) & 0xFFFFFFFF]]
    expected += [c for c in cells[1:-1] if not by_row[int(c) & 0xFFFFFFFF]]
    n_left = cart.divide_cells(cells, 1, n + 1, by_row, np.empty(n, dtype=dtype))
    assert n_left == sum(flags)
    assert cells.tolist() == [7, *expected, 8]


@given(st.lists(st.floats(1e-100, 1e100), min_size=1, max_size=50))
def test_masses_add_up_exactly(weights) -> None:
    weights = np.array(weights)
    mass, scale = masses(weights)
    assert (mass > 0.0).all()
    np.testing.assert_allclose(mass, weights * scale, atol=2.0**-50 * mass.sum())
    assert Fraction(float(np.cumsum(mass)[-1])) == sum(map(Fraction, mass.tolist()))
    assert np.cumsum(mass)[-1] == np.cumsum(mass[::-1])[-1]


def test_whole_numbers_stay_masses() -> None:
    weights = np.array([3.0, 1.0, 2.0])
    assert masses(weights)[0] is weights
    assert masses(None)[0].size == 0


def random_tree(rng, n_leaves):
    left, right, open_leaves = [-1], [-1], [0]
    while len(open_leaves) < n_leaves:
        node = open_leaves.pop(rng.integers(len(open_leaves)))
        left[node], right[node] = len(left), len(left) + 1
        open_leaves += [len(left), len(left) + 1]
        left += [-1, -1]
        right += [-1, -1]
    return np.array(left), np.array(right)


@given(st.integers(1, 25), st.integers(0, 10_000), st.floats(0.0, 0.5))
def test_pruning_is_that_of_the_naive_twin(n_leaves, seed, most) -> None:
    rng = np.random.default_rng(seed)
    left, right = random_tree(rng, n_leaves)
    weight, impurity = np.ones(len(left)), np.zeros(len(left))
    for node in reversed(range(len(left))):  # children stand behind their parent
        own = rng.random() * 0.1
        below = 0.0 if left[node] < 0 else impurity[left[node]] + impurity[right[node]]
        impurity[node] = own + below
    for limit in (most, np.inf):
        alphas, risks, leaves = prune(left, right, weight, impurity, limit)
        expected = naive_cart.prune(left, right, impurity, limit)
        np.testing.assert_allclose(alphas, expected[0], atol=1e-12)
        np.testing.assert_allclose(risks, expected[1], atol=1e-12)
        assert np.flatnonzero(leaves).tolist() == sorted(expected[2])


def test_links_as_weak_as_the_limit_are_pruned() -> None:
    left, right = random_tree(np.random.default_rng(3), 12)
    impurity = np.zeros(len(left))
    for node in reversed(range(len(left))):
        below = 0.0 if left[node] < 0 else impurity[left[node]] + impurity[right[node]]
        impurity[node] = below + 1.0 / (1.0 + node)
    path, risks, _ = prune(left, right, np.ones(len(left)), impurity, np.inf)
    assert len(path) > 3
    for most in path:
        alphas, states, _ = prune(left, right, np.ones(len(left)), impurity, most)
        n_states = int(np.argmax(path > most)) or len(path)
        assert alphas.tolist() == path[:n_states].tolist()
        assert states.tolist() == risks[:n_states].tolist()
