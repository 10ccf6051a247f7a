"""Arrays on a GPU give the models and predictions of the same values on the host.

Most arrays are simulated on the host (:mod:`tests.helpers.gpu_arrays`).  The tests at the end
need a GPU, and the library of the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from hedgerow import (
    CARTClassifier,
    CARTRegressor,
    Dataset,
    HedgerowClassifier,
    HedgerowRanker,
    HedgerowRegressor,
    cross_fit,
    train,
)
from hedgerow.cuda import arrays, device, driver
from hedgerow.errors import DataError, DataTypeError, DeviceError
from hedgerow.io import model_to_bytes
from tests.helpers.gpu_arrays import UNKNOWN, ByDlpack, GpuDriver, OnGpu

Array = np.ndarray[Any, Any]
PARAMS: dict[str, Any] = {"n_estimators": 5, "early_stopping": False, "n_jobs": 1}


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuDriver]:
    """Yield a driver whose memory is that of the host."""
    made = GpuDriver()
    monkeypatch.setattr(driver, "Driver", lambda: made)
    arrays.gpu_memory.cache_clear()
    yield made
    arrays.gpu_memory.cache_clear()


def table(n_rows: int = 300, seed: int = 0) -> tuple[Array, Array]:
    """Return numbers with missing values, and a target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, np.nan_to_num(X[:, 0]) ** 2 + rng.normal(size=n_rows)


def bytes_of(fitted: Any) -> bytes:
    """Return the bytes of the model of an estimator."""
    return model_to_bytes(fitted.booster_.model)


# -- copies -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    ["bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">f4", ">i8"],
)
def test_every_type_is_copied(dtype: str, gpu: GpuDriver) -> None:
    values = np.arange(60).reshape(12, 5).astype(dtype)
    found = arrays.on_host(OnGpu(gpu, values))
    assert found.dtype == values.dtype
    assert np.array_equal(found, values)


@st.composite
def strided(draw: st.DrawFn) -> Array:
    """Return a view of an array, with steps of any sign, axes in any order, and repeated rows."""
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    steps = [draw(st.sampled_from([1, 1, 2, 3, -1, -2])) for _ in shape]
    lengths = [length * abs(step) for length, step in zip(shape, steps, strict=True)]
    values = np.arange(np.prod(lengths), dtype=np.float32).reshape(lengths)
    view = values[tuple(slice(None, None, step) for step in steps)]
    view = view.transpose(draw(st.permutations(range(len(shape)))))
    return np.broadcast_to(view, (4, *view.shape)) if draw(st.booleans()) else view


@given(view=strided(), block_bytes=st.sampled_from([4, 100, 1 << 26]))
def test_strides_of_all_kinds(view: Array, block_bytes: int) -> None:
    made = GpuDriver()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "gpu_memory", lambda: reader)
        patch.setattr(arrays, "_BLOCK_BYTES", block_bytes)
        patch.setattr(driver, "Driver", lambda: made)
        reader = arrays.GpuMemory()
        found = arrays.on_host(OnGpu(made, view))
    assert np.array_equal(found, view)
    copied = sum(n for what, n in made.calls if what == "copy")
    start, stop = np.lib.array_utils.byte_bounds(view)
    assert copied <= max(stop - start, 2 * view.nbytes)


def test_an_empty_array_is_not_read(gpu: GpuDriver) -> None:
    assert arrays.on_host(OnGpu(gpu, np.empty((0, 3), np.float32))).shape == (0, 3)
    assert gpu.calls == []


def test_the_order_in_memory_is_kept(gpu: GpuDriver) -> None:
    values = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    assert arrays.on_host(OnGpu(gpu, values)).flags.f_contiguous


@pytest.mark.parametrize(
    ("stream", "waits"),
    [(None, []), (0, [1]), (1, [1]), (2, [2]), (0x7F00, [0x7F00]), (UNKNOWN, [0])],
)
def test_the_stream_that_fills_an_array_is_waited_for(
    stream: Any, waits: list[int], gpu: GpuDriver
) -> None:
    arrays.on_host(OnGpu(gpu, np.ones(3), stream=stream))
    assert gpu.calls == [*(("wait", number) for number in waits), ("copy", 24)]


