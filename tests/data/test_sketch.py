"""Quantile sketches: the bounds hold for the exact ranks, for any values in any order."""

from bisect import bisect_left, bisect_right
from collections import Counter
from fractions import Fraction
from itertools import accumulate, pairwise

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.arrays import MISSING_KEY
from hedgerow.data.binning.sketch import MOST_WEIGHT, QuantileSketch, prefix_bounds
from hedgerow.errors import DataError, ParameterError
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats

ROUNDING = 1e-12  # of the total; all that floats may add to what holds for real numbers
LARGEST_KEY = np.iinfo(np.int64).max


# --- The obvious reference: real numbers, and the paper's formulas one by one.


class Ranks:
    """The exact ranks of a column."""

    def __init__(self, keys, weights):
        mass = Counter()
        for key, weight in zip(
            np.asarray(keys).tolist(), np.asarray(weights).tolist(), strict=True
        ):
            if weight > 0 and key != MISSING_KEY:
                mass[key] += Fraction(weight)
        self.keys = sorted(mass)
        self.sums = [Fraction(0), *accumulate(mass[key] for key in self.keys)]
        self.total = self.sums[-1]

    def below(self, key):
        return self.sums[bisect_left(self.keys, key)]

    def up_to(self, key):
        return self.sums[bisect_right(self.keys, key)]


def same(one, other):
    fields = ("value", "rank_low", "rank_high", "weight")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in fields)


def assert_bounds_hold(sketch, keys, weights):
    """Check the bounds of stored and other values in exact arithmetic, without tolerance."""
    ranks = Ranks(keys, weights)
    probes = {near for key in ranks.keys for near in (key - 1, key, key + 1)}
    probes |= {MISSING_KEY + 1, LARGEST_KEY}
    probes = sorted(probe for probe in probes if MISSING_KEY < probe <= LARGEST_KEY)
    bounds = sketch.bounds(np.array(probes, dtype=np.int64))
    allowed = (Fraction(sketch.error) + Fraction(ROUNDING)) * ranks.total
    for key, low, high, weight in zip(probes, *(b.tolist() for b in bounds), strict=True):
        low, high, weight = Fraction(low), Fraction(high), Fraction(weight)
        assert low <= ranks.below(key)
        assert ranks.up_to(key) <= high
        assert 0 <= weight <= ranks.up_to(key) - ranks.below(key)
        assert high - low - weight <= allowed
    assert sketch.total >= ranks.total
    assert sketch.total - ranks.total <= ROUNDING * ranks.total
    if ranks.keys:
        least, most = sketch.value[[0, -1]].tolist()
        assert (least, most) == (ranks.keys[0], ranks.keys[-1])
        if least > MISSING_KEY + 1:
            assert sketch.bounds(least - 1) == (0, 0, 0)
    else:
        assert len(sketch) == 0
        assert sketch.error == 0


# --- Streams that are hard: sorted, constant, heavy ties, huge beside tiny weights.


@st.composite
def streams(draw, most=60, whole=False):
    """Return keys and weights of a stream of up to ``most`` rows."""
    n = draw(st.integers(0, most))
    keys = {
        "few": st.integers(-3, 3),
        "dense": st.integers(-40, 40),
        "wide": st.integers(MISSING_KEY, LARGEST_KEY),
        "one": st.just(7),
    }[draw(st.sampled_from(["few", "dense", "wide", "one"]))]
    tiny = [1e-12, 1e12, 1.0, 0.1, 1 / 3, 5e-324, 0.0]
    weights = {
        "one": st.just(1.0),
        "whole": st.integers(0, 2**40).map(float),
        "mixed": st.sampled_from(tiny),
        "any": st.floats(0, 1e20),
        "subnormal": st.floats(0, 1e-310),
        "vast": st.floats(0, MOST_WEIGHT),
    }[
        draw(
            st.sampled_from(
                ["one", "whole", *([] if whole else ["mixed", "any", "subnormal", "vast"])]
            )
        )
    ]
    keys = draw(st.lists(keys, min_size=n, max_size=n))
    order = draw(st.sampled_from(["as it is", "up", "down", "alternating"]))
    if order != "as it is":
        keys = sorted(keys, reverse=order == "down")
    if order == "alternating":
        keys[1::2] = keys[1::2][::-1]
    weights = draw(st.lists(weights, min_size=n, max_size=n))
    return np.array(keys, dtype=np.int64), np.array(weights, dtype=np.float64)


