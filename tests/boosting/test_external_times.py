"""Survival times in two columns of files: all rows decide which column is the event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hedgerow import Dataset, train
from hedgerow.errors import DataError, DataTypeError
from tests.helpers.chunked import divided_into

N = 400
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({"x": RNG.normal(size=N)})
ROWS["time"] = np.exp(ROWS.x) * RNG.exponential(size=N) + 0.01
ROWS["event"] = (RNG.random(N) < 0.7).astype(int)
ROWS["p"], ROWS["q"] = ROWS.time, ROWS.time + 1.0
ROWS["code"] = ROWS.event
SHORT = {"n_estimators": 3, "learning_rate": 0.1, "objective": "aft"}


@pytest.fixture(autouse=True)
def small_chunks() -> Iterator[None]:
    with divided_into(128):
        yield


def files(folder: Path, target: list[str], rows: pd.DataFrame = ROWS, **change) -> Dataset:
    """Write two files; ``change`` replaces columns of the second one."""
    pytest.importorskip("pyarrow", reason="files need pyarrow")
    folder.mkdir(parents=True)
    rows[:150].to_parquet(folder / "0.parquet")
    rows[150:].assign(**change).to_parquet(folder / "1.parquet")
    return Dataset.from_files(folder, target, features=["x"])


def memory(target: list[str], rows: pd.DataFrame = ROWS) -> Dataset:
    return Dataset(rows[["x"]], rows[target])


def test_doubts_of_all_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the second holds nothing but 0 and 1"):
        train(SHORT, files(tmp_path / "codes", ["p", "code"]))
    # One other number, or one infinite end, in the last file is enough to tell.
    for name, value in (("code", 2.0), ("q", np.inf)):
        rows = ROWS.assign(code=1.0, q=ROWS.q + 2.0)
        rows.loc[N - 1, name] = value
        found = train(SHORT, files(tmp_path / name, ["code", "q"], rows))
        assert found.to_bytes() == train(SHORT, memory(["code", "q"], rows)).to_bytes()


def test_truth_values_of_one_file_are_numbers_beside_those_of_another(tmp_path: Path) -> None:
    rows = ROWS.assign(code=ROWS.code.astype(bool))
    found = train(SHORT, files(tmp_path / "truths", ["p", "code"], rows))
    assert found.to_bytes() == train(SHORT, memory(["p", "code"], rows)).to_bytes()
    mixed = files(tmp_path / "mixed", ["p", "code"], rows, code=ROWS.code[150:])
    with pytest.raises(DataError, match="the second holds nothing but 0 and 1"):
        train(SHORT, mixed)
    with pytest.raises(DataTypeError, match="is an end of intervals, but holds booleans"):
        train(SHORT, files(tmp_path / "ends", ["lower", "upper"], rows.rename(
            columns={"code": "lower", "q": "upper"})))  # fmt: skip


def test_events_are_codes_in_all_files(tmp_path: Path) -> None:
    wrong = files(tmp_path / "a", ["event", "time"], event=ROWS.event[150:] + 1)
    with pytest.raises(DataError, match=r"must hold True and False.*row 150 has 2"):
        train(SHORT, wrong)
    with pytest.raises(DataTypeError, match="has 3: 'event', 'time', 'p'"):
        train(SHORT, files(tmp_path / "b", ["event", "time", "p"]))


@pytest.mark.parametrize("form", ["files", "table"])
def test_validation_rows_have_the_form_of_the_training_rows(form: str, tmp_path: Path) -> None:
    params = {**SHORT, "n_estimators": 9, "early_stopping": True, "patience": 2}
    doubtful = ROWS[:100].assign(p=1.0)  # ends only because those of the training rows are
    for target, rows in ((["p", "q"], doubtful), (["event", "time"], ROWS[:100])):
        seen = memory(target, rows)
        expected = train(params, memory(target), seen)
        folder = tmp_path / target[0]
        given = seen if form == "table" else files(folder / "valid", target, rows)
        found = train(params, files(folder / "train", target), given)
        assert found.to_bytes() == expected.to_bytes()


def test_validation_rows_of_another_form_are_refused(tmp_path: Path) -> None:
    for number, (one, other) in enumerate([(["p", "q"], ["event", "time"])] * 2):
        if number:
            one, other = other, one
        for valid in (memory(other), files(tmp_path / f"valid{number}", other)):
            rows = Dataset.from_files(tmp_path / f"valid{number}", one, features=["x"])
            with pytest.raises(DataError, match=r"y of valid has .*times, but"):
                train(SHORT, rows, valid)


@pytest.mark.fast(3)
@pytest.mark.parametrize("first", ["aft", "squared_error"])
@pytest.mark.parametrize("second", ["cox", "absolute_error"])
@pytest.mark.parametrize("method", ["hist", "exact"])
def test_rows_are_read_again_for_another_loss(
    first: str, second: str, method: str, tmp_path: Path
) -> None:
    rows, table = files(tmp_path / "rows", ["event", "time"]), memory(["event", "time"])
    for objective in (first, second, first):
        params = {**SHORT, "objective": objective, "tree_method": method}
        assert train(params, rows).to_bytes() == train(params, table).to_bytes()


def test_ends_are_refused_by_a_loss_of_one_time_whoever_read_them_before(tmp_path: Path) -> None:
    rows = files(tmp_path / "ends", ["p", "q"])
    model = train(SHORT, rows)
    with pytest.raises(DataError, match="'cox' does not support intervals"):
        train({**SHORT, "objective": "cox"}, rows)
    assert model.eval(rows) == pytest.approx(model.eval(memory(["p", "q"])))
    assert train(SHORT, rows, rows).num_rounds == 3


def test_two_columns_of_batches_need_names() -> None:
    def pairs() -> Iterator[tuple[pd.DataFrame, np.ndarray]]:
        yield ROWS[["x"]], ROWS[["event", "time"]].to_numpy()

    with pytest.raises(DataError, match=r"batch 0: y must have one axis.* target=\['event', 'tim"):
        train(SHORT, Dataset.from_batches(pairs))
    frames = Dataset.from_batches(lambda: iter([ROWS]), target=["event", "time"], features=["x"])
    found = train(SHORT, frames)
    assert found.to_bytes() == train(SHORT, memory(["event", "time"])).to_bytes()


@pytest.mark.parametrize("target", [["event", "time"], ["time", "event"], ["p", "q"]])
def test_text_among_times_is_named(target: list[str], tmp_path: Path) -> None:
    rows = ROWS.assign(**{target[0]: "no"})
    with pytest.raises(DataTypeError, match=f"target column '{target[0]}' has type"):
        train(SHORT, files(tmp_path / "rows", target, rows))
