"""``Dataset.from_files`` and ``Dataset.from_batches`` give the model of the same rows in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from hedgerow import DataError, Dataset, DataTypeError, ParameterError, train
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.errors import StorageError
from tests.helpers.file_tables import all_kinds, simple, split, write

LIMIT = 200_000_000
SMALL: dict[str, Any] = {"n_estimators": 4, "max_leaves": 16, "min_samples_leaf": 2}


def trained(data: Dataset, stops: bool = False, **params: Any) -> bytes:
    """Return the bytes of a model, whose early stopping sets rows aside if it ``stops``."""
    params = {**SMALL, "early_stopping": stops, **params}
    return train(params, data).to_bytes()


def memory_of(table: pa.Table, **more: Any) -> Dataset:
    weight = table["w"].to_numpy() if "w" in table.column_names else None
    aside = [name for name in ("y", "w") if name in table.column_names]
    return Dataset(table.drop_columns(aside), table["y"].to_numpy(), weight, **more)


def from_files(paths: Any, tmp_path: Path, **more: Any) -> FileDataset:
    return Dataset.from_files(paths, "y", cache_dir=tmp_path, memory_limit=LIMIT, **more)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrow", ".arrows"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("stops", [False, True])
def test_all_kinds_of_columns(
    suffix: str, weighted: bool, stops: bool, tmp_path: Path, cache: Path
) -> None:
    table = all_kinds(900)
    if not weighted:
        table = table.drop_columns(["w"])
    rows = 137 if suffix != ".feather" else 900
    files = [
        write(part, tmp_path / f"part-{place}{suffix}", rows)
        for place, part in enumerate(split(table, [100, 100, 555]))
    ]
    if suffix == ".parquet":  # the format keeps dictionaries of text only
        place = table.column_names.index("number_dict")
        plain = table["number_dict"].combine_chunks().dictionary_decode()
        table = table.set_column(place, "number_dict", plain)
    data = from_files(files, cache, weight="w" if weighted else None)
    assert trained(data, stops, max_bins=40) == trained(memory_of(table), stops, max_bins=40)


@pytest.mark.parametrize("frames", ["pandas", "polars", "arrow", "stream", "dict"])
def test_batches_of_frames(frames: str, cache: Path) -> None:
    table = all_kinds(700).drop_columns(["time", "money", "nothing", "w"])
    if frames == "dict":
        table = table.select(["f64", "f32", "i8", "i64", "text", "y"])
    make: dict[str, Callable[[pa.Table], Any]] = {
        "pandas": lambda part: part.to_pandas(),
        "polars": lambda part: pl.from_arrow(part),
        "arrow": lambda part: part.to_batches()[0],
        "stream": lambda part: part,
        "dict": lambda part: {n: part[n].to_numpy(zero_copy_only=False) for n in part.column_names},
    }
    parts = split(table, [1, 77, 300])

    def batches() -> Any:
        return table if frames == "stream" else (make[frames](part) for part in parts)

    data = Dataset.from_batches(batches, "y", cache_dir=cache, memory_limit=LIMIT)
    X: Any = table.drop_columns(["y"])
    if frames in ("pandas", "polars", "dict"):
        X = make[frames](X)
    assert trained(data, True) == trained(Dataset(X, table["y"].to_numpy()), True)


def test_groups_without_held_out_rows_are_refused(cache: Path) -> None:
    table = simple(60).append_column("house", pa.array(np.arange(60) // 3))
    data = Dataset.from_batches(lambda: iter([table]), "y", groups="house", cache_dir=cache)
    for stops in (False, "auto"):
        with pytest.raises(ParameterError, match="groups has no effect here"):
            train({"n_estimators": 2, "early_stopping": stops}, data)


@pytest.mark.parametrize("role", [{}, {"weight": "w"}, {"offset": "w"}])
@pytest.mark.parametrize("stops", [False, True])
def test_batches_of_frames_are_fitted_twice(role: dict[str, str], stops: bool, cache: Path) -> None:
    """The second survey reads only the columns that are not features."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    table = pl.DataFrame(X, schema=list("abc")).with_columns(y=pl.col("a"), w=1.0)

    def batches() -> Iterator[pl.DataFrame]:
        for start in range(0, 300, 100):
            yield table[start : start + 100]

    data = Dataset.from_batches(batches, target="y", cache_dir=cache, **role)
    params = {"n_estimators": 3, "early_stopping": stops}
    first = train(params, data).to_bytes()
    assert train(params, data).to_bytes() == first


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int16])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_batches_of_arrays(dtype: Any, is_sparse: bool, cache: Path) -> None:
    rng = np.random.default_rng(1)
    X: Any = (rng.integers(-3, 4, (500, 6)) * (rng.random((500, 6)) < 0.4)).astype(dtype)
    y, weight = rng.normal(size=500), rng.choice([0.0, 1.0, 3.0], 500)
    X = csr_array(X) if is_sparse else X
    edges = [0, 3, 200, 200, 500]

    def batches() -> Any:
        for a, b in itertools.pairwise(edges):
            yield X[a:b], y[a:b], weight[a:b]

    data = Dataset.from_batches(batches, cache_dir=cache, memory_limit=LIMIT)
    assert trained(data, True) == trained(Dataset(X, y, weight), True)