def merge_in_random_order(draw, parts, merge, prune, sizes):
    """Merge sketches in any order, with prunings in between."""
    parts = list(parts)
    while len(parts) > 1:
        left = parts.pop(draw(st.integers(0, len(parts) - 1)))
        right = parts.pop(draw(st.integers(0, len(parts) - 1)))
        merged = merge(left, right)
        size = draw(sizes)
        parts.append(merged if size is None else prune(merged, size))
    return parts[0]


def cut_up(draw, keys, weights):
    ends = sorted(draw(st.lists(st.integers(0, len(keys)), max_size=6)))
    return list(zip(np.split(keys, ends), np.split(weights, ends), strict=True))


@given(st.data(), streams())
def test_bounds_hold_for_merges_in_any_tree_with_prunings(data, stream):
    promised = {}

    def merge(a, b):
        merged = a.merge(b)
        assert merged.error <= max(a.error, b.error) + ROUNDING
        promised[id(merged)] = max(promised[id(a)], promised[id(b)])
        alive.append(merged)
        return merged

    def prune(a, size):
        pruned = a.prune(size)
        assert len(pruned) <= size + 1
        assert pruned.error <= a.error + 1 / size + ROUNDING
        assert pruned.total == a.total
        promised[id(pruned)] = promised[id(a)] + 1 / size
        alive.append(pruned)
        return pruned

    alive = [QuantileSketch.of(*part) for part in cut_up(data.draw, *stream)]
    for sketch in alive:
        assert sketch.error <= ROUNDING
        promised[id(sketch)] = 0.0
    sizes = st.sampled_from([None, 1, 2, 3, 5, 8, 20])
    sketch = merge_in_random_order(data.draw, alive, merge, prune, sizes)
    assert_bounds_hold(sketch, *stream)
    assert sketch.error <= promised[id(sketch)] + ROUNDING * len(alive)


@given(st.data(), streams(whole=True))
def test_merging_exact_summaries_is_the_summary_of_all(data, stream):
    parts = [QuantileSketch.of(*part) for part in cut_up(data.draw, *stream)]
    merged = merge_in_random_order(data.draw, parts, QuantileSketch.merge, None, st.none())
    assert same(merged, QuantileSketch.of(*stream))
    assert merged.error == 0


@given(streams(), st.sampled_from([1, 3, 8, 20]), st.floats(0, 1))
def test_query_finds_a_value_near_the_rank(stream, size, quantile):
    sketch = QuantileSketch.of(*stream).prune(size)
    ranks = Ranks(*stream)
    if not ranks.keys:
        return
    rank = quantile * sketch.total
    found = int(sketch.query(rank))
    slack = (Fraction(sketch.error) / 2 + Fraction(ROUNDING)) * ranks.total
    assert found in sketch.value
    assert ranks.below(found) - slack <= rank <= ranks.up_to(found) + slack


# --- Candidates for splits.


@given(st.data(), streams(), st.floats(1e-3, 1))
@example(None, (np.arange(64), np.ones(64)), 0.125)
@example(None, (np.arange(9), np.array([1.0, 1, 1, 60, 1, 1, 60, 1, 1])), 0.1)
def test_cuts_lie_less_than_eps_apart_but_at_heavy_values(data, stream, eps):
    sketch = QuantileSketch.of(*stream)
    if data is not None:
        sketch = sketch.prune(data.draw(st.sampled_from([4, 10, 30, 60])))
    if sketch.error >= eps:
        with pytest.raises(ParameterError, match="above the error"):
            sketch.cuts(eps)
        return
    ranks, cuts = Ranks(*stream), sketch.cuts(eps).tolist()
    if not ranks.keys:
        assert cuts == []
        return
    assert (cuts[0], cuts[-1]) == (ranks.keys[0], ranks.keys[-1])
    assert cuts == sorted(set(cuts))
    kept = sketch.value.tolist()
    light = (Fraction(eps) - Fraction(sketch.error) - Fraction(ROUNDING)) * ranks.total
    for left, right in pairwise(cuts):
        gap = ranks.below(right) - ranks.below(left)
        if ranks.up_to(left) - ranks.below(left) < light:
            assert gap < Fraction(eps) * ranks.total
        elif gap >= Fraction(eps) * ranks.total:
            assert kept.index(right) == kept.index(left) + 1
    if light > 0:
        assert len(cuts) <= 3 + 2 * ranks.total / light


