"""Models of rows in files have the bytes of models of the same rows in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from hedgerow import Booster, Dataset, HedgerowRegressor, ParameterError, cross_fit, train
from hedgerow.boosting.external import file_dataset
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.cli.main import main
from hedgerow.data.external.memory_plan import RowShape
from hedgerow.errors import DataTypeError, HedgerowError
from hedgerow.io import model_to_bytes
from tests.helpers.file_tables import all_kinds, simple, split, write

LIMIT = 100_000_000
N_ROWS = 1500


def in_memory(table: pa.Table, target: str = "y", **more: Any) -> Dataset:
    weight = table["w"].to_numpy() if "w" in table.column_names else None
    aside = [name for name in (target, "w") if name in table.column_names]
    return Dataset(table.drop_columns(aside), table[target].to_numpy(), weight, **more)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return all_kinds(N_ROWS, seed=3)


@pytest.fixture(scope="module")
def files(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("files")
    return [
        write(part, folder / f"{place}.feather", 200)
        for place, part in enumerate(split(table, [200, 700]))
    ]


def bytes_of(booster: Booster) -> bytes:
    return model_to_bytes(booster.model)


@pytest.mark.parametrize("valid_kind", ["files", "memory"])
def test_validation_rows_that_are_given(
    valid_kind: str, table: pa.Table, files: list[Path], tmp_path: Path
) -> None:
    other = all_kinds(500, seed=9)
    path = write(other.select(other.column_names[::-1]), tmp_path / "valid.feather", 90)
    expected = train({"n_estimators": 8}, in_memory(table), in_memory(other))
    settings: dict[str, Any] = {"weight": "w", "cache_dir": tmp_path, "memory_limit": LIMIT}
    valid: Any = in_memory(other)
    if valid_kind == "files":
        valid = Dataset.from_files(path, "y", **settings)
    found = train({"n_estimators": 8}, Dataset.from_files(files, "y", **settings), valid)
    assert bytes_of(found) == bytes_of(expected)


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        ({}, {"y": np.zeros(3)}, "y is given, but X is a Dataset of files"),
        ({}, {"sample_weight": np.zeros(3)}, "sample_weight is given, but X is a Dataset of files"),
        ({}, {"X_val": 3}, "in X_val must be a Dataset, as X is"),
    ],
)
def test_estimators_of_files_refuse_what_needs_a_table(
    change: dict[str, Any], arguments: dict[str, Any], words: str, files: list[Path]
) -> None:
    rows = Dataset.from_files(files, "y", weight="w")
    estimator = HedgerowRegressor(n_estimators=2, **change)
    with pytest.raises(HedgerowError, match=words):
        estimator.fit(rows, **{"y": None, **arguments})


@pytest.mark.parametrize("limit", [LIMIT, 10**10])
def test_estimators_of_files_do_what_those_of_tables_do(
    limit: int, files: list[Path], table: pa.Table
) -> None:
    """They continue their own model, take folds of the user, and validation rows in memory."""
    rows = Dataset.from_files(files, "y", drop=["w"], memory_limit=limit)
    given = table.drop_columns(["y", "w"]), table["y"].to_numpy()
    for change in ({"warm_start": True}, {"folds": 3, "early_stopping": "cv", "patience": 2}):
        one, other = (HedgerowRegressor(n_estimators=3, learning_rate=0.2, **change) for _ in "ab")
        assert one.fit(rows, None).booster_.to_bytes() == other.fit(*given).booster_.to_bytes()
        for estimator in (one, other):
            estimator.set_params(n_estimators=5)
        assert one.fit(rows, None).booster_.to_bytes() == other.fit(*given).booster_.to_bytes()
    one, other = (HedgerowRegressor(n_estimators=9, early_stopping=True) for _ in "ab")
    valid = Dataset(*given)
    one.fit(rows, None, X_val=valid)
    other.fit(*given, X_val={"validation": valid})
    assert one.booster_.to_bytes() == other.booster_.to_bytes()


def test_tables_are_no_datasets_for_estimators(table: pa.Table) -> None:
    for call in (
        lambda X: cross_fit(HedgerowRegressor(), X),
        lambda X: HedgerowRegressor().fit(X, None),
    ):
        with pytest.raises(DataTypeError, match="X must be a table here; got a Dataset"):
            call(in_memory(table))


def test_a_source_is_read_twice_if_no_row_is_set_aside(tmp_path: Path) -> None:
    X, y = np.random.default_rng(0).normal(size=(300, 3)), np.arange(300.0)
    calls: list[int] = []

    def batches() -> Any:
        calls.append(1)
        yield X[:100], y[:100]
        yield X[100:], y[100:]

    data = Dataset.from_batches(batches, cache_dir=tmp_path, memory_limit=LIMIT)
    for stopping, n_calls in ((False, 2), (True, 3)):
        calls.clear()
        train({"n_estimators": 2, "early_stopping": stopping}, data)
        assert len(calls) == n_calls


def test_what_needs_more_memory_than_there_may_be(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(file_dataset, "_BYTES_OF_A_CELL", 10**9)
    rows = pa.table({"c": np.arange(200.0) % 2, "y": np.arange(200.0)})
    path = write(rows, tmp_path / "b.parquet")
    data = Dataset.from_files(path, "y", cache_dir=tmp_path, memory_limit=LIMIT)
    with pytest.raises(ParameterError, match=r"max_conflict_rate.*Read into") as found:
        train({"max_conflict_rate": 0.1}, data)
    assert "memory, 200 rows of" in str(found.value)
    assert [item.name for item in tmp_path.iterdir()] == ["b.parquet"]


# ---- the command line --------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write one table as one and as several files, in several formats."""
    root = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    labels = np.array(["no", "yes", "maybe"])[rng.integers(0, 3, N_ROWS)]
    rows = simple(N_ROWS).append_column("label", pa.array(labels))
    rows = rows.append_column("k", pa.array(rng.integers(0, 2, N_ROWS)))
    rows = rows.append_column("w", pa.array(rng.choice([0.0, 1.0, 2.0], N_ROWS)))
    (root / "parts").mkdir()
    for place, part in enumerate(split(rows, [300, 900])):
        write(part, root / "parts" / f"{place}.parquet")
        write(part, root / f"part{place}.csv")
    write(rows, root / "all.csv")
    write(rows, root / "all.parquet")
    write(rows.slice(0, 400), root / "valid.csv")
    return root


