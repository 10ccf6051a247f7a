"""Losses of single rows over chunks, files and ranks: the bytes of the table in memory."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from hedgerow import Dataset, train
from hedgerow.boosting.external.external_data import TargetSurvey
from hedgerow.boosting.loop.setup.loss_spec import LossSpec
from hedgerow.boosting.loop.training_loop import INTERRUPTS
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.cli.main import main
from hedgerow.comm.threads import run_ranks
from hedgerow.distributed.partition import Partition
from hedgerow.distributed.ranks import Shard
from hedgerow.distributed.work import TrainWork
from hedgerow.errors import DataError, DataTypeError, HedgerowError, LossError, ParameterError
from hedgerow.io import model_to_bytes
from hedgerow.objectives import PARAMETERS, RowLoss
from hedgerow.params import boost_params
from tests.helpers.chunked import TableData
from tests.helpers.losses import CASES

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


def fourth(y, raw):
    return (raw - y) ** 4 / 12.0 + math.log(1.0 + (raw - y) ** 2)


def fourth_root(y, raw):
    return y.real * 0.0 + abs(complex(raw - y, 1.0)) ** 0.5  # complex: differences it is


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


class OwnSteps(Quartic):
    """An objective with leaf values of half of the mean residual."""

    def leaf_steps(self, leaves, output):
        sizes = np.diff(leaves.starts)
        return leaves.sums(leaves.target - leaves.raw[output]) / (2.0 * sizes)


class TwoScores(Quartic):
    n_outputs = 2

    def losses(self, target, raw):
        return ((raw - target) ** 2).sum(axis=0)

    def slopes(self, target, raw):
        return raw - target, np.ones(len(target))

    def start_of(self, rows):
        return np.array([rows.mean(), rows.quantile(0.5)])


def make(case: str, seed: int = 0, n: int = N) -> tuple[dict, dict]:
    """Return the settings and rows of the named case."""
    X, rng = features(n, seed), np.random.default_rng(seed + 1)
    known = {one.id: one for one in CASES}
    if case in known:
        one = known[case]
        return {"objective": one.name, **one.parameters}, {"X": X, "y": near(X, one.draw(rng, n))}
    y = near(X, rng.normal(1.0, 2.0, n))
    if case == "one_vs_all":
        return {"objective": case}, {"X": X, "y": np.digitize(y, [0.2, 1.9]).astype(float)}
    if case == "quantiles":
        return {"objective": "quantile", "quantile": [0.1, 0.5, 0.8]}, {"X": X, "y": y}
    if case.startswith("aft"):
        times = np.exp(y / 2.0) * np.where(rng.random(n) < 0.3, -1.0, 1.0)
        more = {"aft_distribution": "logistic", "aft_scale": 0.7} if case == "aft" else {}
        return {"objective": "aft", **more}, {"X": X, "y": times}
    own = {"own": fourth, "own object": Quartic(), "two scores": TwoScores(), "by round": ByRound()}
    return {"objective": own[case]}, {"X": X, "y": y}


NAMES = [one.id for one in CASES] + [
    *("one_vs_all", "quantiles", "aft", "aft-normal", "own", "own object", "two scores", "by round")
]


def bytes_of(settings: dict, data, valid=None, **more) -> bytes:
    return model_to_bytes(train(SMALL | settings, data, valid, **more).model)


def weights(n: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 4, n) / 3.0


@pytest.mark.parametrize("case", NAMES)
def test_chunks(case) -> None:
    settings, data = make(case)
    _, seen = make(case, 2, 90)
    expected = bytes_of(settings, Dataset(**data))
    assert bytes_of(settings, TableData(Dataset(**data), 37)) == expected
    data["weight"], seen["weight"] = weights(N), weights(90)
    settings |= {"subsample": 0.7, "eval_metric": "loss"}
    expected = bytes_of(settings, Dataset(**data), Dataset(**seen))
    for size in (101, 1000):
        found = bytes_of(settings, TableData(Dataset(**data), size), TableData(Dataset(**seen), 50))
        assert found == expected


@pytest.mark.parametrize("case", NAMES)
def test_line_search_in_chunks(case, request) -> None:
    if case == "own":  # called by Python, it would see all rows
        request.getfixturevalue("compiler")
    settings, data = make(case)
    settings |= {"leaf_estimation": "line_search", "n_estimators": 2}
    weighted = {**data, "weight": weights(N)}
    # Leaves of more than 128 rows.
    of_few_leaves = settings | {"sampling": "goss", "max_leaves": 3}
    expected = bytes_of(settings, Dataset(**data))
    expected_of_weighted = bytes_of(of_few_leaves, Dataset(**weighted))
    assert bytes_of(settings, TableData(Dataset(**data), 101)) == expected
    assert bytes_of(of_few_leaves, TableData(Dataset(**weighted), 37)) == expected_of_weighted


MORE = [
    ("quantiles", {"early_stopping": True, "n_estimators": 8}),
    ("quantiles", {"subsample": 0.5, "early_stopping": "oob"}),
    ("quantiles", {"boosting": "dart", "drop_rate": 0.6, "skip_drop": 0.0}),
    ("quantiles", {"boosting": "rf", "subsample": 0.5}),
    ("mape", {"boosting": "rf", "subsample": 0.5}),
    ("hinge", {"early_stopping": True, "eval_metric": ["error", "loss"]}),
    ("focal", {"early_stopping": True, "eval_metric": ["auc", "loss"]}),
    ("one_vs_all", {"early_stopping": True, "eval_metric": ["accuracy", "logloss"]}),
    ("aft", {"early_stopping": True, "eval_metric": "concordance"}),
    ("poisson", {"leaf_estimation": "gradient", "eval_metric": "poisson_deviance"}),
    ("own", {"leaf_estimation": "gradient", "subsample": 0.5, "oob_score": True}),
    ("own object", {"boosting": "dart", "drop_rate": 0.6}),
    ("huber", {"monotone_constraints": [1, 0, 0]}),
]


@pytest.mark.parametrize(("case", "more"), MORE, ids=range(len(MORE)))
def test_ways_of_boosting(case, more) -> None:
    settings, data = make(case)
    data["weight"] = weights(N)
    settings |= more
    expected = bytes_of(settings, Dataset(**data))
    assert bytes_of(settings, TableData(Dataset(**data), 64)) == expected


def test_targets_near_0_have_large_weights_in_leaves() -> None:
    X, rng = features(), np.random.default_rng(0)
    y = near(X, 10.0 ** rng.uniform(-30, 30, N))
    expected = train(SMALL | {"objective": "mape"}, Dataset(X, y))
    assert np.isfinite(expected.predict(X)).all()
    assert bytes_of({"objective": "mape"}, TableData(Dataset(X, y), 50)) == model_to_bytes(
        expected.model
    )


def test_a_loss_that_python_computes() -> None:
    X = features(60)
    y = near(X, np.random.default_rng(0).normal(size=60))
    settings = {"objective": fourth_root, "n_estimators": 2, "leaf_estimation": "gradient"}
    with pytest.warns(UserWarning, match="cannot be compiled"):
        expected = bytes_of(settings, Dataset(X, y))
    with pytest.warns(UserWarning, match="cannot be compiled"):
        assert bytes_of(settings, TableData(Dataset(X, y), 2)) == expected


# -- ranks -----------------------------------------------------------------------------


def train_on_ranks(n_ranks: int, mode: str, settings: dict, data: dict, folder) -> list[bytes]:
    given = {**SMALL, **settings}
    loss = LossSpec(given["objective"], {k: given[k] for k in PARAMETERS if k in given})
    known = {k: given[k] for k in given if k not in (*PARAMETERS, "objective", "n_jobs")}
    work = TrainWork(loss, boost_params(known), StoppingParams(), mode=mode, memory_limit=10**8)
    X, y = pd.DataFrame(data["X"], columns=list("abc")), data["y"]
    weight = data.get("weight")
    ends = [0, 2, 90, 200, N]  # the first rank has fewer rows than a user's loss is tried with
    parts = [
        Partition(X[i:j], y[i:j], {} if weight is None else {"weight": weight[i:j]})
        for i, j in pairwise(ends)
    ]

    def one(ranks) -> bytes:
        own = range(ranks.rank, len(parts)) if ranks.rank == n_ranks - 1 else [ranks.rank]
        own = range(len(parts)) if mode == "features" else own
        chosen = [parts[number] for number in own]
        return work(ranks, Shard(chosen, tuple(own), scratch=str(folder)))

    return run_ranks(n_ranks, one)


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
    ],
)
def test_ranks(case, n_ranks, mode, tmp_path) -> None:
    settings, data = make(case)
    data["weight"] = weights(N)
    frame = pd.DataFrame(data["X"], columns=list("abc"))
    expected = bytes_of(settings, Dataset(frame, data["y"], data["weight"]))
    assert train_on_ranks(n_ranks, mode, settings, data, tmp_path) == [expected] * n_ranks


def test_no_newton_step_is_an_error_on_every_rank(tmp_path) -> None:
    def bent(y, raw):
        return -((raw - y) ** 2)

    _, data = make("own")
    settings = {"objective": bent}
    for attempt in (
        lambda: bytes_of(settings, Dataset(**data)),
        lambda: bytes_of(settings, TableData(Dataset(**data), 50)),
        lambda: train_on_ranks(2, "data", settings, data, tmp_path),
    ):
        with pytest.raises(LossError, match=r"round 1: objective 'bent' has no positive second"):
            attempt()


# -- files, batches, command line ------------------------------------------------------


def batches_of(data: dict, size: int):
    def batches():
        for start in range(0, len(data["y"]), size):
            part = slice(start, start + size)
            yield tuple(data[name][part] for name in ("X", "y", "weight") if name in data)

    return Dataset.from_batches(batches, memory_limit="40 MB")


@pytest.mark.parametrize("case", ["gamma", "quantiles", "one_vs_all", "own"])
def test_batches(case) -> None:
    settings, data = make(case)
    settings |= {"early_stopping": True}
    assert bytes_of(settings, batches_of(data, 2)) == bytes_of(settings, Dataset(**data))


def test_the_command_line_takes_parameters_and_checkpoints(tmp_path, monkeypatch, capsys) -> None:
    _, data = make("quantiles")
    table, csv = pd.DataFrame(data["X"], columns=list("abc")), str(tmp_path / "rows.csv")
    table.assign(y=data["y"]).to_csv(csv, index=False)
    model, kept = tmp_path / "model", tmp_path / "kept"

    def run(*more: str) -> bytes:
        options = ["--target", "y", "--task", "regression", "--model", str(model), *more]
        for setting in ("objective=quantile", "quantile=[0.1, 0.9]", "n_estimators=4"):
            options += ["--set", setting]
        assert main(["train", csv, *options]) == 0
        return model.read_bytes()

    expected = run()
    assert "read at once" in capsys.readouterr().out
    monkeypatch.setattr("hedgerow.cli.reading.way._bytes_in_memory", lambda path, kind: 10**12)
    limit = ("--memory-limit", "40 MB", "--cache-dir", str(tmp_path))
    assert run(*limit) == expected
    assert run(*limit, "--checkpoint", str(kept)) == expected
    assert "read at once" not in capsys.readouterr().out
    assert len(list(kept.glob("hedgerow-rounds-*"))) == 1
    assert run(*limit, "--checkpoint", str(kept)) == expected
    assert main(["train", csv, "--target", "y", *limit, "--checkpoint", str(kept)]) != 0
    assert "learning_rate" not in (said := capsys.readouterr().err)
    assert "objective was quantile and is squared_error" in said


# -- checkpoints -----------------------------------------------------------------------


def stop_at(number: int):
    def stop(state):
        if state.round == number:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize(
    ("case", "more"),
    [
        ("quantiles", {"subsample": 0.5}),
        ("poisson", {"early_stopping": True}),
        ("hinge", {"boosting": "dart", "drop_rate": 0.6}),
        ("mape", {"boosting": "rf", "subsample": 0.5}),
        ("own", {"subsample": 0.5, "early_stopping": "oob"}),
    ],
)
def test_a_fit_goes_on_where_it_was_stopped(case, more, tmp_path, monkeypatch) -> None:
    settings, data = make(case)
    settings |= {"n_estimators": 7, **more}
    whole = bytes_of(settings, Dataset(**data))
    monkeypatch.setattr(INTERRUPTS, "last", math.inf)  # a second interrupt
    with pytest.raises(KeyboardInterrupt):
        bytes_of(settings, batches_of(data, 70), checkpoint=tmp_path, callbacks=stop_at(4))
    rounds = []
    for size in (N, 70):  # other batches are the same rows; then nothing is left to do
        found = bytes_of(
            settings,
            batches_of(data, size),
            checkpoint=tmp_path,
            callbacks=lambda state: rounds.append(state.round),
        )
        assert found == whole
    assert rounds[0] == 4
    assert rounds == sorted(set(rounds))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": 2.0}, "delta was 1.0 and is 2.0"),
        ({"y": 1}, "y has changed"),
        ({"X": 1}, "X has changed"),
        ({"weight": 1}, "sample_weight is new"),
    ],
)
def test_another_fit_is_refused(change, message, tmp_path) -> None:
    settings, data = make("huber")
    bytes_of(settings, batches_of(data, 70), checkpoint=tmp_path)
    data = {name: value.copy() for name, value in data.items()}
    if "y" in change:
        data["y"][3] += 1.0
    if "X" in change:
        data["X"][3, 0] = -data["X"][3, 0]
    if "weight" in change:
        data["weight"] = weights(N) + 0.5
    settings |= {name: value for name, value in change.items() if name == "delta"}
    with pytest.raises(ParameterError, match=message):
        bytes_of(settings, batches_of(data, 70), checkpoint=tmp_path)


def test_parameters_of_losses_are_part_of_fits_in_memory_too(tmp_path) -> None:
    settings, data = make("quantiles")
    bytes_of(settings, Dataset(**data), checkpoint=tmp_path)
    with pytest.raises(ParameterError, match=r"quantile was \[0.1, 0.5, 0.8\] and is \[0.1, 0.9\]"):
        bytes_of(settings | {"quantile": [0.1, 0.9]}, Dataset(**data), checkpoint=tmp_path)


# -- what cannot be done ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "lambdarank"}, "'lambdarank' ranks the rows of each query, but qid"),
        ({"objective": "huber", "delta": -1.0}, "delta must be"),
        ({"objective": "huber", "tweedie_power": 1.5}, "tweedie_power=1.5 has no effect"),
        ({"objective": "hubert"}, "unknown objective 'hubert'"),
        ({"objective": fourth, "delta": 1.0}, "delta=1.0 has no effect with a custom objective"),
    ],
)
def test_what_cannot_be_done_is_named(settings, message) -> None:
    _, data = make("gamma")
    with pytest.raises((ParameterError, DataError), match=message):
        bytes_of(settings, TableData(Dataset(**data), 50))


def test_intervals_are_no_column_of_a_file() -> None:
    _, data = make("aft")
    ends = np.column_stack([np.abs(data["y"]), np.full(N, np.inf)])
    with pytest.raises(HedgerowError, match=r"lower and upper end"):
        bytes_of({"objective": "aft"}, batches_of({"X": data["X"], "y": ends}, 50))


@pytest.mark.parametrize("case", ["gamma", "focal", "one_vs_all", "aft"])
def test_wrong_targets_have_the_row_that_they_have_in_memory(case) -> None:
    settings, data = make(case)
    data["y"][[200, 300]] = {"aft": 0.0}.get(case, -0.5)
    settings |= {"early_stopping": True}
    errors = []
    for given in (Dataset(**data), TableData(Dataset(**data), 37), batches_of(data, 90)):
        with pytest.raises(DataError, match="row 200 holds") as error:
            bytes_of(settings, given)
        errors.append(str(error.value))
    assert errors[0] == errors[1] == errors[2]


def test_a_survey_waits_for_the_rows_with_which_a_loss_is_tried() -> None:
    seen = []

    class Watched(Quartic):
        def check_target(self, target, first_row=0, origin=None):
            seen.append((len(target), first_row, origin))

    survey = TargetSurvey(LossSpec(Watched()))
    for size in (1, 0, 1):
        survey.note(np.ones(size))
    assert seen == []
    survey.note(np.ones(5))
    assert seen == [(1, 0, 1.0), (1, 1, 1.0), (5, 2, 1.0)]
    survey.note(np.ones(4))
    objective = survey.finish()
    assert (seen[-1], objective.label) == ((4, 7, 1.0), "Watched")


def test_text_as_target() -> None:
    X = features(20)
    given = batches_of({"X": X, "y": np.array(["a"] * 20)}, 5)
    with pytest.raises(DataTypeError, match="target"):
        bytes_of({"objective": "gamma"}, given)
