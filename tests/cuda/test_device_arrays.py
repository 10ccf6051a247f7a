"""Arrays on a GPU give the models and predictions of the same values on the host.

Most arrays only seem to lie on a GPU.  The tests at the end need one, and the libraries of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
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
from hedgerow.cuda import arrays, device
from hedgerow.errors import DataError, DataTypeError
from hedgerow.io import model_to_bytes

Array = np.ndarray[Any, Any]
PARAMS: dict[str, Any] = {"n_estimators": 5, "early_stopping": False, "n_jobs": 1}


def table(n_rows: int = 300, seed: int = 0) -> tuple[Array, Array]:
    """Return numbers with missing values, and a target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, np.nan_to_num(X[:, 0]) ** 2 + rng.normal(size=n_rows)


def bytes_of(fitted: Any) -> bytes:
    """Return the bytes of the model of an estimator."""
    return model_to_bytes(fitted.booster_.model)


class OnGpu:
    """An array of CuPy, which refuses an implicit conversion to NumPy."""

    __module__ = "cupy"
    __cuda_array_interface__: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, array: Any) -> None:
        self._array = np.asarray(array)
        self.shape, self.dtype = self._array.shape, self._array.dtype

    def __len__(self) -> int:
        return len(self._array)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self) -> Array:
        return self._array


class Tensor:
    """A tensor of PyTorch on a GPU."""

    __module__ = "torch"
    is_cuda, dtype = True, "torch.bfloat16"

    def __init__(self, array: Any, requires_grad: bool = False) -> None:
        self._array, self.requires_grad = array, requires_grad

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> Array:
        if self._array is None:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return np.asarray(self._array)


def test_each_library_copies_its_arrays() -> None:
    values = np.arange(6.0).reshape(2, 3)

    class DeviceNDArray:
        """An array of Numba."""

        __module__ = "numba.cuda.cudadrv.devicearray"

        def copy_to_host(self) -> Array:
            return values

    for array in (OnGpu(values), Tensor(values), DeviceNDArray()):
        assert np.array_equal(arrays.on_host(array), values)
    on_host = Tensor(values)
    on_host.is_cuda = False
    assert arrays.on_host(on_host) is on_host


def test_what_cannot_be_read_is_an_error() -> None:
    class Other:
        __cuda_array_interface__: dict[str, Any] = {}  # noqa: RUF012

    with pytest.raises(DataError, match="pass a copy on the host"):
        arrays.on_host(Other())
    with pytest.raises(DataTypeError, match=r"type torch\.bfloat16, which NumPy does not have"):
        arrays.on_host(Tensor(None))
    with pytest.raises(DataError, match=r"pass its detach\(\) instead"):
        HedgerowRegressor().fit(Tensor(np.ones((3, 2)), requires_grad=True), np.ones(3))


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
def test_every_door_takes_arrays_of_a_gpu(door: Callable[[To], Iterator[Any]]) -> None:
    on_host, on_gpu = door(lambda values: values), door(OnGpu)
    for expected, found in zip(on_host, on_gpu, strict=True):
        if isinstance(expected, np.ndarray):
            np.testing.assert_array_equal(found, expected)
        else:
            assert found == expected


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


@with_gpu
@pytest.mark.parametrize(
    "library", [cupy_arrays, torch_tensors, jax_arrays], ids=lambda made: made.__name__
)
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
def test_sparse_matrices_on_a_gpu() -> None:
    cupy_sparse = pytest.importorskip("cupyx.scipy.sparse")
    X, y = table()
    matrix = sparse.csr_matrix(np.nan_to_num(X))
    expected = HedgerowRegressor(**PARAMS).fit(matrix, y)
    for kind in (cupy_sparse.csr_matrix, cupy_sparse.csc_matrix):
        found = HedgerowRegressor(**PARAMS).fit(kind(matrix), y)
        assert bytes_of(found) == bytes_of(expected)
        assert np.array_equal(found.predict(kind(matrix)), expected.predict(matrix))
