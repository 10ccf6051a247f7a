"""Histograms and cuts of several outputs equal sums in plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.kernels.histograms.histogram import Bins, Columns
from hedgerow.kernels.histograms.pairs import Pairs, no_pairs
from hedgerow.kernels.histograms.vector_histogram import (
    Sums,
    add_cells,
    add_to_columns,
    empty_columns,
    list_filled,
    subtract_cells,
    width_of,
)
from hedgerow.kernels.splits.vector_split import (
    FILLED_SIZE,
)
from tests.helpers.examples import examples

STRIDE, N_FEATURES, N_ROWS = 16, 6, 200


def place_of(output, constant):
    """Return the place of an output's g in a cell: groups of eight outputs, g before h."""
    return output if constant else 16 * (output // 8) + output % 8


class Case:
    """Random rows and their expected histogram."""

    def __init__(self, n_outputs, constant, paired, seed) -> None:
        rng = np.random.default_rng(seed)
        self.rng, self.n_outputs, self.constant = rng, n_outputs, constant
        self.n_bins = rng.integers(1, STRIDE, N_FEATURES).astype(np.int32)
        # The bin of missing values is the last of the stride.
        values = (rng.random((N_ROWS, N_FEATURES)) * self.n_bins).astype(np.uint8)
        self.bin = np.where(rng.random(values.shape) < 0.1, STRIDE - 1, values).astype(np.uint8)
        self.g = rng.integers(-9, 10, (N_ROWS, n_outputs))
        self.h = np.ones_like(self.g) if constant else rng.integers(0, 7, (N_ROWS, n_outputs))
        self.width = width_of(n_outputs, constant)
        words = np.zeros((N_ROWS, self.width), np.int32)
        for k in range(n_outputs):
            words[:, place_of(k, constant)] = self.g[:, k]
            if not constant:
                words[:, place_of(k, constant) + 8] = self.h[:, k]
        self.words = words.reshape(-1)
        cells = N_FEATURES * STRIDE
        self.sums = Sums(
            # Whatever stood there before must not matter.
            rng.integers(-99, 99, 3 * cells * self.width).astype(np.int32),
            rng.integers(0, 99, 3 * cells).astype(np.int32),
            np.int64(self.width),
            np.int64(constant),
        )
        tiles = [self.bin[:, :4], np.pad(self.bin[:, 4:], ((0, 0), (0, 2)))]
        place = np.arange(N_FEATURES, dtype=np.int32)
        pairs = no_pairs()
        if paired:
            tiles = [16 * tile[:, ::2] + tile[:, 1::2] for tile in tiles]
            pairs = Pairs(1, np.zeros(0, np.int32), np.zeros(0, np.int32))
        by_row = np.stack(tiles)
        self.bins = Bins(
            by_row.reshape(-1), by_row[0], np.int64(by_row[0].size), np.int64(by_row.shape[2]),
            np.int64(4), self.n_bins, np.int64(STRIDE),
        )  # fmt: skip
        self.columns = Columns(place, (place % 4).astype(np.int32), pairs)

    def build(self, rows, slot) -> None:
        ids = np.append(rows, np.zeros(64)).astype(np.uint32)
        part, place = (0, N_FEATURES), (0, len(rows))
        start = slot * N_FEATURES * STRIDE
        empty_columns(self.columns, part, self.bins.stride, self.sums, np.int64(start))
        add_to_columns(
            self.bins, self.columns, part, ids, place, self.words, self.sums, np.int64(start)
        )

    def check(self, rows, slot) -> None:
        """Check that cells hold the sums over ``rows``, and that other cells are empty."""
        for feature in range(N_FEATURES):
            for b in range(STRIDE):
                inside = rows[self.bin[rows, feature] == b]
                cell = (slot * N_FEATURES + feature) * STRIDE + b
                assert self.sums.n[cell] == len(inside)
                if len(inside) == 0:
                    continue
                for k in range(self.n_outputs):
                    at = cell * self.width + place_of(k, self.constant)
                    assert self.sums.cells[at] == self.g[inside, k].sum()
                    if not self.constant:
                        assert self.sums.cells[at + 8] == self.h[inside, k].sum()

    def each_column(self, work, target, source) -> None:
        filled = np.zeros(FILLED_SIZE, np.int64)
        for feature in range(N_FEATURES):
            a, b = ((slot * N_FEATURES + feature) * STRIDE for slot in (target, source))
            n_bins = np.int64(self.n_bins[feature])
            n = list_filled(self.sums.n, np.int64(b), n_bins, np.int64(STRIDE), filled)
            work(self.sums, np.int64(a), np.int64(b), filled, n)


cases = {
    "n_outputs": st.integers(1, 20),
    "constant": st.booleans(),
    "paired": st.booleans(),
    "seed": st.integers(0, 2**32 - 1),
}


@settings(max_examples=examples(25), deadline=None)
@given(**cases)
def test_sums_are_those_of_the_rows(n_outputs, constant, paired, seed) -> None:
    """Building, subtracting a child and merging the parts of two threads."""
    case = Case(n_outputs, constant, paired, seed)
    rows = case.rng.permutation(N_ROWS)[: case.rng.integers(2, N_ROWS)]
    cut = int(case.rng.integers(1, len(rows)))
    case.build(rows, 0)
    case.check(rows, 0)
    case.build(rows[:cut], 1)
    case.each_column(subtract_cells, 0, 1)
    case.check(rows[cut:], 0)
    case.build(rows[cut:], 2)
    case.each_column(add_cells, 1, 2)
    case.check(rows, 1)
