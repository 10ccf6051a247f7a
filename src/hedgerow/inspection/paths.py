"""Paths of a forest, and how many background rows meet them except for one column.

See :mod:`hedgerow.kernels.dependence.paths` for the terms tour, visit, end, slot and mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.kernels.dependence.path_layout import Boxes, Nodes, PathSpace, lay_paths
from hedgerow.kernels.dependence.paths import (
    TILE,
    WORDS,
    Questions,
    Visits,
    count_paths,
    expect_paths,
    n_masks,
    state_words,
)
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.model.forest import MISSING_BIN, UNKNOWN_BIN, Forest
from hedgerow.model.layout import find_splits, set_tables
from hedgerow.threads import run_blocks

ROWS_AT_ONCE = 64 * TILE
"""Number of rows whose keys are in memory at a time."""

_UNKNOWN_BIT = np.uint64(1 << (UNKNOWN_BIN & 63))


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """All paths of a forest.

    Attributes
    ----------
    visits : Visits
        ``out`` holds the numbers of ends.
    first_visit : int64, one per tree and one more
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
        """Number of columns on the path to each end."""
        return np.diff(self.boxes.start)

    @property
    def end_of_entry(self) -> IntArray:
        """End of each entry of the boxes."""
        return np.repeat(np.arange(self.n_ends), self.n_slots)


def find_paths(forest: Forest, *, backs_off: bool) -> Paths:
    """Lay out the paths of ``forest``.

    Parameters
    ----------
    backs_off : bool
        Whether a walk ends at a split on a column whose category is unknown.
    """
    splits = find_splits(forest)
    nodes, questions = _nodes(forest, backs_off)
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
    boxes = boxes._replace(
        column=boxes.column[:used],
        low=boxes.low[:used],
        high=boxes.high[:used],
        missing=boxes.missing[:used],
        bins=boxes.bins[:used],
    )
    return Paths(forest, questions, visits, first_visit, boxes)


def _empty_visits(n: int) -> Visits:
    def integers() -> IntArray:
        return np.empty(n, dtype=np.int64)

    return Visits(
        question=integers(),
        flip=np.empty(n, dtype=np.uint64),
        depth=integers(),
        slot=integers(),
        n_before=integers(),
        n_slots=integers(),
        out=integers(),
        node=integers(),
        parent=integers(),
    )


def _empty_boxes(n_ends: int, n_entries: int) -> Boxes:
    def integers(n: int) -> IntArray:
        return np.zeros(n, dtype=np.int64)

    return Boxes(
        start=integers(n_ends + 1),
        node=integers(n_ends),
        column=integers(n_entries),
        low=integers(n_entries),
        high=integers(n_entries),
        missing=np.zeros(n_entries, dtype=np.uint8),
        bins=np.zeros((n_entries, 4), dtype=np.uint64),
    )


def _nodes(forest: Forest, backs_off: bool) -> tuple[Nodes, Questions]:
    """Return the node data of the tours, and the distinct questions.

    Splits are not mirrored: they are as in the forest.  The two questions of a split and its
    box contain all information.
    """
    inner = forest.feature >= 0
    base = np.repeat(forest.tree_start[:-1], np.diff(forest.tree_start))
    node = np.arange(len(base))
    numbers = np.flatnonzero(inner & ~forest.has_sets)
    # Missing values have the lowest key: they are inside the range, or the range begins above.
    lowest = np.where(forest.missing_left == 1, MISSING_KEY, MISSING_KEY + 1)
    requested = np.column_stack((forest.feature, lowest, forest.threshold))[numbers]
    unique, place = np.unique(requested.astype(np.int64), axis=0, return_inverse=True)
    yes, no, stop = (np.full(len(base), -1, dtype=np.int64) for _ in range(3))
    yes[numbers] = place.reshape(-1)
    sets = np.zeros((0, 4), dtype=np.uint64)
    if forest.categories is not None:
        sets = np.ascontiguousarray(set_tables(forest)[1].reshape(-1, 4))
    columns, words = _ask_sets(forest, sets, (yes, no, stop), len(unique), backs_off)
    nothing = np.zeros(len(words), dtype=np.int64)
    questions = Questions(
        column=np.concatenate((unique[:, 0], columns)),
        lowest=np.concatenate((unique[:, 1], nothing)),
        highest=np.concatenate((unique[:, 2], nothing)),
        first_word=np.concatenate((np.full(len(unique), -1), 4 * np.arange(len(words)))),
        sets=words.reshape(-1),
    )
    nodes = Nodes(
        column=forest.feature.astype(np.int64),
        threshold=np.array(forest.threshold),
        missing_left=np.array(forest.missing_left),
        left=np.where(inner, base + forest.left, node),
        right=np.where(inner, base + forest.right, node),
        yes=yes,
        no=no,
        stop=stop,
        sets=sets,
        set_of=np.where(forest.has_sets, forest.threshold, -1),
    )
    return nodes, questions


