"""Raw scores computed on a GPU have the bits of those of the processor.

The kernels run as Python functions, thread by thread.  The tests at the end need a GPU.
"""

from __future__ import annotations

import gc
import pickle
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import Booster, Dataset, HedgerowClassifier, HedgerowRegressor, train
from hedgerow.cuda import arrays, device, driver
from hedgerow.cuda.arrays import gpu_array
from hedgerow.data.schema import Column, Schema
from hedgerow.errors import DataError, DeviceError
from hedgerow.model import gpu_scores
from hedgerow.model.forest import NODE_FIELDS, CategoryTables, Forest
from hedgerow.model.model import Model
from tests.helpers.gpu_arrays import GpuDriver, OnGpu
from tests.helpers.random_forests import random_tree
from tests.helpers.simulated_gpu import SimulatedGpu

Array = np.ndarray[Any, Any]
VALUES = np.array([0.0, -0.0, 1.5, -2.25, 0.1, 1e-45, 3e38, np.inf, -np.inf, np.nan, 1 / 3, 7, 2])
LEVELS = ((-3, 0, 2, 7), (-2.25, 1 / 3, 1.5), tuple(range(300)))
_DTYPES = {"feature": np.int32, "left": np.int32, "right": np.int32, "missing_left": np.uint8}
_REAL = ("value", "gain", "cover")


class Setting:
    """A simulated GPU, its driver, and the patches that put them in place."""

    def __init__(self, patch: pytest.MonkeyPatch, **options: Any) -> None:
        self.driver, self.gpu = GpuDriver(), SimulatedGpu(**options)
        patch.setattr(driver, "Driver", lambda: self.driver)
        patch.setattr(gpu_scores, "gpu_number", lambda number: self.gpu)
        patch.setattr(gpu_scores, "LEAST_ROWS", 1)
        arrays.gpu_memory.cache_clear()

    def put(self, values: Array, **more: Any) -> OnGpu:
        """Return an array on the GPU."""
        return OnGpu(self.driver, values, **more)


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Yield a GPU that works."""
    yield Setting(monkeypatch)
    arrays.gpu_memory.cache_clear()


def random_model(seed: int, n_outputs: int, is_vector: bool, n_categories: int) -> Model:
    """Return a model of numbers and categories, with every kind of node that the kernels know."""
    rng = np.random.default_rng(seed)
    kinds = [*["float"] * 3, *["category"] * n_categories]
    kinds = [kinds[k] for k in rng.permutation(len(kinds))]
    columns = tuple(
        Column(f"x{j}", kind, LEVELS[int(rng.integers(3))] if kind == "category" else ())
        for j, kind in enumerate(kinds)
    )
    n_trees = int(rng.integers(0, 4)) * (1 if is_vector else n_outputs)
    trees = [random_tree(rng, kinds, int(rng.integers(1, 9))) for _ in range(n_trees)]
    nodes = {name: [value for tree in trees for value in tree[name]] for name in NODE_FIELDS}
    arrays = {
        name: np.array(values, dtype=_DTYPES.get(name, np.float64 if name in _REAL else np.int64))
        for name, values in nodes.items()
    }
    extremes = np.array([2**63 - 1, -(2**63), -1])
    at = rng.random(len(arrays["threshold"])) < 0.1
    arrays["threshold"] = np.where(at, rng.choice(extremes, len(at)), arrays["threshold"])
    inner = np.flatnonzero(arrays["feature"] >= 0)
    has_set = inner[[kinds[j] == "category" for j in arrays["feature"][inner]]]
    arrays["threshold"][has_set] = rng.permutation(len(has_set))
    sets = rng.integers(0, 2**63, (max(1, len(has_set)), 4)).astype(np.uint64) * np.uint64(2)
    sets[:, 3] &= np.uint64(2**62 - 1)
    if n_categories > 0:  # a column of missing values only, which no tree splits
        columns = (*columns, Column("none", "category"))
    counts = [len(column.levels) for column in columns]
    bins = rng.integers(0, 254, sum(counts)).astype(np.uint8)
    categories = CategoryTables(sets, bins, np.cumsum([0, *counts], dtype=np.int64))
    starts = np.cumsum([0, *(len(tree["feature"]) for tree in trees)], dtype=np.int64)
    forest = Forest(
        **arrays, tree_start=starts, base_score=rng.normal(size=n_outputs), n_features=len(columns),
        categories=categories if n_categories else None,
    )  # fmt: skip
    if is_vector:
        vectors = rng.normal(size=(len(arrays["value"]), n_outputs))
        forest = replace(forest, value=np.zeros(len(vectors)), vectors=vectors)
    return Model(forest, Schema(columns), "softmax" if n_outputs > 1 else "squared_error")


def layouts(values: Array) -> dict[str, Array]:
    """Return the same table with other strides."""
    wide = np.zeros((2 * len(values), 3 * values.shape[1]), dtype=values.dtype)
    wide[::2, 1::3] = values
    return {
        "C": np.ascontiguousarray(values),
        "F": np.asfortranarray(values),
        "steps": wide[::2, 1::3],
        "reversed": np.ascontiguousarray(values[::-1, ::-1])[::-1, ::-1],
    }


@given(
    seed=st.integers(0, 10**6),
    n_outputs=st.integers(1, 3),
    is_vector=st.booleans(),
    n_categories=st.integers(0, 3),
    dtype=st.sampled_from([np.float32, np.float64]),
    layout=st.sampled_from(["C", "F", "steps", "reversed"]),
    kept_bytes=st.sampled_from([0, 1 << 15]),
    chunk_bytes=st.sampled_from([1, 300, 1 << 28]),
)
def test_scores_of_random_forests(
    seed: int, n_outputs: int, is_vector: bool, n_categories: int, dtype: Any, layout: str,
    kept_bytes: int, chunk_bytes: int,
) -> None:  # fmt: skip
    model = random_model(seed, n_outputs, is_vector and n_outputs > 1, n_categories)
    rng = np.random.default_rng(seed)
    values = rng.choice(VALUES, (int(rng.integers(1, 30)), model.schema.n_features)).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        setting = Setting(patch)
        patch.setattr(gpu_scores, "_BLOCK_SIZES", (16,))
        patch.setattr(gpu_scores, "_KEPT_BYTES", kept_bytes)
        patch.setattr(gpu_scores, "CHUNK_BYTES", chunk_bytes)
        own, other = Booster(model), Booster(model)
        for first, count in ((0, None), (0, own.num_rounds // 2), (own.num_rounds // 2, None)):
            expected = own.raw_scores(values, first_round=first, n_rounds=count)
            table = setting.put(layouts(values)[layout])
            found = other.raw_scores(table, first_round=first, n_rounds=count)
            assert np.array_equal(found, expected)
            assert found.shape == expected.shape
        assert own.unseen_categories == other.unseen_categories
        assert not any(what == "copy" for what, _ in setting.driver.calls)
        launched = {"score_narrow"} if dtype == np.float32 else {"score_wide"}
        if n_categories > 0:
            launched |= {"bin_narrow"} if dtype == np.float32 else {"bin_wide"}
        assert set(setting.gpu.launched()) == launched
    arrays.gpu_memory.cache_clear()


def rows(n_rows: int = 200) -> tuple[Array, Array]:
    """Return numbers with missing values, and a target."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_rows, 3)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, np.nan_to_num(X[:, 0]) ** 2 + rng.normal(size=n_rows)


