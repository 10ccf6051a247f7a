"""Training on partitions and ranks gives the bytes of a fit in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import Dataset, train
from hedgerow.boosting.loop.setup.job import LossSpec
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.comm.base import Alone
from hedgerow.distributed.partition import (
    Description,
    Partition,
    check_descriptions,
    checksum_of,
    describe,
)
from hedgerow.distributed.ranks import Shard
from hedgerow.distributed.work import TrainWork
from hedgerow.errors import DataError, DataTypeError, HedgerowError
from hedgerow.io import model_to_bytes
from hedgerow.params import boost_params
from tests.helpers import rank_trainings
from tests.helpers.rank_trainings import cut

N_ROWS = 700
PARAMS: dict[str, Any] = {"n_estimators": 4, "max_leaves": 6, "seed": 3}


def table(n_rows: int = N_ROWS) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    """Return floats, integers, missing values, and categories that not all partitions have."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame(
        {
            "a": rng.standard_normal(n_rows),
            "b": rng.integers(0, 9, n_rows),
            "c": rng.choice(["x", "y", "z", "long"], n_rows, p=[0.6, 0.3, 0.09, 0.01]),
            "d": np.where(rng.random(n_rows) < 0.2, np.nan, rng.random(n_rows)),
        }
    )
    y = X["a"] + (X["c"] == "x") * X["b"] / 5 + rng.standard_normal(n_rows) / 9
    weight = pd.Series(rng.choice([0.0, 0.5, 1.0, 2.0], n_rows))
    return X, y, weight


def train_ranks(
    n_ranks: int, parts: list[Partition], folder: Path, *more: Any, **params: Any
) -> bytes:
    return rank_trainings.train_ranks(n_ranks, parts, folder, *more, **(PARAMS | params))


def train_local(X: Any, y: Any, weight: Any = None, valid: Any = None, **params: Any) -> bytes:
    params = PARAMS | params
    return model_to_bytes(train(params, Dataset(X, y, weight), valid).model)


@pytest.fixture(scope="module")
def expected() -> bytes:
    X, y, _ = table()
    return train_local(X, y)


@pytest.mark.fast(2)
@pytest.mark.parametrize(
    "params",
    [
        {"objective": "logistic", "early_stopping": True},
        {"objective": "quantile", "leaf_estimation": "line_search", "subsample": 0.5},
        {"boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.0},
        {"subsample": 0.5, "oob_score": True},
        {"sampling": "goss"},
    ],
    ids=["stopping", "quantile", "dart", "oob", "goss"],
)
def test_rounds_of_an_earlier_attempt_are_gone_on_from(
    params: dict[str, Any], tmp_path: Path
) -> None:
    X, y, weight = table()
    y = (y > 0.5) * 1.0 if params.get("objective") == "logistic" else y
    parts, params = cut([250, 450], X, y, weight=weight), {"n_estimators": 4} | params
    saved: list[bytes] = []
    expected = train_ranks(3, parts, tmp_path, saved=saved, **params)
    assert 1 < len(saved) <= 4
    for n_parts in range(1, len(saved) + 1):
        more: list[bytes] = []
        found = train_ranks(
            1 + n_parts % 3, parts, tmp_path, saved=more, checkpoint=saved[:n_parts], **params
        )
        assert found == expected
        assert more == saved[n_parts:]


def test_partitions_that_are_not_the_same_again_are_refused(tmp_path: Path) -> None:
    X, y, _ = table()
    parts, saved = cut([250, 450], X, y), []  # type: ignore[var-annotated]
    train_ranks(2, parts, tmp_path, saved=saved)
    for X_new, y_new in [(X.assign(c="x"), y), (X.assign(a=X["a"] + 1e-9), y), (X, y[::-1])]:
        others = cut([250, 450], X_new, y_new)
        assert len({checksum_of(part) for part in others} & {checksum_of(p) for p in parts}) == 0
    work = TrainWork(
        LossSpec(), boost_params(PARAMS), StoppingParams(), memory_limit=10**8,
        checksums=([0, 0, 0], []),
    )  # fmt: skip
    shard = Shard(parts, (0, 1, 2), checkpoint=saved, scratch=str(tmp_path))
    with pytest.raises(DataError, match="partition 0 was computed again"):
        work(Alone(), shard)


def add_text(X: pd.DataFrame) -> pd.DataFrame:
    return X.assign(b=X["b"].astype(str))


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda p: p._replace(X=add_text(p.X)), DataTypeError, r"'b'.*partition 0.*partition 2"),
        (lambda p: p._replace(y=p.y.where(p.y < 2.0)), DataError, r"partition 2.*y"),
        (
            lambda p: p._replace(given={"weight": -p.given["weight"]}),
            DataError,
            r"partition 2.*weight",
        ),
    ],
)
def test_errors_name_partition_and_column(
    change: Any, kind: type[HedgerowError], message: str, tmp_path: Path
) -> None:
    X, y, weight = table()
    parts = cut([200, 400], X, y, weight=weight)
    parts[2] = change(parts[2])
    with pytest.raises(kind, match=message):
        train_ranks(2, parts, tmp_path)


def test_partitions_that_do_not_belong_together_are_refused() -> None:
    X, y, _ = table(20)
    one = describe(Partition(X, y))
    checksum = checksum_of(Partition(X, y))
    assert one == Description(20, (20,), ("a", "b", "c", "d"), 4, checksum)
    for other, message in [
        (Partition(X.drop(columns="b"), y), "partition 1 has no column 'b', but partition 0 does"),
        (Partition(X.assign(e=1), y), "partition 1 has a column 'e', but partition 0 does not"),
        (Partition(X.to_numpy(), y), "partition 1 has 4 columns, partition 0 has 4"),
    ]:
        with pytest.raises(DataError, match=message):
            check_descriptions([one, describe(other)])
    check_descriptions([one, describe(Partition(X[["c", "a", "d", "b"]], y))])


def test_ranks_without_rows_know_the_columns(tmp_path: Path) -> None:
    """There may be fewer partitions than workers, of training and of validation rows."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((300, 2)), columns=["a", "b"])
    y = X["a"] * X["b"]
    settings = {"n_estimators": 4, "early_stopping": True}
    found = [
        train_ranks(n_ranks, cut([100], X, y), tmp_path, cut([], X[:50], y[:50]), **settings)
        for n_ranks in (1, 3)
    ]
    assert found[0] == found[1]
