"""The instruction of :mod:`hedgerow.kernels.simd.row_lanes` in LLVM."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from hedgerow.kernels.simd.lanes import WIDTH
from hedgerow.kernels.simd.lanes_llvm import Lanes
from hedgerow.kernels.simd.lanes_llvm import _turn as turn

_FLOATS = Lanes(types.float64)


@intrinsic
def load_rows(typingctx: Any, array: Any, at: Any, first: Any) -> Any:
    """Load ``WIDTH`` vectors: lane j of vector i is ``array[at[first + j] + i]``."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data, places = (
            context.make_array(kind)(context, builder, value).data
            for kind, value in zip(sig.args[:2], args[:2], strict=True)
        )
        row = context.get_value_type(_FLOATS)
        rows = []
        for lane in range(WIDTH):
            place = builder.add(args[2], ir.IntType(64)(lane))
            start = builder.load(builder.gep(places, [place]))
            pointer = builder.bitcast(builder.gep(data, [start]), row.as_pointer())
            rows.append(builder.load(pointer, align=8))
        return context.make_tuple(builder, sig.return_type, turn(builder, rows))

    result = types.UniTuple(_FLOATS, WIDTH)
    return result(array, at, types.int64), generate
