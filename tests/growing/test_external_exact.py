"""Exact growth on columns on disk gives the bytes of exact growth in memory."""

from __future__ import annotations

import contextlib
import errno
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hedgerow.data import read_table
from hedgerow.data.external import column_files
from hedgerow.data.external.block_files import BlockFile
from hedgerow.data.external.blocks import ROW_BITS, sort_columns
from hedgerow.data.external.column_files import ColumnFiles, sort_to_files
from hedgerow.errors import DataError, ParameterError, StorageError
from hedgerow.growing.core.setup import Fit
from hedgerow.growing.exact.external import ExternalExactGrower
from hedgerow.growing.exact.grower import ExactGrower
from hedgerow.kernels.presorted.entries import merge_runs, pack_entries, unpack_entries
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from tests.helpers.examples import examples

FIELDS = (
    "feature", "threshold", "missing_left", "left", "right", "value", "gain", "cover", "count",
)  # fmt: skip


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make many pieces of little data, and many runs to merge."""
    monkeypatch.setattr(column_files, "PIECE", 40)
    monkeypatch.setattr(column_files, "_RUN_PART", 7)
    monkeypatch.setattr(column_files, "LEAST_MEMORY", 1)


FEW = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@contextlib.contextmanager
def stored(X: np.ndarray, folders: list[Path], limit: int, n_batches: int = 3) -> Any:
    schema = read_table(X).schema
    parts = (read_table(part, schema) for part in np.array_split(X, n_batches) if len(part))
    columns = sort_to_files(parts, folders, limit, n_threads=2)
    try:
        yield columns
    finally:
        columns.close()


def make_table(seed: int, n_rows: int, kind: str, missing: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind == "int":
        return rng.integers(-(2**60), 2**60, (n_rows, 4)) // rng.integers(1, 2**59, 4)
    X = rng.normal(size=(n_rows, 4))
    X[:, 1] = np.floor(3 * X[:, 1])
    X[:, 2] = np.where(X[:, 2] > 0, 0.0, -0.0)
    X[rng.random(X.shape) < missing] = np.nan
    X[rng.random(n_rows) < 0.05, 3] = math.inf
    return X.astype(np.float32) if kind == "float32" else X


# ---- kernels -------------------------------------------------------------------


@FEW
@given(
    rows=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=70),
    more=st.integers(0, 5),
    seed=st.integers(0, 9),
)
def test_packing_entries(rows: list[int], more: int, seed: int) -> None:
    bits = min(32, max(max(rows).bit_length(), 1) + 1 + more)
    runs = np.random.default_rng(seed).integers(0, 2, len(rows)).astype(np.uint32) << np.uint32(31)
    entries = np.array(rows, dtype=np.uint32) | runs
    words = np.zeros(-(-len(rows) * bits // 64) + 1, dtype=np.uint64)
    pack_entries(entries, len(rows), bits, words)
    naive = sum(
        ((int(e) & (2**31 - 1)) | (int(e) >> 31 << (bits - 1))) << (bits * i)
        for i, e in enumerate(entries)
    )
    assert sum(int(word) << (64 * k) for k, word in enumerate(words)) == naive
    back = np.zeros(len(rows), dtype=np.uint32)
    unpack_entries(words, len(rows), bits, back)
    np.testing.assert_array_equal(back, entries)


@FEW
@given(st.lists(st.lists(st.integers(-3, 3), max_size=9), min_size=1, max_size=5))
def test_merging_runs(runs: list[list[int]]) -> None:
    width = max(map(len, runs)) or 1
    keys = np.zeros((len(runs), width), dtype=np.int64)
    rows = np.zeros((len(runs), width), dtype=np.uint32)
    row, expected = 0, []
    for r, run in enumerate(runs):
        keys[r, : len(run)] = sorted(run)
        rows[r, : len(run)] = np.arange(row, row + len(run))
        expected += [(key, row + k) for k, key in enumerate(sorted(run))]
        row += len(run)
    at, count = np.zeros(len(runs), np.int64), np.array(list(map(len, runs)), np.int64)
    live = (count > 0).astype(np.uint8)
    found: list[tuple[int, int]] = []
    out_keys, out_rows = np.zeros(4, np.int64), np.zeros(4, np.uint32)
    while live.any():
        n = merge_runs(keys, rows, at, count, live, out_keys, out_rows)
        found += zip(out_keys[:n].tolist(), out_rows[:n].tolist(), strict=True)
        live &= (at < count).astype(np.uint8)
    assert found == sorted(expected)


# ---- columns on disk -----------------------------------------------------------


@FEW
@given(
    seed=st.integers(0, 99),
    n_rows=st.integers(1, 300),
    kind=st.sampled_from(["float64", "float32", "int"]),
    missing=st.sampled_from([0.0, 0.3, 1.0]),
    limit=st.sampled_from([1, 5_000, 10**9]),
    n_folders=st.integers(1, 3),
    n_batches=st.integers(1, 5),
)
def test_columns_on_disk_are_those_in_memory(
    seed: int,
    n_rows: int,
    kind: str,
    missing: float,
    limit: int,
    n_folders: int,
    n_batches: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    X = make_table(seed, n_rows, kind, missing)
    blocks = sort_columns(read_table(X))
    folders = [tmp_path_factory.mktemp("columns") for _ in range(n_folders)]
    limit = max(limit, 1500)
    with stored(X, folders, limit, n_batches) as columns:
        assert (columns.n_rows, columns.dtype) == (n_rows, read_table(X).values.dtype)
        for j in range(4):
            read = [columns.read(j, k) for k in range(len(columns.pieces[j]))]
            found = np.concatenate([np.zeros(0, np.uint32), *(piece[:-64] for piece in read)])
            expected = blocks.entries[blocks.starts[j] : blocks.starts[j + 1]]
            np.testing.assert_array_equal(found, expected)
            assert columns.length(j) == len(expected)
            runs = np.cumsum(found >> np.uint32(31)).astype(np.int64)
            values = X[found & ROW_BITS, j]
            keys = values if kind == "int" else keys_of_floats(values)
            np.testing.assert_array_equal(columns.keys(j, runs[::-1]), keys[::-1])
    assert all(not os.listdir(folder) for folder in folders)


def test_pieces_are_smaller_than_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_files, "PIECE", 1 << 12)
    X = np.random.default_rng(0).normal(size=(20_000, 2))
    X[:, 1] = np.floor(2 * X[:, 1])
    with stored(X, [tmp_path], 10**9) as columns:
        sizes = [sum(p.entries.size for p in pieces) / 80_000 for pieces in columns.pieces]
        assert sizes[0] < 0.52  # 16 of 32 bits
        assert sizes[1] < 0.4


# ---- trees ---------------------------------------------------------------------


def grow(grower_of: Any, y: np.ndarray, loss: Any, weight: Any, n_rounds: int) -> Any:
    raw = np.repeat(loss.initial_score(y, weight)[:, None], len(y), axis=1)
    trees = []
    with contextlib.closing(grower_of(raw)) as grower:
        for number in range(n_rounds * loss.n_outputs):
            tree = grower.grow(number, number % loss.n_outputs)
            trees.append([getattr(tree, name) for name in FIELDS])
            trees[-1] += [part.copy() for part in grower.leaf_segments()]
            trees[-1].append(grower.rows_outside().copy())
            trees[-1].append(np.array(grower.row_weights(trees[-1][len(FIELDS)]), float))
    return trees, raw


def check_same(
    X: np.ndarray,
    y: np.ndarray,
    params: BoostParams,
    folders: list[Path],
    objective: Any = "squared_error",
    weight: np.ndarray | None = None,
    limit: int = 3000,
    memory_limit: int | None = None,
) -> np.ndarray:
    """Compare trees, and raw scores; return the scores."""
    loss = make_objective(objective) if isinstance(objective, str) else objective
    blocks = sort_columns(read_table(X))
    expected, raw = grow(
        lambda raw: ExactGrower(blocks, Fit(y, weight, raw, loss, params, 1)), y, loss, weight, 2
    )
    with stored(X, folders, limit) as columns:
        for n_threads in (1, 2):
            found, raw_found = grow(
                lambda raw, n=n_threads: ExternalExactGrower(
                    columns, Fit(y, weight, raw, loss, params, n), memory_limit=memory_limit
                ),
                y,
                loss,
                weight,
                2,
            )
            for tree, other in zip(expected, found, strict=True):
                for a, b in zip(tree, other, strict=True):
                    assert (a.dtype, a.shape) == (b.dtype, b.shape)
                    assert a.tobytes() == b.tobytes()
            assert raw.tobytes() == raw_found.tobytes()
    return raw


SETTINGS = st.fixed_dictionaries(
    {
        "min_samples_leaf": st.sampled_from([1, 2, 9, 200]),
        "max_leaves": st.sampled_from([2, 7, 31, 400]),
        "grow_policy": st.sampled_from(["leafwise", "depthwise"]),
    },
    optional={
        "max_depth": st.integers(1, 6),
        "reg_lambda": st.sampled_from([0.0, 20.0]),
        "reg_alpha": st.just(0.5),
        "gamma": st.just(0.1),
        "max_delta_step": st.just(0.3),
        "min_child_weight": st.just(12.0),
        "subsample": st.sampled_from([0.02, 0.6]),
        "colsample_bytree": st.just(0.5),
        "colsample_bylevel": st.just(0.5),
        "colsample_bynode": st.just(0.5),
        "seed": st.integers(0, 9),
    },
)


class Rows(NamedTuple):
    """The parameters of a random table."""

    seed: int
    n_rows: int
    kind: str
    missing: float
    objective: str
    weighted: bool


ROWS = st.builds(
    Rows,
    seed=st.integers(0, 99),
    n_rows=st.integers(2, 260),
    kind=st.sampled_from(["float64", "float32", "int"]),
    missing=st.sampled_from([0.0, 0.3]),
    objective=st.sampled_from(["squared_error", "logistic", "softmax"]),
    weighted=st.booleans(),
)


def check_rows(rows: Rows, params: BoostParams, folders: pytest.TempPathFactory) -> None:
    """Grow trees on rows in memory, and on one or two folders, and compare them."""
    X = make_table(rows.seed, rows.n_rows, rows.kind, rows.missing)
    rng = np.random.default_rng(rows.seed)
    y = np.nan_to_num(X[:, 0] / (1.0 + np.abs(X[:, 0]))) + 0.3 * rng.normal(size=rows.n_rows)
    loss: Any = rows.objective
    if rows.objective == "logistic":
        y = (y > 0).astype(float)
        y[:2] = 0, 1
    if rows.objective == "softmax":
        y = np.digitize(y, (-0.2, 0.3)).astype(float)
        loss = make_objective("softmax", 3)
    weight = rng.uniform(0.2, 3.0, rows.n_rows) if rows.weighted else None
    made = [folders.mktemp("columns") for _ in range(1 + rows.seed % 2)]
    check_same(X, y, params, made, loss, weight)


@settings(FEW, max_examples=examples(60))
@given(params=SETTINGS, rows=ROWS)
def test_trees_are_those_of_growth_in_memory(
    params: dict[str, Any], rows: Rows, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_rows(rows, BoostParams(tree_method="exact", **params), tmp_path_factory)


APPROXIMATE = st.fixed_dictionaries(
    {
        "tree_method": st.just("approx"),
        "sketch": st.sampled_from(["global", "local"]),
        "sketch_eps": st.sampled_from([1e-9, 0.02, 0.1, 0.4, 0.95]),
    }
)
METHODS = st.just({"tree_method": "exact"}) | APPROXIMATE


@settings(FEW, max_examples=examples(120))
@given(params=SETTINGS, method=APPROXIMATE, rows=ROWS)
def test_approximate_trees_are_those_of_growth_in_memory(
    params: dict[str, Any],
    method: dict[str, Any],
    rows: Rows,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    check_rows(rows, BoostParams(**params, **method), tmp_path_factory)


ORDERED = st.fixed_dictionaries(
    {"monotone_constraints": st.tuples(*[st.sampled_from([-1, 0, 1])] * 4)},
    optional={"monotone_penalty": st.sampled_from([0.5, 1.7])},
)
WEIGHTED = st.sampled_from([{}, {"feature_weights": (1.0, 0.0, 3.0, 0.5), "colsample_bynode": 0.6}])
CONSTRAINTS = st.fixed_dictionaries(
    {},
    optional={
        "feature_penalties": st.tuples(*[st.sampled_from([0.0, 0.4, 1.0])] * 4),
        "interaction_constraints": st.sampled_from(
            ["no_interactions", "pairwise", ((0, 1), (1, 2), (3,)), ((0, 3), (1, 2))]
        ),
        "path_smooth": st.sampled_from([0.7, 40.0]),
    },
)


@settings(FEW, max_examples=examples(80))
@given(
    params=SETTINGS,
    method=METHODS,
    constraints=CONSTRAINTS,
    ordered=st.just({}) | ORDERED,
    weighted=WEIGHTED,
    rows=ROWS,
)
def test_constrained_trees_are_those_of_growth_in_memory(
    params: dict[str, Any],
    method: dict[str, Any],
    constraints: dict[str, Any],
    ordered: dict[str, Any],
    weighted: dict[str, Any],
    rows: Rows,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    chosen = {**params, **method, **constraints, **ordered, **weighted}
    check_rows(rows, BoostParams(**chosen), tmp_path_factory)


def test_options_have_an_effect(tmp_path: Path) -> None:
    """Options that change no tree would make the other tests meaningless."""
    X = make_table(5, 400, "float64", 0.2)
    y = np.sin(3 * np.nan_to_num(X[:, 0])) + np.nan_to_num(X[:, 1])
    found = {check_same(X, y, BoostParams(tree_method="exact"), [tmp_path]).tobytes()}
    for options in (
        {"tree_method": "approx", "sketch_eps": 0.1},
        {"tree_method": "approx", "sketch_eps": 0.1, "sketch": "local"},
        {"monotone_constraints": (1, -1, 0, 0)},
        {"feature_penalties": (0.01, 1.0, 1.0, 1.0)},
        {"interaction_constraints": ((0,), (1, 2, 3))},
        {"path_smooth": 5.0},
    ):
        chosen = {"tree_method": "exact", **options}
        raw = check_same(X, y, BoostParams(**chosen), [tmp_path])
        assert raw.tobytes() not in found
        found.add(raw.tobytes())


SAMPLES = st.one_of(
    st.fixed_dictionaries(
        {
            "sampling": st.just("goss"),
            "goss_top_rate": st.sampled_from([0.0, 0.1, 0.6]),
            "goss_other_rate": st.sampled_from([0.05, 0.4]),
        }
    ),
    st.fixed_dictionaries(
        {"sampling": st.just("mvs"), "subsample": st.sampled_from([0.02, 0.3, 0.9])}
    ),
)


@settings(FEW, max_examples=examples(80))
@given(
    params=SETTINGS,
    method=METHODS,
    sample=SAMPLES,
    ordered=st.just({}) | ORDERED,
    leaves=st.sampled_from(["auto", "line_search", "gradient"]),
    rows=ROWS,
)
def test_trees_of_samples_by_gradients_are_those_of_growth_in_memory(
    params: dict[str, Any],
    method: dict[str, Any],
    sample: dict[str, Any],
    ordered: dict[str, Any],
    leaves: str,
    rows: Rows,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    params = {name: value for name, value in params.items() if name != "subsample"}
    chosen = {"leaf_estimation": leaves, **params, **method, **sample, **ordered}
    check_rows(rows, BoostParams(**chosen), tmp_path_factory)


@pytest.mark.parametrize("memory_limit", [None, 1000])
@pytest.mark.parametrize("sampling", ["goss", "mvs"])
def test_weights_of_sampled_rows(sampling: str, memory_limit: int | None, tmp_path: Path) -> None:
    X = make_table(3, 300, "float64", 0.2)
    y = np.exp(2 * np.nan_to_num(X[:, 0]))
    subsample = {"subsample": 0.4} if sampling == "mvs" else {}
    params = BoostParams(
        tree_method="exact", sampling=sampling, leaf_estimation="line_search", **subsample
    )
    check_same(X, y, params, [tmp_path], memory_limit=memory_limit)
    loss, raw = make_objective("squared_error"), np.zeros((1, 300))
    with stored(X, [tmp_path], 3000) as columns:
        grower = ExternalExactGrower(columns, Fit(y, None, raw, loss, params, 1))
        with contextlib.closing(grower):
            grower.grow(0, 0)
            weights = grower.row_weights(grower.leaf_segments()[0])
            assert weights is not None
            assert len(np.unique(weights)) > 1
            assert len(weights) + len(grower.rows_outside()) == 300


def test_rows_in_a_mapped_file(tmp_path: Path) -> None:
    X = make_table(3, 300, "float64", 0.2)
    params = BoostParams(tree_method="exact", min_samples_leaf=2)
    check_same(X, np.nan_to_num(X[:, 0]), params, [tmp_path], memory_limit=1000)


def test_little_room_for_nodes_that_may_not_be_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = make_table(4, 300, "float64", 0.2)
    y = np.exp(3 * np.nan_to_num(X[:, 0]))
    for spare, most in ((1, 4096), (2, 3), (1, 1)):
        monkeypatch.setattr("hedgerow.growing.exact.external._SPARE", spare)
        monkeypatch.setattr("hedgerow.growing.exact.external._MOST_NODES", most)
        params = BoostParams(tree_method="exact", min_samples_leaf=1, max_leaves=40)
        check_same(X, y, params, [tmp_path])


# ---- what goes wrong -----------------------------------------------------------


def test_tables_that_cannot_be_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = read_table({"city": ["a", "b"], "size": [1.0, 2.0]})
    with pytest.raises(DataError, match="'city' holds categories"):
        sort_to_files([names], [tmp_path], 10**6)
    with pytest.raises(DataError, match="no rows"):
        sort_to_files([], [tmp_path], 10**6)
    first, other = read_table(np.ones((3, 2))), read_table(np.ones((3, 3)))
    with pytest.raises(DataError, match="one schema"):
        sort_to_files([first, other], [tmp_path], 10**6)
    with pytest.raises(ParameterError, match="folders is empty"):
        sort_to_files([first], [], 10**6)
    monkeypatch.setattr(column_files, "_MOST_ROWS", 6)
    with pytest.raises(DataError, match="more than 5 rows"):
        sort_to_files([first, first], [tmp_path], 10**6)
    monkeypatch.setattr(column_files, "LEAST_MEMORY", 4 << 20)
    with pytest.raises(ParameterError, match="memory_limit must be at least 4194304"):
        sort_to_files([first], [tmp_path], 1000)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = make_table(0, 200, "float64", 0.2)
    append, calls = BlockFile.append, [0]

    def failing(self: BlockFile, data: Any, codec: int = 0) -> Any:
        calls[0] += 1
        if calls[0] == at:
            raise StorageError(errno.ENOSPC, "cannot write: no space left")
        return append(self, data, codec)

    monkeypatch.setattr(BlockFile, "append", failing)
    for at in (1, 20, 130):
        calls[0] = 0
        with pytest.raises(StorageError), stored(X, [tmp_path], 3000):
            pass
        assert calls[0] >= at
        assert os.listdir(tmp_path) == []


def test_changed_pieces_are_noticed(tmp_path: Path) -> None:
    X = make_table(0, 400, "float64", 0.0)
    params, loss = BoostParams(tree_method="exact"), make_objective("squared_error")
    with stored(X, [tmp_path], 10**6) as columns:
        columns_of: ColumnFiles = columns
        path = Path(columns_of.scratch_folder) / "columns"
        data = bytearray(path.read_bytes())
        data[columns_of.pieces[2][3].entries.offset + 5] ^= 1
        path.write_bytes(data)
        grower = ExternalExactGrower(
            columns_of, Fit(X[:, 0], None, np.zeros((1, 400)), loss, params, 2)
        )
        with contextlib.closing(grower), pytest.raises(StorageError, match="wrong checksum"):
            grower.grow(0, 0)
