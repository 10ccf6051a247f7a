"""Types of the arrays that kernels take, and that the groups of their arrays hold.

The annotations of a kernel that Python calls are the types that it is compiled for
(:mod:`hedgerow.compile.variants`): ``Int64_2D`` is a C-contiguous array of two dimensions.  The
second part of each type is its name in Numba's notation.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Float64_1D: TypeAlias = Annotated[npt.NDArray[np.float64], "float64[::1]"]
Float64_2D: TypeAlias = Annotated[npt.NDArray[np.float64], "float64[:, ::1]"]
Float64_3D: TypeAlias = Annotated[npt.NDArray[np.float64], "float64[:, :, ::1]"]
Float64_4D: TypeAlias = Annotated[npt.NDArray[np.float64], "float64[:, :, :, ::1]"]
Float32_1D: TypeAlias = Annotated[npt.NDArray[np.float32], "float32[::1]"]
Float32_2D: TypeAlias = Annotated[npt.NDArray[np.float32], "float32[:, ::1]"]
Float32_3D: TypeAlias = Annotated[npt.NDArray[np.float32], "float32[:, :, ::1]"]
Int64_1D: TypeAlias = Annotated[npt.NDArray[np.int64], "int64[::1]"]
Int64_2D: TypeAlias = Annotated[npt.NDArray[np.int64], "int64[:, ::1]"]
Int64_3D: TypeAlias = Annotated[npt.NDArray[np.int64], "int64[:, :, ::1]"]
Int64_4D: TypeAlias = Annotated[npt.NDArray[np.int64], "int64[:, :, :, ::1]"]
Int32_1D: TypeAlias = Annotated[npt.NDArray[np.int32], "int32[::1]"]
Int32_2D: TypeAlias = Annotated[npt.NDArray[np.int32], "int32[:, ::1]"]
Int32_3D: TypeAlias = Annotated[npt.NDArray[np.int32], "int32[:, :, ::1]"]
UInt64_1D: TypeAlias = Annotated[npt.NDArray[np.uint64], "uint64[::1]"]
UInt64_2D: TypeAlias = Annotated[npt.NDArray[np.uint64], "uint64[:, ::1]"]
UInt32_1D: TypeAlias = Annotated[npt.NDArray[np.uint32], "uint32[::1]"]
UInt32_2D: TypeAlias = Annotated[npt.NDArray[np.uint32], "uint32[:, ::1]"]
UInt16_1D: TypeAlias = Annotated[npt.NDArray[np.uint16], "uint16[::1]"]
UInt8_1D: TypeAlias = Annotated[npt.NDArray[np.uint8], "uint8[::1]"]
UInt8_2D: TypeAlias = Annotated[npt.NDArray[np.uint8], "uint8[:, ::1]"]
UInt8_3D: TypeAlias = Annotated[npt.NDArray[np.uint8], "uint8[:, :, ::1]"]
Bool_1D: TypeAlias = Annotated[npt.NDArray[np.bool_], "bool[::1]"]

_Array = TypeVar("_Array")
ReadOnly: TypeAlias = Annotated[_Array, "const"]  # the kernel takes read-only arrays, too
Strided: TypeAlias = Annotated[_Array, "strided"]  # it takes arrays in any order and strides