def test_named_columns_of_unnamed_batches(cache: Path) -> None:
    X = np.arange(60.0).reshape(20, 3)
    data = Dataset.from_batches(
        lambda: iter([(X[:7], X[:7, 0]), (X[7:], X[7:, 0])]),
        feature_names=["p", "q", "r"],
        categorical_features=["q"],
        cache_dir=cache,
        memory_limit=LIMIT,
    )
    names = {"feature_names": ["p", "q", "r"], "categorical_features": ["q"]}
    assert trained(data) == trained(Dataset(X, X[:, 0], **names))


def test_levels_of_training_rows_only(tmp_path: Path, cache: Path) -> None:
    """A category is unknown if only validation rows or rows of weight 0 have it."""
    n_rows = 60
    names = np.array([f"level {row}" for row in range(n_rows)])
    weight = np.where(np.arange(n_rows) % 7 == 0, 0.0, 1.0)
    table = pa.table({"c": names, "y": np.arange(n_rows) * 1.0, "w": weight})
    path = write(table, tmp_path / "a.parquet", 11)
    for unknown in ("missing", "error"):
        data = from_files(path, cache, weight="w", unknown_category=unknown)
        expected = memory_of(table, unknown_category=unknown)
        assert trained(data, True) == trained(expected, True)


def test_partitioned_folder(tmp_path: Path, cache: Path) -> None:
    table = simple(300)
    root = tmp_path / "data"
    parts = split(table, [50, 120, 200])
    named = []
    for part, (year, town) in zip(
        parts,
        [("2020", "Ulm"), ("2020", "a=b"), ("2021", "Ulm"), ("__HIVE_DEFAULT_PARTITION__", "")],
        strict=True,
    ):
        folder = root / f"year={year}" / f"town={town.replace('=', '%3D') or 'none'}"
        folder.mkdir(parents=True)
        write(part, folder / "x.parquet", 33)
        years = pa.array([None if not year.isdigit() else int(year)] * len(part), pa.int32())
        towns = pa.array([town or "none"] * len(part))
        part = part.append_column("year", years.dictionary_encode())
        named.append(part.append_column("town", towns.dictionary_encode()))
    (root / "_SUCCESS").write_text("")
    whole = pa.concat_tables(named).unify_dictionaries()
    assert trained(from_files(root, cache)) == trained(memory_of(whole))


