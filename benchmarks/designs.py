"""Compare designs of the histogram kernel: nanoseconds to add one row of 28 features.

::

    python benchmarks/designs.py
    python benchmarks/designs.py --bins 5 --designs packed_cells spaced_cells

Each design is measured on all rows in order and on every eighth row, with one thread and with two
(the threads divide the rows, or the features).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from hedgerow.arrays import aligned_empty, aligned_zeros
from hedgerow.kernels.primitives.intrinsics import prefetch

ROWS, FEATURES, WIDTH, AHEAD = 1_000_000, 28, 32, 16
u = np.uint64
Part = tuple[int, int, int, int, int]
"""First row and the row after the last, histogram, first feature and that after the last."""


@intrinsic
def add_pair(typingctx: Any, cells: Any, cell: Any, g: Any, h: Any) -> Any:
    """Add (g, h) to a 128-bit cell with one load, one addition and one store."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        pair = ir.VectorType(ir.IntType(64), 2)
        pointer = builder.gep(builder.bitcast(data, pair.as_pointer()), [args[1]])
        value = ir.Constant(pair, ir.Undefined)
        for lane in range(2):
            value = builder.insert_element(value, args[2 + lane], ir.IntType(32)(lane))
        builder.store(builder.add(builder.load(pointer, align=16), value), pointer, align=16)
        return context.get_dummy_value()

    return types.void(cells, types.uintp, types.int64, types.int64), generate


def make_pass_by_cell(add: Any) -> Any:
    """Return a pass over the rows that calls ``add`` for one cell after the other."""
    add_to = njit(inline="always")(add)

    @njit(nogil=True, error_model="numpy")
    def design(
        bins: Any, rows: Any, start: int, stop: int, packed: Any, cells: Any, offsets: Any,
        first: int, last: int,
    ) -> None:  # fmt: skip
        for i in range(u(start), u(stop)):
            ahead = u(rows[i + u(AHEAD)])
            prefetch(bins, np.intp(ahead * u(WIDTH)))
            prefetch(packed, np.intp(ahead))
            at, value = u(rows[i]) * u(WIDTH), packed[u(rows[i])]
            for j in range(u(first), u(last)):
                add_to(cells, offsets, j, u(bins[at + j]), value)

    return design


@make_pass_by_cell
def packed_cells(cells: Any, offsets: Any, j: Any, bin_: Any, value: Any) -> None:
    cells[(j << u(8)) + bin_] += value


@make_pass_by_cell
def spaced_cells(cells: Any, offsets: Any, j: Any, bin_: Any, value: Any) -> None:
    cells[j * u(264) + bin_] += value


@make_pass_by_cell
def bins_outer(cells: Any, offsets: Any, j: Any, bin_: Any, value: Any) -> None:
    cells[(bin_ << u(5)) + j] += value


@make_pass_by_cell
def offset_list(cells: Any, offsets: Any, j: Any, bin_: Any, value: Any) -> None:
    cells[u(offsets[j]) + bin_] += value


@make_pass_by_cell
def wide_cells(cells: Any, offsets: Any, j: Any, bin_: Any, value: Any) -> None:
    add_pair(cells, (j << u(8)) + bin_, value >> 38, (value >> 13) & 0x1FFFFFF)


@njit(nogil=True, error_model="numpy")
def words_of_four(
    bins: Any, rows: Any, start: int, stop: int, packed: Any, cells: Any, offsets: Any,
    first: int, last: int,
) -> None:  # fmt: skip
    words = bins.view(np.uint32)
    for i in range(u(start), u(stop)):
        ahead = u(rows[i + u(AHEAD)])
        prefetch(bins, np.intp(ahead * u(WIDTH)))
        prefetch(packed, np.intp(ahead))
        at, value = u(rows[i]) * u(WIDTH // 4), packed[u(rows[i])]
        for k in range(u(first // 4), u(last // 4)):
            word, cell = u(words[at + k]), k << u(10)
            cells[cell + (word & u(255))] += value
            cells[cell + u(256) + ((word >> u(8)) & u(255))] += value
            cells[cell + u(512) + ((word >> u(16)) & u(255))] += value
            cells[cell + u(768) + (word >> u(24))] += value


@njit(nogil=True, error_model="numpy")
def no_prefetch(
    bins: Any, rows: Any, start: int, stop: int, packed: Any, cells: Any, offsets: Any,
    first: int, last: int,
) -> None:  # fmt: skip
    for i in range(u(start), u(stop)):
        at, value = u(rows[i]) * u(WIDTH), packed[u(rows[i])]
        for j in range(u(first), u(last)):
            cells[(j << u(8)) + u(bins[at + j])] += value


DESIGNS = {
    "packed_cells": packed_cells,
    "spaced_cells": spaced_cells,
    "bins_outer": bins_outer,
    "offset_list": offset_list,
    "words_of_four": words_of_four,
    "wide_cells": wide_cells,
    "no_prefetch": no_prefetch,
}


def median_ns(run: Callable[[], object], n_rows: int) -> float:
    run()
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return 1e9 * float(np.median(seconds)) / n_rows


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bins", type=int, default=255, help="bins of each feature")
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    return parser


def main() -> None:
    options = build_parser().parse_args()
    rng = np.random.default_rng(0)
    bins = aligned_empty(ROWS * WIDTH, np.uint8)
    bins[:] = rng.integers(0, options.bins, ROWS * WIDTH, dtype=np.uint8)
    packed = rng.integers(-1000, 1000, ROWS)
    offsets = (np.arange(FEATURES) * 256).astype(np.uint32)
    cells = [aligned_zeros(2 * FEATURES * 264, np.int64) for _ in range(2)]
    print(f"{'':16}{'rows':>8}{'1 thread':>10}{'2: rows':>10}{'2: features':>13}   ns a row")
    with ThreadPoolExecutor(2) as pool:
        for name in options.designs:
            design = DESIGNS[name]
            for step in (1, 8):
                rows = np.append(np.arange(0, ROWS, step), np.zeros(64, int)).astype(np.uint32)
                n = ROWS // step

                def run(part: Part, design: Any = design, rows: np.ndarray = rows) -> None:
                    start, stop, own, first, last = part
                    design(bins, rows, start, stop, packed, cells[own], offsets, first, last)

                def share(parts: list[Part], run: Callable[[Part], None] = run) -> None:
                    list(pool.map(run, parts))

                half, middle = n // 2, 16
                by_rows = [(0, half, 0, 0, FEATURES), (half, n, 1, 0, FEATURES)]
                by_features = [(0, n, 0, 0, middle), (0, n, 0, middle, FEATURES)]
                figures = (
                    median_ns(partial(run, (0, n, 0, 0, FEATURES)), n),
                    median_ns(partial(share, by_rows), n),
                    median_ns(partial(share, by_features), n),
                )
                one, rows_divided, features_divided = figures
                kind = "all" if step == 1 else "1 in 8"
                print(f"{name:16}{kind:>8}{one:10.1f}{rows_divided:10.1f}{features_divided:13.1f}")


if __name__ == "__main__":
    main()
