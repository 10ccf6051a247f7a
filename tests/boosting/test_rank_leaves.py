"""Leaf values searched by ranks equal those of all rows in one memory, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.boosting.loop.rank_leaves import check_rule, steps_on_ranks, unit_on_ranks
from hedgerow.comm.base import Alone
from hedgerow.errors import AllRowsNeededError
from hedgerow.objectives import make_objective
from hedgerow.objectives.line_search import LeafRows
from tests.helpers.ranks import run_ranks

LOSSES = ("absolute_error", "quantile", "mape", "hinge")


def targets_of(name: str, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    if name == "hinge":
        return rng.integers(0, 2, n_rows).astype(float)
    if name == "mape":
        return rng.gamma(2.0, 3.0, n_rows)
    return np.round(rng.normal(size=n_rows), 1)  # with ties


@given(
    name=st.sampled_from(LOSSES),
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=5),
    weighted=st.booleans(),
    cuts=st.lists(st.integers(0, 1000), min_size=1, max_size=3),
    seed=st.integers(0, 2**31),
)
def test_steps_of_ranks_are_those_of_all_rows(name, sizes, weighted, cuts, seed) -> None:
    rng = np.random.default_rng(seed)
    objective = make_objective(name)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    n_rows = int(starts[-1])
    target = targets_of(name, n_rows, rng)
    raw = rng.normal(size=(objective.n_outputs, n_rows))
    weight = rng.uniform(0.2, 3.0, n_rows) if weighted else np.ones(n_rows)
    unit = unit_on_ranks(weight, n_rows, Alone())
    expected = objective.leaf_steps(LeafRows(target, raw, weight, starts, unit), 0)
    # Each rank has a range of the rows of each leaf, which may be empty.
    share = np.sort(np.concatenate([[0.0], np.clip(np.array(cuts) / 1000, 0, 1), [1.0]]))
    edges = starts[:-1, None] + np.floor(share * np.diff(starts)[:, None]).astype(int)

    def one(ranks: Any) -> np.ndarray:
        spans = edges[:, ranks.rank : ranks.rank + 2]
        rows = np.concatenate([np.arange(*span) for span in spans])
        own = np.concatenate([[0], np.cumsum(np.diff(spans, axis=1)[:, 0])])
        own_unit = unit_on_ranks(weight[rows] if weighted else None, len(rows), ranks)
        assert own_unit == unit
        part = LeafRows(target[rows], raw[:, rows], weight[rows], own, own_unit)
        return steps_on_ranks(objective, 0, part, ranks)

    for found in run_ranks(len(share) - 1, one):
        assert found.tobytes() == np.asarray(expected).tobytes()


def test_steps_that_are_not_quantiles_are_refused_on_ranks() -> None:
    class OwnSteps:
        name, n_outputs, rowwise = "own", 1, True

        def leaf_steps(self, rows: LeafRows, output: int) -> np.ndarray:
            return np.zeros(len(rows.starts) - 1)

    with pytest.raises(AllRowsNeededError, match="objective 'own' needs the rows of a leaf"):
        check_rule(OwnSteps(), 0)  # type: ignore[arg-type]
    with pytest.raises(AllRowsNeededError, match="objective 'huber' needs the rows of a leaf"):
        check_rule(make_objective("huber"), 0)
