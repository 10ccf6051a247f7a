"""Several targets of rows in files give the model of the same rows in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import Booster, Dataset, ParameterError, train
from hedgerow.boosting.external.dataset import resident
from hedgerow.data.external import disk_store, memory_plan
from hedgerow.errors import DataError

RNG = np.random.default_rng(3)
N_ROWS = 500
COLUMNS, TARGETS = ["a", "b"], ["y", "z"]
APART = {"multi_strategy": "one_output_per_tree", "n_estimators": 5, "n_jobs": 2}
VECTORS = {"n_estimators": 5, "n_jobs": 2}
KINDS = pytest.mark.parametrize("kind", [APART, VECTORS], ids=["trees apart", "vectors"])


def table() -> pd.DataFrame:
    rows = pd.DataFrame({"a": RNG.normal(size=N_ROWS), "b": RNG.integers(0, 9, N_ROWS) * 1.0})
    rows["y"] = rows.a * rows.b + RNG.normal(size=N_ROWS) / 5
    rows["z"] = 100.0 + rows.b - rows.a
    rows["p"], rows["q"] = rows.a / 2, rows.b / 3
    return rows


ROWS = table()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return two files, which are read into chunks of 64 rows and never as a table."""

    def refused(rows: Any, params: Any, reason: Exception) -> Dataset:
        raise reason

    pytest.importorskip("pyarrow", reason="files need pyarrow")
    monkeypatch.setattr(memory_plan, "FEWEST_ROWS", 64)
    monkeypatch.setattr(memory_plan, "MOST_ROWS", 64)
    monkeypatch.setattr(disk_store, "fits_in_one_chunk", lambda limit, shape, sizes: False)
    monkeypatch.setattr(resident, "in_memory", refused)
    found = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    ROWS[:300].to_parquet(found[0])
    ROWS[300:].to_parquet(found[1])
    return found


def make_file_dataset(paths: Any, target: Any = TARGETS, **more: Any) -> Dataset:
    return Dataset.from_files(paths, target, features=COLUMNS, **more)


def in_memory(rows: pd.DataFrame = ROWS, **more: Any) -> Dataset:
    return Dataset(rows[COLUMNS], rows[TARGETS], **more)


@KINDS
@pytest.mark.parametrize("boosting", ["gbdt", "dart"])
def test_validation_rows(kind: dict[str, Any], boosting: str, files: list[Path]) -> None:
    params = (
        kind
        | {"boosting": boosting}
        | {"early_stopping": True, "patience": 2, "eval_metric": ["r2", "loss"]}
    )
    first, second = in_memory(ROWS[:300]), in_memory(ROWS[300:])
    expected = train(params, first, second).to_bytes()
    train_rows = make_file_dataset(files[0])
    assert train(params, train_rows, make_file_dataset(files[1])).to_bytes() == expected
    assert train(params, train_rows, second).to_bytes() == expected


@KINDS
def test_one_far_count(kind: dict[str, Any], files: list[Path]) -> None:
    """All rows together decide the limit on steps."""
    params = kind | {"objective": "poisson", "n_estimators": 20, "learning_rate": 0.5}
    rows = ROWS.assign(y=np.floor(ROWS.a**2), z=np.floor(ROWS.b))
    rows.loc[7, "z"] = 1e9
    rows[:300].to_parquet(files[0])
    rows[300:].to_parquet(files[1])
    booster = train(params, in_memory(rows))
    assert booster.predict(rows[COLUMNS], kind="raw").max() < np.log(1e9) + 2.0
    assert train(params, make_file_dataset(files)).to_bytes() == booster.to_bytes()


def test_the_number_of_targets_of_validation_rows(files: list[Path]) -> None:
    one = Dataset(ROWS[COLUMNS], ROWS.y.to_numpy())
    message = "validation rows has 1 column, but the training rows have 2 columns"
    for valid in (one, make_file_dataset(files, "y")):
        with pytest.raises(DataError, match=message):
            train(APART, make_file_dataset(files), valid)
    with pytest.raises(DataError, match="has 2 columns, but the training rows have 1 column"):
        train({}, make_file_dataset(files, "y"), in_memory())


@KINDS
def test_offsets_and_models_to_continue(kind: dict[str, Any], files: list[Path]) -> None:
    offset = ROWS[["p", "q"]].to_numpy()
    found = train(kind, make_file_dataset(files, offset=["p", "q"]))
    memory = train(kind, in_memory(offset=offset))
    assert found.model.forest.base_score.tolist() == memory.model.forest.base_score.tolist()
    assert (found.model.forest.value == memory.model.forest.value).all()
    first = train(kind, in_memory())
    more = train(kind, make_file_dataset(files), init_model=first)
    assert more.to_bytes() == train(kind, in_memory(), init_model=first).to_bytes()


