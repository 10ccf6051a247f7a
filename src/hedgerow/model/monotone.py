"""Prove that raw scores are monotone in a column, or find two rows that refute it.

Glossary: :mod:`hedgerow.model.cells` defines cells, boxes and keys.  A *sweep* is a set of
rows that differ only in one column, with one value from each of its cells.

A tree is monotone in column j if and only if any two leaves are in order that a split on j
separates and whose boxes overlap in all *other* columns.  If all leaves below such a split
are in order, no boxes need to be compared.  Otherwise the pairs of leaves are compared.  A
sum of monotone trees is monotone, and float addition preserves this because rounding is
monotone.

If a tree is not monotone, the sum of all trees may still be.  If the columns of the forest
have few cells, all combinations are predicted, and the answer is certain.  Otherwise sweeps
start from rows where a tree is out of order, then from random rows.  Predictions confirm
each violation.  If no sweep finds one, the answer is "unknown".

Only present values are ordered.  Other columns take all values, including missing ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.data.schema import position_of
from hedgerow.errors import ParameterError, brief
from hedgerow.kernels.tables.keys import highest_key
from hedgerow.model.booster_part import BoosterPart
from hedgerow.model.cells import Boxes, Cells
from hedgerow.model.forest import without_vectors
from hedgerow.model.model import Model
from hedgerow.model.predict import Predictor
from hedgerow.params import Interval, read_direction

Verdict = Literal["proved", "violated", "unknown"]

_MOST_PAIRS = 1 << 22  # pairs of leaves compared below one split: about a second
_MOST_CELLS = 1 << 27  # bytes in the boxes of one tree: 128 MiB
_MOST_SEEDS = 64
_SWEEP = 257  # most cells in a sweep
_POINTS = Interval(1, 10**9, integer=True)


@dataclass(frozen=True, slots=True, eq=False)
class MonotoneFinding:
    """Result for one column.

    Attributes
    ----------
    feature : str
    direction : {1, -1}
        1: raw scores must never fall as the column grows; -1: never rise.
    verdict : {"proved", "violated", "unknown"}
    rows : array of shape (2, n_features), or None
        A violation: two rows that differ only in this column, the one with the smaller
        value first.  float64, or objects if a column holds 64-bit integers.
        ``booster.predict(rows, kind="raw")`` shows the violation.
    scores : (float, float) or None
        Raw scores of the two rows, in the wrong order.
    output : int or None
        Index of the raw score, for several targets, labels, quantiles or classes;
        otherwise 0.
    n_tried : int
        Number of rows predicted in the search for a violation.
    """

    feature: str
    direction: int
    verdict: Verdict
    rows: AnyArray | None = None
    scores: tuple[float, float] | None = None
    output: int | None = None
    n_tried: int = 0

    def __str__(self) -> str:
        rises = "never falls" if self.direction > 0 else "never rises"
        text = f"{self.feature}: {self.verdict} that the raw score {rises}"
        if self.verdict == "violated" and self.scores is not None:
            before, after = self.scores
            return f"{text} (it goes from {before:.6g} to {after:.6g}; see rows)"
        if self.verdict == "unknown":
            return f"{text} (no proof, and no violation among {self.n_tried} rows)"
        return text


@dataclass(frozen=True, slots=True, eq=False)
class MonotoneReport:
    """Results for several columns.

    Attributes
    ----------
    findings : dict of str to MonotoneFinding
        Results by column name.
    """

    findings: dict[str, MonotoneFinding]

    @property
    def verdict(self) -> Verdict:
        """The worst result: "violated" before "unknown" before "proved"."""
        found = {finding.verdict for finding in self.findings.values()}
        worst: tuple[Verdict, ...] = ("violated", "unknown")
        return next((verdict for verdict in worst if verdict in found), "proved")

    def __getitem__(self, feature: str) -> MonotoneFinding:
        return self.findings[feature]

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.findings.values())


Feature: TypeAlias = "str | int | None"
Direction: TypeAlias = "int | str | None"


class MonotoneChecks(BoosterPart):
    """Mixin of the booster for monotone columns."""

    def verify_monotone(
        self, feature: Feature = None, direction: Direction = None, *, n_points: int = 100_000
    ) -> MonotoneReport:
        """Prove that raw scores are monotone, or find two rows that refute it.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> params = {"n_estimators": 1, "min_samples_leaf": 1, "early_stopping": False}
        >>> booster = train(params, Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0]))
        >>> print(booster.verify_monotone("x0", "increasing"))
        x0: proved that the raw score never falls
        """
        if n_points not in _POINTS:
            raise ParameterError(f"n_points must be {_POINTS}; got {brief(n_points)}.")
        schema, inputs = self.model.split_schema, self.model.inputs
        forest = without_vectors(self.model.forest)
        predictor, cells = Predictor(forest, schema.kinds), Cells(forest, schema)
        findings = {}
        for column, sign in _directions(self.model, feature, direction).items():
            position = column if inputs is None else inputs.kept.index(column)
            finding = _verify(predictor, cells, position, sign, int(n_points))
            crosses = () if inputs is None else inputs.crosses
            crossed = any(column in cross.columns for cross in crosses)
            if crossed or (inputs is not None and finding.verdict == "violated"):
                # The rows may combine values of statistics or crosses that no table can have, and
                # crosses of the column change with it.
                finding = MonotoneFinding(finding.feature, sign, "unknown", n_tried=finding.n_tried)
            findings[finding.feature] = finding
        return MonotoneReport(findings)


def _directions(model: Model, feature: Feature, direction: Direction) -> dict[int, int]:
    """Return the columns to verify, with a direction, 1 or -1, for each."""
    known = model.training.get("parameters", {}).get("monotone_constraints")
    signs = known or (0,) * model.schema.n_features
    if feature is None:
        if direction is not None:
            raise ParameterError(
                f"direction={brief(direction)} is given without feature: name the feature, too."
            )
        if not any(signs):
            raise ParameterError(
                "the model was trained without monotone constraints: name a feature and a "
                "direction, such as verify_monotone('age', 'increasing')."
            )
        return {column: sign for column, sign in enumerate(signs) if sign != 0}
    column = position_of(feature, model.schema.names, "feature")
    name = model.schema.names[column]
    if model.schema.kinds[column] == "category":
        raise ParameterError(
            f"feature: column {name!r} is of kind 'category', whose values have no order."
        )
    sign = signs[column] if direction is None else read_direction(direction, "direction")
    if sign == 0:
        raise ParameterError(
            f"column {name!r} was trained without a monotone constraint: give direction=1 "
            "(never falls) or -1 (never rises)."
        )
    return {column: sign}


def _verify(
    predictor: Predictor, cells: Cells, column: int, sign: int, n_points: int
) -> MonotoneFinding:
    name = cells.schema.names[column]
    forest = cells.forest
    seeds: list[IntArray] = []
    proved = True
    for tree in range(forest.n_trees):
        found = _disorder(cells, tree, column, sign)
        if found is not None:
            proved = False
            if len(found):
                seeds.append(found)
            if len(seeds) == _MOST_SEEDS:
                break
    if proved:
        return MonotoneFinding(name, sign, "proved")
    tried = 0
    values, others = cells.ordered(column), [int(j) for j in cells.used if j != column]
    n_rows = math.prod(len(cells.all(j)) for j in others)
    exhaustive = len(values) * n_rows <= n_points and len(values) <= _SWEEP
    if len(values) > _SWEEP:  # a selection
        values = values[np.linspace(0, len(values) - 1, _SWEEP).astype(np.int64)]
    if exhaustive:
        keys = np.zeros((n_rows, forest.n_features), dtype=np.int64)
        if others:
            mesh = np.meshgrid(*(cells.all(j) for j in others), indexing="ij")
            keys[:, others] = np.stack([part.reshape(-1) for part in mesh], axis=1)
        batches = iter([keys])
    else:
        batches = _some_rows(cells, others, max(1, n_points // len(values)), seeds)
    certain = exhaustive and forest.slopes is None  # linear leaves vary within a cell
    for keys in batches:
        tried += len(keys) * len(values)
        violation = _first_violation(predictor, cells, keys, column, values, sign)
        if violation is not None:
            rows, scores, output = violation
            return MonotoneFinding(name, sign, "violated", rows, scores, output, tried)
    return MonotoneFinding(name, sign, "proved" if certain else "unknown", n_tried=tried)


# -- proof ---------------------------------------------------------------------


def _disorder(cells: Cells, tree: int, column: int, sign: int) -> IntArray | None:
    """Return None if a tree is monotone, else keys of a row where it is not."""
    # The keys have a second row, 1 for columns that the tree restricts. The result is empty if the
    # tree has too many leaves to compare.
    start, end = cells.forest.tree_start[tree], cells.forest.tree_start[tree + 1]
    if not (cells.forest.feature[start:end] == column).any():
        return None
    forest = cells.forest.tree(tree)
    value = sign * forest.value
    least = most = value
    if forest.slopes is not None:
        bounds = sign * np.array([forest.slopes.low, forest.slopes.high])
        least, most = value + bounds.min(axis=0), value + bounds.max(axis=0)
    # The smallest and largest value that rows through each node may reach.
    low, high = least.tolist(), most.tolist()
    left, right = forest.left.tolist(), forest.right.tolist()
    for node in np.flatnonzero(forest.feature >= 0)[::-1].tolist():  # children before parents
        a, b = left[node], right[node]
        low[node], high[node] = min(low[a], low[b]), max(high[a], high[b])
    highest = highest_key(cells.schema.kinds[column])  # a split there parts no present values
    parts = (forest.feature == column) & (cells.threshold[start:end] < highest)
    wrong = np.flatnonzero(parts & (np.array(high)[left] > np.array(low)[right]))
    nothing = np.zeros(0, dtype=np.int64)
    if forest.slopes is not None:
        own_slopes = sign * forest.slopes.slope[forest.slopes.column == column]
        if (own_slopes < 0.0).any():  # a leaf has a slope against the direction
            return nothing
    if len(wrong) == 0:
        return None
    if forest.slopes is not None:  # only constant leaves can be compared by their boxes
        return nothing
    own = Cells(forest, cells.schema)
    if len(forest.feature) * sum(len(own.all(int(j))) for j in own.used) > _MOST_CELLS:
        return nothing
    boxes = Boxes(own)
    for node in wrong:
        pair = _pair_out_of_order(boxes, int(node), column, value)
        if pair is None:
            return nothing
        if pair[0] >= 0:
            keys = np.zeros((2, forest.n_features), dtype=np.int64)
            common = boxes.inside[pair[0]] & boxes.inside[pair[1]]
            for j, first in zip(boxes.columns.tolist(), boxes.starts, strict=True):
                known = own.all(j)
                keys[0, j] = known[np.argmax(common[first : first + len(known)])]
            keys[1, boxes.columns] = 1
            keys[1, column] = 0
            return keys
    return None


def _pair_out_of_order(
    boxes: Boxes, node: int, column: int, value: FloatArray
) -> tuple[int, int] | None:
    """Return two leaves in the wrong order that the split at ``node`` separates."""
    # Their boxes overlap in all other columns. The result is (-1, -1) if there are none, and None
    # if there are too many pairs to compare.
    forest = boxes.cells.forest
    start = int(boxes.starts[np.searchsorted(boxes.columns, column)])
    part = slice(start, start + len(boxes.cells.ordered(column)))  # cells of present values
    sides = []
    for child in (forest.left[node], forest.right[node]):
        leaves = boxes.leaves_below(int(child))
        sides.append(leaves[boxes.inside[leaves, part].any(axis=1)])
    below, above = sides
    if len(below) == 0 or len(above) == 0:
        return -1, -1
    below = below[value[below] > value[above].min()]
    if len(below) * len(above) > _MOST_PAIRS:
        return None
    for end in below:
        rivals = above[value[above] < value[end]]
        common = boxes.inside[rivals] & boxes.inside[end]
        common[:, part] = True  # the boxes need not overlap in the column itself
        meets = boxes.meet(common)
        if meets.any():
            return int(end), int(rivals[np.argmax(meets)])
    return -1, -1


# -- search ----------------------------------------------------------------------


def _some_rows(
    cells: Cells, columns: list[int], n_rows: int, seeds: list[IntArray]
) -> Iterator[IntArray]:
    """Yield random rows; the first half lies where a tree is out of order."""
    rng = np.random.default_rng(0)
    done, batch = 0, max(1, min(n_rows, 256))
    while done < n_rows:
        keys = np.zeros((min(batch, n_rows - done), cells.forest.n_features), dtype=np.int64)
        for j in columns:
            choice = cells.all(j)
            keys[:, j] = choice[rng.integers(len(choice), size=len(keys))]
        if seeds and done < n_rows / 2:
            chosen = np.array(seeds)[(done + np.arange(len(keys))) % len(seeds)]
            keys = np.where(chosen[:, 1] == 1, chosen[:, 0], keys)
        yield keys
        done += len(keys)


def _first_violation(
    predictor: Predictor, cells: Cells, keys: IntArray, column: int, values: IntArray, sign: int
) -> tuple[AnyArray, tuple[float, float], int] | None:
    """Return two rows in the wrong order: the worst of the first batch of sweeps with any."""
    # ``values`` are the keys of a sweep.
    per_batch = max(1, 200_000 // len(values))
    for first in range(0, len(keys), per_batch):
        part = keys[first : first + per_batch]
        rows = np.repeat(part, len(values), axis=0)
        rows[:, column] = np.tile(values, len(part))
        rows = cells.without_zeros(rows)
        scores = predictor.raw_scores(rows)
        swept = sign * scores.reshape(len(scores), len(part), len(values))
        before = np.maximum.accumulate(swept, axis=2)
        wrong = swept < before
        if not wrong.any():
            continue
        worst = int(np.argmax(np.where(wrong, before - swept, 0.0)))
        output, row, upper = (int(i) for i in np.unravel_index(worst, wrong.shape))
        lower = int(np.argmax(swept[output, row, :upper]))
        pair = rows[row * len(values) + np.array([lower, upper])]
        pair_scores = predictor.raw_scores(pair)[output]
        return cells.rows_of(pair), (float(pair_scores[0]), float(pair_scores[1])), output
    return None
