"""Training on several ranks: the bytes of the model of the whole table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import train
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.boosting.loop import scored
from hedgerow.boosting.loop.driver import FitOptions
from hedgerow.boosting.loop.fit import fit
from hedgerow.boosting.loop.scored import Ranks
from hedgerow.boosting.loop.setup.job import Job
from hedgerow.boosting.validation.row_sets import named_valid
from hedgerow.comm.base import Alone, count_rows
from hedgerow.data.sources.base import ReadRequest
from hedgerow.data.sources.opening import Source
from hedgerow.distributed.partition import NoRows
from hedgerow.errors import DataError, LossError, ParameterError
from hedgerow.io import model_to_bytes
from hedgerow.model.model import Model
from hedgerow.training import loss_of, read_settings, stopping_of, trees_of
from tests.helpers.chunked import Rows, divided_into
from tests.helpers.ranks import run_ranks

N = 403
CLASSES = {"logistic": 2, "exponential": 2, "softmax": 3}
SMALL = {"n_estimators": 4, "max_leaves": 6, "min_samples_leaf": 8, "max_bins": 15, "n_jobs": 1}


def make(objective: str = "squared_error", n: int = N, seed: int = 0, has: str = "") -> Rows:
    """Return rows with weights (w) and offsets (o)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[rng.random((n, 4)) < 0.1] = np.nan
    signal = np.nan_to_num(X[:, 0]) + 0.5 * np.nan_to_num(X[:, 1]) ** 2
    y = signal + 0.3 * rng.normal(size=n)
    if objective in CLASSES:
        y = np.digitize(y, [0.2, 0.9][: CLASSES[objective] - 1]).astype(float)
    rows = Rows.of_arrays(X, y, rng.integers(0, 4, n) / 3.0 if "w" in has else None)
    if "o" not in has:
        return rows
    names = [f"o{k}" for k in range(3 if objective == "softmax" else 1)]
    table = rows.table.assign(**{name: rng.normal(size=n) for name in names})
    return replace(rows, table=table, roles={**rows.roles, "offset": names})


def worst(y, prediction, weight):
    """Return the largest error: a metric that is not a mean over rows."""
    return float(np.abs(y - prediction).max())


def part_of(rows: Rows, ends: Sequence[int], ranks: Any, folder: Path, mode: str) -> FileDataset:
    """Return the rows of a rank, without a file if there are none."""
    start, stop = (0, ends[-1]) if mode == "features" else list(pairwise(ends))[ranks.rank]
    found = rows.part(start, stop).in_batches(60)
    nothing = NoRows((*rows.features, *found.source.roles.aside()))
    return FileDataset(
        found.source if stop > start else Source((nothing,), found.source.roles),
        ReadRequest(found.source.roles),
        memory_limit=10**8,
        cache_dir=[str(folder)],
        communicator=Alone() if mode == "features" else ranks,
    )


def fit_on(
    ranks: Any, folder: Path, params: dict, rows: Rows, ends: Sequence[int] = (0, 200, N),
    unseen: Rows | None = None, shares: Sequence[int] = (), mode: Any = "data", start: Any = None,
    callbacks: Any = None,
) -> Model:  # fmt: skip
    """Train on the rows of each rank, from one end to the next."""
    settings = read_settings(SMALL | params)
    valid = None if unseen is None else part_of(unseen, shares, ranks, folder, mode)
    options = FitOptions(stopping_of(settings), settings.get("eval_metric"), callbacks, n_jobs=1)
    job = Job(part_of(rows, ends, ranks, folder, mode), named_valid(valid), start)
    with job.opened() as own:
        spec = own.read(loss_of(settings).read, trees_of(settings), options)
        first_row = count_rows(spec.train.n_rows, own.rows.communicator)[0]
        return fit(
            spec.train, spec.known.objective, trees_of(settings),
            replace(options, start=spec.start), validation=spec.validation, finish=spec.finish,
            ranks=Ranks(ranks, mode, first_row),
        )  # fmt: skip


RANKED = [
    ("squared_error", {"subsample": 0.6, "oob_score": True, "eval_metric": ["r2", "mae"]}, "w"),
    ("logistic", {"eval_metric": ["auc", "loss"]}, "v"),
    ("softmax", {"eval_metric": ["logloss"]}, "vwo"),
    ("absolute_error", {"subsample": 0.7}, "vw"),
    ("quantile", {"boosting": "rf", "subsample": 0.5}, "v"),
    ("squared_error", {"boosting": "rf", "subsample": 0.6, "oob_score": True}, "vw"),
    ("softmax", {"boosting": "rf", "subsample": 0.6, "oob_score": True}, "wo"),
    ("squared_error", {"boosting": "dart", "drop_rate": 0.5, "eval_metric": worst}, "vo"),
    ("softmax", {"sampling": "goss"}, "vw"),
    ("absolute_error", {"sampling": "goss"}, "vw"),
    ("quantile", {"sampling": "mvs", "subsample": 0.4}, "wo"),
    ("logistic", {"sampling": "goss", "eval_metric": ["auc", "loss"]}, "w"),
    ("softmax", {"sampling": "mvs", "subsample": 0.4}, "o"),
]