@KINDS
def test_an_interrupted_fit_goes_on(
    kind: dict[str, Any], files: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "rounds"

    def stop(round_: Any) -> None:
        if round_.round == 3:
            raise RuntimeError("power cut")

    options: dict[str, Any] = {"checkpoint": folder, "checkpoint_every": 0}
    with pytest.raises(RuntimeError, match="power cut"):
        train(kind, make_file_dataset(files), callbacks=stop, **options)
    found = train(kind, make_file_dataset(files), **options)
    assert found.to_bytes() == train(kind, in_memory()).to_bytes()


def test_evaluation_of_files(files: list[Path]) -> None:
    booster: Booster = train(APART, in_memory())
    metrics = ["loss", "mae"]
    assert booster.eval(make_file_dataset(files), metrics) == booster.eval(in_memory(), metrics)


def test_targets_outside_the_domain_of_the_loss(files: list[Path]) -> None:
    ROWS[:300].assign(y=1.0).to_parquet(files[0])
    ROWS[300:].assign(y=1.0, z=-1.0).to_parquet(files[1])
    message = r"target 'z': objective 'poisson' needs targets in .*; row 300 holds -1.0"
    with pytest.raises(DataError, match=message):
        train(APART | {"objective": "poisson"}, make_file_dataset(files))
    with pytest.raises(ParameterError, match="'softmax' has one target, but y has several"):
        train({"objective": "softmax"}, make_file_dataset(files))


def test_missing_targets_name_their_column(files: list[Path]) -> None:
    ROWS.assign(z=np.nan).to_parquet(files[0])
    with pytest.raises(DataError, match="y \\(column 'z'\\)"):
        train(APART, make_file_dataset(files[0]))


@pytest.mark.parametrize("strategy", ["auto", "one_output_per_tree"])
def test_rows_that_do_not_fit(strategy: str) -> None:
    def batches() -> Iterator[pd.DataFrame]:
        for seed in range(7):
            X = np.random.default_rng(seed).normal(size=(50_000, 8))
            names = [f"x{k}" for k in range(8)]
            yield pd.DataFrame(X, columns=names).assign(y=X[:, 0] * X[:, 1], z=X[:, 2])

    rows = Dataset.from_batches(batches, TARGETS, memory_limit="32 MB")
    params = {"n_estimators": 2, "multi_strategy": strategy}
    whole = pd.concat(batches())
    memory = Dataset(whole.drop(columns=TARGETS), whole[TARGETS])
    assert train(params, rows).to_bytes() == train(params, memory).to_bytes()


@pytest.mark.parametrize(
    "more",
    [
        {"boosting": "rf", "subsample": 0.6, "oob_score": True, "train_scores": True},
        {"subsample": 0.6, "early_stopping": "oob", "patience": 2},
        {"objective": "absolute_error"},
        {"objective": "absolute_error", "sampling": "goss"},
        {"objective": "mape", "num_parallel_tree": 2, "subsample": 0.7},
        {"sampling": "mvs", "subsample": 0.5, "learning_rate": [0.3, 0.2, 0.1, 0.1, 0.1]},
        {"objective": "fair", "path_smooth": 3.0, "grow_policy": "depthwise"},
        {"objective": "poisson", "reg_alpha": 0.1, "colsample_bytree": 0.5},
    ],
)
def test_vectors_of_many_kinds(more: dict[str, Any], files: list[Path]) -> None:
    rows = ROWS.assign(y=ROWS.y.abs(), z=ROWS.z.abs())
    rows[:300].to_parquet(files[0])
    rows[300:].to_parquet(files[1])
    found = train(VECTORS | more, make_file_dataset(files))
    assert found.model.forest.vectors is not None
    assert found.to_bytes() == train(VECTORS | more, in_memory(rows)).to_bytes()


def of_all(y: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return gradient and hessian of all rows at once."""
    difference = raw - y
    return difference - difference.mean() / 2.0, np.ones(len(y))


def test_vectors_of_a_loss_of_all_rows(files: list[Path]) -> None:
    params = VECTORS | {"objective": of_all}
    assert (
        train(params, make_file_dataset(files)).to_bytes() == train(params, in_memory()).to_bytes()
    )


def test_vectors_of_quantiles(files: list[Path]) -> None:
    params = VECTORS | {
        "objective": "quantile",
        "quantile": [0.1, 0.9],
        "multi_strategy": "multi_output_tree",
    }
    memory = Dataset(ROWS[COLUMNS], ROWS.y.to_numpy())
    assert (
        train(params, make_file_dataset(files, "y")).to_bytes() == train(params, memory).to_bytes()
    )
