"""GPU kernels, run thread by thread, equal their twins."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest

from hedgerow.data.binning.matrix import tile_shape
from hedgerow.growing.core import state as layout
from hedgerow.growing.cuda.packing import pack_rows, pack_vectors
from hedgerow.kernels.cuda import histogram, rows
from hedgerow.kernels.cuda.commands import ROWS_PER_BLOCK
from hedgerow.kernels.cuda.orders import ORDER_FIELDS, Order, Orders
from hedgerow.kernels.histograms.histogram import HistogramSums, Packing
from hedgerow.kernels.histograms.vector_histogram import place_of_g, width_of
from tests.helpers.gpu_threads import simulate
from tests.reference import cuda_kernels

Array = np.ndarray[Any, Any]
PACKINGS = {
    "constant": Packing(16, 0, 0),
    "narrow": Packing(13, 25, 0),
    "apart": Packing(15, 46, 1),
}


def both(
    kernel: Any, blocks: tuple[int, int], n_words: int, *arguments: Any, threads: int = 64
) -> None:
    """Run a kernel and its twin; check that all arrays are equal."""
    expected = copy.deepcopy(arguments)
    getattr(cuda_kernels, kernel.name.partition(":")[2])(*expected)
    simulate(kernel, blocks, threads, n_words, *arguments)
    for own, other in zip(_arrays_of(arguments), _arrays_of(expected), strict=True):
        assert np.array_equal(own, other)


def _arrays_of(given: Any) -> list[Array]:
    if isinstance(given, np.ndarray):
        return [given]
    return [a for item in given for a in _arrays_of(item)] if isinstance(given, tuple) else []


def binned(rng: np.random.Generator, n_rows: int, n_columns: int, stride: int) -> Array:
    """Return bins by column with 64 bytes of padding each; some columns have one bin."""
    bins = rng.integers(0, stride, (n_columns, n_rows + 64)).astype(np.uint8)
    bins[:: max(2, n_columns - 1)] = stride - 1
    return bins


def tiled(bins: Array, n_rows: int, stride: int) -> histogram.TiledBins:
    """Return the bins by row, in the layout of the kernel."""
    n_columns = len(bins)
    n_tiles, per_tile, width = tile_shape(n_columns)
    by_row = np.full(n_tiles * n_rows * width // 4, 0xFFFFFFFF, dtype=np.uint32)
    made = histogram.TiledBins(by_row, n_rows * width // 4, width // 4, per_tile, n_columns, stride)
    columns = rows.Columns(bins.reshape(-1), bins.shape[1])
    both(rows.lay_rows, (3, n_tiles), 0, n_rows, columns, made)
    return made


@pytest.mark.parametrize("packing", PACKINGS.values(), ids=PACKINGS)
@pytest.mark.parametrize(("n_columns", "stride"), [(3, 16), (13, 64), (28, 256), (40, 16)])
def test_histograms(packing: Packing, n_columns: int, stride: int) -> None:
    rng = np.random.default_rng(n_columns)
    n_rows = 150
    bins = tiled(binned(rng, n_rows, n_columns, stride), n_rows, stride)
    g = rng.integers(-(2**30), 2**30, n_rows)
    h = rng.integers(0, 2**30, n_rows)
    packed = np.zeros((2, n_rows), dtype=np.int64)
    if packing.g_apart == 1:
        packed[:] = g, (h << packing.count_bits) + 1
    elif packing.hessian_bits == 0:
        packed[0] = (g << packing.count_bits) + 1
    else:
        packed[0] = (((g >> 18 << packing.hessian_bits) + (h >> 18)) << packing.count_bits) + 1
    ids = rng.permutation(n_rows).astype(np.uint32)
    n_cells = n_columns * stride
    sums, kept = sums_of(3 * n_cells), sums_of(3 * n_cells)
    n_tiles, per_tile, _ = tile_shape(n_columns)
    n_words = histogram.words_of_tile(per_tile, stride)
    for places, per_block in (([(70, 1, 0)], 512), ([(3, 80, 2), (0, 0, 0), (83, 60, 1)], 37)):
        given = [NOTHING._replace(first_row=f, n_rows=n, place=to) for f, n, to in places]
        orders, _, n_blocks = listed(given, per_block)
        for word in range(1 + packing.g_apart):
            summed = histogram.Part(word, word * n_rows, 0, n_cells)
            both(
                histogram.add_histogram, (n_blocks, n_tiles), n_words, orders, summed,
                packing, bins, packed.reshape(-1), ids, sums,
            )  # fmt: skip
        both(histogram.hand_over, (2, len(given)), 0, orders, n_cells, sums, kept)
        assert not sums.n.any()
    assert kept.n.reshape(3, -1).sum(axis=1).tolist() == [n_columns, 60 * n_columns, 80 * n_columns]


NOTHING = Order(*[0] * ORDER_FIELDS)


def listed(given: list[Order], per_block: int, n_before: int = 2) -> tuple[Orders, int, int]:
    """Return orders with blocks, and the numbers of blocks that divide and that sum."""
    n_blocks, n_adding, placed = 0, 0, []
    for order in given:
        placed.append(order._replace(block=n_blocks, histogram_block=n_adding))
        n_blocks += -(-order.count // per_block)
        n_adding += -(-order.n_rows // per_block)
    rows_of_list = [[99] * ORDER_FIELDS] * n_before + [list(order) for order in placed]
    flat = np.array(rows_of_list, dtype=np.int64).reshape(-1)
    only = placed[0]
    return Orders(only, len(placed), n_before, per_block, flat), n_blocks, n_adding


def sums_of(n_cells: int) -> HistogramSums:
    """Return sums that are 0."""
    g, h, n = (np.zeros(n_cells, dtype=kind) for kind in (np.int64, np.int64, np.int32))
    return HistogramSums(g, h, n)


def test_words_of_a_cell_carry() -> None:
    """A cell holds sums beyond 32 bits, of both signs."""
    n_rows = 64
    values = np.random.default_rng(0).integers(-(2**62) // 64, 2**62 // 64, n_rows)
    bins = histogram.TiledBins(np.zeros(2 * n_rows, np.uint32), 2 * n_rows, 2, 1, 1, 8)
    sums = sums_of(8)
    packed = np.concatenate((values, np.zeros(n_rows, dtype=np.int64)))
    ids = np.arange(n_rows, dtype=np.uint32)
    orders, _, _ = listed([NOTHING._replace(n_rows=n_rows)], n_rows)
    summed = histogram.Part(0, 0, 0, 8)
    given = orders, summed, PACKINGS["apart"], bins, packed, ids, sums
    simulate(histogram.add_histogram, (1, 1), 64, 16, *given)
    assert sums.g.tolist() == [values.sum(), 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("threads", [32, 96])
@pytest.mark.parametrize(
    ("sizes", "per_block"),
    [([1], 10), ([97], 100), ([900], 900), ([501], 100), ([30, 1, 250, 100, 101], 100)],
)
def test_rows_are_divided(threads: int, sizes: list[int], per_block: int) -> None:
    rng = np.random.default_rng(threads)
    first, n_inside = 40, sum(sizes)
    n_rows = first + n_inside + 9
    bins = binned(rng, n_rows, 5, 256)
    columns = rows.Columns(bins.reshape(-1), bins.shape[1])
    starts = first + np.cumsum(sizes) - sizes
    for column, words in ((0, rng.integers(-(2**63), 2**63, 4)), (3, [-1] * 4), (4, [0, 0, 5, 0])):
        ids = rng.permutation(n_rows).astype(np.uint32)
        given = [
            Order(column, start, count, 0, *map(int, words), *[0] * 5)
            for start, count in zip(starts.tolist(), sizes, strict=True)
        ]
        orders, n_blocks, _ = listed(given, per_block)
        counts = np.full(n_blocks, -1, dtype=np.int64)
        both(rows.count_left, (n_blocks, 1), 1, orders, columns, ids, counts, threads=threads)
        edges = np.append(np.array(orders.listed).reshape(-1, ORDER_FIELDS)[2:, 8], n_blocks)
        n_left = [int(counts[a:b].sum()) for a, b in itertools.pairwise(edges)]
        given = [order._replace(n_left=n) for order, n in zip(given, n_left, strict=True)]
        orders, _, _ = listed(given, per_block)
        scratch, before = np.zeros(n_rows, dtype=np.uint32), ids.copy()
        dividing = orders, columns, ids, counts, scratch
        both(rows.divide_rows, (n_blocks, 1), rows.MOST_WARPS, *dividing, threads=threads)
        both(rows.copy_rows, (n_blocks, 1), 0, orders, ids, scratch, threads=threads)
        for start, count in zip(starts, sizes, strict=True):
            own = slice(start, start + count)
            assert np.array_equal(np.sort(ids[own]), np.sort(before[own]))
        assert np.array_equal(ids[:first], before[:first])
        assert np.array_equal(ids[first + n_inside :], before[first + n_inside :])


@pytest.mark.parametrize("count", [[300], [120, 3, 150], [1] * 40, [4000, 200, 90]])
def test_leaves(count: list[int]) -> None:
    rng = np.random.default_rng(0)
    n_inside = sum(count)
    n_rows = n_inside + 20
    ids = rng.permutation(n_rows).astype(np.uint32)
    quantized = rng.integers(-(2**30), 2**30, 2 * n_rows).astype(np.int32)
    starts = np.zeros(50, dtype=np.int64)
    starts[: len(count)] = np.cumsum(count) - count
    nodes = rng.permutation(50).astype(np.int64)
    sums, leaf_of = np.zeros(100, dtype=np.int64), np.full(n_rows, -1, dtype=np.int32)
    n_blocks = -(-n_inside // ROWS_PER_BLOCK)
    given = len(count), n_inside, starts, nodes, quantized, ids, sums, leaf_of
    both(rows.finish_rows, (n_blocks, 1), 0, *given)
    assert sums.any()
    assert (leaf_of == -1).sum() == 20


@pytest.mark.parametrize("packing", PACKINGS.values(), ids=PACKINGS)
def test_packed_rows(packing: Packing) -> None:
    rng = np.random.default_rng(1)
    n_rows = 130
    scalars = np.zeros(layout.N_SCALARS, dtype=np.int64)
    scalars[layout.IS_TREE], scalars[layout.IS_DROPPED_BITS] = 17, 18
    scalars[layout.IS_COUNT_BITS], scalars[layout.IS_HESSIAN_BITS] = packing[:2]
    scalars[layout.IS_G_APART] = packing.g_apart
    quantized = rng.integers(-(2**30), 2**30, (n_rows, 2)).astype(np.int32)
    quantized[:, 1] = abs(quantized[:, 1])
    packed = np.zeros(2 * n_rows, dtype=np.int64)
    ids = np.arange(n_rows, dtype=np.uint32)
    constant = int(packing.hessian_bits == 0)
    given = constant, np.uint64(5), scalars, ids, quantized.reshape(-1), packed
    both(pack_rows, (2, 1), 0, *given)


@pytest.mark.parametrize("constant", [0, 1])
@pytest.mark.parametrize("n_outputs", [2, 8, 9, 17])
def test_sums_of_several_outputs(n_outputs: int, constant: int) -> None:
    """The sums are right for any signs, and outputs do not affect each other."""
    rng = np.random.default_rng(n_outputs)
    n_rows, n_columns, stride = 150, 5, 16
    width, n_cells = width_of(n_outputs, bool(constant)), n_columns * stride
    g = rng.integers(-(2**30) // n_rows, 2**30 // n_rows, (n_outputs, n_rows))
    h = np.ones_like(g) if constant == 1 else rng.integers(0, 2**30 // n_rows, g.shape)
    words = np.full((n_rows, width), -7, dtype=np.int32)
    for output in range(n_outputs):
        place = place_of_g(constant, output)
        words[:, place] = g[output]
        if constant == 0:
            words[:, place + 8] = h[output]
    n_parts = n_outputs + 1 - constant
    packed = np.zeros(n_parts * n_rows, dtype=np.int64)
    given = n_outputs, n_rows, width, constant, words.reshape(-1), packed
    both(pack_vectors, (2, 1), 0, *given)
    tiles = tiled(binned(rng, n_rows, n_columns, stride), n_rows, stride)
    n_tiles, per_tile, _ = tile_shape(n_columns)
    orders, _, n_blocks = listed([NOTHING._replace(n_rows=n_rows, place=1)], 64)
    ids, sums = np.arange(n_rows, dtype=np.uint32), sums_of(2 * n_parts * n_cells)
    for part in range(n_parts):
        summed = histogram.Part(0, part * n_rows, part * n_cells, n_parts * n_cells)
        packing = Packing(32, 0, 0) if constant == 1 or part == n_outputs else Packing(0, 32, 0)
        both(
            histogram.add_histogram, (n_blocks, n_tiles), histogram.words_of_tile(per_tile, stride),
            orders, summed, packing, tiles, packed, ids, sums,
        )  # fmt: skip
    found = [numbers.reshape(2, n_parts, n_columns, stride)[1].sum(axis=2) for numbers in sums]
    assert np.array_equal(found[0][:n_outputs], np.repeat(g.sum(axis=1)[:, None], n_columns, 1))
    assert np.array_equal(found[1][:n_outputs], np.repeat(h.sum(axis=1)[:, None], n_columns, 1))
    assert (found[2][-1] == n_rows).all()


def test_numbers_of_rows() -> None:
    both(rows.count_rows, (2, 1), 0, 300, np.zeros(300, dtype=np.uint32))
