"""Training on several ranks: the bytes of the model of the whole table in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hedgerow import train
from hedgerow.boosting.external.chunked_rows import ChunkedRows
from hedgerow.boosting.external.fit_files import fit_external
from hedgerow.boosting.loop import scored
from hedgerow.boosting.loop.driver import FitOptions
from hedgerow.boosting.loop.fit import fit
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.row_data.dataset import Dataset as InMemory
from hedgerow.boosting.validation.row_sets import ONLY
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data import bin_table, fit_bins, read_table
from hedgerow.errors import DataError, LossError, ParameterError
from hedgerow.io import model_to_bytes
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from tests.helpers.chunked import Rows, in_chunks, part_of
from tests.helpers.ranks import run_ranks

N = 403
CLASSES = {"logistic": 2, "exponential": 2, "softmax": 3}
SMALL = {"n_estimators": 6, "max_leaves": 6, "min_samples_leaf": 8, "max_bins": 15, "n_jobs": 1}
NO_STOP = StoppingParams(early_stopping=False)


def rows(objective: str = "squared_error", n: int = N, seed: int = 0, **given) -> dict:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[rng.random((n, 4)) < 0.1] = np.nan
    signal = np.nan_to_num(X[:, 0]) + 0.5 * np.nan_to_num(X[:, 1]) ** 2
    noisy = signal + 0.3 * rng.normal(size=n)
    y = noisy
    if objective in CLASSES:
        y = np.digitize(noisy, [0.2, 0.9][: CLASSES[objective] - 1]).astype(float)
    made = {"X": X, "y": y}
    if given.get("weight"):
        made["weight"] = rng.integers(0, 4, n) / 3.0
    if given.get("offset"):
        made["offset"] = rng.normal(size=(n, 3 if objective == "softmax" else 1))
    return made


def worst(y, prediction, weight):
    """Return the largest error: a metric that is not a mean over rows."""
    return float(np.abs(y - prediction).max())


# -- ranks ---------------------------------------------------------------------


def make(objective: str, n: int, seed: int, weight: bool, offset: bool) -> Sample:
    data = rows(objective, n, seed, weight=weight, offset=offset)
    dataset = InMemory(**data)
    table = dataset.table()
    sample = dataset.sample(table, dataset.targets(n).values, 3 if objective == "softmax" else 1)
    return sample.without_zero_weights()


RANKED = [
    ("squared_error", {"subsample": 0.6, "oob_score": True}, {"eval_metric": ["r2", "mae"]}, "w"),
    ("logistic", {}, {"eval_metric": ["auc", "loss"]}, "v"),
    ("softmax", {}, {"eval_metric": ["logloss"]}, "vwo"),
    ("absolute_error", {"subsample": 0.7}, {}, "vw"),
    ("quantile", {"boosting": "rf", "subsample": 0.5}, {}, "v"),
    ("squared_error", {"boosting": "rf", "subsample": 0.6, "oob_score": True}, {}, "vw"),
    ("softmax", {"boosting": "rf", "subsample": 0.6, "oob_score": True}, {}, "wo"),
    ("squared_error", {"boosting": "dart", "drop_rate": 0.5}, {"eval_metric": worst}, "vo"),
    ("softmax", {"sampling": "goss"}, {}, "vw"),
    ("absolute_error", {"sampling": "goss"}, {}, "vw"),
    ("quantile", {"sampling": "mvs", "subsample": 0.4}, {}, "wo"),
    ("logistic", {"sampling": "goss"}, {"eval_metric": ["auc", "loss"]}, "w"),
    ("softmax", {"sampling": "mvs", "subsample": 0.4}, {}, "o"),
]


@pytest.mark.parametrize(("name", "params", "more", "has"), RANKED)
def test_ranks_make_the_same_model(name, params, more, has) -> None:
    objective = make_objective(name, 3 if name == "softmax" else 1)
    params = BoostParams(n_estimators=4, max_leaves=6, min_samples_leaf=8, max_bins=15, **params)
    sample = make(name, N, 0, "w" in has, "o" in has)
    seen = make(name, 120, 1, "w" in has, "o" in has) if "v" in has else None
    options = FitOptions(StoppingParams() if seen else NO_STOP, n_jobs=1, **more)
    expected = model_to_bytes(fit(sample, objective, params, options, validation=seen))
    spec = fit_bins(sample.table, params.max_bins, sample.weight, params.seed)
    whole = in_chunks(bin_table(sample.table, spec), sample, 10_000)
    aside = seen and in_chunks(bin_table(seen.table, spec, columns=False), seen, 10_000)
    for cuts, shares in (([0, 1.0], [0, 1.0]), ([0, 0.4, 1.0], [0, 0.0, 1.0]),
                         ([0, 0.3, 0.3, 1.0], [0, 0.2, 0.9, 1.0])):  # fmt: skip

        def one(ranks, cuts=cuts, shares=shares):
            ends = [round(c * sample.n_rows) for c in cuts]
            own = part_of(whole, sample, ends, ranks.rank, 41)
            validation = {}
            if seen is not None:
                ends = [round(c * seen.n_rows) for c in shares]
                validation = {ONLY: part_of(aside, seen, ends, ranks.rank, 29)}
            return model_to_bytes(
                fit_external(
                    own, objective, params, options, validation=validation, communicator=ranks
                )
            )

        assert run_ranks(len(cuts) - 1, one) == [expected] * (len(cuts) - 1)


@pytest.mark.parametrize("name", ["softmax", "absolute_error"])
def test_ranks_that_divide_the_features_have_all_rows(name) -> None:
    objective = make_objective(name, 3 if name == "softmax" else 1)
    params = BoostParams(n_estimators=3, max_leaves=6, min_samples_leaf=8, max_bins=15,
                         subsample=0.7)  # fmt: skip
    sample, seen = make(name, N, 0, True, False), make(name, 120, 1, True, False)
    expected = model_to_bytes(fit(sample, objective, params, FitOptions(n_jobs=1), validation=seen))
    spec = fit_bins(sample.table, params.max_bins, sample.weight, params.seed)

    def one(ranks):
        own = in_chunks(bin_table(sample.table, spec), sample, 100 + ranks.rank)
        aside = in_chunks(bin_table(seen.table, spec, columns=False), seen, 30)
        found = fit_external(
            own, objective, params, FitOptions(n_jobs=1), validation={ONLY: aside},
            communicator=ranks, mode="features",
        )  # fmt: skip
        return model_to_bytes(found)

    assert run_ranks(2, one) == [expected] * 2


def test_a_callback_on_one_rank_ends_the_fit_on_all() -> None:
    sample, whole, params = whole_sample()

    def one(ranks):
        own = part_of(whole, sample, [0, 200, N], ranks.rank, 50)
        stop = (lambda state: state.round == 2) if ranks.rank == 1 else None
        options = FitOptions(NO_STOP, callbacks=stop, n_jobs=1)
        squares = make_objective("squared_error")
        model = fit_external(own, squares, params, options, communicator=ranks)
        return model.forest.n_rounds

    assert run_ranks(2, one) == [2, 2]


def test_all_ranks_tell_of_the_first_wrong_target() -> None:
    sample, whole, params = whole_sample()
    sample.target[:] = 0.0
    sample.target[[310, 390]] = 5.0

    def one(ranks):
        own = part_of(whole, sample, [0, 100, 320, N], ranks.rank, 60)
        with pytest.raises(DataError, match=r"row 310 holds 5\.0"):
            fit_external(
                own, make_objective("logistic"), params, FitOptions(NO_STOP), communicator=ranks
            )
        return True

    assert all(run_ranks(3, one))


def whole_sample(chunk_rows: int = 1000) -> tuple[Sample, ChunkedRows, BoostParams]:
    sample = make("squared_error", N, 0, False, False)
    params = BoostParams(n_estimators=4, max_leaves=6, min_samples_leaf=8, max_bins=15)
    spec = fit_bins(sample.table, params.max_bins, None, params.seed)
    return sample, in_chunks(bin_table(sample.table, spec), sample, chunk_rows), params


# -- what cannot be done, and what goes wrong ----------------------------------


def attempt(
    params: dict | None = None, objective: str = "squared_error", chunk_rows: int = 100, **more
):
    _, whole, base = whole_sample(chunk_rows)
    options = FitOptions(**({"stopping": NO_STOP} | more))
    return fit_external(whole, make_objective(objective), replace(base, **(params or {})), options)


def test_validation_rows_cannot_be_taken_from_chunks() -> None:
    with pytest.raises(ParameterError, match="early_stopping=True needs"):
        attempt(stopping=StoppingParams(early_stopping=True))


def test_metrics_that_need_all_rows_have_a_limit(monkeypatch) -> None:
    monkeypatch.setattr(scored, "MOST_GATHERED", 100)
    sample, whole, params = whole_sample()
    sample = replace(sample, target=(sample.target > 0.0).astype(float))

    def one(ranks):
        with pytest.raises(ParameterError, match=r"eval_metric .auc. needs .* 403 rows .*.logloss"):
            fit_external(
                part_of(whole, sample, [0, 200, N], ranks.rank, 300), make_objective("logistic"),
                params, FitOptions(NO_STOP, "auc"), communicator=ranks,
            )  # fmt: skip
        return True

    assert all(run_ranks(2, one))


def test_errors_of_a_metric_name_the_round() -> None:
    def broken(y, prediction, weight):
        raise ValueError("no")

    with pytest.raises(LossError, match="round 1: eval_metric 'broken' raised"):
        attempt(eval_metric=broken)


def test_mixed_chunks_are_refused() -> None:
    sample, whole, params = whole_sample()

    def one(ranks):
        part = part_of(whole, sample, [0, 200, N], ranks.rank, 300)
        if ranks.rank == 1:
            (chunk,) = part.store.chunks()
            own = replace(sample.take(np.arange(200, N)), weight=np.full(N - 200, 2.0))
            part = in_chunks(chunk.matrix, own, 300, 200)
        with pytest.raises(DataError, match="have weights and others not"):
            fit_external(
                part, make_objective("squared_error"), params, FitOptions(NO_STOP),
                communicator=ranks,
            )  # fmt: skip
        return True

    assert all(run_ranks(2, one))


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


def test_no_rows() -> None:
    table = read_table(np.zeros((5, 2)))
    empty = Sample(table, np.zeros(5)).take(np.zeros(0, dtype=np.int64))
    matrix = bin_table(empty.table, fit_bins(table, 15, None, 0))
    with pytest.raises(DataError, match="no rows"):
        fit_external(in_chunks(matrix, empty, 5), make_objective("squared_error"), BoostParams())