def test_order_and_choice_of_columns(tmp_path: Path, cache: Path) -> None:
    table = simple(200)
    first, second = split(table, [90])
    files = [
        write(first, tmp_path / "a.parquet"),
        write(
            second.select(["y", "c", "b", "a"]).append_column("z", pa.nulls(110)),
            tmp_path / "b.parquet",
        ),
    ]
    with pytest.raises(DataError, match=r"b\.parquet has a column 'z', which .*a\.parquet lacks"):
        from_files(files, cache)
    found = trained(from_files(files, cache, drop=["z"]), max_bins=9)
    assert found == trained(memory_of(table), max_bins=9)
    data = from_files(files, cache, features=["c", "a"])
    assert data.feature_names == ("c", "a")
    assert trained(data) == trained(memory_of(table.select(["c", "a", "y"])))
    with pytest.raises(DataError, match=r"a\.parquet has no column 'z'"):
        from_files(files[::-1], cache)


COLUMNS: list[tuple[str, Sequence[Any], Sequence[Any], Any]] = [
    ("small and wide integers", pa.array([1, 2], pa.int32()), pa.array([2**60, 3]), pa.int64()),
    ("integers and floats", pa.array([1, 2**53]), pa.array([0.5, None]), pa.float64()),
    ("nulls first", pa.nulls(2), pa.array(["a", None]), pa.string()),
    ("nulls last", pa.array([2**60, 7]), pa.nulls(2), pa.int64()),
    (
        "text and dictionary",
        pa.array(["b", "a"]),
        pa.array(["c", "b"]).dictionary_encode(),
        pa.string(),
    ),
    ("floats", pa.array([0.5, 1.5], pa.float32()), pa.array([0.1, 2.5]), pa.float64()),
    (
        "days and times",
        pa.array([1, 2], pa.date32()),
        pa.array([5, 6], pa.timestamp("us")),
        pa.timestamp("us"),
    ),
    ("unused text", pa.array([None, None], pa.string()), pa.array([1.0, 2.0]), pa.float64()),
]


@pytest.mark.parametrize(
    ("first", "second", "kind"), [row[1:] for row in COLUMNS], ids=[row[0] for row in COLUMNS]
)
def test_types_that_differ_between_files(
    first: pa.Array, second: pa.Array, kind: Any, tmp_path: Path, cache: Path
) -> None:
    y = [1.0, 2.0, 3.0, 4.0]
    other = [4.0, 3.0, 2.0, 1.0]
    files = [
        write(pa.table({"x": first, "o": other[:2], "y": y[:2]}), tmp_path / "a.parquet"),
        write(pa.table({"x": second, "o": other[2:], "y": y[2:]}), tmp_path / "b.parquet"),
    ]
    whole = pa.concat_arrays(
        [
            (part.cast(kind) if not pa.types.is_dictionary(part.type) else part.dictionary_decode())
            for part in (first, second)
        ]
    )
    expected = memory_of(pa.table({"x": whole, "o": other, "y": y}))
    few = {"min_samples_leaf": 1, "min_data_per_group": 1, "min_child_weight": 0.0}
    assert trained(from_files(files, cache), **few) == trained(expected, **few)


WRONG: list[tuple[Any, Any, type[Exception], str]] = [
    (
        pa.array(["a", "b"]),
        pa.array([1.0, 2.0]),
        DataTypeError,
        r"'x' holds text in .*a\.parquet \(string\), but numbers in .*b\.parquet \(double\)",
    ),
    (
        pa.array([2**53 + 1, 1]),
        pa.array([0.5, 1.5]),
        DataError,
        r"column 'x' holds the integer 9007199254740993 in .*a\.parquet \(int64\).*double",
    ),
    (pa.array([1, 2], pa.date32()), pa.array([1, 2]), DataTypeError, "holds dates in .* numbers"),
    (
        pa.array([1, 2]).dictionary_encode(),
        pa.array([1, 2]),
        DataTypeError,
        "holds categories of numbers in .* but numbers in",
    ),
    (pa.array([[1], [2]]), pa.array([[1], [2]]), DataTypeError, r"a\.parquet.*column 'x'"),
]


