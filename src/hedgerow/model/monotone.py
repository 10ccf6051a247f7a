"""Proof that raw scores rise (or fall) with a column, or two rows that show that they do not.

Glossary: cells, boxes and keys are those of :mod:`hedgerow.model.cells`; a *sweep*
are rows that differ in one column only, which takes a value of each of its cells.

A tree is monotone in column j exactly if any two leaves are in order whose boxes
meet in all *other* columns and which a split on j parts.  Where all leaves below
such a split are in order, whichever boxes meet, that is seen at once; otherwise
the pairs are compared.  A sum of monotone trees is monotone, also as floats are
added, as rounding keeps the order.

Where a tree is not monotone, the sum of all may still be.  If the columns of the
forest have few cells, all rows are tried, and the answer is certain.  Otherwise
sweeps start where a tree is out of order, then anywhere; what they find is
checked by the prediction itself, and if they find nothing the answer is
"unknown".

The order is that of present values; a missing value has no place in it.  Other
columns take all values, missing among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.data.schema import Schema, position_of
from hedgerow.errors import ParameterError
from hedgerow.kernels.slopes import Slopes
from hedgerow.model.cells import BoolArray, Boxes, Cells
from hedgerow.model.forest import Forest, without_vectors
from hedgerow.model.model import Model
from hedgerow.model.predict import Predictor
from hedgerow.params import Interval, read_direction

Verdict = Literal["proved", "violated", "unknown"]

_MOST_PAIRS = 1 << 22  # of leaves compared below one split: a second or so
_MOST_CELLS = 1 << 27  # truths in the boxes of one tree: 128 MiB
_MOST_SEEDS = 64
_SWEEP = 257  # cells in a sweep, at most
_POINTS = Interval(1, 10**9, integer=True)


@dataclass(frozen=True, slots=True, eq=False)
class MonotoneFinding:
    """What is known of one column.

    Attributes
    ----------
    feature : str
    direction : {1, -1}
        1: raw scores should never fall as the column grows; -1: never rise.
    verdict : {"proved", "violated", "unknown"}
    rows : array of shape (2, n_features), or None
        Where it is violated: two rows that differ in this column only, the one
        with the smaller value first.  float64, or objects where some column holds
        64-bit integers; ``booster.predict(rows, kind="raw")`` shows the violation.
    scores : (float, float) or None
        Their raw scores, which are in the wrong order.
    output : int or None
        Which raw score it is (0 unless there are several: of targets, labels, quantiles
        or classes).
    n_tried : int
        Rows that were predicted in the search for a violation.
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
    """What is known of all columns that were asked.

    Attributes
    ----------
    findings : dict of str to MonotoneFinding
        By name of the column.
    """

    findings: dict[str, MonotoneFinding]

    @property
    def verdict(self) -> Verdict:
        """The worst: "violated" if one is, else "unknown" if one is, else "proved"."""
        found = {finding.verdict for finding in self.findings.values()}
        worst: tuple[Verdict, ...] = ("violated", "unknown")
        return next((verdict for verdict in worst if verdict in found), "proved")

    def __getitem__(self, feature: str) -> MonotoneFinding:
        return self.findings[feature]

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.findings.values())


Feature: TypeAlias = "str | int | None"
Direction: TypeAlias = "int | str | None"


def verify_monotone(
    model: Model,
    feature: Feature = None,
    direction: Direction = None,
    n_points: int = 100_000,
) -> MonotoneReport:
    """Prove or refute that raw scores are monotone in some columns.

    Parameters
    ----------
    model : Model
        Any, however it was trained.
    feature : str or int, optional
        Name or position of a column; by default all that the training constrained.
    direction : {1, -1, "increasing", "decreasing"}, optional
        For ``feature``; by default that of its constraint.
    n_points : int, default=100_000
        Rows to predict for each column, about at most, where trees alone prove nothing.

    Returns
    -------
    MonotoneReport

    Raises
    ------
    ParameterError
        If there is no such column, or nothing says which direction is meant.
    """
    if n_points not in _POINTS:
        raise ParameterError(f"n_points must be {_POINTS}; got {n_points!r}.")
    schema, inputs = model.split_schema, model.inputs
    forest = without_vectors(model.forest)
    predictor, cells = Predictor(forest, schema.kinds), Cells(forest, schema)
    findings = {}
    for column, sign in _directions(model, feature, direction).items():
        place = column if inputs is None else inputs.kept.index(column)
        finding = _verify(predictor, cells, place, sign, int(n_points))
        if inputs is not None and finding.verdict == "violated":
            # Its rows put means of the target together that no row of a table has.
            finding = MonotoneFinding(finding.feature, sign, "unknown", n_tried=finding.n_tried)
        findings[finding.feature] = finding
    return MonotoneReport(findings)