def test_arrays_of_other_gpus_are_read(gpu: GpuDriver) -> None:
    one, other = np.arange(3.0), np.arange(4.0)
    found = [arrays.on_host(OnGpu(gpu, x, device=k)) for k, x in ((3, one), (0, other))]
    assert np.array_equal(found[0], one)
    assert np.array_equal(found[1], other)


def test_dlpack(gpu: GpuDriver) -> None:
    for values in (np.arange(12.0).reshape(3, 4), np.arange(12, dtype=np.int16)[::2]):
        found = arrays.on_host(ByDlpack(gpu, values))
        assert found.dtype == values.dtype
        assert np.array_equal(found, values)
    assert gpu.calls[0] == ("wait", 1)
    on_processor = ByDlpack(gpu, np.ones(2), device=1)
    assert arrays.on_host(on_processor) is on_processor


def test_what_cannot_be_read_is_an_error(gpu: GpuDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataTypeError, match="mask of missing values"):
        arrays.on_host(OnGpu(gpu, np.ones(3), mask=np.ones(3)))
    with pytest.raises(DataTypeError, match="type float64, which NumPy does not have"):
        arrays.on_host(OnGpu(gpu, np.ones(3), typestr="<V2"))
    with pytest.raises(DeviceError, match="this process has no memory: error 1"):
        arrays.on_host(OnGpu(gpu, np.ones(3), data=(64, False)))
    gpu.is_forked = True
    with pytest.raises(DeviceError, match="forked"):
        arrays.on_host(OnGpu(gpu, np.ones(3)))


def test_a_tensor_that_records_gradients_is_refused(gpu: GpuDriver) -> None:
    tensor = OnGpu(gpu, np.ones((3, 2)))
    tensor.__dict__.update(requires_grad=True, is_cuda=True)
    with pytest.raises(DataError, match=r"pass its detach\(\) instead"):
        HedgerowRegressor().fit(tensor, np.ones(3))


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise DeviceError("there is no driver of an NVIDIA GPU here.")

    monkeypatch.setattr(driver, "Driver", missing)
    arrays.gpu_memory.cache_clear()
    X, y = table()
    with pytest.raises(DeviceError, match="no driver of an NVIDIA GPU"):
        HedgerowRegressor().fit(OnGpu(GpuDriver(), X), y)


# -- every door ---------------------------------------------------------------------------


X, Y = table()
NARROW, LABELS, WEIGHT, OFFSET = (
    X.astype(np.float32),
    (Y > 0).astype(np.int32),
    1.0 + (Y > 1),
    Y / 9,
)
GRADES, TENS, STOPPING = np.digitize(Y, [0.0, 1.0]), np.arange(300) // 10, {"early_stopping": True}
To = Callable[[Array], Any]


def regressor(**more: Any) -> HedgerowRegressor:
    return HedgerowRegressor(**{**PARAMS, **more})


def door_classifier(to: To) -> Iterator[Any]:
    model = HedgerowClassifier(**PARAMS)
    model.fit(to(NARROW), to(LABELS), to(WEIGHT), offset=to(OFFSET))
    yield bytes_of(model)
    yield model.decision_function(to(NARROW), to(OFFSET))
    yield model.predict_proba(to(NARROW), to(OFFSET))
    yield model.apply(to(NARROW))
    yield model.score(to(NARROW), to(LABELS), to(WEIGHT))


def door_regressor(to: To) -> Iterator[Any]:
    rows = {"X_val": to(X[:90]), "y_val": to(Y[:90]), "sample_weight_val": to(np.ones(90))}
    model = regressor(**STOPPING).fit(to(X), to(Y), to(np.ones(300)), **rows)
    yield bytes_of(model)
    yield model.score(to(X), to(Y))
    yield model.predict_one(to(X[7]))
    yield bytes_of(regressor(**STOPPING).fit(X, Y, X_val={"new": (to(X[:90]), to(Y[:90]))}))
    yield bytes_of(regressor(**STOPPING).fit(X, Y, groups=to(TENS)))
    yield bytes_of(regressor().fit(to(X), to(np.column_stack((Y, -Y)))))
    yield bytes_of(regressor().fit({name: to(X[:, k]) for k, name in enumerate("abcd")}, Y))
    yield cross_fit(regressor(), to(X), to(Y), cv=3).oof_prediction


