"""Trees grown on a GPU give the bytes of the models that the processor trains.

Most tests use a GPU in NumPy (:mod:`tests.helpers.fake_gpu`), whose launches are those of a real
one.  The tests at the end need a GPU.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import threading
from collections.abc import Iterator
from inspect import isfunction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor, cross_fit, cv, train
from hedgerow.boosting.loop.setup import resolved as devices
from hedgerow.cuda import device
from hedgerow.errors import DeviceError, ParameterError
from hedgerow.growing.cuda import grower
from hedgerow.io import model_to_bytes
from tests.helpers import features
from tests.helpers.examples import examples
from tests.helpers.fake_gpu import FakeGpu
from tests.helpers.features import FEATURES, parts_of
from tests.reference import cuda_kernels

N_ROWS = 6_000


@pytest.fixture
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGpu]:
    """Replace the first GPU by one in NumPy; check that its memory is freed."""
    gpus = FakeGpu()
    monkeypatch.setattr(grower, "first_gpu", lambda: gpus)
    monkeypatch.setattr(device, "missing_gpu", lambda: None)
    yield gpus
    assert all(stream.is_closed for stream in gpus.streams)
    assert not any(stream.errors for stream in gpus.streams)


def table(n_rows: int = N_ROWS, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """Return numbers with missing values, a category column, and a target that depends on them."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n_rows, 5)), columns=list("abcde"))
    X.loc[rng.random(n_rows) < 0.1, "c"] = np.nan
    X["d"] = X["d"].round()
    X["f"] = pd.Categorical(rng.choice(list("uvwxyz"), n_rows))
    y = X["a"] ** 2 + 2.0 * (X["f"] == "u") + X["c"].fillna(1.0) + rng.normal(size=n_rows)
    return X, y.to_numpy()


GROWN_ON_GPU = [
    name
    for name in FEATURES
    if not {"exact", "approx", "bundles", "conflicts", "bundles by degree"} & set(name.split(" + "))
]


@functools.cache
def many_rows() -> pd.DataFrame:
    """Return rows enough that gradients are rounded."""
    return features.table(N_ROWS)


def both_models(feature: str) -> tuple[bytes, bytes]:
    """Return the bytes of a model trained on the processor and on the GPU."""
    params, rows = parts_of(feature, many_rows())
    on_processor, on_gpu = (
        train({**params, "device": name}, rows.in_memory()).to_bytes() for name in ("cpu", "cuda")
    )
    return on_processor, on_gpu


@pytest.mark.fast(16)
@pytest.mark.parametrize("feature", GROWN_ON_GPU)
def test_same_bytes(feature: str, fake_gpu: FakeGpu) -> None:
    on_processor, on_gpu = both_models(feature)
    assert on_processor == on_gpu
    assert any("add_histogram" in stream.launched for stream in fake_gpu.streams)


CHECKED = {
    "high + weights": 150,
    "plain + symmetric": 150,
    "classes + vectors + sample": 150,
    "two targets + vectors": 150,
    "median": 150,
    "high": 4200,  # gradients are rounded
}


