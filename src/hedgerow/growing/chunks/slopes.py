"""Finds the slopes of the leaves of a tree that was grown over chunks.

The sums of a leaf are floats, added in the order of its rows, as those of
:class:`hedgerow.growing.core.slopes.SlopeFinder`.  Each stage
(:mod:`hedgerow.kernels.prediction.slope_fit`) is a pass over the chunks that goes on from the sums
of the chunk before.  Ranks take turns: each goes on from the sums of the rank before it.  They do
not wait for each other, because the leaves are divided into groups, as many as ranks::

    step      0          1          2          3          4
    rank 0    group 0    group 1    group 2
    rank 1               group 0    group 1    group 2
    rank 2                          group 0    group 1    group 2

After the step in which the last rank has a group, all ranks have its sums.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hedgerow.arrays import IntArray, RowArray, distinct
from hedgerow.data.external.disk_store import Chunk, ChunkStore, Uses
from hedgerow.growing.chunks.exchange import Exchange
from hedgerow.growing.core import slopes
from hedgerow.growing.core import state as s
from hedgerow.kernels.prediction import slope_fit
from hedgerow.kernels.prediction.slopes import TERMS, Slopes
from hedgerow.threads import run_blocks

RowsOf = Callable[[Chunk, IntArray], "tuple[RowArray, IntArray]"]
"""``rows_of(chunk, leaves)``: the rows of some leaves in a chunk, leaf by leaf and ascending, and
int64 (n_leaves + 1,): where those of each leaf start."""


class ChunkSlopes:
    """Finds the slopes of one tree after the other.

    store      ChunkStore: with numbers
    limits     LineLimits
    exchange   Exchange
    n_threads  int
    rows_of    callable: see ``RowsOf``; leaves are those of the last tree
    chunks_of  callable: returns the numbers of the chunks that have rows of some leaves of the last
               tree
    """

    def __init__(
        self,
        store: ChunkStore,
        limits: slopes.LineLimits,
        exchange: Exchange,
        n_threads: int,
        rows_of: RowsOf,
        chunks_of: Callable[[IntArray], list[int]],
    ) -> None:
        self._store, self._limits, self._exchange = store, limits, exchange
        self._n_threads, self._rows_of, self._chunks_of = n_threads, rows_of, chunks_of
        self._space = np.empty((2 + TERMS, max(store.chunk_sizes, default=0)))

    def slopes(self, state: s.State) -> Slopes:
        """Return the slopes of the last tree."""
        n_nodes = int(state.scalars[s.IS_N_NODES])
        units, rules = slopes.line_rules(state, self._limits, n_nodes)
        terms, space = slope_fit.empty_terms(n_nodes), slopes.leaf_space(n_nodes)
        table = state.tree.table[:n_nodes]
        slopes.choose_columns(table, n_nodes, self._limits.usable, space, terms)
        sums, n_terms = slope_fit.empty_sums(n_nodes), int(terms.count.sum())
        if n_terms == 0:
            return slopes.slopes_of(terms, n_nodes, n_terms)
        with_terms = np.flatnonzero(terms.count > 0)
        n_turns = self._exchange.size if self._exchange.adds else 1
        groups = divided(with_terms, space.count[with_terms], n_turns)
        data = slope_fit.LeafRows(
            state.rows.rows, space.start, space.count, state.rows.quantized, *units,
            np.zeros((0, 0)), self._space,
        )  # fmt: skip
        for stage in range(slope_fit.STAGES):

            def visit(number: int, stage: int = stage) -> None:
                # The rows of some leaves on this rank; ``data`` lacks those of a chunk.
                leaves = groups[number]
                used = np.arange(TERMS) < terms.count[leaves, None]
                columns = distinct(terms.column[leaves][used]).tolist()
                start, count = np.zeros((2, n_nodes), dtype=np.int64)
                uses = Uses(False, (), numbers=columns)
                for chunk in self._store.chunks(self._chunks_of(leaves), uses):
                    assert chunk.numbers is not None
                    rows, starts = self._rows_of(chunk, leaves)
                    start[leaves], count[leaves] = starts[:-1], np.diff(starts)
                    # The numbers of a chunk begin with its first row.
                    rows -= np.uint32(chunk.start)
                    here = data._replace(
                        rows=rows, start=start, count=count, numbers=chunk.numbers,
                        quantized=data.quantized[2 * chunk.start :],
                    )  # fmt: skip

                    def add(first: int, stop: int, here: slope_fit.LeafRows = here) -> None:
                        unused = np.zeros(slope_fit.SUMS)
                        slope_fit.add_part(here, terms, rules, stage, first, stop, sums, unused)

                    fewest = slopes.fewest_nodes(n_nodes, len(rows))
                    run_blocks(add, n_nodes, self._n_threads, fewest)

            self._exchange.take_turns(groups, sums, visit)
            slope_fit.end_stage(terms, rules, stage, sums, slope_fit.system_space())
        return slopes.slopes_of(terms, n_nodes, n_terms)


def divided(leaves: IntArray, n_rows: IntArray, n_groups: int) -> list[IntArray]:
    """Divide leaves into consecutive groups, each with about as many rows."""
    before = np.cumsum(n_rows) - n_rows
    total = max(1, int(n_rows.sum()))
    number = (2 * before + n_rows) * n_groups // (2 * total)  # the group of the middle row
    return [leaves[number == k] for k in range(n_groups)]
