"""Losses over chunks, files and ranks: the bytes of the table in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import Dataset, train
from hedgerow.boosting.loop.setup.job import needs_all_rows
from hedgerow.errors import DataError, DataTypeError, HedgerowError, LossError, ParameterError
from hedgerow.io import model_to_bytes
from hedgerow.objectives import RowLoss, make_objective, objective_for
from tests.helpers.chunked import Rows, divided_into, same_bytes
from tests.helpers.losses import CASES
from tests.helpers.own_losses import Fourth
from tests.helpers.rank_trainings import cut, train_ranks

N = 330
SMALL = {"n_estimators": 4, "max_leaves": 6, "min_samples_leaf": 8, "max_bins": 15, "n_jobs": 1}


def features(n: int = N, seed: int = 0) -> np.ndarray:
    X = np.random.default_rng(seed).normal(size=(n, 3))
    X[::11, 1] = np.nan
    return X


def near(X: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Reorder the targets: rows with a large first column get large targets."""
    found = np.empty_like(targets)
    found[np.argsort(X[:, 0], kind="stable")] = np.sort(targets)
    swapped = np.arange(0, len(X) - 3, 5)
    found[swapped], found[swapped + 3] = found[swapped + 3], found[swapped].copy()
    return found


class ByRound(RowLoss):
    """An objective whose leaf values are halved in every second round."""

    def losses(self, target, raw):
        return (raw[0] - target) ** 2

    def slopes(self, target, raw):
        return raw - target, np.ones(len(target))

    def derivatives(self, rows, output, g, h):
        g[:] = rows.raw[output] - rows.target
        h[:] = 1.0 + rows.round % 2


class Quartic(RowLoss):
    def losses(self, target, raw):
        return (raw[0] - target) ** 4

    def slopes(self, target, raw):
        return 4.0 * (raw - target) ** 3, 12.0 * (raw - target) ** 2


class TwoScores(Quartic):
    n_outputs = 2

    def losses(self, target, raw):
        return ((raw - target) ** 2).sum(axis=0)

    def slopes(self, target, raw):
        return raw - target, np.ones(len(target))

    def start_of(self, rows):
        return np.array([rows.mean(), rows.quantile(0.5)])


class WithLoss(Quartic):
    """An objective whose loss is rounded differently from an exact mean."""

    def loss(self, target, raw, weight):
        return float(np.average(self.losses(target, raw), weights=weight))


class WithStart(Quartic):
    def initial_score(self, target, weight):
        return np.array([float(np.max(target))])


class Coupled(RowLoss):
    """An objective with two raw scores that are pulled towards each other."""

    coupled = True
    n_outputs = 2

    def losses(self, target, raw):
        return (raw[0] - target) ** 2 + (raw[1] - target) ** 2

    def derivatives(self, rows, output, g, h):
        g[:] = rows.raw[output] - rows.target + 0.1 * (rows.raw[output] - rows.raw[1 - output])
        h[:] = 1.1

    def initial_score(self, target, weight):
        return np.zeros(2)


OWN = {
    "own": Fourth(),
    "two scores": TwoScores(),
    "by round": ByRound(),
    "own loss": WithLoss(),
    "own start": WithStart(),
    "coupled": Coupled(),
}
OF_ALL_ROWS = ("own loss", "own start", "coupled")


def make(case: str, seed: int = 0, n: int = N) -> tuple[dict[str, Any], Rows]:
    """Return the settings and rows of the named case."""
    X, rng = features(n, seed), np.random.default_rng(seed + 1)
    known = {one.id: one for one in CASES}
    y, settings = near(X, rng.normal(1.0, 2.0, n)), {"objective": case}
    if case in known:
        y = near(X, known[case].draw(rng, n))
        settings = {"objective": known[case].name, **known[case].parameters}
    elif case == "one_vs_all":
        y = np.digitize(y, [0.2, 1.9]).astype(float)
    elif case == "quantiles":
        settings = {"objective": "quantile", "quantile": [0.1, 0.5, 0.8]}
    elif case.startswith("aft"):
        y = np.exp(y / 2.0) * np.where(rng.random(n) < 0.3, -1.0, 1.0)
        more = {"aft_distribution": "logistic", "aft_scale": 0.7} if case == "aft" else {}
        settings = {"objective": "aft", **more}
    else:
        settings = {"objective": OWN[case]}
    weight = np.random.default_rng(7).integers(0, 4, n) / 3.0
    table = pd.DataFrame(X, columns=list("abc")).assign(y=y, w=weight)
    return SMALL | settings, Rows(table, list("abc"), roles={"weight": "w"})


NAMES = [*(one.id for one in CASES), "one_vs_all", "quantiles", "aft", "aft-normal", *OWN]