@pytest.mark.parametrize(("name", "params", "has"), RANKED)
def test_ranks_make_the_same_model(name: str, params: dict, has: str, tmp_path: Path) -> None:
    params = {"objective": name, "early_stopping": "v" in has, **params}
    rows, unseen = make(name, N, 0, has), make(name, 120, 1, has) if "v" in has else None
    memory = train(SMALL | params, rows.in_memory(), unseen and unseen.in_memory())
    expected = model_to_bytes(memory.model)
    for cuts, shares in (([0, 1.0], [0, 1.0]), ([0, 0.4, 1.0], [0, 0.0, 1.0]),
                         ([0, 0.3, 0.3, 1.0], [0, 0.2, 0.9, 1.0])):  # fmt: skip
        ends, others = ([round(c * n) for c in part] for part, n in ((cuts, N), (shares, 120)))

        def one(ranks: Any, ends: Any = ends, others: Any = others) -> bytes:
            return model_to_bytes(fit_on(ranks, tmp_path, params, rows, ends, unseen, others))

        with divided_into(41):
            assert run_ranks(len(cuts) - 1, one) == [expected] * (len(cuts) - 1)


@pytest.mark.parametrize("name", ["softmax", "absolute_error"])
def test_ranks_that_divide_the_features_have_all_rows(name: str, tmp_path: Path) -> None:
    params = {"objective": name, "subsample": 0.7, "early_stopping": True}
    rows, unseen = make(name, N, 0, "w"), make(name, 120, 1, "w")
    expected = model_to_bytes(train(SMALL | params, rows.in_memory(), unseen.in_memory()).model)

    def one(ranks: Any) -> bytes:
        found = fit_on(ranks, tmp_path, params, rows, [0, N], unseen, [0, 120], mode="features")
        return model_to_bytes(found)

    with divided_into(100):
        assert run_ranks(2, one) == [expected] * 2


def test_a_callback_on_one_rank_ends_the_fit_on_all(tmp_path: Path) -> None:
    def one(ranks: Any) -> int:
        stop = (lambda state: state.round == 2) if ranks.rank == 1 else None
        return fit_on(ranks, tmp_path, {}, make(), callbacks=stop).forest.n_rounds

    assert run_ranks(2, one) == [2, 2]


def test_all_ranks_tell_of_the_first_wrong_target(tmp_path: Path) -> None:
    rows = make()
    rows.table["y"] = 0.0
    rows.table.loc[[310, 390], "y"] = 5.0

    def one(ranks: Any) -> bool:
        with pytest.raises(DataError, match=r"row 310 holds 5\.0"):
            fit_on(ranks, tmp_path, {"objective": "logistic"}, rows, [0, 100, 320, N])
        return True

    assert all(run_ranks(3, one))


# -- what cannot be done, and what goes wrong ----------------------------------


def test_metrics_that_need_all_rows_have_a_limit(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(scored, "MOST_GATHERED", 100)
    params = {"objective": "logistic", "eval_metric": "auc"}

    def one(ranks: Any) -> bool:
        with pytest.raises(ParameterError, match=r"eval_metric .auc. needs .* 403 rows .*.logloss"):
            fit_on(ranks, tmp_path, params, make("logistic"))
        return True

    assert all(run_ranks(2, one))


def test_errors_of_a_metric_name_the_round() -> None:
    def broken(y, prediction, weight):
        raise ValueError("no")

    with pytest.raises(LossError, match="round 1: eval_metric 'broken' raised"):
        train(SMALL | {"eval_metric": broken}, make().in_batches())


def test_validation_in_batches_needs_training_rows_in_batches() -> None:
    rows = Rows(pd.DataFrame({"a": np.arange(9.0), "y": np.arange(9.0)}), ["a"])
    with pytest.raises(DataError, match="read in batches"):
        train(SMALL, rows.in_memory(), rows.in_batches())


def test_offsets_on_one_side_only() -> None:
    table = pd.DataFrame({"a": np.arange(9.0), "y": np.arange(9.0), "o": np.ones(9)})
    bare, known = Rows(table, ["a"]), Rows(table, ["a"], roles={"offset": "o"})
    with pytest.raises(DataError, match="X has no column 'o', which is the offset"):
        train(SMALL, known.in_batches(), bare.in_memory())
    with pytest.raises(DataError, match="training rows have no offset"):
        train(SMALL, bare.in_batches(), known.in_memory())