# --- Values and weights of every kind.


@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64]), st.integers(0, 40), elements=st.floats(width=32)
    )
)
def test_floats_are_kept_as_keys_and_nan_is_missing(values):
    sketch = QuantileSketch.of(values)
    present = values[~np.isnan(values)].astype(np.float64)
    wanted, counts = np.unique(present, return_counts=True)
    assert floats_of_keys(sketch.value).tolist() == wanted.tolist()
    assert sketch.weight.tolist() == counts.tolist()
    assert same(sketch, QuantileSketch.of(keys_of_floats(values)))


def test_huge_beside_tiny_weights():
    keys = np.arange(2000)
    for weights in (np.where(keys % 2, 1e12, 1e-12), np.where(keys == 1000, 1e12, 1e-12)):
        sketch = QuantileSketch.of(keys, weights)
        halves = QuantileSketch.of(keys[:999], weights[:999]).prune(50)
        halves = halves.merge(QuantileSketch.of(keys[999:], weights[999:]).prune(50)).prune(20)
        for one in (sketch, halves):
            assert_bounds_hold(one, keys, weights)
        assert sketch.error < 1e-15
        assert halves.error <= 1 / 50 + 1 / 20 + ROUNDING


def test_one_value_and_no_value():
    one = QuantileSketch.of(np.array([5.0]), [1e-300])
    assert (one.value.tolist(), one.total, one.error) == ([int(keys_of_floats(5.0))], 1e-300, 0)
    assert one.cuts(1e-9).tolist() == one.value.tolist()
    none = QuantileSketch.of(np.array([np.nan, 1.0]), [1.0, 0.0])
    assert (len(none), none.total, none.error, none.cuts(0.5).tolist()) == (0, 0, 0, [])
    assert none.merge(one) is one
    assert one.merge(none) is one
    assert none.prune(1) is none


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda: QuantileSketch.of(np.arange(2), [1.0]), DataError, "each of the 2 values"),
        (lambda: QuantileSketch.of(np.arange(2), [1.0, -1.0]), DataError, "from 0 to 1e"),
        (lambda: QuantileSketch.of(np.arange(2), [np.nan, 1.0]), DataError, "from 0 to 1e"),
        (lambda: QuantileSketch.of(np.arange(2)).prune(0), ParameterError, "size must be"),
        (lambda: QuantileSketch.of(np.arange(3)).query([1.0, 3.5]), ParameterError, "total .* 3.0"),
        (lambda: QuantileSketch.of(np.arange(0)).query(0.0), ParameterError, "with values"),
        (lambda: QuantileSketch.of(np.arange(3)).cuts(0.0), ParameterError, "above the error"),
        (lambda: QuantileSketch.of(np.arange(3)).cuts(1.5), ParameterError, "above the error"),
    ],
)
def test_wrong_arguments_are_refused(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong()


@given(st.lists(st.floats(0, 1e200), max_size=50))
@example([0.1] * 50)
@example([1e12, 1e-12] * 20)
@example([5e-324, 1e-300, 1.0])
def test_prefix_sums_are_bounded_and_close(weights):
    low, high = prefix_bounds(np.array(weights))
    for at, total in enumerate(accumulate(map(Fraction, weights), initial=Fraction(0))):
        assert Fraction(low[at]) <= total <= Fraction(high[at])
        assert high[at] <= np.nextafter(np.nextafter(np.nextafter(low[at], np.inf), np.inf), np.inf)
    assert (np.diff(low) >= 0).all()
    assert (np.diff(high) >= 0).all()