def test_targets_near_0_have_large_weights_in_leaves() -> None:
    settings, rows = make("mape")
    y = near(features(), 10.0 ** np.random.default_rng(0).uniform(-30, 30, N))
    rows = Rows(rows.table.assign(y=y), rows.features)
    with divided_into(128):
        booster = same_bytes(settings, rows)
    assert np.isfinite(booster.predict(rows.table[rows.features])).all()


@pytest.mark.parametrize("size", [30, N])
def test_chunks_without_an_event(size: int) -> None:
    _, rows = make("aft")
    table = rows.table.iloc[np.argsort(rows.table.y > 0.0, kind="stable")]  # censored rows first
    params = SMALL | {"objective": "cox", "early_stopping": True, "patience": 2}
    with divided_into(size):
        same_bytes(params, Rows(table, rows.features))
    alone = Rows(table.assign(y=-table.y.abs()), rows.features)
    for given in (alone.in_memory(), alone.in_batches(size)):
        with pytest.raises(DataError, match="needs events, but all 330 rows are censored"):
            train(params, given)


@pytest.mark.parametrize("case", NAMES)
def test_which_losses_need_all_rows(case: str) -> None:
    given = make(case)[0]["objective"]
    loss = make_objective(given) if isinstance(given, str) else objective_for(given)
    assert needs_all_rows(loss) == (case in OF_ALL_ROWS)


# -- ranks -----------------------------------------------------------------------------


def train_on_ranks(n_ranks: int, mode: Any, settings: dict, rows: Rows, folder) -> bytes:
    """Train on ranks, of which the first has two rows."""
    table = rows.table
    parts = cut([2, 90, 200], table[rows.features], table.y, weight=table.w)
    return train_ranks(n_ranks, parts, folder, mode=mode, **settings)


@pytest.mark.parametrize(
    ("case", "n_ranks", "mode"),
    [
        ("quantiles", 3, "data"),
        ("mape", 2, "data"),
        ("hinge", 3, "data"),
        ("tweedie-1.2", 2, "features"),
        ("focal-1-0.25", 2, "data"),
        ("one_vs_all", 3, "data"),
        ("aft", 2, "data"),
        ("own", 3, "data"),
        ("two scores", 2, "data"),
        ("by round", 2, "data"),
    ],
)
def test_ranks(case, n_ranks, mode, tmp_path) -> None:
    settings, rows = make(case)
    expected = model_to_bytes(train(settings, rows.in_memory()).model)
    assert train_on_ranks(n_ranks, mode, settings, rows, tmp_path) == expected


def test_no_newton_step_is_an_error_everywhere(tmp_path) -> None:
    class Bent(Fourth):
        def slopes(self, target, raw):
            return target - raw, -np.ones(len(target))

    settings, rows = make("own")
    settings |= {"objective": Bent()}
    for attempt in (
        lambda: train(settings, rows.in_memory()),
        lambda: train(settings, rows.in_batches(50)),
        lambda: train_on_ranks(2, "data", settings, rows, tmp_path),
    ):
        with pytest.raises(LossError, match=r"round 1: objective 'Bent' has no positive second"):
            attempt()


# -- the command line and checkpoints --------------------------------------------------


# -- what cannot be done ---------------------------------------------------------------


def test_queries_are_for_rankings_and_rankings_need_them() -> None:
    rows = Rows(make("gamma")[1].table.round(), list("ab"), roles={"qid": "c"})
    params = {"objective": "lambdarank"}
    with pytest.raises(ParameterError, match="qid has no effect with objective 'squared_error'"):
        train({}, rows.in_batches())
    with pytest.raises(DataError, match=r"for the validation rows, .* but qid is missing"):
        train(params, rows.in_batches(), rows.without("qid").in_memory())


def test_what_is_no_column_of_a_file() -> None:
    ends, X = np.column_stack([np.ones(N), np.full(N, np.inf)]), features()
    with pytest.raises(HedgerowError, match=r"lower and upper end"):
        train({"objective": "aft"}, Dataset.from_batches(lambda: iter([(X, ends)])))
    with pytest.raises(DataTypeError, match="target"):
        train({"objective": "gamma"}, Dataset.from_batches(lambda: iter([(X, np.full(N, "a"))])))


@pytest.mark.parametrize(
    ("case", "value"),
    [
        ("gamma", -0.5),
        ("focal", 0.5),
        ("one_vs_all", -0.5),
        ("aft", 0.0),
        ("softmax", 0.5),
        ("quantiles", 1e200),
    ],
)
def test_wrong_targets_have_the_row_that_they_have_in_memory(case: str, value: float) -> None:
    settings, rows = make("one_vs_all" if case == "softmax" else case)
    settings |= {"early_stopping": True}
    if case == "softmax":
        settings["objective"] = case
    rows.table.loc[[200, 300], "y"] = value
    errors, rows = [], rows.without("weight")
    for given in (rows.in_memory(), rows.in_batches(37)):
        with pytest.raises(DataError, match="row 200 holds") as error:
            train(settings, given)
        errors.append(str(error.value))
    assert errors[0] == errors[1]