def door_ranker(to: To) -> Iterator[Any]:
    model = HedgerowRanker(**PARAMS).fit(to(X), to(GRADES), qid=to(TENS))
    yield bytes_of(model)
    yield model.score(to(X), to(GRADES), qid=to(TENS))


def door_train(to: To) -> Iterator[Any]:
    data = Dataset(to(X), to(Y), weight=to(np.ones(300)))
    booster = train({"n_estimators": 5}, data, Dataset(to(X[:50]), to(Y[:50])))
    yield booster.to_bytes()
    yield from (booster.predict(to(X), kind) for kind in ("value", "raw", "leaf"))
    yield from booster.staged_predict(to(X))
    yield str(booster.eval(data))
    yield from (booster.explain(to(X[:9]), background=b).values for b in (None, to(X[:20])))


def door_cart(to: To) -> Iterator[Any]:
    for tree, y in ((CARTRegressor(), Y), (CARTClassifier(), LABELS)):
        yield tree.fit(to(X), to(y)).predict(to(X))
        yield tree.score(to(X), to(y))


@pytest.mark.parametrize(
    "door", [door_classifier, door_regressor, door_ranker, door_train, door_cart]
)
def test_every_door_takes_arrays_of_a_gpu(
    door: Callable[[To], Iterator[Any]], gpu: GpuDriver
) -> None:
    on_host, on_gpu = door(lambda values: values), door(lambda values: OnGpu(gpu, values))
    for expected, found in zip(on_host, on_gpu, strict=True):
        if isinstance(expected, np.ndarray):
            np.testing.assert_array_equal(found, expected)
        else:
            assert found == expected
    assert gpu.calls


def test_frames_of_cudf() -> None:
    """Frames of cuDF give their values by ``to_pandas`` only."""

    class DataFrame:
        """A frame of cuDF."""

        __module__ = "cudf.core.dataframe"

        def __init__(self, frame: pd.DataFrame | pd.Series[Any]) -> None:
            self._frame, self.shape = frame, frame.shape

        def __len__(self) -> int:
            return len(self._frame)

        def __array__(self) -> Any:
            raise TypeError

        def to_pandas(self) -> Any:
            return self._frame

        def head(self, n: int) -> DataFrame:
            return DataFrame(self._frame.head(n))

    X, y = table()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(e=np.where(y > 0, "u", "v"))
    expected = HedgerowRegressor(**PARAMS).fit(frame, y)
    found = HedgerowRegressor(**PARAMS).fit(DataFrame(frame), DataFrame(pd.Series(y)))
    assert bytes_of(found) == bytes_of(expected)
    assert np.array_equal(found.predict(DataFrame(frame)), expected.predict(frame))
    several = HedgerowRegressor(**PARAMS).fit(frame, DataFrame(frame[["a", "b"]].fillna(0)))
    assert several.booster_.target_names == ("a", "b")


def test_sparse_matrices_of_cupy() -> None:
    class csr_matrix:
        """A sparse matrix of CuPy."""

        __module__ = "cupyx.scipy.sparse._csr"

        def __init__(self, matrix: Any) -> None:
            self._matrix, self.shape, self.nnz = matrix, matrix.shape, matrix.nnz

        def tocsr(self) -> Any:
            return self

        def toarray(self) -> Any:
            raise TypeError

        def get(self) -> Any:
            return self._matrix

    X, y = table()
    matrix = sparse.csr_array(np.nan_to_num(X))
    expected = HedgerowRegressor(**PARAMS).fit(matrix, y)
    found = HedgerowRegressor(**PARAMS).fit(csr_matrix(matrix), y)
    assert bytes_of(found) == bytes_of(expected)
    assert np.array_equal(found.predict(csr_matrix(matrix)), expected.predict(matrix))


