"""Lines of a table, one for each of many rows, as lanes (:mod:`hedgerow.kernels.simd.lanes`).

load_rows(array, at, k)   ``WIDTH`` vectors: lane j of the i-th is array[at[k + j] + i], of float64
"""

from __future__ import annotations

from hedgerow.compile import Intrinsic


def _declare(name: str) -> Intrinsic:
    return Intrinsic("hedgerow.kernels.simd.row_lanes_llvm", name, counts_lanes=True)


load_rows = _declare("load_rows")
