"""The split search finds a best cut under all rules, and breaks ties as documented."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import engine
from tests.reference import naive

MISSING = 15
STRIDE = 16

amounts = st.sampled_from([0.0, 0.0, 0.5, 1.0, 7.25, 100.0])
rules = st.builds(
    naive.Rules,
    min_samples_leaf=st.integers(1, 6),
    min_child_weight=amounts,
    reg_lambda=amounts,
    reg_alpha=amounts,
    gamma=amounts,
    max_delta_step=st.sampled_from([0.0, 0.0, 0.25, 2.0]),
)


@st.composite
def histograms(draw, n_features=3):
    """Return histograms of a node with a few features, which all have the same totals."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(2, 40))
    scale = draw(st.sampled_from([1, 3, 1000, 2**30]))
    rows_g = rng.integers(-scale, scale, n_rows, endpoint=True)
    rows_h = rng.integers(0, scale, n_rows, endpoint=True)
    n_bins = rng.integers(1, MISSING, n_features, endpoint=True)
    g, h, n = (np.zeros((n_features, STRIDE), dtype=np.int64) for _ in range(3))
    for feature in range(n_features):
        bins = rng.integers(0, n_bins[feature], n_rows)
        bins[rng.random(n_rows) < rng.choice([0.0, 0.3, 0.9])] = MISSING
        for sums, values in ((g, rows_g), (h, rows_h), (n, np.ones(n_rows, np.int64))):
            np.add.at(sums[feature], bins, values)
    return g, h, n, n_bins, (int(rows_g.sum()), int(rows_h.sum()), n_rows)


def exact_cuts(g, h, n, n_bins, node, chosen):
    """Return all cuts in exact arithmetic."""
    as_integers = [sums.tolist() for sums in (g, h, n)]
    return [
        cut
        for feature in range(len(n_bins))
        for cut in naive.cuts_of_feature(
            feature, *(sums[feature] for sums in as_integers), int(n_bins[feature]), node,
            naive.exact_rules(chosen),
        )
    ]  # fmt: skip


@given(histograms(), rules)
def test_best_cut_is_the_best_of_all_cuts(node_data, chosen) -> None:
    g, h, n, n_bins, node = node_data
    found, gain = engine.search(g, h, n, n_bins, node, chosen)
    cuts = exact_cuts(g, h, n, n_bins, node, chosen)
    if not cuts:
        assert found.score < 0.0
        assert gain == -1.0
        return
    best = max(cut.value for cut in cuts)
    # The score is twice the reduction; cuts within rounding of the best are as good.
    slack = max(best, Fraction(1)) * Fraction(1, 10**12)
    good = {
        (cut.feature, cut.bin, cut.missing_left): cut for cut in cuts if cut.value >= best - slack
    }
    key = (int(found.feature), int(found.bin), int(found.missing_left))
    assert key in good
    cut = good[key]
    assert (found.g_left, found.h_left, found.n_left) == (cut.g, cut.h, cut.n)
    assert found.score == pytest.approx(float(2 * best), rel=1e-12, abs=1e-300)
    if len(good) == 1:
        assert naive.best_split(g, h, n, n_bins, node, chosen).value == pytest.approx(float(best))


def node_of(bins_g, n_features=1, missing=(0, 0), h=None):
    """Return a node with one row per bin with these gradients, in several equal features."""
    g, hess, n = (np.zeros((n_features, STRIDE), dtype=np.int64) for _ in range(3))
    k = len(bins_g)
    g[:, :k], n[:, :k] = bins_g, [0 if value is None else 1 for value in bins_g]
    g[:, MISSING], n[:, MISSING] = missing
    hess[:] = n
    node = tuple(int(sums[0].sum()) for sums in (g, hess, n))
    return g, hess, n, np.full(n_features, k), node


def chosen_by(node_data, chosen=naive.Rules()):  # noqa: B008
    found, gain = engine.search(*node_data, chosen)
    return (int(found.feature), int(found.bin), int(found.missing_left)), gain


def test_equal_features_give_the_first() -> None:
    assert chosen_by(node_of([-1, -1, 1, 1], n_features=3))[0] == (0, 1, 1)


def test_equal_cuts_of_a_feature_give_the_lowest_bin() -> None:
    # 1 | 0 0 -1 0 0 ... : the same both ways round.
    assert chosen_by(node_of([2, -1, -1, 2]))[0] == (0, 0, 0)


def test_empty_bins_between_give_the_lowest_bin() -> None:
    g, h, n, n_bins, _ = node_of([-1, 0, 0, 1])
    h[:, 1:3] = n[:, 1:3] = 0
    assert chosen_by((g, h, n, n_bins, (0, 2, 2)))[0] == (0, 0, 1)


def test_where_none_is_missing_a_later_one_goes_with_the_larger_part() -> None:
    assert chosen_by(node_of([-2, 1, 1]))[0] == (0, 0, 0)
    assert chosen_by(node_of([-1, -1, 2]))[0] == (0, 1, 1)


def test_missing_of_no_influence_goes_right() -> None:
    # Missing values alike on both sides: -2 (+0) | 2 and -2 | 2 (+0) differ in h only.
    g, h, n, n_bins, _ = node_of([-2, 2], missing=(0, 1))
    h[:, MISSING] = 0
    assert chosen_by((g, h, n, n_bins, (0, 2, 3)))[0] == (0, 0, 0)


def test_cut_that_sets_missing_apart_lies_behind_the_last_bin() -> None:
    assert chosen_by(node_of([1, 1, 1], missing=(-9, 1)))[0] == (0, 2, 0)
    g, h, n, n_bins, _ = node_of([1, 1, 1, 0, 0], missing=(-9, 1))
    h[:, 3:5] = n[:, 3:5] = 0
    # Also where the last bins are empty in this node.
    assert chosen_by((g, h, n, n_bins, (-6, 4, 4)))[0] == (0, 4, 0)


def test_rules_at_their_bounds_allow() -> None:
    node = node_of([-1, -1, 1, 1])
    assert chosen_by(node, naive.Rules(min_child_weight=2.0))[1] > 0
    assert chosen_by(node, naive.Rules(min_child_weight=2.0000001))[1] == -1.0
    assert chosen_by(node, naive.Rules(gamma=1.9999))[1] > 0
    assert chosen_by(node, naive.Rules(gamma=2.0))[1] == -1.0  # 1/2 (4/2 + 4/2) - 2 = 0
    assert chosen_by(node, naive.Rules(reg_alpha=2.0))[1] == -1.0
    assert chosen_by(node, naive.Rules(max_delta_step=0.5))[1] == pytest.approx(1.5)
