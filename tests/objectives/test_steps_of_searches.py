"""Searches for leaf values and base scores stop at a root."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hedgerow.objectives import line_search, make_objective, roots
from hedgerow.objectives.line_search import LeafRows, RootRule
from hedgerow.objectives.targets import leaf_rule_of

RNG = np.random.default_rng(2)
N_ROWS, N_LEAVES = 3_000, 20
NUMBERS = RNG.standard_t(3, size=N_ROWS) + 3.0
TARGETS = {
    "huber": NUMBERS,
    "pseudo_huber": NUMBERS,
    "fair": NUMBERS,
    "log_cosh": NUMBERS,
    "logistic": (NUMBERS > 3.0).astype(float),
    "cross_entropy": 1.0 / (1.0 + np.exp(-NUMBERS)),
    "softmax": np.digitize(NUMBERS, [2.0, 4.0]).astype(float),
}


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_search_of_many_leaves_takes_few_steps(
    name: str, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = make_objective(name, 3 if name == "softmax" else 1)
    assert isinstance(leaf_rule_of(loss, 0), RootRule)
    weight = RNG.uniform(0.1, 2.0, size=N_ROWS) if weighted else np.ones(N_ROWS)
    raw = RNG.normal(size=(loss.n_outputs, N_ROWS))
    starts = np.linspace(0, N_ROWS, N_LEAVES + 1).astype(np.int64)
    leaves, n_sums, search = (
        LeafRows(TARGETS[name], raw, weight, starts),
        0,
        line_search.roots_of_sums,
    )

    def counted(sums: Any, low: Any, high: Any) -> Any:
        def of_step(step: Any) -> Any:
            nonlocal n_sums
            n_sums += 1
            return sums(step)

        return search(of_step, low, high)

    monkeypatch.setattr(line_search, "roots_of_sums", counted)
    steps = loss.leaf_steps(leaves, 0)
    assert 0 < n_sums <= 20
    moved = raw.copy()
    moved[0] += np.repeat(steps, np.diff(starts))
    for leaf in range(N_LEAVES):
        rows = slice(starts[leaf], starts[leaf + 1])
        least = loss.loss(TARGETS[name][rows], moved[:, rows], weight[rows])
        for change in (-1e-3, 1e-3):
            beside = moved[:, rows].copy()
            beside[0] += change
            assert loss.loss(TARGETS[name][rows], beside, weight[rows]) >= least


@pytest.mark.parametrize("name", ["huber", "pseudo_huber", "fair", "log_cosh", "expectile"])
def test_a_start_score_takes_few_sums(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loss, n_means, search = make_objective(name), 0, roots.root_of

    def counted(mean: Any, start: float, within: Any) -> float:
        def at(part: int, where: float) -> float:
            nonlocal n_means
            n_means += 1
            return mean(part, where)

        return search(at, start, within)

    monkeypatch.setattr(roots, "root_of", counted)
    start = loss.initial_score(NUMBERS, None)
    assert 0 < n_means <= 20
    raw = np.full((1, N_ROWS), start[0])
    least = loss.loss(NUMBERS, raw, None)
    assert all(loss.loss(NUMBERS, raw + change, None) >= least for change in (-1e-3, 1e-3))
