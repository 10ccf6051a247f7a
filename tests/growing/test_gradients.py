"""Integer gradients: correct, precise, unbiased, and independent of threads."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.compile import kernel
from hedgerow.growing.core.stages.gradients import exponent_above, power_of_two
from hedgerow.kernels.primitives.exponential import exponential
from hedgerow.objectives import make_objective
from tests.helpers import engine
from tests.reference import naive

LOSSES = ("squared_error", "absolute_error", "quantile", "logistic", "exponential", "softmax")


@kernel
def exponentials(x, out):
    for i in range(len(x)):
        out[i] = exponential(x[i])


def exp_of(x):
    out = np.empty_like(x)
    exponentials(x, out)
    return out


# -- exponential -----------------------------------------------------------------


def test_exponential_is_within_one_ulp() -> None:
    rng = np.random.default_rng(0)
    near_ties = (np.arange(-1000, 1001)[:, None] + [0.5 - 1e-15, 0.5, 0.5 + 1e-15]) * math.log(2)
    x = np.concatenate(
        [
            np.linspace(-708, 708, 400_001),
            np.linspace(-2, 2, 400_001),
            rng.normal(0, 10, 200_000),
            rng.choice([-1, 1], 100_000) * 10.0 ** rng.uniform(-320, 0, 100_000),
            np.clip(near_ties.reshape(-1), -708, 708),
        ]
    )
    assert naive.ulps_apart(exp_of(x), np.exp(x)).max() <= 1


def test_exponential_at_special_places() -> None:
    x = np.array([0.0, -0.0, 5e-324, -5e-324, 2.0**-60])
    assert (exp_of(x) == 1.0).all()
    far = exp_of(np.array([-1e308, -709.0, -708.0, 708.0, 709.0, 1e308]))
    assert (far == [far[2]] * 3 + [far[3]] * 3).all()
    assert np.isfinite(far).all()
    assert (far > 0.0).all()


# -- units ---------------------------------------------------------------------------


@given(st.floats(1e-270, 1e270))
def test_exponent_is_the_least_whose_power_is_not_below(x) -> None:
    e = exponent_above(x)
    assert power_of_two(e - 1) < x <= power_of_two(e)


# -- values ---------------------------------------------------------------------------


def case(loss, n_rows, seed=0, spread=1.0):
    """Return a loss with targets, raw scores and weights."""
    rng = np.random.default_rng(seed)
    n_outputs = 4 if loss == "softmax" else 1
    objective = make_objective(loss, n_outputs)
    if loss in ("squared_error", "absolute_error", "quantile"):
        y = rng.normal(size=n_rows)
    else:
        y = rng.integers(0, max(2, n_outputs), n_rows).astype(float)
    raw = spread * rng.normal(size=(n_outputs, n_rows))
    return objective, y, raw, rng.uniform(0.1, 3.0, n_rows)


def blank(n_rows):
    return engine.binned(np.zeros((n_rows, 1)))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_rows", [1, 7, 1024, 2500, 6000])
def test_gradients_equal_the_naive_ones(loss, weighted, n_rows) -> None:
    objective, y, raw, weight = case(loss, n_rows, spread=3.0)
    weight = weight if weighted else None
    g, h = naive.gradients(loss, y, raw, weight)
    for output in range(objective.n_outputs):
        # Several trees of one round: all see the scores from before the round.
        found = engine.gradients(blank(n_rows), y, raw, objective, weight, output=output)
        if loss != "softmax" or output == 0:
            unit = np.ldexp(1.0, found.exponents[0] - 30)
            np.testing.assert_allclose(found.g, g[output], rtol=0, atol=0.5001 * unit)
            unit = np.ldexp(1.0, found.exponents[1] - 30)
            np.testing.assert_allclose(found.h, h[output], rtol=0, atol=0.5001 * unit)
        else:
            np.testing.assert_allclose(found.g, g[output], rtol=0, atol=1e-8)
            np.testing.assert_allclose(found.h, h[output], rtol=0, atol=1e-8)


@pytest.mark.parametrize("power", [-400, -60, 0, 60, 400])
def test_unit_is_the_smallest_that_fits(power) -> None:
    y = np.ldexp(np.array([-0.75, 0.5, 0.25, -1e-9]), power)
    found = engine.gradients(blank(4), y, np.zeros((1, 4)), make_objective("squared_error"))
    assert found.exponents[0] == power
    assert found.quantized[:, 0].tolist() == [round(v * 2**30) for v in (0.75, -0.5, -0.25, 1e-9)]


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_saturated_probabilities_keep_a_hessian(loss) -> None:
    objective, y, raw, _ = case(loss, 50)
    found = engine.gradients(blank(50), y, np.sign(raw) * 1000.0, objective)
    assert np.isfinite(found.g).all()
    assert (found.h >= 0).all()
    assert np.abs(found.g).max() <= 1.0


# -- packing ----------------------------------------------------------------------------


def mode_of(found):
    p = found.packed.packing
    if p.hessian_bits == 0:
        return "constant"
    return "apart" if p.g_apart == 1 else "narrow"


@pytest.mark.parametrize(
    ("loss", "weighted", "n_rows", "expected"),
    [
        ("squared_error", False, 100, "constant"),
        ("squared_error", False, 9000, "constant"),
        ("squared_error", True, 4096, "apart"),
        ("squared_error", True, 4097, "narrow"),
        ("logistic", False, 4096, "apart"),
        ("logistic", False, 4097, "narrow"),
        ("softmax", True, 6000, "narrow"),
    ],
)
def test_packing_by_size(loss, weighted, n_rows, expected) -> None:
    objective, y, raw, weight = case(loss, n_rows)
    found = engine.gradients(blank(n_rows), y, raw, objective, weight if weighted else None)
    assert mode_of(found) == expected


@pytest.mark.parametrize("where", ["g", "h"])
def test_heavy_tails_are_packed_apart(where) -> None:
    n_rows = 20_000
    objective, y, raw, weight = case("squared_error", n_rows)
    raw[0], y = 0.0, np.clip(y, -3, 3)
    if where == "g":
        y[17] = 1e6
    else:
        weight[17] = 1e6
        y[17] = 0.0  # no large g
    assert mode_of(engine.gradients(blank(n_rows), y, raw, objective, weight)) == "apart"


def test_packing_is_chosen_from_sums_in_the_right_unit() -> None:
    # The first pass measures with the unit of nothing; only the last may decide.
    n_rows = 10_000
    objective, y, raw, weight = case("squared_error", n_rows)
    expected = engine.gradients(blank(n_rows), y, raw, objective, weight)
    for power in (-40, 40):
        factor = 2.0**power
        found = engine.gradients(blank(n_rows), y * factor, raw * factor, objective, weight)
        assert mode_of(found) == "narrow"
        np.testing.assert_array_equal(found.quantized, expected.quantized)
        numbers = found.packed.numbers[:n_rows], expected.packed.numbers[:n_rows]
        np.testing.assert_array_equal(*numbers)


@pytest.mark.parametrize(("loss", "weighted"), [("logistic", False), ("squared_error", True)])
def test_small_fits_are_packed_without_loss(loss, weighted) -> None:
    objective, y, raw, weight = case(loss, 3000)
    found = engine.gradients(blank(3000), y, raw, objective, weight if weighted else None)
    g, h = found.packed.g_and_h(3000)
    np.testing.assert_array_equal(g, found.quantized[:, 0])
    np.testing.assert_array_equal(h, found.quantized[:, 1])


# -- rounding at random --------------------------------------------------------------


def test_rounding_goes_to_a_neighbour() -> None:
    rng = np.random.default_rng(0)
    g = rng.integers(-(2**30), 2**30, 20_000, endpoint=True)
    h = rng.integers(0, 2**30, 20_000, endpoint=True)
    packed = engine.pack(g, h, "narrow", seed=3, tree=9)
    for exact, rounded in zip((g, h), packed.g_and_h(20_000), strict=True):
        up = rounded - (exact >> packed.dropped)
        assert set(up.tolist()) == {0, 1}
    multiples = engine.pack(g >> 18 << 18, h >> 18 << 18, "narrow")
    np.testing.assert_array_equal(multiples.g_and_h(20_000)[0], g >> 18)


@pytest.mark.parametrize("value", [1, -1, 2**17, 2**18 - 1, 1 - 2**18, 12_345_678, -(2**29) - 7])
def test_rounding_is_unbiased(value) -> None:
    n = 400_000
    packed = engine.pack(np.full(n, value), np.full(n, abs(value)), "narrow", seed=1, tree=4)
    g, h = packed.g_and_h(n)
    for sums, exact in ((g, value / 2**18), (h, abs(value) / 2**18)):
        share = exact - math.floor(exact)
        deviation = math.sqrt(share * (1 - share) / n) + 1e-12
        assert abs(sums.mean() - exact) < 5 * deviation


def test_rounding_of_g_and_h_and_of_trees_is_independent() -> None:
    n = 200_000
    half = np.full(n, 2**17)
    ups = [
        engine.pack(half, half, "narrow", seed=seed, tree=tree).g_and_h(n)
        for seed, tree in ((0, 0), (0, 1), (1, 0))
    ]
    streams = np.array([stream for pair in ups for stream in pair], dtype=float)
    correlation = np.corrcoef(streams) - np.eye(len(streams))
    assert np.abs(correlation).max() < 5 / math.sqrt(n)
    neighbours = np.corrcoef(streams[0, :-1], streams[0, 1:])[0, 1]
    assert abs(neighbours) < 5 / math.sqrt(n)
