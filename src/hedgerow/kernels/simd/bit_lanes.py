"""Truths of many rows as the bits of a word, and as lanes (:mod:`hedgerow.kernels.simd.lanes`).

truths_of(word)     the lowest ``WIDTH`` bits of a uint64 as truths, for ``choose``
word_of(truths)     truths as the lowest bits of a uint64
"""

from __future__ import annotations

from hedgerow.compile import Intrinsic


def _declare(name: str) -> Intrinsic:
    return Intrinsic("hedgerow.kernels.simd.bit_lanes_llvm", name, counts_lanes=True)


truths_of = _declare("truths_of")
word_of = _declare("word_of")
