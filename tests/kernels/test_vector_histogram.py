"""Histograms and cuts of several outputs equal sums in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
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
from hedgerow.kernels.splits.split import NO_SPLIT, SplitRules, Units
from hedgerow.kernels.splits.vector_split import (
    FILLED_SIZE,
    LANE_ROWS,
    VectorNode,
    fill_lanes,
    search_column,
    sum_totals,
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


def naive_score(G, H, rules):
    total = 0.0
    for g, h in zip(G, H, strict=True):
        size, d = max(abs(g) - rules.reg_alpha, 0.0), h + rules.reg_lambda
        if d <= 0.0:
            return -math.inf
        step = min(size / d, rules.max_delta_step)
        total += step * (2 * size - d * step)
    return total


def naive_cuts(case, rows, feature, units, rules):
    """Return the score of each ``(bin, missing_left)`` that is allowed."""
    b = case.bin[rows, feature]
    n_bins = case.n_bins[feature]
    found = {}
    for cut in range(n_bins):
        for missing_left in (0, 1):
            left = (b <= cut) & (b < STRIDE - 1) | ((b == STRIDE - 1) & (missing_left == 1))
            if missing_left and not (b == STRIDE - 1).any():
                continue
            sides = [rows[left], rows[~left]]
            if min(map(len, sides)) < rules.min_samples_leaf:
                continue
            G = [case.g[side].sum(axis=0) * units[:, 0] for side in sides]
            H = [case.h[side].sum(axis=0) * units[:, 1] for side in sides]
            if min(h.mean() for h in H) < rules.min_child_weight:
                continue
            found[cut, missing_left] = sum(
                naive_score(g, h, rules) for g, h in zip(G, H, strict=True)
            )
    return found


@settings(max_examples=examples(40), deadline=None)
@given(
    **cases,
    lam=st.sampled_from([0.0, 1.0, 30.0]),
    alpha=st.sampled_from([0.0, 2.0]),
    longest=st.sampled_from([math.inf, 0.3]),
    fewest=st.integers(1, 20),
    lightest=st.sampled_from([0.0, 20.0]),
)
def test_the_best_cut_is_that_of_trying_all(
    n_outputs, constant, paired, seed, lam, alpha, longest, fewest, lightest
) -> None:
    case = Case(n_outputs, constant, paired, seed)
    rows = case.rng.permutation(N_ROWS)[: case.rng.integers(2, N_ROWS)]
    case.build(rows, 0)
    rules = SplitRules(fewest, lightest, lam, alpha, 0.0, longest)
    units = 2.0 ** case.rng.integers(-3, 4, (n_outputs, 2))
    if constant:
        units[:, 1] = 1.0
    size = -(-n_outputs // 8) * 8
    node = VectorNode(
        case.sums, np.int64(0), np.int64(STRIDE), np.asarray(case.n_bins, np.int32), rules,
        np.int64(0), np.int64(len(rows)), np.zeros((n_outputs, 2), np.int64), units,
        Units(8.0, 1.0 if constant else 8.0), np.full(LANE_ROWS * size, np.nan), np.int64(size),
        np.zeros(FILLED_SIZE, np.int64), np.full((2, FILLED_SIZE * 8), np.nan),
        np.float64(0.0), np.int64(0),
    )  # fmt: skip
    sum_totals(node, np.int64(0))
    np.testing.assert_array_equal(node.totals[:, 0], case.g[rows].sum(axis=0))
    np.testing.assert_array_equal(node.totals[:, 1], case.h[rows].sum(axis=0))
    limits = fill_lanes(node)
    scale = node.largest.g * (node.largest.g / node.largest.h)
    for feature in range(N_FEATURES):
        best = search_column(node, np.int64(feature), limits, 0.0, NO_SPLIT)
        found = {cut: s for cut, s in naive_cuts(case, rows, feature, units, rules).items()
                 if s >= 0.0}  # fmt: skip
        if not found:
            assert best.score < 0.0
            continue
        assert best.score * scale == pytest.approx(max(found.values()), rel=1e-9, abs=1e-9)
        chosen = found[best.bin, best.missing_left]
        assert chosen == pytest.approx(max(found.values()), rel=1e-9, abs=1e-9)