@pytest.mark.parametrize(("first", "second", "error", "match"), WRONG)
def test_types_that_cannot_be_one(
    first: Any, second: Any, error: type[Exception], match: str, tmp_path: Path, cache: Path
) -> None:
    suffix = "feather" if "categories" in match else "parquet"
    files = [
        write(pa.table({"x": part, "y": [1.0, 2.0]}), tmp_path / f"{name}.{suffix}")
        for name, part in (("a", first), ("b", second))
    ]
    with pytest.raises(error, match=match):
        trained(from_files(files, cache))
    if "categories" in match:
        named = from_files(files, cache, categorical_features=["x"])
        assert train(SMALL, named).model.schema.columns[0].levels == (1, 2)


# ---- bad input -----------------------------------------------------------------------


def test_bad_paths(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    write(simple(5), tmp_path / "good.parquet")
    for path, error, match in (
        (tmp_path / "god.parquet", StorageError, "no such file or folder. Did you mean 'good.par"),
        (tmp_path / "*.csv", DataError, "no file matches"),
        (tmp_path / "empty", DataError, "holds no files"),
        (tmp_path / "notes.txt", ParameterError, "unknown kind of file; known endings: .parquet"),
        ([], DataError, "no files are given"),
        ([tmp_path / "good.parquet"] * 2, DataError, "given twice"),
        (3, ParameterError, "paths must be a path"),
        ([3], ParameterError, "a path must be text"),
    ):
        with pytest.raises(error, match=match):
            from_files(path, cache)


def test_bad_columns(tmp_path: Path, cache: Path) -> None:
    path = write(simple(5), tmp_path / "good.parquet")
    limits = {"cache_dir": cache, "memory_limit": LIMIT}
    for arguments, error, match in (
        ({"target": "why"}, DataError, r"no column 'why' \(target\)"),
        ({"target": None}, ParameterError, "say which one is the target"),
        ({"target": "y", "weight": "w"}, DataError, r"no column 'w' \(weight\)"),
        ({"target": "y", "drop": ["a", "b", "c"]}, DataError, "no column is left"),
        ({"target": "y", "drop": ["a", "a"]}, ParameterError, "'a' twice"),
        ({"target": "y", "features": ["y"]}, ParameterError, "two roles"),
        ({"target": "y", "features": []}, ParameterError, "features is empty"),
        ({"target": 3}, ParameterError, "target must be the name of a column"),
    ):
        with pytest.raises(error, match=match):
            Dataset.from_files(path, **arguments, **limits)
    for target, match in (
        ("c", r"good\.parquet.*'c' has type string, but must hold numbers"),
        ("b", r"good\.parquet.*Input y contains NaN"),
    ):
        table = simple(50)
        write(table, tmp_path / "good.parquet")
        with pytest.raises((DataError, DataTypeError), match=match):
            trained(Dataset.from_files(path, target, **limits))


def test_bad_weights_and_rows(tmp_path: Path, cache: Path) -> None:
    def table(weight: Sequence[float]) -> Path:
        n = len(weight)
        columns = {"a": np.arange(n), "y": np.arange(n) * 1.0, "w": pa.array(weight, pa.float64())}
        return write(pa.table(columns), tmp_path / "w.parquet")

    for weight, match in (
        ([1.0, -2.0], r"w\.parquet.*must not be negative"),
        ([1.0, np.nan], "contains NaN"),
        ([0.0, 0.0], "weight is zero in all rows"),
        ([], "the data have no rows|weight is zero"),
    ):
        with pytest.raises(DataError, match=match):
            trained(from_files(table(weight), cache, weight="w"))


def test_bad_limits(tmp_path: Path, cache: Path) -> None:
    path = write(simple(5), tmp_path / "good.parquet")
    for arguments, error, match in (
        ({"memory_limit": "2 parrots"}, ParameterError, "memory_limit must be a positive number"),
        ({"memory_limit": 0}, ParameterError, "memory_limit must be a positive number"),
        ({"memory_limit": "1 MB"}, ParameterError, "too small: give at least 32 MB"),
        ({"cache_dir": path}, StorageError, "is not a folder and cannot be created"),
        ({"cache_dir": []}, ParameterError, "cache_dir must be a folder"),
        ({"cache_dir": 3}, ParameterError, "cache_dir must be a folder"),
    ):
        with pytest.raises(error, match=match):
            Dataset.from_files(path, "y", **arguments)


def test_changed_files(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(simple(50), tmp_path / "a.parquet")
    survey = FileDataset.survey

    def survey_and_change(self: Any, *given: Any) -> None:
        survey(self, *given)
        write(simple(51), path)

    monkeypatch.setattr(FileDataset, "survey", survey_and_change)
    with pytest.raises(StorageError, match=r"a\.parquet has changed since this training began"):
        trained(from_files(path, cache))
    assert list(cache.iterdir()) == []


def test_unreadable_files(tmp_path: Path, cache: Path) -> None:
    path = write(simple(5000), tmp_path / "a.parquet", 500)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StorageError, match=r"a\.parquet cannot be read as Parquet"):
        from_files(path, cache)
    damaged = bytearray(whole)
    damaged[len(whole) // 3 : len(whole) // 2] = b"\xff" * (len(whole) // 2 - len(whole) // 3)
    path.write_bytes(damaged)
    with pytest.raises(StorageError, match=r"a\.parquet"):
        trained(from_files(path, cache))
    assert list(cache.iterdir()) == []


def test_functions_that_give_other_rows(cache: Path) -> None:
    calls = []

    def batches() -> Any:
        calls.append(1)
        n = 20 + (len(calls) > 1)
        yield np.arange(n * 2.0).reshape(n, 2), np.arange(n * 1.0)

    with pytest.raises(StorageError, match="gave 20 rows when it was called first, now 21"):
        trained(Dataset.from_batches(batches, cache_dir=cache, memory_limit=LIMIT))

    rng = np.random.default_rng(0)

    def shuffled() -> Any:
        y = rng.permutation(np.arange(20.0))
        yield y[:, None], y

    with pytest.raises(StorageError, match="returned other targets, or another order"):
        trained(Dataset.from_batches(shuffled, cache_dir=cache, memory_limit=LIMIT))
    for wrong, match in (
        (iter([]), "a function that gives a new iterator"),
        (lambda: 3, "it gave int"),
        (lambda: [(np.ones((3, 1)), np.ones(2))], "batch 0: y has 2 values for 3"),
        (lambda: [pl.DataFrame({"a": [1.0]})], "contain no target"),
        (list, "the data have no rows"),
    ):
        with pytest.raises((DataError, DataTypeError, ParameterError), match=match):
            trained(Dataset.from_batches(wrong, cache_dir=cache, memory_limit=LIMIT))  # type: ignore[arg-type]


def test_rows_in_files_are_no_table(tmp_path: Path, cache: Path) -> None:
    data = from_files(write(simple(5), tmp_path / "a.parquet"), cache)
    with pytest.raises(DataError, match="not held in memory"):
        data.table()


def test_folders_for_chunks_are_made(tmp_path: Path) -> None:
    made = tmp_path / "not" / "there"
    rows = {"a": list(range(100)), "y": list(range(100))}
    data = Dataset.from_batches(lambda: iter([rows]), "y", cache_dir=[made, tmp_path / "other"])
    assert made.is_dir()
    assert (tmp_path / "other").is_dir()
    assert train({"n_estimators": 2, "early_stopping": False}, data).num_rounds == 2
    (tmp_path / "file").write_text("")
    for wrong in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match=r"is not a folder and cannot be created: .* Name "):
            Dataset.from_batches(lambda: iter([rows]), "y", cache_dir=wrong)
