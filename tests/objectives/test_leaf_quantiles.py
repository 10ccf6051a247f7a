"""Quantiles of leaves: selected without sorting if weights are equal, sorted otherwise."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.objectives.line_search import PLAY, LeafRows, masses_of, unit_of


def naive_quantile(values, masses, level: float) -> float:
    """Return the smallest value at which the weight reaches the level (midpoint if exactly)."""
    total = float(masses.sum())
    least, most = max(level * total - PLAY * total, 1.0), level * total + PLAY * total
    so_far = Fraction(0)
    known = sorted(set(values.tolist()))
    for value, following in zip(known, [*known[1:], None], strict=True):
        so_far += int(masses[values == value].sum())
        if float(so_far) >= least:
            just = float(so_far) <= most and following is not None
            return 0.5 * (value + following) if just else value
    raise AssertionError


@given(
    seed=st.integers(0, 2**32 - 1),
    level=st.one_of(st.sampled_from([0.5, 0.1, 0.25, 0.8, 1 / 3]), st.floats(1e-9, 1 - 1e-9)),
    digits=st.integers(0, 2),
    alike=st.booleans(),
)
def test_quantiles_of_leaves_are_those_of_their_definition(seed, level, digits, alike) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    values = np.round(rng.normal(size=n), digits) + 0.0
    starts = np.unique(np.r_[0, rng.integers(1, n + 1, 3), n])
    weight = np.full(n, rng.choice([1.0, 0.1, 3.7])) if alike else rng.choice([0.5, 1.0, 2.0], n)
    unit = unit_of(4 * n)
    masses = masses_of(weight, unit)
    leaves = LeafRows(values, values[None], weight, starts, unit)
    wanted = [
        naive_quantile(values[a:b], masses[a:b], level) for a, b in itertools.pairwise(starts)
    ]
    assert leaves.quantiles(values, level).tolist() == wanted
