"""Count of the pairs of rows that a risk orders correctly, in n log n steps.

Rows enter a tree of partial sums (Fenwick 1994) by the rank of their risk, from the
latest time to the earliest, so the tree holds the rows that outlive the next one.

Glossary
--------
rank    int64 (n_rows,): rank of the risk, from 1; equal risks have equal ranks
rows    int64: rows ascending in time; ``starts`` is the start of the rows of each time
tree    float64 (largest rank + 1,): partial sums of weights, zeros at first
"""

from __future__ import annotations

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray
from hedgerow.compile import kernel


@kernel(inner=True)
def add_at(tree: FloatArray, place: int, amount: float) -> None:
    """Add to the sums of all prefixes that contain ``place``, which counts from 1."""
    while place < len(tree):
        tree[place] += amount
        place += place & -place


@kernel(inner=True)
def sum_to(tree: FloatArray, place: int) -> float:
    """Return the sum of the first ``place`` amounts."""
    total = 0.0
    while place > 0:
        total += tree[place]
        place -= place & -place
    return total


@kernel
def concordant_pairs(
    rank: kt.Int64_1D,
    event: kt.Bool_1D,
    weight: kt.Float64_1D,
    rows: kt.Int64_1D,
    starts: kt.Int64_1D,
    tree: kt.Float64_1D,
) -> tuple[float, float]:
    """Return the weight of the pairs in the right order (ties: half), and of comparable pairs."""
    right, total, inside = 0.0, 0.0, 0.0
    for time in range(len(starts) - 2, -1, -1):
        first, stop = starts[time], starts[time + 1]
        # A row censored at the time of an event outlives it.
        for place in range(first, stop):
            i = rows[place]
            if not event[i]:
                add_at(tree, rank[i], weight[i])
                inside += weight[i]
        for place in range(first, stop):
            i = rows[place]
            if event[i]:
                below, equal = sum_to(tree, rank[i] - 1), sum_to(tree, rank[i])
                right += weight[i] * (below + 0.5 * (equal - below))
                total += weight[i] * inside
        for place in range(first, stop):
            i = rows[place]
            if event[i]:
                add_at(tree, rank[i], weight[i])
                inside += weight[i]
    return right, total