def run(arguments: list[Any], model: Path) -> bytes:
    assert main([*map(str, arguments), "--model", str(model)]) == 0
    return model.read_bytes()


@pytest.fixture
def too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat small tables as larger than memory."""
    monkeypatch.setattr(FileDataset, "bytes_of_table", 10**12)


COMMANDS = [
    ["--target", "label", "--drop", "k", "--weight", "w"],
    ["--target", "label", "--weight", "w", "--set", "class_weight=balanced"],
    ["--target", "k", "--drop", "label", "--set", "class_weight={1: 3}"],
    ["--target", "k", "--drop", "w", "--set", "early_stopping=True"],
    ["--target", "y", "--drop", "label", "--drop", "w", "--set", "categorical_features=['b', 'c']"],
]


@pytest.mark.fast(5)
@pytest.mark.parametrize("valid", [False, True])
@pytest.mark.parametrize("options", COMMANDS)
def test_command_line(
    options: list[str],
    valid: bool,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One file, several files and a folder give the same bytes, in memory and out of core."""
    model = tmp_path / "m.hedgerow"
    more = [*options, "--set", "n_estimators=4", "--set", "max_leaves=8"]
    more += ["--cache-dir", tmp_path]
    more += ["--valid", folder / "valid.csv"] if valid else []
    expected = run(["train", folder / "all.csv", *more], model)
    ways = ([folder / "all.parquet"], [folder / "parts"], [folder / "part*.csv"])
    for paths in ways:
        assert run(["train", *paths, *more], model) == expected
    assert "read at once" in capsys.readouterr().out
    monkeypatch.setattr(FileDataset, "bytes_of_table", 10**12)
    for paths in ([folder / "all.csv"], *ways):
        assert run(["train", *paths, *more, "--memory-limit", "100 MB"], model) == expected
        assert "read in batches, binned rows on disk" in capsys.readouterr().out
    assert [item.name for item in tmp_path.iterdir()] == ["m.hedgerow"]