PARAMS: dict[str, Any] = {"n_estimators": 4, "max_leaves": 7, "early_stopping": False, "n_jobs": 1}


def test_estimators(simulated: Setting) -> None:
    X, y = rows()
    model = HedgerowClassifier(**PARAMS).fit(X, np.digitize(y, [0.0, 1.0]))
    table = simulated.put(X)
    for method in ("decision_function", "predict", "predict_proba"):
        found = getattr(model, method)(table)
        assert np.array_equal(found, getattr(model, method)(X))
        assert type(found) is np.ndarray
    assert simulated.gpu.launched() == ["score_narrow"] * 3
    assert not any(what == "copy" for what, _ in simulated.driver.calls)


def test_the_stream_of_the_table_is_waited_for(simulated: Setting) -> None:
    X, y = rows()
    model = HedgerowRegressor(**PARAMS).fit(X, y)
    model.predict(simulated.put(X, stream=77))
    assert simulated.driver.calls == [("wait", 77)]


def test_the_forest_is_uploaded_once_and_freed_with_the_model(simulated: Setting) -> None:
    X, y = rows()
    model = HedgerowRegressor(**PARAMS).fit(X, y)
    expected, table = model.predict(X), simulated.put(X)
    for _ in range(3):
        assert np.array_equal(model.predict(table), expected)
    forest, *others = simulated.gpu.streams
    assert len(others) == 3
    assert all(stream.is_closed for stream in others)
    assert not forest.is_closed
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(table), expected)
    del model, again
    gc.collect()
    assert all(stream.is_closed for stream in simulated.gpu.streams)


