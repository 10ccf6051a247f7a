"""Rankings with positions of rows in files and chunks: the bytes of a table in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import Dataset, train
from hedgerow.boosting.external.dataset import resident
from hedgerow.errors import DataTypeError, ParameterError
from tests.helpers.chunked import never_join_chunks
from tests.helpers.marking import every_second

N = 600
RNG = np.random.default_rng(3)
ROWS = pd.DataFrame(RNG.normal(size=(N, 3)), columns=list("abc"))
GRADE = np.clip(np.round(ROWS.a + RNG.normal(size=N) / 2), 0, 3).to_numpy()
QUERY = RNG.integers(0, 50, N)
PLACE = RNG.integers(0, 9, N)
WEIGHT = RNG.integers(0, 4, 50)[QUERY] / 2.0  # a query has one weight
SMALL = {"objective": "lambdarank", "n_estimators": 5, "max_leaves": 7, "n_jobs": 2}


@pytest.fixture(autouse=True, params=[False, True], ids=["one chunk", "chunks"])
def division(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Split the rows into one chunk, or chunks of 128 rows; fail if they are read as a table."""
    monkeypatch.setattr(resident, "in_memory", None)
    if request.param:
        never_join_chunks(monkeypatch)


def batches_of(position: Any, size: int = 170, **more: Any) -> Dataset:
    table = ROWS.assign(y=GRADE, q=QUERY, place=position, **more)

    def batches() -> Iterator[pd.DataFrame]:
        for start in range(0, N, size):
            yield table[start : start + size]

    return Dataset.from_batches(
        batches, target="y", qid="q", position="place", **{name: name for name in more}
    )


def in_memory(position: Any, **more: Any) -> Dataset:
    return Dataset(ROWS, GRADE, qid=QUERY, position=position, **more)


PARAMS: list[dict[str, Any]] = [
    {},
    {"objective": "rank_xendcg", "learning_rate": 0.3},
    {"pair_method": "mean", "position_bias_regularization": 0.5},
    {"boosting": "dart", "drop_rate": 0.5},
    {"num_parallel_tree": 2, "subsample": 0.7},
    {"early_stopping": True, "patience": 2, "train_scores": True},
    {"sampling": "goss", "grow_policy": "symmetric"},
    {"tree_method": "exact", "early_stopping": True, "patience": 2, "train_scores": True},
    {"tree_method": "approx", "subsample": 0.7},
]


@pytest.mark.parametrize(("params", "names"), every_second(PARAMS, [False, True]), ids=str)
def test_files_give_the_bytes_of_memory(params: dict[str, Any], names: bool) -> None:
    position = np.array(["top", "side", *"abcdefg"])[PLACE] if names else PLACE
    params = SMALL | params
    if "grow_policy" in params:
        del params["max_leaves"]
    expected = train(params, in_memory(position))
    assert train(params, batches_of(position)).to_bytes() == expected.to_bytes()
    assert expected.model.training["position_bias"]["positions"]


@pytest.mark.parametrize("method", ["hist", "exact"])
def test_weights(method: str) -> None:
    params = SMALL | {"tree_method": method}
    expected = train(params, in_memory(PLACE, weight=WEIGHT)).to_bytes()
    assert train(params, batches_of(PLACE, weight=WEIGHT)).to_bytes() == expected


@pytest.mark.parametrize("method", ["hist", "exact"])
def test_queries_of_validation_rows(method: str) -> None:
    params = SMALL | {"tree_method": method, "early_stopping": True, "patience": 2}
    table = Dataset(ROWS[:300], GRADE[:300], qid=QUERY[:300])
    expected = train(params, in_memory(PLACE), table).to_bytes()
    rows = ROWS[:300].assign(y=GRADE[:300], q=QUERY[:300])
    files = Dataset.from_batches(lambda: iter([rows]), target="y", qid="q")
    for valid in (table, files):
        assert train(params, batches_of(PLACE), valid).to_bytes() == expected


@pytest.mark.parametrize("more", [{}, {"boosting": "dart", "drop_rate": 0.5}], ids=str)
def test_biases_are_learned_again_from_a_checkpoint(more: dict[str, Any], tmp_path: Path) -> None:
    params, rows = SMALL | more, batches_of(PLACE)
    expected = train(params, in_memory(PLACE)).to_bytes()
    train(params | {"n_estimators": 3}, rows, checkpoint=tmp_path, checkpoint_every=0.0)
    assert train(params, rows, checkpoint=tmp_path).to_bytes() == expected


def test_a_model_is_continued_with_its_biases() -> None:
    first = train(SMALL, in_memory(PLACE))
    other = np.where(PLACE == 8, 11, PLACE)
    expected = train(SMALL, in_memory(other), init_model=first).to_bytes()
    assert train(SMALL, batches_of(other), init_model=first).to_bytes() == expected


def test_what_is_no_position() -> None:
    mixed = [*PLACE[:90].tolist(), *PLACE[90:].astype(str).tolist()]
    with pytest.raises(DataTypeError, match="whole numbers or text"):
        train(SMALL, batches_of(np.array(mixed, dtype=object), 90))
    with pytest.raises(DataTypeError, match=r"batch.*position must hold whole numbers"):
        train(SMALL, batches_of(PLACE + 0.5))
    with pytest.raises(ParameterError, match="boosting='rf'"):
        train(SMALL | {"boosting": "rf", "subsample": 0.5}, batches_of(PLACE))
