"""Rows in files and on ranks: what they refuse, what belongs to a checkpoint, and full disks."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow import Dataset, train
from hedgerow.boosting.loop import scored
from hedgerow.data.reading import mapped_table
from hedgerow.data.reading.mapped_table import RowFile
from hedgerow.distributed.partition import Partition
from hedgerow.errors import DataError, LossError, ParameterError, StorageError
from hedgerow.io import model_from_bytes
from tests.helpers.chunked import Rows, divided_into
from tests.helpers.features import N_ROWS, ROWS, SMALL, parts_of
from tests.helpers.rank_trainings import cut, rank_of, train_ranks
from tests.helpers.ranks import rank_outcomes

PLAIN = Rows(ROWS, ["a", "b", "town"])
SEVERAL = Rows(ROWS, ["a", "b"], ["y", "y2"])
FOLDS = {**SMALL, "early_stopping": "cv", "patience": 2, "n_estimators": 8, "learning_rate": 0.9}
"""Large steps, so that cross-validation stops some fits early."""


# -- ranks ---------------------------------------------------------------------


def partitions(rows: Rows, *borders: int) -> list[Partition]:
    known = {role: rows.table[name].reset_index(drop=True) for role, name in rows.roles.items()}
    table = rows.table.reset_index(drop=True)
    return cut(borders, table[rows.features], table[rows.target], **known)


@pytest.mark.parametrize("mode", ["data", "features"])
@pytest.mark.parametrize("loss", ["classes", "median"])
def test_ranks_have_validation_rows(loss: str, mode: Any, tmp_path: Path) -> None:
    params, rows = parts_of(f"{loss} + weights + sample + stops early")
    rows, unseen = rows.part(0, 400), rows.part(400, N_ROWS)
    expected = train(params, rows.in_memory(), unseen.in_memory()).to_bytes()
    for borders in ([], [24], [24, 108]):  # ranks without validation rows, and with more
        parts = partitions(rows, 120, 240), tmp_path, partitions(unseen, *borders)
        with divided_into(41):
            assert train_ranks(3, *parts, mode=mode, **params) == expected


def test_a_callback_on_one_rank_ends_the_fit_on_all(tmp_path: Path) -> None:
    found = train_ranks(
        2, partitions(PLAIN, 200), tmp_path,
        callback_of=lambda rank: (lambda state: state.round == 2) if rank else None, **SMALL,
    )  # fmt: skip
    assert model_from_bytes(found)[0].forest.n_rounds == 2


def errors_of_ranks(*arguments: Any, **params: Any) -> list[str]:
    return [str(end.error) for end in rank_outcomes(3, rank_of(3, *arguments, **params))]


def test_all_ranks_tell_of_the_first_wrong_target(tmp_path: Path) -> None:
    rows = replace(PLAIN, table=ROWS.assign(y=5.0 * ROWS.index.isin([310, 390])))
    found = errors_of_ranks(partitions(rows, 100, 320), tmp_path, objective="logistic", **SMALL)
    assert ["row 310 holds 5.0" in error for error in found] == [True] * 3, found


def test_metrics_that_need_all_rows_have_a_limit(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(scored, "MOST_GATHERED", 100)
    params, rows = parts_of("high + training scores")
    found = errors_of_ranks(partitions(rows, 90, 210), tmp_path, **params, eval_metric="auc")
    message = r"eval_metric .auc. needs .* \d+ rows .*.logloss"
    assert [bool(re.search(message, error)) for error in found] == [True] * 3, found


# -- validation rows and several targets ---------------------------------------


def test_errors_of_a_metric_name_the_round() -> None:
    def broken(y, prediction, weight):
        raise ValueError("no")

    with pytest.raises(LossError, match="round 1: eval_metric 'broken' raised"):
        train(SMALL | {"eval_metric": broken}, PLAIN.in_batches())


def test_validation_rows_that_do_not_belong_to_the_training_rows() -> None:
    offset, one = replace(PLAIN, roles={"offset": "o"}), replace(SEVERAL, target="y")
    for seen, unseen, message in (
        (PLAIN.in_memory(), PLAIN.in_batches(), "read in batches"),
        (offset.in_batches(), PLAIN.in_memory(), "X has no column 'o', which is the offset"),
        (PLAIN.in_batches(), offset.in_memory(), "training rows have no offset"),
        (SEVERAL.in_batches(), one.in_memory(), r"y of valid has 1 column\(s\), .* predicts 2"),
        (SEVERAL.in_batches(), one.in_batches(), r"y of valid has 1 column\(s\), .* predicts 2"),
        (one.in_batches(), SEVERAL.in_memory(), r"y of valid has 2 column\(s\), .* predicts 1"),
    ):
        with pytest.raises(DataError, match=message):
            train(SMALL, seen, unseen)


def test_several_targets_of_files_are_scored_and_named() -> None:
    booster, metrics = train(SMALL, SEVERAL.in_memory()), ["loss", "mae"]
    with divided_into(64):
        assert booster.eval(SEVERAL.in_batches(), metrics) == booster.eval(
            SEVERAL.in_memory(), metrics
        )
    for objective, change, error, message in (
        ("poisson", -1.0, DataError, "target 'y2': objective 'poisson' .*; row 300 holds -1.0"),
        ("squared_error", np.nan, DataError, r"y \(column 'y2'\)"),
        ("softmax", 0.0, ParameterError, "'softmax' has one target, but y has several"),
    ):
        y2 = np.where(ROWS.index < 300, 1.0, change)
        rows = replace(SEVERAL, table=ROWS.assign(y=1.0, y2=y2))
        with pytest.raises(error, match=message):
            train({"objective": objective}, rows.in_batches())


def test_validation_rows_are_not_kept_by_the_loss() -> None:
    """The loss of all rows needs memory for training rows only."""

    def batches(n_batches: int) -> Any:
        def read() -> Iterator[Any]:
            for seed in range(n_batches):
                X = np.random.default_rng(seed).normal(size=(100_000, 2))
                yield X, np.exp(X[:, 0])

        return read

    seen = Dataset.from_batches(batches(1), memory_limit="32 MB")
    unseen = Dataset.from_batches(batches(3), memory_limit="32 MB")
    booster = train({"objective": "cox", "n_estimators": 1}, seen, unseen)
    assert booster.num_rounds == 1


# -- folds ---------------------------------------------------------------------


def test_a_time_budget_ends_the_folds() -> None:
    params = {**FOLDS, "time_budget": 1e-3, "n_estimators": 10_000, "patience": 10_000}
    assert train(params, PLAIN.in_batches()).num_rounds < 100


def test_what_folds_cannot_do() -> None:
    with pytest.raises(ParameterError, match="validation rows have no effect"):
        train(FOLDS, PLAIN.in_batches(), PLAIN.in_batches())
    first = train({"n_estimators": 1}, PLAIN.in_memory())
    with pytest.raises(ParameterError, match="have seen the rows of all folds"):
        train(FOLDS, PLAIN.in_batches(), init_model=first)


# -- models to continue, checkpoints -------------------------------------------


def test_what_cannot_be_continued_is_refused_as_in_memory() -> None:
    model = train(SMALL, PLAIN.in_memory())
    for params, match in (
        ({"objective": "huber"}, "was trained with objective 'squared_error'"),
        ({"boosting": "dart"}, "rescales trees"),
        ({"num_parallel_tree": 2}, "has 1 trees of each output"),
    ):
        for data in (PLAIN.in_memory(), PLAIN.in_batches()):
            with pytest.raises(ParameterError, match=match):
                train(SMALL | params, data, init_model=model)


def test_a_checkpoint_belongs_to_a_model_and_rows(tmp_path: Path) -> None:
    model = train(SMALL, PLAIN.in_memory())
    kept = {"checkpoint": tmp_path, "checkpoint_every": 0.0}
    train(SMALL, PLAIN.in_batches(), init_model=model, **kept)
    other = train(SMALL | {"max_leaves": 3}, PLAIN.in_memory())
    with pytest.raises(ParameterError, match="init_model has changed"):
        train(SMALL, PLAIN.in_batches(), init_model=other, **kept)
    params, queries = parts_of("ranking")
    train(params, queries.in_batches(), checkpoint=tmp_path / "queries")
    halves = replace(queries, table=ROWS.assign(q=ROWS.q // 2))
    with pytest.raises(ParameterError, match="qid has changed"):
        train(params, halves.in_batches(), checkpoint=tmp_path / "queries")


def test_a_checkpoint_of_lines_belongs_to_the_values_of_rows(tmp_path: Path) -> None:
    params = SMALL | {"linear_leaves": True, "max_bins": 8}
    train(params, PLAIN.in_batches(), checkpoint=tmp_path, checkpoint_every=0.0)
    largest = ROWS.a == ROWS.a.max()
    other = replace(PLAIN, table=ROWS.assign(a=ROWS.a + largest))  # in the same bin
    with pytest.raises(ParameterError, match=r"another fit: X has changed\."):
        train(params, other.in_batches(), checkpoint=tmp_path, checkpoint_every=0.0)


# -- sorted columns in mapped files ---------------------------------------------


def test_columns_that_cannot_be_sorted(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="column 'town' is a category"):
        train({"tree_method": "exact"}, PLAIN.in_batches(cache_dir=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="reserves no space")
@pytest.mark.parametrize("fail_at", [1, 2])
def test_a_full_disk_leaves_nothing(
    fail_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve, sizes = os.posix_fallocate, []

    def failing(file: int, offset: int, size: int) -> None:
        sizes.append(size)
        if len(sizes) == fail_at:
            raise OSError(errno.ENOSPC, "no space left")
        reserve(file, offset, size)

    monkeypatch.setattr(mapped_table, "_LIST_SHARE", 0.0)  # little data are mapped, too
    monkeypatch.setattr(os, "posix_fallocate", failing)
    rows = Rows(ROWS, ["a", "b"])
    with pytest.raises(StorageError, match=r"cannot reserve space in .*; free space there"):
        train({"tree_method": "exact"}, rows.in_batches(cache_dir=tmp_path))
    assert len(sizes) == fail_at
    assert list(tmp_path.iterdir()) == []


def test_row_files_widen(tmp_path: Path) -> None:
    file = RowFile(str(tmp_path))
    parts = [np.ones((3, 2), np.float32), np.full((2, 2), 0.1), np.zeros((1, 2), np.float32)]
    for part in parts:
        file.append(part)
    found = file.finish()
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.concatenate(parts))