class MonotoneChecks:
    """What a booster can say of its monotone columns."""

    model: Model

    def verify_monotone(
        self, feature: Feature = None, direction: Direction = None, *, n_points: int = 100_000
    ) -> MonotoneReport:
        """Prove that raw scores are monotone, or find rows that show that they are not.

        Parameters and errors: :func:`hedgerow.model.monotone.verify_monotone`.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> params = {"n_estimators": 1, "min_samples_leaf": 1, "early_stopping": False}
        >>> booster = train(params, Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0]))
        >>> print(booster.verify_monotone("x0", "increasing"))
        x0: proved that the raw score never falls
        """
        return verify_monotone(self.model, feature, direction, n_points)


def _directions(model: Model, feature: Feature, direction: Direction) -> dict[int, int]:
    """Columns to look at, and 1 or -1 for each."""
    known = model.training.get("parameters", {}).get("monotone_constraints")
    signs = known or (0,) * model.schema.n_features
    if feature is None:
        if direction is not None:
            raise ParameterError(f"direction={direction!r} is given without feature.")
        if not any(signs):
            raise ParameterError(
                "the model was trained without monotone constraints: name a feature and a "
                "direction, such as verify_monotone('age', 'increasing')."
            )
        return {column: sign for column, sign in enumerate(signs) if sign != 0}
    column = position_of(feature, model.schema, "feature")
    name = model.schema.names[column]
    _check_ordered(model.schema, column)
    sign = signs[column] if direction is None else read_direction(direction, "direction")
    if sign == 0:
        raise ParameterError(
            f"column {name!r} was trained without a monotone constraint: give direction=1 "
            "(never falls) or -1 (never rises)."
        )
    return {column: sign}


def _check_ordered(schema: Schema, column: int) -> None:
    kind = schema.kinds[column]
    if kind == "category":
        raise ParameterError(
            f"feature: column {schema.names[column]!r} is of kind {kind!r}, whose values have no "
            "order."
        )


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
    certain, batches = _rows_to_try(cells, column, n_points, seeds)
    certain = certain and forest.slopes is None  # within a cell they predict more than one value
    for keys in batches:
        tried += len(keys) * len(_sweep(cells, column))
        violation = _first_violation(predictor, cells, keys, column, sign)
        if violation is not None:
            rows, scores, output = violation
            return MonotoneFinding(name, sign, "violated", rows, scores, output, tried)
    return MonotoneFinding(name, sign, "proved" if certain else "unknown", n_tried=tried)


# -- proof ---------------------------------------------------------------------


def _disorder(cells: Cells, tree: int, column: int, sign: int) -> IntArray | None:
    """None if the tree is proved monotone; else keys of a row at which it is not.

    The keys have a second row: 1 for columns that the tree decides about.  Empty
    if the tree has too many leaves to compare.
    """
    start, end = cells.forest.tree_start[tree], cells.forest.tree_start[tree + 1]
    if not (cells.forest.feature[start:end] == column).any():
        return None
    forest = cells.forest.tree(tree)
    value = sign * forest.value
    least, most = _least_and_most(forest, value, sign)
    low, high = _ranges(forest, least, most, cells.may_stop[start:end])
    parts = cells.parts_values(column)[start:end]
    wrong = np.flatnonzero(parts & (high[forest.left] > low[forest.right]))
    nothing = np.zeros(0, dtype=np.int64)
    if forest.slopes is not None and _turns(forest.slopes, column, sign):
        return nothing
    if len(wrong) == 0:
        return None
    if forest.slopes is not None:  # leaves of one value alone can be compared by their boxes
        return nothing
    own = Cells(forest, cells.schema)
    if Boxes.size(own) > _MOST_CELLS:
        return nothing
    boxes = Boxes(own)
    for node in wrong:
        pair = _pair_out_of_order(boxes, int(node), column, value)
        if pair is None:
            return nothing
        if pair[0] >= 0:
            keys = np.zeros((2, forest.n_features), dtype=np.int64)
            common = boxes.inside[pair[0]] & boxes.inside[pair[1]]
            keys[0, boxes.columns] = boxes.keys_in(common)
            keys[1, boxes.columns] = 1
            keys[1, column] = 0
            return keys
    return None


def _least_and_most(forest: Forest, value: FloatArray, sign: int) -> tuple[FloatArray, FloatArray]:
    """What each node predicts at least and at most, times ``sign``."""
    if forest.slopes is None:
        return value, value
    bounds = sign * np.array([forest.slopes.low, forest.slopes.high])
    return value + bounds.min(axis=0), value + bounds.max(axis=0)


def _turns(slopes: Slopes, column: int, sign: int) -> bool:
    """Whether some leaf has a slope against the direction."""
    return bool((sign * slopes.slope[slopes.column == column] < 0.0).any())