# -- with a GPU ---------------------------------------------------------------------------

MISSING = device.missing_gpu()
with_gpu = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


def cupy_arrays(values: Array) -> Any:
    """Return an array of CuPy."""
    return pytest.importorskip("cupy").asarray(values)


def torch_tensors(values: Array) -> Any:
    """Return a tensor of PyTorch."""
    torch = pytest.importorskip("torch")
    return torch.tensor(np.ascontiguousarray(values), device="cuda")


def jax_arrays(values: Array) -> Any:
    """Return an array of JAX, on its default device."""
    return pytest.importorskip("jax").numpy.asarray(values)


def by_dlpack(values: Array) -> Any:
    """Return an array of CuPy that has DLPack only."""

    class Exporter:
        def __init__(self, array: Any) -> None:
            self._array, self.shape, self.dtype = array, array.shape, array.dtype

        def __len__(self) -> int:
            return len(self._array)

        def __dlpack__(self, stream: Any = None) -> Any:
            return self._array.__dlpack__(stream=stream)

        def __dlpack_device__(self) -> Any:
            return self._array.__dlpack_device__()

    return Exporter(cupy_arrays(values))


LIBRARIES = [cupy_arrays, torch_tensors, jax_arrays, by_dlpack]


@with_gpu
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda made: made.__name__)
def test_fits_of_each_library(library: Any) -> None:
    X, y = table(5_000)
    X, labels = X.astype(np.float32), (y > 0).astype(np.int32)
    weight = (1.0 + (y > 1)).astype(np.float32)
    for name in ("cpu", "cuda"):
        model = HedgerowClassifier(device=name, **PARAMS)
        expected = bytes_of(model.fit(X, labels, weight))
        given = [library(values) for values in (X, labels, weight)]
        assert bytes_of(model.fit(*given)) == expected
        assert np.array_equal(model.predict_proba(given[0]), model.predict_proba(X))
        assert model.score(*given) == model.score(X, labels, weight)


@with_gpu
def test_strides_of_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    values = cupy.arange(10_000, dtype=cupy.float32).reshape(100, 100)
    for view in (
        values, values.T, values[::-1], values[:, ::-3], values[5::7, 3], values[:0],
        cupy.broadcast_to(values[0], (7, 100)), values.astype(cupy.int16)[::2, ::2],
    ):  # fmt: skip
        assert np.array_equal(arrays.on_host(view), view.get())


@with_gpu
def test_work_that_is_under_way_is_waited_for() -> None:
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream(non_blocking=True):
        product = cupy.ones((4000, 4000), dtype=cupy.float32)
        for _ in range(20):
            product = product @ product / 4000
        found = arrays.on_host(product)
    assert np.array_equal(found, product.get())


@with_gpu
def test_types_of_torch() -> None:
    torch = pytest.importorskip("torch")
    assert np.array_equal(arrays.on_host(torch.arange(5, device="cuda")), np.arange(5))
    with pytest.raises(DataTypeError, match="which NumPy does not have: convert it to float32"):
        arrays.on_host(torch.ones(3, device="cuda", dtype=torch.bfloat16))
    with pytest.raises(DataError, match="detach"):
        arrays.on_host(torch.ones(3, device="cuda", requires_grad=True))
    on_processor = torch.ones(3)
    assert arrays.on_host(on_processor) is on_processor


@with_gpu
def test_sparse_matrices_on_a_gpu() -> None:
    cupy_sparse = pytest.importorskip("cupyx.scipy.sparse")
    X, y = table()
    matrix = sparse.csr_matrix(np.nan_to_num(X))
    expected = HedgerowRegressor(**PARAMS).fit(matrix, y)
    for kind in (cupy_sparse.csr_matrix, cupy_sparse.csc_matrix):
        found = HedgerowRegressor(**PARAMS).fit(kind(matrix), y)
        assert bytes_of(found) == bytes_of(expected)
        assert np.array_equal(found.predict(kind(matrix)), expected.predict(matrix))
