"""The instructions of :mod:`hedgerow.kernels.simd.bit_lanes` in LLVM."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from hedgerow.kernels.simd.lanes import WIDTH
from hedgerow.kernels.simd.lanes_llvm import Lanes

_TRUTHS = Lanes(types.boolean)
_BITS = ir.IntType(WIDTH)
_WORD = ir.IntType(64)


@intrinsic
def truths_of(typingctx: Any, word: Any) -> Any:
    """Return the lowest ``WIDTH`` bits of a word as truths, the lowest bit in lane 0."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bits = builder.trunc(args[0], _BITS)
        return builder.bitcast(bits, ir.VectorType(ir.IntType(1), WIDTH))

    return _TRUTHS(types.uint64), generate


@intrinsic
def word_of(typingctx: Any, truths: Any) -> Any:
    """Invert ``truths_of``; the other bits are 0."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.zext(builder.bitcast(args[0], _BITS), _WORD)

    return types.uint64(_TRUTHS), generate
