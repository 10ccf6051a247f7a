"""Target means by category: ordered means for training, lookup for prediction.

Glossary
--------
key       number of a combination of categories; equal keys have equal categories
code      index of a key in a list without gaps, from 0
strength  mass of the prior: a mean of ``k`` rows of weight 1 is
          ``(sum + strength * prior) / (k + strength)``
slots     int64, a power of two above the number of keys, -1 at first: a hash table of codes
sums      float64 (2 * n_codes,), 0 at first: sum of targets and sum of weights of each code
values    float64 (n_values, n_keys) of the ascending ``keys``; ``prior`` is for other keys

A mean over all rows contains the row's own target, so a tree that splits on it would
learn the answer.  The ordered mean of a row is taken over the rows *before* it in a
random order (Prokhorenkova et al. 2018).  One pass in that order computes all means,
with two running sums for each code::

    order     3    0    4    1    2
    code      a    b    a    a    b
    target    1    0    0    1    1
    mean of  none none 1/1  1/2  0/1      each smoothed toward the prior
"""

from __future__ import annotations

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.hashing import hash64, mix64

ORDER_STREAM = 12 << 40
"""First random stream of the random orders; each order has one stream."""

_SPLITTER = 2.0**29 + 1.0


@kernel
def shuffle(seed: int, stream: int, order: kt.Int64_1D) -> None:
    """Put ``order`` in a random order that depends only on its length, seed and stream."""
    n = len(order)
    for i in range(n - 1):
        draw = hash64(seed, stream, i)
        j = np.int64(i) + np.int64(draw % np.uint64(n - i))
        order[i], order[j] = order[j], order[i]


@kernel
def number_keys(
    keys: kt.Int64_1D, slots: kt.Int64_1D, codes: kt.Int64_1D, found: kt.Int64_1D
) -> int:
    """Number distinct keys in the order of appearance, list them in ``found``; return how many."""
    mask = np.uint64(len(slots) - 1)
    n_codes = np.int64(0)
    for i in range(len(keys)):
        key = keys[i]
        slot = mix64(np.uint64(key)) & mask
        while slots[slot] >= 0 and found[slots[slot]] != key:
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            slots[slot] = n_codes
            found[n_codes] = key
            n_codes += 1
        codes[i] = slots[slot]
    return n_codes


@kernel
def ordered_means(
    codes: kt.Int64_1D,
    order: kt.Int64_1D,
    target: kt.ReadOnly[kt.Float64_1D],
    weight: kt.Float64_1D,
    strength: float,
    prior: float,
    sums: kt.Float64_1D,
    means: kt.Float64_1D,
) -> None:
    """Write for each row the mean target of the rows with the same code before it."""
    for i in range(len(order)):
        row = np.uint64(order[i])
        at = np.uint64(2) * np.uint64(codes[row])
        mass = sums[at + np.uint64(1)]
        mean = (sums[at] + strength * prior) / (mass + strength)
        # Rounded to 24 bits, by Veltkamp's product, so that equal means do not differ by rounding
        # errors of sums; numbers from 1e300 on would overflow.
        scaled = mean * _SPLITTER
        means[row] = scaled - (scaled - mean)
        sums[at] += weight[row] * target[row]
        sums[at + np.uint64(1)] = mass + weight[row]


def means_of_sums(sums: FloatArray, strength: float, prior: float) -> FloatArray:
    """Return the mean of each code over all rows, from the sums of :func:`ordered_means`."""
    means = (sums[::2] + strength * prior) / (sums[1::2] + strength)
    scaled = means * _SPLITTER
    return scaled - (scaled - means)


@kernel
def look_up(
    joint: kt.Int64_1D,
    keys: kt.ReadOnly[kt.Int64_1D],
    values: kt.ReadOnly[kt.Float64_2D],
    prior: kt.ReadOnly[kt.Float64_1D],
    out: kt.Float64_2D,
    start: int,
    stop: int,
) -> None:
    """Write the values of the keys of rows ``start`` to ``stop``."""
    n_keys = len(keys)
    for i in range(start, stop):
        key = joint[i]
        low, high = np.int64(0), np.int64(n_keys)
        while low < high:
            middle = (low + high) >> 1
            if keys[middle] < key:
                low = middle + 1
            else:
                high = middle
        known = low < n_keys and keys[low] == key
        for k in range(len(prior)):
            out[k, i] = values[k, low] if known else prior[k]
