"""Feature bundling in plain Python, the reference of :mod:`hedgerow.data.binning.bundles`."""

from __future__ import annotations

import numpy as np

from hedgerow.data import bin_table
from hedgerow.data.binning.bundles import default_codes

N_OPEN = 128
MOST_CELLS = 254


def codes(table, spec):
    """Return the bin of every value (n_rows, n_features); missing values have the last one."""
    bins = bin_table(table, spec).by_column[:, : table.n_rows].astype(int).T
    return np.where(bins == spec.missing_bin, spec.bin_counts, bins)


def active(table, spec):
    """Return where features differ from their most frequent bin."""
    return codes(table, spec) != default_codes(spec)


def bundles(table, spec, rules):
    """Return the columns, each the set of its features, and the conflicts of all."""
    away = active(table, spec)
    n_rows, n_features = away.shape
    counts = away.sum(axis=0)
    cells = [
        len(np.setdiff1d(range(spec.n_bins(j)), default_codes(spec)[j])) for j in range(n_features)
    ]
    missing = codes(table, spec) == spec.bin_counts
    if not spec.schema.zero_missing:
        cells = [c + missing[:, j].any() for j, c in enumerate(cells)]
    tried = [
        j for j in range(n_features) if 0 < counts[j] <= 0.75 * n_rows and cells[j] <= MOST_CELLS
    ]
    alone = {frozenset([j]) for j in range(n_features) if counts[j] > 0 and j not in tried}
    if len(tried) < 2:
        return alone | {frozenset([j]) for j in tried} or {frozenset([0])}, 0
    weight = counts
    if rules.order == "degree":
        some = away[:, tried].astype(int)
        graph = some.T @ some
        np.fill_diagonal(graph, 0)
        weight = np.zeros(n_features, int)
        weight[tried] = graph.sum(axis=1)
    budget = int(rules.max_conflict_rate * n_rows)
    done, open_ones, total = [], [], 0
    for j in sorted(tried, key=lambda j: -weight[j]):
        for bundle in open_ones:
            met = int((bundle["rows"] & away[:, j]).sum())
            spent = bundle["conflicts"] if rules.conflicts == "sum" else 0
            if spent + met <= budget and bundle["cells"] + cells[j] <= MOST_CELLS:
                break
        else:
            if len(open_ones) == N_OPEN:
                fullest = max(open_ones, key=lambda b: b["rows"].sum())
                open_ones = [b for b in open_ones if b is not fullest]
                done.append(fullest)
            bundle = {"rows": np.zeros(n_rows, bool), "conflicts": 0, "cells": 0, "members": []}
            open_ones.append(bundle)
            met = 0
        bundle["rows"] |= away[:, j]
        bundle["conflicts"] += met
        bundle["cells"] += cells[j]
        bundle["members"].append(j)
        total += met
    return alone | {frozenset(b["members"]) for b in done + open_ones}, total


def codes_in(matrix, feature):
    """Return the codes of a feature from the columns of a matrix."""
    layout, spec = matrix.layout, matrix.spec
    if layout is None:
        bins = matrix.by_column[feature, : matrix.n_rows].astype(int)
        return np.where(bins == spec.missing_bin, spec.n_bins(feature), bins)
    rest = layout.default_bin[feature]
    if layout.column[feature] < 0:
        return np.full(matrix.n_rows, rest)
    cells = matrix.by_column[layout.column[feature], : matrix.n_rows].astype(int)
    if layout.first[feature] < 0:
        return np.where(cells == layout.stride - 1, spec.n_bins(feature), cells)
    own = [code for code in range(spec.n_bins(feature) + 1) if code != rest]
    table = np.full(256, rest)
    for k in range(layout.count[feature]):
        table[layout.first[feature] + k] = own[k]
    return table[cells]


def walk(forest, X):
    """Return the sum of the leaf values of every row, by thresholds on the values themselves."""
    from hedgerow.kernels.tables.keys import floats_of_keys

    total = np.zeros(len(X))
    threshold = floats_of_keys(forest.threshold)
    for tree in range(forest.n_trees):
        base = forest.tree_start[tree]
        for row, values in enumerate(X):
            node = base
            while forest.feature[node] >= 0:
                value = values[forest.feature[node]]
                left = forest.missing_left[node] if np.isnan(value) else value <= threshold[node]
                node = base + (forest.left[node] if left else forest.right[node])
            total[row] += forest.value[node]
    return total