def _ask_sets(
    forest: Forest,
    sets: npt.NDArray[np.uint64],
    ways: tuple[IntArray, IntArray, IntArray],
    n_known: int,
    backs_off: bool,
) -> tuple[IntArray, npt.NDArray[np.uint64]]:
    """Number the questions of category splits from ``n_known``, with their columns and sets.

    ``ways`` receives the questions of rows that go left, go right, and stop.  If no
    row stops, the rows that do not go left go right.
    """
    nodes = np.flatnonzero(forest.has_sets)
    chosen = sets[forest.threshold[nodes]]
    unknown = np.array([0, 0, 0, _UNKNOWN_BIT if backs_off else 0], dtype=np.uint64)
    requested = [chosen & ~unknown]
    if backs_off:
        requested += [~chosen & ~unknown, np.broadcast_to(unknown, chosen.shape)]
    columns, words = [], []
    for way, wanted in zip(ways, requested, strict=False):
        rows = np.column_stack((forest.feature[nodes].astype(np.uint64), wanted))
        found, place = np.unique(rows, axis=0, return_inverse=True)
        way[nodes] = n_known + place.reshape(-1)
        n_known += len(found)
        columns.append(found[:, 0].astype(np.int64))
        words.append(found[:, 1:])
    return np.concatenate(columns), np.ascontiguousarray(np.concatenate(words))


def first_sums(paths: Paths, pairs: bool) -> IntArray:
    """Return the position of the first sum of each end, and the position after the last."""
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
    """Count the rows that meet the conditions of each path, except those on one or two columns.

    Parameters
    ----------
    values : float32, float64 or int64, shape (n_rows, n_features)
        Rows in the form of :class:`hedgerow.model.predict.Predictor`.
    weight : float64 (n_rows,), optional
        Weight of each row; default 1.
    pairs : bool, default=False
        Whether to leave out two columns as well.
    n_threads : int, default=1
        Maximum number of threads.  Each works on its own trees, so the sums do not depend on it.

    Returns
    -------
    float64
        The sums of end k start at ``first_sums(paths, pairs)[k]``.  The first sum counts rows
        that meet all conditions.  The others leave out the conditions on the column of each
        slot, as in :mod:`hedgerow.kernels.dependence.paths`.
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
        keys = keys_of_rows(paths.forest, part, used, n_threads)
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
    """Add some rows to ``sums``, with the trees divided among threads."""
    keys, weight, n_rows = rows
    most_slots = int(visits.n_slots.max(initial=0))
    state = state_words(most_slots, int(visits.depth.max(initial=0)), pairs)

    def task(start: int, stop: int) -> None:
        requested, own, begin, end = questions_of_trees(paths, visits, start, stop)
        space = np.empty(len(requested) * WORDS + state, dtype=np.uint64)
        count_paths(
            keys, weight, questions, requested, own, begin, end, n_rows,
            int(n_masks(most_slots, pairs)), pairs, space, sums,
        )  # fmt: skip

    run_blocks(task, paths.forest.n_trees, n_threads, 1 + 100_000 // max(1, n_rows))


def questions_of_trees(
    paths: Paths, visits: Visits, start: int, stop: int
) -> tuple[IntArray, Visits, int, int]:
    """Return the questions of some trees, visits that refer to them, and their range."""
    begin, end = int(paths.first_visit[start]), int(paths.first_visit[stop])
    numbers = visits.question[begin:end]
    chosen, place = np.unique(numbers[numbers >= 0], return_inverse=True)
    own = np.full(len(visits.question), -1, dtype=np.int64)
    own[begin:end][numbers >= 0] = place.reshape(-1)
    return chosen, visits._replace(question=own), begin, end


def keys_of_rows(forest: Forest, values: AnyArray, used: IntArray, n_threads: int) -> IntArray:
    """Return keys of numbers and bins of categories, column by column, for whole tiles of rows."""
    n_rows = len(values)
    keys = np.zeros((max(1, len(used)), -(-n_rows // TILE) * TILE), dtype=np.int64)

    def task(start: int, stop: int) -> None:
        for place in range(start, stop):
            column = int(used[place])
            part, own = values[:, column], keys[place, :n_rows]
            bins = None if forest.categories is None else forest.categories.bins_of(column)
            if bins is not None and len(bins):
                ends = np.array([UNKNOWN_BIN, MISSING_BIN], dtype=np.uint8)
                own[:] = np.concatenate((bins, ends))[codes_of(part, len(bins))]
            else:
                own[:] = part if part.dtype == np.int64 else keys_of_floats(part)

    run_blocks(task, len(used), n_threads, 1 + 20_000 // max(1, n_rows))
    return keys


def expected_rows(paths: Paths, *, pairs: bool = False) -> FloatArray:
    """Return the sums of :func:`count_rows`, from the training counts that the model stores.

    Each split divides a row by the fractions of training rows that went left and right, so no
    rows are needed: the weighted traversal of Friedman (2001), scikit-learn's
    ``method="recursion"``.  The sums are fractions, and add up to 1 over the ends of a tree.
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
    """Return the fraction of the parent's training rows in each visit; 0 for a stop."""
    visits, forest = paths.visits, paths.forest
    count = forest.count.astype(np.float64)
    below = np.where(visits.node != visits.parent, count[visits.node], 0.0)
    total = np.zeros(len(count))
    np.add.at(total, visits.parent, below)
    rows = total[visits.parent]
    return np.divide(below, rows, out=np.full(len(rows), 0.5), where=rows > 0.0)
