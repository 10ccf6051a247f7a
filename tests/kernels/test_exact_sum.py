"""Exact sums equal ``math.fsum`` for any order and division of the values."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hedgerow.kernels.primitives.exact_sum import (
    ARRAY_SIZE,
    ExactSum,
    GroupSums,
    exact_sum,
    total_of,
    weighted_mean,
)
from hedgerow.metrics import METRICS
from hedgerow.objectives import OBJECTIVES, make_objective
from hedgerow.objectives.global_sums import AllRows
from tests.helpers.divided_rows import on_ranks
from tests.helpers.examples import examples
from tests.helpers.losses import CASES
from tests.helpers.ranks import run_ranks

RNG = np.random.default_rng(0)
ANY = st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.floats(-1e6, 1e6)
MIXED = st.lists(st.one_of(ANY, PLAIN), max_size=40)


def naive_sum(values: list[float]) -> float:
    total = sum(map(Fraction, values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


@settings(max_examples=examples(200))
@given(MIXED)
@example([1.7e308, 1.7e308, -1.7e308])
@example([5e-324] * 5 + [1e308])
@example([2.0**900, 2.0**899, -(2.0**-1074)])
@example([1e16, 1.0, 1e-16, -1e16])
def test_sum_is_rounded_once(values) -> None:
    found = exact_sum(np.array(values, dtype=np.float64))
    assert float(found) == naive_sum(values)
    assert found.units == sum(Fraction(v) for v in values) * 2**1074


@settings(max_examples=examples(50))
@given(st.lists(PLAIN, min_size=1, max_size=50), st.randoms())
def test_order_and_cutting_do_not_matter(values, random) -> None:
    whole = exact_sum(np.array(values))
    assert float(whole) == math.fsum(values)
    random.shuffle(values)
    cut = random.randrange(len(values) + 1)
    parts = [exact_sum(np.array(part)) for part in (values[:cut], values[cut:])]
    assert parts[0] + parts[1] == whole
    together = sum(part.to_array() for part in parts)
    assert together.shape == (ARRAY_SIZE,)
    assert together.dtype == np.int64
    assert ExactSum.from_array(together) == whole


@pytest.mark.parametrize("n", [1, 3, 4, 16_383, 16_384, 16_385, 50_000])
@pytest.mark.parametrize("scale", [1.0, 20.0, 200.0])
def test_many_values(n, scale) -> None:
    values = RNG.choice([-1.0, 1.0], n) * np.exp(scale * RNG.normal(size=n).clip(-3, 3))
    before = values.copy()
    assert float(exact_sum(values)) == math.fsum(values)
    assert float(exact_sum(values[::2])) == math.fsum(values[::2])
    assert np.array_equal(values, before)
    values.flags.writeable = False
    assert float(exact_sum(values)) == math.fsum(values)


def test_values_of_one_binade() -> None:
    """All mantissa bits of all values are set, at the same places."""
    values = np.full(16_384, np.nextafter(2.0, 0.0))
    assert float(exact_sum(values)) == math.fsum(values)
    assert exact_sum(-values) + exact_sum(values) == ExactSum()


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([], 0.0),
        ([1.0, math.inf], math.inf),
        ([-math.inf, 2.0], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
        ([math.nan, math.inf], math.nan),
        ([1e308] * 3, math.inf),
        ([-1e308] * 3, -math.inf),
    ],
)
def test_not_finite(values, total) -> None:
    found = exact_sum(np.array(values, dtype=np.float64))
    assert np.array_equal(float(found), total, equal_nan=True)
    merged = ExactSum.from_array(found.to_array() + exact_sum(np.array([1.0])).to_array())
    assert np.array_equal(float(merged), total + 1.0, equal_nan=True)


def test_quotients_are_rounded_once() -> None:
    third = exact_sum(np.array([1.0])).over(exact_sum(np.array([3.0])))
    assert third == 1 / 3
    with np.errstate(all="raise"):
        assert math.isnan(ExactSum().over(0))
        assert exact_sum(np.array([-1.0])).over(0) == -math.inf
        assert exact_sum(np.array([1.0])).over(exact_sum(np.array([math.inf]))) == 0.0
        assert exact_sum(np.array([1e300])).over(exact_sum(np.array([1e-300]))) == math.inf
        assert exact_sum(np.array([1e300])).over(exact_sum(np.array([-1e-300]))) == -math.inf


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(PLAIN, st.floats(1e-3, 1e3)), min_size=1, max_size=30))
def test_weighted_mean(pairs) -> None:
    values, weight = np.array(pairs).T
    products = sum((Fraction(v) for v in (values * weight).tolist()), Fraction(0))
    expected = float(products / sum(Fraction(w) for w in weight.tolist()))
    assert weighted_mean(values, weight) == expected
    assert weighted_mean(values) == float(sum(map(Fraction, values.tolist())) / len(values))


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.floats(-1e100, 1e100), st.integers(0, 4)), max_size=30))
def test_group_sums(pairs) -> None:
    values = np.array([v for v, _ in pairs])
    groups = np.array([g for _, g in pairs], dtype=np.int64)
    sums = GroupSums(5)
    sums.add(values, groups)
    for k in range(5):
        assert sums.total(k) == exact_sum(values[groups == k])
    halves = [GroupSums(5), GroupSums(5)]
    for half, part in zip(halves, (slice(0, 7), slice(7, None)), strict=True):
        half.add(values[part], groups[part])
    limbs = tuple(sorted({limb for half in halves for limb in half.limbs}))
    digits = halves[0].to_array(limbs) + halves[1].to_array(limbs)
    assert all(total_of(digits[:, k], limbs) == sums.total(k) for k in range(5))


def test_group_sums_of_many_rows() -> None:
    values = np.full(1_200_000, np.nextafter(2.0, 0.0))
    sums = GroupSums(2)
    sums.add(values, np.zeros(len(values), dtype=np.int64))
    assert sums.total(0) == exact_sum(values)
    assert sums.total(1) == ExactSum()


def naive_quantile(values: np.ndarray, weight: np.ndarray, level: float) -> float:
    whole, play = sum(map(Fraction, weight)), Fraction(1, 10**12)
    distinct = np.unique(values)
    for place, value in enumerate(distinct):
        below = sum(map(Fraction, weight[values <= value])) / whole
        if below >= Fraction(level) - play:
            if below <= Fraction(level) + play and place + 1 < len(distinct):
                return 0.5 * (value + distinct[place + 1])
            return float(value)
    raise AssertionError


@settings(max_examples=examples(80))
@given(
    st.lists(st.one_of(st.sampled_from([-2.0, 0.0, 1.0, 7.0]), PLAIN), min_size=1, max_size=30),
    st.sampled_from(["none", "small", "wide"]),
    st.sampled_from([0.01, 0.1, 0.25, 0.3, 0.5, 0.9, 0.999]),
    st.integers(0, 2**32 - 1),
)
def test_quantile(values, weights, level, seed) -> None:
    target = np.array(values)
    rng = np.random.default_rng(seed)
    weight = {
        "none": None,
        "small": rng.integers(1, 4, len(values)).astype(float),
        "wide": np.exp(rng.normal(size=len(values)) * 30),
    }[weights]
    mass = np.ones(len(values)) if weight is None else weight
    expected = naive_quantile(target, mass, level)
    assert AllRows(target, weight).quantile(level) == expected
    assert on_ranks(3, lambda rows: rows.quantile(level), target, weight) == expected


SEVERAL = ("softmax", "one_vs_all")
DRAWS = {case.name: case.draw for case in CASES}


def targets_for(name, n, n_outputs):
    """Return targets that a loss allows."""
    if name in DRAWS:
        return DRAWS[name](RNG, n)
    if name == "log_normal":
        return DRAWS["gamma"](RNG, n)
    if name in ("cox", "aft"):
        return RNG.exponential(5.0, n) * RNG.choice([-1.0, 1.0], n)
    return RNG.integers(0, n_outputs if name in SEVERAL else 2, n).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
def test_start_does_not_depend_on_cutting_or_order(weighted) -> None:
    n = 61
    weight = np.exp(RNG.normal(size=n)) if weighted else None
    numbers = RNG.normal(size=n) + 1e6
    for name in OBJECTIVES:
        objective = make_objective(name, 3 if name in SEVERAL else 1)
        target = targets_for(name, n, objective.n_outputs)
        if name in ("squared_error", "quantile", "absolute_error"):
            target = numbers
        start = objective.initial_score(target, weight)
        assert start.shape == (objective.n_outputs,)
        divided = on_ranks(4, objective.start_of, target, weight)
        assert np.array_equal(divided, start), name
        order = RNG.permutation(n)
        shuffled = objective.initial_score(
            target[order], weight if weight is None else weight[order]
        )
        assert np.array_equal(shuffled, start), name


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_targets", [1, 3])
def test_a_rank_without_rows_knows_no_number_of_targets(n_targets, weighted) -> None:
    target = np.asfortranarray(RNG.normal(size=(7, n_targets)))
    target, weight = target[:, 0] if n_targets == 1 else target, RNG.uniform(size=7)

    def gathered(ranks: Any) -> Any:
        own = slice(3 * ranks.rank, 3 * ranks.rank + 3 + ranks.rank)
        empty = ranks.rank == 2
        rows = AllRows(
            np.zeros(0) if empty else target[own],
            weight[own] if weighted and not empty else None,
            communicator=ranks,
        )
        centers = [rows.of_target(k).center() for k in range(n_targets)] if n_targets > 1 else []
        return *rows.gathered(), centers

    whole = AllRows(target, weight if weighted else None)
    centers = [whole.of_target(k).center() for k in range(n_targets)] if n_targets > 1 else []
    for found, mass, own in run_ranks(3, gathered):
        assert np.array_equal(found, target)
        assert mass is None if not weighted else np.array_equal(mass, weight)
        assert own == centers


@pytest.mark.parametrize("value", [0.1, 1e300, -7.0, 1e-320])
@pytest.mark.parametrize("weighted", [False, True])
def test_start_of_equal_targets_is_the_target(value, weighted) -> None:
    n = 49
    weight = RNG.uniform(size=n) if weighted else None
    for name in ("squared_error", "absolute_error"):
        start = make_objective(name).initial_score(np.full(n, value), weight)
        assert start.tolist() == [value]


def test_losses_of_rows_do_not_depend_on_the_others() -> None:
    n = 67
    for name in OBJECTIVES:
        objective = make_objective(name, 9 if name in SEVERAL else 1)
        if not getattr(objective, "rowwise", True):
            continue  # there is no loss of a row
        target = targets_for(name, n, objective.n_outputs)
        raw = RNG.normal(size=(objective.n_outputs, n)) * 3
        whole, predicted = objective.losses(target, raw), objective.predict(raw)
        assert objective.loss(target, raw, None) == weighted_mean(whole)
        for size in (1, 2, 8, 33):
            for start in range(0, n, size):
                part = slice(start, start + size)
                few = np.ascontiguousarray(raw[:, part])
                assert np.array_equal(objective.losses(target[part], few), whole[part]), name
                assert np.array_equal(objective.predict(few), predicted[part]), name


@pytest.mark.parametrize("weighted", [False, True])
def test_metrics_from_parts(weighted) -> None:
    n = 203
    weight = np.exp(RNG.normal(size=n)) if weighted else None
    for name, metric in METRICS.items():
        if metric.sums is None:
            continue
        if any(word in name for word in ("deviance", "nloglik", "poisson", "msle")):
            y, prediction = RNG.gamma(2.0, size=n), RNG.gamma(2.0, size=n)
        elif name in ("cross_entropy", "kldiv"):
            y, prediction = RNG.uniform(size=n), RNG.uniform(size=n)
        elif "regression" in metric.tasks:
            y, prediction = RNG.normal(size=n), RNG.normal(size=n)
        else:
            share = RNG.uniform(size=n)
            y, prediction = RNG.integers(0, 2, n).astype(float), np.column_stack([share, 1 - share])
        if metric.from_raw and prediction.ndim == 1:
            prediction = prediction[None]
        elif metric.from_raw:
            prediction = np.ascontiguousarray(prediction.T)
        center = AllRows(y, weight).center()
        above, below = ExactSum(), ExactSum()
        for start in range(0, n, 10):
            part = slice(start, start + 10)
            mass = None if weight is None else weight[part]
            some = prediction[:, part] if metric.from_raw else prediction[part]
            more = metric.sums.sums(y[part], some, mass, center)
            above, below = above + more[0], below + more[1]
        assert metric.sums.finish(above, below) == metric.function(y, prediction, weight), name


def test_r2_of_equal_targets() -> None:
    r2, same = METRICS["r2"].function, np.full(3, 0.1)
    assert r2(same, same, None) == 1.0
    assert r2(same, np.zeros(3), None) == 0.0


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 2.0**900])
def test_groups_refuse_what_has_no_exact_sum(value) -> None:
    with pytest.raises(ValueError, match="below 2\\*\\*900"):
        GroupSums(2).add(np.array([1.0, value]), np.array([0, 1]))