def test_threads_share_a_model(simulated: Setting) -> None:
    X, y = rows(64)
    model = HedgerowRegressor(**PARAMS).fit(X, y)
    expected, table, found = model.predict(X), simulated.put(X), []
    threads = [threading.Thread(target=lambda: found.append(model.predict(table))) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert all(np.array_equal(scores, expected) for scores in found)


@pytest.mark.parametrize(
    "params",
    [
        {"linear_leaves": True},
        {"zero_as_missing": True},
        {"feature_crosses": [("x0", "x1", "product")]},
    ],
    ids=lambda params: next(iter(params)),
)
def test_other_models_are_scored_from_a_copy(params: Any, simulated: Setting) -> None:
    X, _ = rows()
    params = PARAMS | params
    model = HedgerowRegressor(**params).fit(X, np.nan_to_num(X[:, 0] * X[:, 1]))
    assert np.array_equal(model.predict(simulated.put(X)), model.predict(X))
    assert simulated.gpu.launched() == []


def test_other_tables_are_scored_from_a_copy(simulated: Setting) -> None:
    X, y = rows()
    model = HedgerowRegressor(**PARAMS).fit(X, y)
    packed = np.zeros(200, dtype=[("a", "f4", 3), ("b", "u1")])
    packed["a"] = X
    for values in (X.astype(">f4"), X.astype(np.float16), packed["a"]):
        assert np.array_equal(model.predict(simulated.put(values)), model.predict(values))
    with pytest.raises(DataError, match="X has 2 features, but HedgerowRegressor is expecting 3"):
        model.predict(simulated.put(X[:, :2]))
    with pytest.raises(DataError, match="Expected 2D array"):
        model.predict(simulated.put(X[:, 0]))
    assert simulated.gpu.launched() == []


def test_unknown_categories_are_an_error_of_the_model(simulated: Setting) -> None:
    X, y = rows()
    X[:, 0] = np.arange(200) % 5
    params = {"objective": "squared_error", "n_estimators": 3}
    data = Dataset(X, y, categorical_features=[0], unknown_category="error")
    booster = train(params, data)
    assert np.array_equal(booster.predict(simulated.put(X)), booster.predict(X))
    assert simulated.gpu.launched() == ["bin_narrow", "score_narrow"]
    X[3, 0] = 9
    with pytest.raises(DataError, match=r"column 'x0' holds 9\.0 \(row 3\), which is none of"):
        booster.predict(simulated.put(X))


def test_without_memory_the_processor_scores_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(monkeypatch, most_bytes=3_000)
    X, y = rows(1000)
    model = HedgerowRegressor(**PARAMS).fit(X, y)
    assert np.array_equal(model.predict(setting.put(X)), model.predict(X))
    assert ("copy", X.nbytes) in setting.driver.calls
    assert all(stream.is_closed for stream in setting.gpu.streams[1:])
    arrays.gpu_memory.cache_clear()


def test_few_rows_are_scored_by_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    model = HedgerowRegressor(**PARAMS).fit(X, y)
    least = gpu_scores.LEAST_ROWS
    setting = Setting(monkeypatch)
    monkeypatch.setattr(gpu_scores, "LEAST_ROWS", least)
    assert np.array_equal(model.predict(setting.put(X)), model.predict(X))
    assert setting.gpu.launched() == []
    arrays.gpu_memory.cache_clear()


def test_a_gpu_that_cannot_run_the_kernels(
    simulated: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_old(number: int) -> Any:
        raise DeviceError("the GPU is too old.")

    X, y = rows()
    model = HedgerowRegressor(**PARAMS).fit(X, y)
    monkeypatch.setattr(gpu_scores, "gpu_number", too_old)
    assert np.array_equal(model.predict(simulated.put(X)), model.predict(X))


def test_a_gpu_that_fails_is_an_error(simulated: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fallback to a copy on the host would hide the fault."""

    def failing(*given: Any, **named: Any) -> None:
        raise DeviceError("cuLaunchKernel of the GPU's driver failed.")

    X, y = rows()
    model = HedgerowRegressor(**PARAMS).fit(X, y)
    monkeypatch.setattr(gpu_scores.HeldForest, "_compute", failing)
    with pytest.raises(DeviceError, match="cuLaunchKernel"):
        model.predict(simulated.put(X))


# -- with a GPU ---------------------------------------------------------------------------

MISSING = device.missing_gpu()
with_gpu = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


def check_scores(booster: Booster, table: Any, values: Array, **chosen: Any) -> None:
    """Check that the GPU itself computes the scores of a table, and that they are right."""
    array = gpu_array(table)
    assert array is not None
    assert booster._gpu_scorer.covers(array)
    found = booster._gpu_scorer.scores(array, 0, booster.num_trees)
    assert found is not None
    assert np.array_equal(found.raw, booster.raw_scores(values))
    assert np.array_equal(booster.predict(table, **chosen), booster.predict(values, **chosen))


def large_table(n_rows: int, n_columns: int, dtype: Any) -> tuple[Array, Array]:
    """Return numbers with missing values, the last column of few different ones, and a target."""
    rng = np.random.default_rng(n_columns)
    X = rng.normal(size=(n_rows, n_columns)).astype(dtype)
    X[:, -1] = rng.integers(0, 40, n_rows)
    X[rng.random(X.shape) < 0.05] = np.nan
    y = np.nan_to_num(X[:, 0] * X[:, 1]) + 2.0 * (np.nan_to_num(X[:, -1]) % 3)
    return X, y + rng.normal(size=n_rows)


@with_gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_rows", "n_columns"), [(1000, 5), (100_001, 28), (30_000, 300)])
def test_tables_of_cupy(n_rows: int, n_columns: int, dtype: Any) -> None:
    cupy = pytest.importorskip("cupy")
    X, y = large_table(n_rows, n_columns, dtype)
    params = {"objective": "squared_error", "n_estimators": 30, "max_leaves": 31}
    booster = train(params, Dataset(X[:20_000], y[:20_000]))
    check_scores(booster, cupy.asarray(X), X)
    check_scores(booster, cupy.asfortranarray(cupy.asarray(X)), X)
    check_scores(booster, cupy.asarray(X[:, ::-1])[:, ::-1], X)
    wide = cupy.zeros((2 * n_rows, n_columns + 3), dtype=dtype)
    wide[::2, 3:] = cupy.asarray(X)
    check_scores(booster, wide[::2, 3:], X)
    check_scores(booster, cupy.asarray(X), X, first_round=3, n_rounds=20)


@with_gpu
def test_categories_on_a_gpu() -> None:
    cupy = pytest.importorskip("cupy")
    X, y = large_table(50_000, 6, np.float32)
    data = Dataset(X[:, :], y, categorical_features=[5])
    booster = train({"objective": "squared_error", "n_estimators": 30}, data)
    X[::7, 5] = 99
    booster.reset_unseen_categories()
    check_scores(booster, cupy.asarray(X), X)
    assert booster.unseen_categories == {"x5": 3 * len(X[::7])}


@with_gpu
def test_classes_and_vectors_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = pytest.importorskip("cupy")
    X, y = large_table(50_000, 10, np.float32)
    classes = HedgerowClassifier(n_estimators=20, early_stopping=False, feature_crosses=None)
    classes.set_params(linear_leaves=False, target_statistics=False)
    classes.fit(X, np.digitize(y, [0.0, 2.0, 4.0]))
    table = cupy.asarray(X)
    monkeypatch.setattr(gpu_scores, "CHUNK_BYTES", 1 << 18)  # several launches
    check_scores(classes.booster_, table, X)
    for method in ("decision_function", "predict", "predict_proba"):
        assert np.array_equal(getattr(classes, method)(table), getattr(classes, method)(X))
    data = Dataset(X, np.column_stack((y, -y, y * y)))
    vectors = train({"n_estimators": 10, "multi_strategy": "multi_output_tree"}, data)
    check_scores(vectors, table, X)


@with_gpu
def test_tables_of_other_libraries() -> None:
    X, y = large_table(20_000, 8, np.float32)
    booster = train({"objective": "squared_error", "n_estimators": 20}, Dataset(X, y))
    torch = pytest.importorskip("torch")
    check_scores(booster, torch.tensor(X, device="cuda"), X)
    check_scores(booster, torch.tensor(X.T.copy(), device="cuda").T, X)
    jax = pytest.importorskip("jax")
    on_gpu = jax.devices()[0].platform == "gpu"
    table = jax.numpy.asarray(X)
    if on_gpu:
        check_scores(booster, table, X)
    assert np.array_equal(booster.predict(table), booster.predict(X))


@with_gpu
def test_threads_on_a_gpu() -> None:
    cupy = pytest.importorskip("cupy")
    X, y = large_table(200_000, 8, np.float32)
    booster = train({"objective": "squared_error", "n_estimators": 20}, Dataset(X, y))
    expected, table, found = booster.predict(X), cupy.asarray(X), []
    threads = [threading.Thread(target=lambda: found.append(booster.predict(table))) for _ in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert all(np.array_equal(scores, expected) for scores in found)