def _ranges(
    forest: Forest, least: FloatArray, most: FloatArray, may_stop: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest value in which a walk through each node may end."""
    low, high = least.tolist(), most.tolist()
    left, right = forest.left.tolist(), forest.right.tolist()
    for node in np.flatnonzero(forest.feature >= 0)[::-1].tolist():  # children before parents
        a, b = left[node], right[node]
        stops = bool(may_stop[node])
        low[node] = min(low[a], low[b], least[node] if stops else np.inf)
        high[node] = max(high[a], high[b], most[node] if stops else -np.inf)
    return np.array(low), np.array(high)


def _pair_out_of_order(
    boxes: Boxes, node: int, column: int, value: FloatArray
) -> tuple[int, int] | None:
    """Two ends that the split at ``node`` parts, whose boxes meet and which are in disorder.

    (-1, -1) if there are none; None if there are too many pairs to look at.
    """
    forest, part = boxes.cells.forest, boxes.part_of(column)
    sides = []
    for child in (forest.left[node], forest.right[node]):
        ends = boxes.ends_below(int(child))
        sides.append(ends[boxes.inside[ends, part].any(axis=1)])
    below, above = sides
    if len(below) == 0 or len(above) == 0:
        return -1, -1
    below = below[value[below] > value[above].min()]
    if len(below) * len(above) > _MOST_PAIRS:
        return None
    for end in below:
        rivals = above[value[above] < value[end]]
        common = boxes.inside[rivals] & boxes.inside[end]
        common[:, part] = True  # of the column itself they need nothing in common
        meets = boxes.meet(common)
        if meets.any():
            return int(end), int(rivals[np.argmax(meets)])
    return -1, -1


# -- search ----------------------------------------------------------------------


def _sweep(cells: Cells, column: int) -> IntArray:
    """Keys that the column takes in a sweep: of all cells, unless they are very many."""
    keys = cells.ordered(column)
    if len(keys) <= _SWEEP:
        return keys
    return keys[np.linspace(0, len(keys) - 1, _SWEEP).astype(np.int64)]


def _rows_to_try(
    cells: Cells, column: int, n_points: int, seeds: list[IntArray]
) -> tuple[bool, Iterator[IntArray]]:
    """Batches of rows to start sweeps from; whether they are all that there are."""
    others = [int(j) for j in cells.used if j != column]
    length = len(cells.ordered(column))
    n_cells = [len(cells.all(j)) for j in others]
    if length * math.prod(n_cells) <= n_points and length <= _SWEEP:
        return True, iter([_all_rows(cells, others)])
    return False, _some_rows(cells, others, max(1, n_points // min(length, _SWEEP)), seeds)


def _all_rows(cells: Cells, columns: list[int]) -> IntArray:
    """One row for each combination of cells."""
    choices = [cells.all(j) for j in columns]
    n_rows = math.prod(len(choice) for choice in choices)
    keys = np.zeros((n_rows, cells.forest.n_features), dtype=np.int64)
    if columns:
        mesh = np.meshgrid(*choices, indexing="ij")
        keys[:, columns] = np.stack([part.reshape(-1) for part in mesh], axis=1)
    return keys


def _some_rows(
    cells: Cells, columns: list[int], n_rows: int, seeds: list[IntArray]
) -> Iterator[IntArray]:
    """Random rows; those of the first half lie where a tree is out of order."""
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
    predictor: Predictor, cells: Cells, keys: IntArray, column: int, sign: int
) -> tuple[AnyArray, tuple[float, float], int] | None:
    """Two rows in the wrong order in the sweeps from ``keys``: the worst of the first batch."""
    values = _sweep(cells, column)
    per_batch = max(1, 200_000 // len(values))
    for first in range(0, len(keys), per_batch):
        part = keys[first : first + per_batch]
        rows = np.repeat(part, len(values), axis=0)
        rows[:, column] = np.tile(values, len(part))
        scores = predictor.raw_scores(rows)
        swept = sign * scores.reshape(len(scores), len(part), len(values))
        before = np.maximum.accumulate(swept, axis=2)
        wrong = swept < before
        if not wrong.any():
            continue
        worst = int(np.argmax(np.where(wrong, before - swept, 0.0)))
        output, row, upper = (int(i) for i in np.unravel_index(worst, wrong.shape))
        lower = int(np.argmax(swept[output, row, :upper]))
        pair = np.repeat(part[row : row + 1], 2, axis=0)
        pair[:, column] = values[[lower, upper]]
        pair_scores = predictor.raw_scores(pair)[output]
        return cells.rows_of(pair), (float(pair_scores[0]), float(pair_scores[1])), output
    return None


__all__ = ["MonotoneChecks", "MonotoneFinding", "MonotoneReport", "Verdict", "verify_monotone"]
