"""Vector leaves on chunks, threads and ranks equal those grown in memory, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.data.external.row_store import MemoryStore
from hedgerow.errors import AllRowsNeededError, DataError
from hedgerow.growing.chunks import space as chunk_space
from hedgerow.growing.chunks.space import check_vector_rows
from hedgerow.objectives import make_objective
from hedgerow.objectives.targets import several_targets
from tests.growing.test_chunk_grower import (
    LEVELS,
    OPTIONS,
    OPTIONS_OF_LEVELS,
    StrictStore,
    assert_same_everywhere,
    make_problem,
)

VECTORS = {"multi_strategy": "multi_output_tree"}
MORE = {
    "smooth": {"path_smooth": 4.0, "max_leaves": 12},
    "smooth given cuts": {**OPTIONS["given cuts"], "path_smooth": 1.5},
    "drawn cuts": {"extra_trees": True, "feature_penalties": {"x0": 0.5}},
    "lines by MVS": {"linear_leaves": True, "sampling": "mvs", "subsample": 0.4},
    "ordered lines of levels": LEVELS
    | {"linear_leaves": True, "monotone_constraints": {"x0": 1}, "max_delta_step": 0.5},
}
KINDS = [
    *(OPTIONS | MORE).values(),
    *(LEVELS | more for more in OPTIONS_OF_LEVELS.values()),
]


def make_vectors(n_rows=300, n_outputs=3, seed=0, loss="softmax", **values):
    """Return rows of classes, or of several targets with a loss of one target."""
    plain = {name: value for name, value in values.items() if not name.startswith("monotone")}
    of_classes = make_problem(n_rows, "softmax", seed, **plain, **VECTORS)
    if loss == "softmax":
        return of_classes
    # Constraints are for one target: classes have none.
    problem = make_problem(n_rows, "squared_error", seed, **values)
    params = replace(problem.params, multi_strategy="multi_output_tree")
    problem = replace(of_classes, params=params)
    rng = np.random.default_rng(seed)
    target = problem.target[:, None] + rng.normal(size=(n_rows, n_outputs)) * 10.0 ** np.arange(
        n_outputs
    )
    target = np.asfortranarray(target)
    objective = several_targets(lambda first: make_objective(loss, 1), target, None)
    offset = problem.offset
    if offset is not None:
        offset = rng.normal(size=(n_outputs, n_rows))
    return replace(problem, target=target, objective=objective, offset=offset)


@given(
    options=st.sampled_from(KINDS),
    loss=st.sampled_from(["softmax", "squared_error", "fair"]),
    n_outputs=st.sampled_from([2, 9]),
    n_rows=st.integers(1, 120),
    chunk_rows=st.sampled_from([1, 7, 33, 1000]),
    cuts=st.lists(st.integers(0, 120), max_size=3),
    n_threads=st.integers(1, 2),
    mode=st.sampled_from(["data", "features"]),
    weighted=st.booleans(),
    offset=st.booleans(),
    categories=st.booleans(),
    kind=st.sampled_from([MemoryStore, StrictStore]),
    seed=st.integers(0, 2**31),
)
def test_trees_are_those_of_growth_in_memory(
    options, loss, n_outputs, n_rows, chunk_rows, cuts, n_threads, mode, weighted, offset,
    categories, kind, seed,
) -> None:  # fmt: skip
    more = {"weighted": weighted, "offset": offset, "categories": categories, **options}
    problem = make_vectors(n_rows, n_outputs, seed, loss, **more)
    edges = [0, *sorted(min(cut, n_rows) for cut in cuts), n_rows]
    assert_same_everywhere(
        problem, chunk_rows=chunk_rows, edges=edges, n_threads=n_threads, mode=mode, kind=kind
    )


@pytest.mark.parametrize("mode", ["data", "features"])
def test_few_histograms_and_builds(monkeypatch, mode) -> None:
    monkeypatch.setattr(chunk_space, "_SLOT_BYTES", 1)
    monkeypatch.setattr(chunk_space, "_BUILD_BYTES", 1)
    problem = make_vectors(400, max_leaves=20)
    assert_same_everywhere(problem, chunk_rows=60, edges=[0, 150, 400], mode=mode)


def test_histograms_of_a_level_that_cannot_be_kept(monkeypatch) -> None:
    monkeypatch.setattr(chunk_space, "_SLOT_BYTES", 1)
    with pytest.raises(AllRowsNeededError, match="max_depth=6 keeps up to 32 histograms"):
        assert_same_everywhere(make_vectors(**{**LEVELS, "max_depth": 6}), chunk_rows=60)


def test_more_columns_than_ranks() -> None:
    problem = make_vectors(200, n_features=2)
    assert_same_everywhere(problem, chunk_rows=60, edges=[0, 50, 100, 150, 200])
    levels = make_vectors(200, n_features=2, **LEVELS)
    assert_same_everywhere(levels, chunk_rows=60, edges=[0, 50, 100, 150, 200])


def test_sums_of_too_many_rows() -> None:
    check_vector_rows((1 << 30) - 1)
    with pytest.raises(DataError, match=r"1,073,741,824 rows are too many for vectors"):
        check_vector_rows(1 << 30)