def test_kernels_do_thread_by_thread_what_their_twins_do(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = FakeGpu(checks=True)
    monkeypatch.setattr(grower, "first_gpu", lambda: gpus)
    monkeypatch.setattr(device, "missing_gpu", lambda: None)
    for feature, n_rows in CHECKED.items():
        params, rows = parts_of(feature, features.table(n_rows))
        params |= {"n_estimators": 1, "device": "cuda", "min_samples_leaf": 5}
        params |= {} if "grow_policy" in params else {"max_leaves": 4}
        with contextlib.suppress(DeviceError):  # the first cause is below
            train(params, rows.in_memory())
        assert [error for stream in gpus.streams for error in stream.errors] == []
    twins = {name for name, twin in vars(cuda_kernels).items() if isfunction(twin)}
    own = {name for name in twins if vars(cuda_kernels)[name].__module__ == cuda_kernels.__name__}
    assert set(gpus.launched()) == {name for name in own if not name.startswith("_")}


@settings(max_examples=examples(15), deadline=None)
@given(
    n_rows=st.integers(1, 50) | st.integers(50, 5000),
    n_columns=st.integers(1, 70),
    max_leaves=st.integers(2, 60) | st.just(200),
    min_samples_leaf=st.integers(1, 30),
    max_bins=st.sampled_from([3, 16, 60, 255]),
    weighted=st.booleans(),
    n_jobs=st.integers(1, 3),
    policy=st.sampled_from(["leafwise", "depthwise", "symmetric"]),
    n_targets=st.sampled_from([1, 1, 2, 9, 19]),
    kept_bytes=st.sampled_from([0, 30_000, 1 << 26]),
    seed=st.integers(0, 1000),
)
def test_random_tables(
    n_rows: int, n_columns: int, max_leaves: int, min_samples_leaf: int, max_bins: int,
    weighted: bool, n_jobs: int, policy: str, n_targets: int, kept_bytes: int, seed: int,
) -> None:  # fmt: skip
    """The GPU may have room for few histograms, which it copies to the host early."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 40, (n_rows, n_columns)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) + rng.standard_cauchy(n_rows)
    weight = rng.gamma(1.0, size=n_rows) if weighted else None
    params = {
        "n_estimators": 3, "max_leaves": max_leaves, "min_samples_leaf": min_samples_leaf,
        "max_bins": max_bins, "early_stopping": False, "grow_policy": policy,
    }  # fmt: skip
    if policy == "symmetric":
        params |= {"max_leaves": None, "max_depth": 1 + max_leaves // 12}
    if n_targets > 1:
        y = y[:, None] * rng.normal(size=n_targets)
        params["multi_strategy"] = "multi_output_tree"
    gpus, found = FakeGpu(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grower, "KEPT_BYTES", kept_bytes)
        patch.setattr(grower, "first_gpu", lambda: gpus)
        patch.setattr(device, "missing_gpu", lambda: None)
        for name, threads in (("cpu", 1), ("cuda", n_jobs)):
            model = HedgerowRegressor(device=name, n_jobs=threads, **params)
            found.append(model_to_bytes(model.fit(X, y, weight).booster_.model))
    assert found[0] == found[1]


@pytest.mark.parametrize("policy", ["depthwise", "symmetric"])
def test_nodes_of_a_level_are_ordered_together(policy: str, fake_gpu: FakeGpu) -> None:
    """The GPU gets a launch per level, not per node."""
    X, y = table()
    params = {"grow_policy": policy, "max_depth": 5, "max_leaves": None, "n_estimators": 3}
    model = HedgerowRegressor(device="cuda", early_stopping=False, **params).fit(X, y)
    n_leaves = (model.booster_.model.forest.left == 0).sum()
    assert n_leaves > 40
    launched = fake_gpu.streams[0].launched
    assert 0 < launched.count("divide_rows") <= 3 * 5
    assert 0 < launched.count("hand_over") <= 3 * 5


@pytest.mark.parametrize("estimation", ["newton", "line_search"])
def test_likely_nodes_are_ordered_together(estimation: str, fake_gpu: FakeGpu) -> None:
    """Trees with a line search are an exception: it finds steps in the order of the rows."""
    X, y = table()
    params = {"max_leaves": 31, "n_estimators": 3, "leaf_estimation": estimation}
    model = HedgerowRegressor(
        device="cuda", early_stopping=False, grow_policy="leafwise", **params
    ).fit(X, y)
    n_splits = int((model.booster_.model.forest.left != 0).sum())
    assert n_splits > 80
    launched = fake_gpu.streams[0].launched.count("divide_rows")
    assert launched == n_splits if estimation == "line_search" else launched < 0.7 * n_splits


def test_defaults_with_folds(fake_gpu: FakeGpu) -> None:
    """The folds grow several kinds of trees, and all growers use the GPU."""
    X, y = table(1_000)
    params = {"n_estimators": 20, "n_jobs": 2}
    found = [
        model_to_bytes(HedgerowRegressor(device=name, **params).fit(X, y).booster_.model)
        for name in ("cpu", "cuda")
    ]
    assert found[0] == found[1]
    assert fake_gpu.streams


def test_rows_in_files_are_read_into_memory(fake_gpu: FakeGpu, tmp_path: Path) -> None:
    X, y = table(2_000)
    X.assign(target=y).to_parquet(tmp_path / "rows.parquet")
    found = []
    for name in ("cpu", "cuda"):
        params = {"objective": "squared_error", "device": name, "n_estimators": 5}
        data = Dataset.from_files(tmp_path / "rows.parquet", target="target")
        found.append(model_to_bytes(train(params, data).model))
    assert found[0] == found[1]
    assert fake_gpu.streams


def test_cross_validation(fake_gpu: FakeGpu) -> None:
    X, y = table(2_000)
    params = {"objective": "squared_error", "n_estimators": 5}
    curves, scores = [], []
    for name in ("cpu", "cuda"):
        found = cv({**params, "device": name}, Dataset(X, y))
        curves.append(found.curves["validation"]["loss"])
        model = HedgerowRegressor(device=name, n_estimators=5, early_stopping=False)
        scores.append(cross_fit(model, X, y, cv=3).oof_prediction)
    assert np.array_equal(*curves)
    assert np.array_equal(*scores)
    assert fake_gpu.streams
    with pytest.raises(ParameterError, match="device='cuda' does not go with tree_method='exact'"):
        cv({**params, "device": "cuda", "tree_method": "exact"}, Dataset(X[["a", "b"]], y))


@pytest.mark.parametrize(
    "params",
    [
        {"tree_method": "exact"},
        {"tree_method": "approx"},
        {"bundle_features": True},
        {"max_conflict_rate": 0.1},
    ],
    ids=lambda params: next(iter(params)),
)
def test_what_a_gpu_does_not_do_is_refused_by_name(
    params: dict[str, Any], fake_gpu: FakeGpu
) -> None:
    X, y = table(300)
    X = X.drop(columns="f")
    chosen = {"objective": "squared_error", "device": "cuda", **params}
    with pytest.raises(
        ParameterError, match=f"device='cuda' does not go with {next(iter(params))}"
    ):
        train(chosen, Dataset(X, y))


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array])
def test_sparse_tables(kind: Any, fake_gpu: FakeGpu) -> None:
    """The bins are dense on the GPU; on the processor, bundles hold several columns."""
    rng = np.random.default_rng(0)
    X = kind(np.eye(30)[rng.integers(0, 30, 2_000)] * rng.normal(size=(2_000, 30)).round(1))
    y = X.sum(axis=1) + rng.normal(size=2_000)
    params = {"n_estimators": 8, "patience": 3}
    found = [
        model_to_bytes(
            HedgerowRegressor(device=name, **params)
            .fit(X, y, X_val=X[:300], y_val=y[:300])
            .booster_.model
        )
        for name in ("cpu", "cuda")
    ]
    assert found[0] == found[1]
    assert fake_gpu.streams


def test_auto_leaves_sparse_tables_to_the_processor(
    fake_gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "LEAST_ROWS", 100)
    X, y = table(300)
    X = X.drop(columns="f").fillna(0.0).to_numpy()
    model = HedgerowRegressor(device="auto", n_estimators=2, early_stopping=False)
    model.fit(sparse.csr_array(X), y)
    assert not fake_gpu.streams
    model.fit(X, y)
    assert fake_gpu.streams


def test_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = FakeGpu(most_bytes=100_000)
    monkeypatch.setattr(grower, "first_gpu", lambda: gpus)
    monkeypatch.setattr(device, "missing_gpu", lambda: None)
    X, y = table()
    with pytest.raises(DeviceError, match="out of memory"):
        HedgerowRegressor(device="cuda", early_stopping=False).fit(X, y)
    assert all(stream.is_closed for stream in gpus.streams)


@pytest.mark.parametrize("policy", ["leafwise", "depthwise"])
@pytest.mark.parametrize("command", [0, 3, 10, 15, 40])
def test_a_gpu_that_fails(policy: str, command: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = FakeGpu(fails_at=command)
    monkeypatch.setattr(grower, "first_gpu", lambda: gpus)
    monkeypatch.setattr(device, "missing_gpu", lambda: None)
    X, y = table()
    with pytest.raises(DeviceError, match="failed while a tree grew: error 719"):
        HedgerowRegressor(device="cuda", early_stopping=False, grow_policy=policy).fit(X, y)
    assert all(stream.is_closed for stream in gpus.streams)
    assert not any(stream.errors for stream in gpus.streams)


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "missing_gpu", lambda: "there is no driver here.")
    X, y = table(300)
    with pytest.raises(
        DeviceError, match=r"device='cuda': there is no driver here\. Use device='cpu'"
    ):
        HedgerowRegressor(device="cuda", early_stopping=False).fit(X, y)
    params = {"n_estimators": 3, "early_stopping": False}
    automatic = HedgerowRegressor(device="auto", **params).fit(X, y)
    plain = HedgerowRegressor(**params).fit(X, y)
    assert model_to_bytes(automatic.booster_.model) == model_to_bytes(plain.booster_.model)


# -- with a GPU ---------------------------------------------------------------------------

MISSING = device.missing_gpu()
with_gpu = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@with_gpu
@pytest.mark.parametrize("feature", GROWN_ON_GPU)
def test_same_bytes_on_a_gpu(feature: str) -> None:
    on_processor, on_gpu = both_models(feature)
    assert on_processor == on_gpu


@with_gpu
@pytest.mark.parametrize("n_columns", [1, 7, 28, 33, 100])
@pytest.mark.parametrize("n_rows", [1000, 300_000])
def test_larger_tables_on_a_gpu(n_rows: int, n_columns: int) -> None:
    rng = np.random.default_rng(n_columns)
    X = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    y = X[:, 0] * X[:, -1] + rng.normal(size=n_rows) > 0
    params = {"n_estimators": 5, "early_stopping": False, "max_leaves": 63}
    found = [
        model_to_bytes(
            HedgerowClassifier(device=name, grow_policy="leafwise", **params)
            .fit(X, y)
            .booster_.model
        )
        for name in ("cpu", "cuda")
    ]
    assert found[0] == found[1]


@with_gpu
def test_fits_in_two_threads_on_a_gpu() -> None:
    expected, found = both_models("high")[0], []

    def fit() -> None:
        found.append(both_models("high")[1])

    threads = [threading.Thread(target=fit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected, expected]


def _fit_in_child(queue: Any) -> None:
    try:
        both_models("high")
        queue.put("fitted")
    except DeviceError as error:
        queue.put(str(error))


@with_gpu
def test_a_forked_process_says_what_to_do() -> None:
    both_models("high")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_fit_in_child, args=(queue,))
    child.start()
    assert "forked" in queue.get(timeout=120)
    child.join(timeout=120)


@with_gpu
def test_too_large_for_a_gpu() -> None:
    stream = device.first_gpu().stream()
    with stream.current(), pytest.raises(DeviceError, match=r"out of memory: bins take [\d,]+ MB"):
        stream.allocate(1 << 45, np.uint8, "bins")
    stream.close()
