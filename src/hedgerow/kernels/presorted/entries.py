"""Sorted entries on disk: merging of runs, and packing into few bits."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray, RowArray
from hedgerow.compile import kernel

_RUN_SHIFT = np.uint32(31)
_ROW_BITS = np.uint32((1 << 31) - 1)
_WORD = np.uint64(64)


@kernel
def merge_runs(
    keys: IntArray,
    rows: np.ndarray,
    at: IntArray,
    count: IntArray,
    live: np.ndarray,
    out_keys: IntArray,
    out_rows: RowArray,
) -> int:
    """Merge sorted runs until the output is full or a run is exhausted.

    Among equal keys, the key of the first run comes first.

    Parameters
    ----------
    keys, rows : int64, uint32 (runs, n)
        Run ``r`` holds ``keys[r, at[r] : count[r]]``, ascending; ``at`` advances.
    live : uint8 (runs,)
        0: the run has ended for good.
    out_keys, out_rows : written

    Returns
    -------
    int
        Number of written entries.
    """
    n_runs = len(at)
    for k in range(len(out_keys)):
        best = np.int64(-1)
        lowest = np.int64(0)
        for r in range(n_runs):
            if live[r] == 0:
                continue
            if at[r] == count[r]:
                return np.int64(k)
            key = keys[r, at[r]]
            if best < 0 or key < lowest:
                best, lowest = np.int64(r), key
        if best < 0:
            return np.int64(k)
        out_keys[k] = lowest
        out_rows[k] = rows[best, at[best]]
        at[best] += 1
    return np.int64(len(out_keys))


@kernel
def pack_entries(entries: RowArray, n: int, bits: int, words: np.ndarray) -> None:
    """Pack entries into ``bits`` bits each: the row, and above it the run bit.

    ``words`` are zeros, with one word more than the bits need.
    """
    width, top = np.uint64(bits), np.uint64(bits - 1)
    at = np.uint64(0)
    for i in range(np.uint64(n)):
        entry = entries[i]
        code = np.uint64(entry & _ROW_BITS) | (np.uint64(entry >> _RUN_SHIFT) << top)
        word, shift = at >> np.uint64(6), at & np.uint64(63)
        words[word] |= code << shift
        if shift + width > _WORD:
            words[word + np.uint64(1)] |= code >> (_WORD - shift)
        at += width


@kernel
def unpack_entries(words: np.ndarray, n: int, bits: int, entries: RowArray) -> None:
    """Invert :func:`pack_entries`."""
    width, top = np.uint64(bits), np.uint64(bits - 1)
    mask = (np.uint64(1) << width) - np.uint64(1)
    row_mask = (np.uint64(1) << top) - np.uint64(1)
    at = np.uint64(0)
    for i in range(np.uint64(n)):
        word, shift = at >> np.uint64(6), at & np.uint64(63)
        code = words[word] >> shift
        # The shift has two steps, because a shift by 64 bits is undefined.
        code |= (words[word + np.uint64(1)] << np.uint64(1)) << (np.uint64(63) - shift)
        code &= mask
        entries[i] = np.uint32(code & row_mask) | (np.uint32(code >> top) << _RUN_SHIFT)
        at += width
