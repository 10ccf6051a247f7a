"""Arrays of other libraries in the memory of a GPU, copied to the host by their own libraries.

No library is imported: arrays are recognised by their types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.errors import DataError, DataTypeError

_HOST_TYPES = (np.ndarray, list, tuple, dict, str, bytes, int, float, type(None))

_COPY = {"cupy": "get", "cupyx": "get", "cudf": "to_pandas", "numba": "copy_to_host"}
"""Method of the arrays, frames and sparse matrices of a library that copies them."""


def on_host(values: Any) -> Any:
    """Return what lies on a GPU as the same in the memory of the host; all else unchanged."""
    kind = type(values)
    if kind in _HOST_TYPES:
        return values
    library = kind.__module__.partition(".")[0]
    if hasattr(kind, _COPY.get(library, "")):
        return getattr(values, _COPY[library])()
    if library == "torch" and getattr(values, "is_cuda", False):
        return _copy_of_tensor(values)
    if library != "torch" and hasattr(kind, "__cuda_array_interface__"):
        raise DataError(
            f"a {kind.__name__} on a GPU cannot be read here: pass a copy on the host, for example "
            "cupy.asarray(array).get()."
        )
    return values


def _copy_of_tensor(tensor: Any) -> npt.NDArray[Any]:
    if tensor.requires_grad:
        raise DataError("a Tensor on a GPU records gradients: pass its detach() instead.")
    try:
        found: npt.NDArray[Any] = tensor.cpu().numpy()
    except TypeError:
        raise DataTypeError(
            f"a Tensor on a GPU has type {tensor.dtype}, which NumPy does not have: convert it to "
            "float32."
        ) from None
    return found


def host_array(values: Any) -> npt.NDArray[Any]:
    """Return values as an array in the memory of the host; NaN or None where they are masked.

    Examples
    --------
    >>> host_array(np.ma.array([1, 2], mask=[False, True])).tolist()
    [1, None]
    """
    if isinstance(values, list | tuple):
        return _array_of_list(values)
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(on_host(values))
    plain, masked = np.asarray(values), np.ma.getmaskarray(values)
    if plain.dtype.names is not None or not masked.any():
        return plain
    if plain.dtype.kind == "f":
        return np.where(masked, np.nan, plain)
    found = plain.astype(object)
    found[masked] = None
    return found


def _array_of_list(values: Sequence[Any]) -> npt.NDArray[Any]:
    """Return a list as an array; text beside NaN or numbers stays apart from their text."""
    array: npt.NDArray[Any] = np.asarray(values)
    if array.dtype.kind not in "US":
        return array
    objects = np.array(values, dtype=object)
    known = {str, np.str_, bytes, np.bytes_}
    return array if set(map(type, objects.ravel().tolist())) <= known else objects


def is_cudf(values: object) -> bool:
    """Return whether this is a frame, a column or an index of cuDF."""
    return type(values).__module__.partition(".")[0] == "cudf"