@pytest.mark.parametrize("target", ["label", "number"])
def test_command_line_goes_on(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame(rng.normal(size=(600, 3)), schema=list("abc")).with_columns(
        label=pl.Series(rng.choice(["no", "yes"], 600)),
        town=pl.Series(rng.choice(list("xyz"), 600)),
    )
    table = table.with_columns(number=pl.col("a") * 2.0 + pl.col("b"))
    paths = [tmp_path / "first.csv", tmp_path / "later.csv"]
    for path, part in zip(paths, (table[:350].with_columns(town=pl.lit("w")), table), strict=True):
        part.write_csv(path)
    other = "number" if target == "label" else "label"
    options = ["--target", target, "--drop", other, "--set", "n_estimators=3"]
    first = tmp_path / "first"
    run(["train", paths[0], *options], first)
    later = ["train", paths[1], *options, "--init-model", first]
    limit = ["--memory-limit", "100 MB", "--cache-dir", tmp_path]
    expected = run(later, tmp_path / "m")
    monkeypatch.setattr(FileDataset, "bytes_of_table", 10**12)
    assert run([*later, *limit], tmp_path / "m") == expected
    if target == "label":
        table.with_columns(label=pl.lit("maybe")).write_csv(paths[1])
        assert main([*map(str, [*later, *limit]), "--model", str(tmp_path / "m")]) != 0
        assert "maybe" in capsys.readouterr().err


@pytest.mark.usefixtures("too_large")
def test_command_line_errors(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = ["--memory-limit", "100 MB", "--cache-dir", tmp_path]
    for arguments, match in (
        ([folder / "all.csv", *limit], "--target COL is needed"),
        ([folder / "none*.csv", "--target", "y"], "no file matches"),
        ([folder / "all.csv", "--target", "why", *limit], "no column 'why'"),
        ([folder / "all.csv", "--target", "y", "--memory-limit", "much"], "--memory-limit must be"),
        (
            [folder / "all.csv", "--target", "label", "--set", "class_weight={'a': 2}", *limit],
            "class_weight names 'a', which is not in y",
        ),
        ([folder / "all.csv", "--target", "b", *limit], "target 'b' is missing in"),
        (
            [folder / "all.csv", "--target", "y", "--task", "classification", *limit],
            "which is no class",
        ),
    ):
        assert main(["train", *map(str, arguments), "--model", str(tmp_path / "m")]) == 2
        assert match in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# ---- memory ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("times", "share", "params"),
    [
        (5, 1.0, {}),
        # One chunk, just so: the chunks may take 0.6 of the limit.
        (0.28, 0.6, {"train_scores": True, "eval_metric": ["mae", "r2"]}),
        # The weights of the sample take 8 bytes a row more.
        (0.26, 0.6, {"objective": "huber", "leaf_estimation": "line_search", "sampling": "goss"}),
        (0.28, 0.6, {"boosting": "rf", "subsample": 0.6, "oob_score": True, "eval_metric": "mae"}),
    ],
)
def test_peak_memory(times: float, share: float, params: dict[str, Any], tmp_path: Path) -> None:
    """A fit stays within its limit, apart from Python, its libraries and arrays of all rows."""
    benchmark = Path(__file__).parents[2] / "benchmarks" / "out_of_core.py"
    command = [sys.executable, str(benchmark), "--limit", "192 MB", "--times", str(times), "--json"]
    command += ["--trees", "5", "--files-only", "--params", json.dumps(params)]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["table_bytes"] >= times * found["limit"]
    allowed = share * found["limit"]
    if share == 1.0:  # several chunks: the arrays of all rows are beside the limit
        allowed += RowShape(28).vector_bytes * found["table_bytes"] / (28 * 4)
    assert found["peak_bytes"] - found["start_bytes"] <= allowed
