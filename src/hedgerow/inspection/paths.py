"""The paths of a forest, and how many rows of a background meet them but for a column.

See :mod:`hedgerow.kernels.paths` for the words tour, visit, end, slot and mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray
from hedgerow.data.bins import codes_of
from hedgerow.kernels.keys import keys_of_floats
from hedgerow.kernels.path_layout import Boxes, Nodes, PathSpace, lay_paths
from hedgerow.kernels.paths import TILE, WORDS, Questions, Visits, count_paths, expect_paths, n_masks, state_words
from hedgerow.model.forest import MISSING_BIN, UNKNOWN_BIN, Forest
from hedgerow.model.layout import find_splits, set_tables
from hedgerow.threads import run_blocks

ROWS_AT_ONCE = 64 * TILE
"""Rows of which keys are held at a time."""

_UNKNOWN_BIT = np.uint64(1 << (UNKNOWN_BIN & 63))


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """All paths of a forest.

    Attributes
    ----------
    forest : Forest
    questions : Questions
    visits : Visits
        ``out`` holds numbers of ends.
    first_visit : int64, one per tree and one more
    boxes : Boxes
    """

    forest: Forest
    questions: Questions
    visits: Visits
    first_visit: IntArray
    boxes: Boxes

    @property
    def n_ends(self) -> int:
        return len(self.boxes.node)

    @property
    def n_slots(self) -> IntArray:
        """Columns on the path to each end."""
        return np.diff(self.boxes.start)

    @property
    def end_of_entry(self) -> IntArray:
        """End of each entry of the boxes."""
        return np.repeat(np.arange(self.n_ends), self.n_slots)


def find_paths(forest: Forest, *, backs_off: bool) -> Paths:
    """Lay out the paths of ``forest``.

    Parameters
    ----------
    forest : Forest
    backs_off : bool
        Whether a walk ends at a split that asks for a category that is not known.
    """
    splits = find_splits(forest)
    nodes, questions = _nodes(forest, splits.left, splits.right, backs_off)
    depths = np.zeros(len(nodes.column), dtype=np.int64)
    for level, inner in enumerate(splits.levels):
        depths[nodes.left[inner]] = depths[nodes.right[inner]] = level + 1
    ends = np.concatenate((depths[nodes.column < 0], depths[nodes.stop >= 0] + 1))
    most_depth = int(ends.max(initial=0))
    most_slots = max(1, min(most_depth, forest.n_features))
    n_entries = int(np.minimum(ends, most_slots).sum())
    visits = _empty_visits(len(nodes.column) + int((nodes.stop >= 0).sum()))
    first_visit = np.zeros(forest.n_trees + 1, dtype=np.int64)
    boxes = _empty_boxes(len(ends), n_entries)
    space = PathSpace(
        stack=np.zeros((2 * most_depth + 3, 4), dtype=np.int64),
        columns=np.zeros(most_slots + 1, dtype=np.int64),
        n_slots=np.zeros(most_depth + 1, dtype=np.int64),
        ranges=np.zeros((most_depth + 1, most_slots + 1, 3), dtype=np.int64),
        bins=np.zeros((most_depth + 1, most_slots + 1, 4), dtype=np.uint64),
    )
    roots = np.array(forest.tree_start[:-1])
    n_ends = lay_paths(nodes, roots, visits, first_visit, boxes, space)
    assert n_ends == len(ends)
    used = int(boxes.start[-1])
    boxes = Boxes(boxes.start, boxes.node, *(array[:used] for array in boxes[2:]))
    return Paths(forest, questions, visits, first_visit, boxes)


def _empty_visits(n: int) -> Visits:
    whole = [np.empty(n, dtype=np.int64) for _ in Visits._fields]
    return Visits(*whole)._replace(flip=np.empty(n, dtype=np.uint64))


def _empty_boxes(n_ends: int, n_entries: int) -> Boxes:
    whole = [np.empty(n_entries, dtype=np.int64) for _ in range(3)]
    return Boxes(
        np.zeros(n_ends + 1, dtype=np.int64),
        np.empty(n_ends, dtype=np.int64),
        *whole,
        np.empty(n_entries, dtype=np.uint8),
        np.empty((n_entries, 4), dtype=np.uint64),
    )


def _nodes(
    forest: Forest, left: IntArray, right: IntArray, backs_off: bool
) -> tuple[Nodes, Questions]:
    """What the tours read of nodes, and the questions, each once.

    Children are not those of mirrored splits: ``threshold`` and ``missing_left`` say it all.
    """
    inner = forest.feature >= 0
    base = np.repeat(forest.tree_start[:-1], np.diff(forest.tree_start))
    node = np.arange(len(base))
    left = np.where(inner, base + forest.left, node)
    right = np.where(inner, base + forest.right, node)
    has_set = forest.has_sets
    sets = np.zeros((0, 4), dtype=np.uint64)
    if forest.categories is not None:
        sets = set_tables(forest)[1].reshape(-1, 4)
    set_of = np.where(has_set, forest.threshold, -1)
    yes, no, stop = (np.full(len(base), -1, dtype=np.int64) for _ in range(3))
    numbers = np.flatnonzero(inner & ~has_set)
    # Missing values have the lowest key of all: they are let in, or the range begins above.
    lowest = np.where(forest.missing_left == 1, MISSING_KEY, MISSING_KEY + 1)
    asked = np.column_stack((forest.feature, lowest, forest.threshold))[numbers]
    unique, place = np.unique(asked, axis=0, return_inverse=True)
    yes[numbers] = place.reshape(-1)
    columns, words = [unique[:, 0]], []
    sides = np.flatnonzero(has_set)
    if len(sides):
        n_known = len(unique)
        chosen = sets[set_of[sides]]
        ways = [(yes, chosen)]
        if backs_off:
            known = np.array([0, 0, 0, _UNKNOWN_BIT], dtype=np.uint64)
            ways = [
                (yes, chosen & ~known),
                (no, ~chosen & ~known),
                (stop, np.broadcast_to(known, chosen.shape)),
            ]
        for way, wanted in ways:
            rows = np.column_stack((forest.feature[sides].astype(np.uint64), wanted))
            found, place = np.unique(rows, axis=0, return_inverse=True)
            way[sides] = n_known + place.reshape(-1)
            n_known += len(found)
            columns.append(found[:, 0].astype(np.int64))
            words.append(found[:, 1:])
    n_sets = sum(map(len, words))
    nothing = np.zeros(n_sets, dtype=np.int64)
    questions = Questions(
        column=np.concatenate(columns).astype(np.int64),
        lowest=np.concatenate((unique[:, 1], nothing)),
        highest=np.concatenate((unique[:, 2], nothing)),
        first_word=np.concatenate((np.full(len(unique), -1), 4 * np.arange(n_sets))),
        sets=np.concatenate(words).reshape(-1) if words else np.zeros(0, dtype=np.uint64),
    )
    nodes = Nodes(
        forest.feature.astype(np.int64),
        np.array(forest.threshold),
        np.array(forest.missing_left),
        left,
        right,
        yes,
        no,
        stop,
        np.ascontiguousarray(sets),
        set_of,
    )
    return nodes, questions


def first_sums(paths: Paths, pairs: bool) -> IntArray:
    """Place of the first sum of each end, and behind the last."""
    counts = np.asarray(n_masks(paths.n_slots, pairs))
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def count_rows(
    paths: Paths,
    values: AnyArray,
    weight: FloatArray | None = None,
    *,
    pairs: bool = False,
    n_threads: int = 1,
) -> FloatArray:
    """How many rows meet the conditions of each path, but those on one column or two.

    Parameters
    ----------
    paths : Paths
    values : float32, float64 or int64, shape (n_rows, n_features)
        As :class:`hedgerow.model.predict.Predictor` takes them.
    weight : float64 (n_rows,), optional
        What a row counts; 1 by default.
    pairs : bool, default=False
        Whether two columns are left out as well.
    n_threads : int, default=1
        Threads at most.  Each works on trees of its own, so the sums do not depend on it.

    Returns
    -------
    float64
        From ``first_sums(paths, pairs)[k]`` on those of end k: all conditions; then all but
        those on the column of each slot, as in :mod:`hedgerow.kernels.paths`.
    """
    first = first_sums(paths, pairs)
    sums = np.zeros(first[-1])
    is_end = paths.visits.out >= 0
    out = np.where(is_end, first[np.where(is_end, paths.visits.out, 0)], -1)
    used, place = np.unique(paths.questions.column, return_inverse=True)
    questions = paths.questions._replace(column=place.reshape(-1).astype(np.int64))
    visits = paths.visits._replace(out=out)
    for start in range(0, len(values), ROWS_AT_ONCE):
        part = values[start : start + ROWS_AT_ONCE]
        keys = _keys(paths.forest, part, used)
        weights = np.zeros(0)
        if weight is not None:
            weights = np.zeros(keys.shape[1])
            weights[: len(part)] = weight[start : start + ROWS_AT_ONCE]
        _count(paths, questions, visits, (keys, weights, len(part)), pairs, n_threads, sums)
    return sums


def _count(
    paths: Paths,
    questions: Questions,
    visits: Visits,
    rows: tuple[IntArray, FloatArray, int],
    pairs: bool,
    n_threads: int,
    sums: FloatArray,
) -> None:
    """Add some rows to ``sums``, trees divided between threads."""
    keys, weight, n_rows = rows
    most_slots, most_depth = int(visits.n_slots.max(initial=0)), int(visits.depth.max(initial=0))
    state = state_words(most_slots, most_depth, pairs)

    def task(start: int, stop: int) -> None:
        begin, end = int(paths.first_visit[start]), int(paths.first_visit[stop])
        asked = visits.question[begin:end]
        chosen, place = np.unique(asked[asked >= 0], return_inverse=True)
        own = np.full(len(visits.question), -1, dtype=np.int64)
        own[begin:end][asked >= 0] = place.reshape(-1)
        space = np.empty(len(chosen) * WORDS + state, dtype=np.uint64)
        count_paths(
            keys, weight, questions, chosen, visits._replace(question=own), begin, end, n_rows,
            int(n_masks(most_slots, pairs)), pairs, space, sums,
        )  # fmt: skip

    run_blocks(task, paths.forest.n_trees, n_threads, 1 + 100_000 // max(1, n_rows))


def _keys(forest: Forest, values: AnyArray, used: IntArray) -> IntArray:
    """Keys of numbers and bins of categories, column by column, of whole tiles of rows."""
    n_rows = len(values)
    keys = np.zeros((max(1, len(used)), -(-n_rows // TILE) * TILE), dtype=np.int64)
    for place, column in enumerate(used.tolist()):
        part = values[:, column]
        bins = None if forest.categories is None else forest.categories.bins_of(column)
        if bins is not None and len(bins):
            ends = np.array([UNKNOWN_BIN, MISSING_BIN], dtype=np.uint8)
            keys[place, :n_rows] = np.concatenate((bins, ends))[codes_of(part, len(bins))]
        elif part.dtype == np.int64:
            keys[place, :n_rows] = part
        else:
            keys[place, :n_rows] = keys_of_floats(part)
    return keys


def expected_rows(paths: Paths, *, pairs: bool = False) -> FloatArray:
    """As :func:`count_rows`, from what the model knows of its own training rows.

    A row goes either way of a split with the share of training rows that did, so that no
    row is needed: the weighted tour of Friedman (2001), of which scikit-learn speaks as
    ``method="recursion"``.  The sums are shares: those of a tree add up to 1.
    """
    first, visits = first_sums(paths, pairs), paths.visits
    most = int(visits.n_slots.max(initial=0))
    states = np.zeros((int(visits.depth.max(initial=0)) + 1, int(n_masks(most, pairs))))
    sums = np.zeros(first[-1])
    is_end = visits.out >= 0
    out = np.where(is_end, first[np.where(is_end, visits.out, 0)], -1)
    expect_paths(visits._replace(out=out), _shares(paths), pairs, states, sums)
    return sums


def _shares(paths: Paths) -> FloatArray:
    """Share of the training rows at the parent that go the way of each visit; 0 for a stop."""
    visits, forest = paths.visits, paths.forest
    count = forest.count.astype(np.float64)
    below = np.where(visits.node != visits.parent, count[visits.node], 0.0)
    total = np.zeros(len(count))
    np.add.at(total, visits.parent, below)
    rows = total[visits.parent]
    return np.divide(below, rows, out=np.full(len(rows), 0.5), where=rows > 0.0)
