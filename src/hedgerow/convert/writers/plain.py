"""A model in the form of the writers: trees with one number per leaf, numeric thresholds.

If a format cannot express a feature, an error names it, here or in the writer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import AnyArray, BoolArray, FloatArray, IntArray
from hedgerow.boosting.row_data.classes import RECORD as CLASS_WEIGHT
from hedgerow.boosting.row_data.offsets import RECORD as OFFSET_COLUMNS
from hedgerow.data.inputs import Cross, Statistic
from hedgerow.data.reading.columns import floats_of
from hedgerow.data.reading.table import read_table
from hedgerow.errors import ParameterError
from hedgerow.kernels.tables.keys import floats_of_keys, highest_key, keys_of_floats
from hedgerow.model.forest import UNKNOWN_BIN, without_vectors
from hedgerow.model.model import Model
from hedgerow.model.predict import Predictor
from hedgerow.objectives import CUSTOM, SeveralTargets, objective_of_record
from hedgerow.objectives.own import Linked

_EXACT = 2**53
_LINKS = {
    "logistic": "logit",
    "cross_entropy": "logit",
    "softmax": "softmax",
    **dict.fromkeys(("poisson", "gamma", "tweedie", "cox", "aft"), "log"),
    **dict.fromkeys(("squared_error", "absolute_error", "huber", "pseudo_huber"), "identity"),
    **dict.fromkeys(("fair", "log_cosh", "expectile", "mape", "quantile"), "identity"),
    **dict.fromkeys(("lambdarank", "rank_map", "rank_pairwise", "rank_xendcg"), "identity"),
}
"""Link from raw score to prediction of objectives that other formats know."""


_COMPLETE = ("onnx", "json")
_OF_COMPLETE = (
    "linear leaves (linear_leaves)",
    "target statistics of categories",
    "crosses of columns (feature_crosses)",
)
"""Features that complete formats hold."""


class Line(NamedTuple):
    """The linear terms of a leaf; see :mod:`hedgerow.kernels.prediction.slopes`."""

    columns: tuple[int, ...]  # columns as in :class:`PlainTree`, one for each term
    slopes: tuple[float, ...]
    centers: tuple[float, ...]
    low: float  # low, high: bounds of the sum of the terms; infinite for the lines of LightGBM
    high: float

    @property
    def is_bounded(self) -> bool:
        """Whether the sum of the terms has bounds; if not, a NaN gives the first center."""
        return math.isfinite(self.low)


@dataclass(frozen=True, eq=False)
class PlainTree:
    """One tree; nodes come after their parents, the root first."""

    # int64, one per node; column of the user's table, or the number of columns plus the number of
    # an input that is computed from them; -1 for a leaf
    column: IntArray
    threshold: FloatArray  # float64; largest number that goes left; NaN for a leaf and a set
    missing_left: BoolArray
    left: IntArray
    right: IntArray
    value: FloatArray
    gain: FloatArray
    cover: FloatArray
    count: IntArray
    members: dict[int, IntArray]  # by node; codes (positions of levels) that go left, ascending
    unknown_left: dict[int, bool]  # by node; whether a value that is not a level goes left
    lines: dict[int, Line]  # by node; the terms of leaves that have any

    def is_leaf(self) -> BoolArray:
        """Return whether each node is a leaf."""
        return self.column < 0


class PlainModel:
    """A model and its properties for writers.

    The link is one of "identity", "log", "logit", "softmax" and "logit_each"; it is None
    if the prediction has another link, or raw scores are requested.
    """

    def __init__(self, model: Model, classes: AnyArray | None, link: str | None) -> None:
        self.model, self.classes, self.link = model, classes, link
        self.forest = without_vectors(model.forest)  # one output for each tree
        self.n_outputs = self.forest.n_outputs
        self.schema, self.columns = model.schema, model.schema.columns
        self.names = model.schema.names
        inputs = model.inputs  # statistics and crosses follow the columns as inputs of the trees
        self.statistics: tuple[Statistic, ...] = () if inputs is None else inputs.statistics
        self.crosses: tuple[Cross, ...] = () if inputs is None else inputs.crosses
        # Number of each input of the trees in :class:`PlainTree`, and -1 for leaves.
        n_columns = self.schema.n_features
        kept = range(n_columns) if inputs is None else inputs.kept
        n_computed = 0 if inputs is None else inputs.n_inputs - len(kept)
        self.n_inputs = n_columns + n_computed
        self.kept = np.array([*kept, *range(n_columns, self.n_inputs), -1], dtype=np.int64)
        # Whether columns are the only inputs of the trees, and numbers their only leaves.
        self.is_simple = self.forest.slopes is None and not self.statistics and not self.crosses

    @property
    def objective(self) -> str:
        """Name of the objective, or of the custom one."""
        if self.model.objective != CUSTOM:
            return self.model.objective
        return str(self.model.training.get("loss_parameters", {}).get("name", CUSTOM))

    def trees(self) -> list[PlainTree]:
        """Return all trees, in order."""
        return [self._tree(t) for t in range(self.forest.n_trees)]

    def _tree(self, number: int) -> PlainTree:
        forest, start = self.forest, self.forest.tree_start
        part = slice(int(start[number]), int(start[number + 1]))
        feature = forest.feature[part].astype(np.int64)
        column = np.where(feature >= 0, self.kept[feature], -1)
        is_set = forest.has_sets[part]
        threshold = np.full(len(feature), np.nan)
        kinds = [*self.schema.kinds, *["float"] * (len(self.kept) - 1), "leaf"]
        for kind in ("float", "int"):
            chosen = np.array([each == kind for each in kinds])[column]
            keys = forest.threshold[part][chosen]
            if kind == "float":
                threshold[chosen] = floats_of_keys(keys)
                continue
            every = keys == highest_key("int")  # only missing values go right
            threshold[chosen] = np.where(every, np.inf, keys.astype(np.float64))
            if (np.abs(threshold[chosen][~every]) > _EXACT).any():
                raise ParameterError(
                    "a column of 64-bit integers is split beyond 2**53, which float64 cannot "
                    "represent: only formats with whole numbers could hold this model."
                )
        members, unknown = {}, {}
        for node in np.flatnonzero(is_set).tolist():
            members[node], unknown[node] = self._set(part.start + node)
        return PlainTree(
            column=column,
            threshold=threshold,
            missing_left=forest.missing_left[part] == 1,
            left=forest.left[part].astype(np.int64),
            right=forest.right[part].astype(np.int64),
            value=forest.value[part],
            gain=forest.gain[part],
            cover=forest.cover[part],
            count=forest.count[part],
            members=members,
            unknown_left=unknown,
            lines=self._lines(part.start, part.stop),
        )

    def _lines(self, first: int, stop: int) -> dict[int, Line]:
        """Return the lines of the leaves ``first .. stop`` of the forest, by place in the tree."""
        slopes = self.forest.slopes
        if slopes is None:
            return {}
        found = {}
        for node in (np.flatnonzero(np.diff(slopes.start[first : stop + 1])) + first).tolist():
            terms = slice(int(slopes.start[node]), int(slopes.start[node + 1]))
            found[node - first] = Line(
                tuple(self.kept[slopes.column[terms]].tolist()),
                tuple(slopes.slope[terms].tolist()),
                tuple(slopes.center[terms].tolist()),
                float(slopes.low[node]),
                float(slopes.high[node]),
            )
        return found

    def _set(self, node: int) -> tuple[IntArray, bool]:
        tables = self.forest.categories
        assert tables is not None
        left = tables.bins_left(int(self.forest.threshold[node]))
        members = np.flatnonzero(left[tables.bins_of(int(self.forest.feature[node]))])
        missing_left = bool(self.forest.missing_left[node])
        unknown = bool(left[UNKNOWN_BIN]) if tables.unknown_in_sets else missing_left
        return members.astype(np.int64), unknown

    def known_side(self, tree: PlainTree, node: int, to_left: bool) -> IntArray:
        """Return the codes of a set's side without the unknown ones, which go left or not."""
        members = tree.members[node]
        if not to_left:
            return members
        return np.setdiff1d(np.arange(self.schema.n_levels(int(tree.column[node]))), members)

    def matrix(self, X: object) -> FloatArray:
        """Return a table as float64: categories as codes, unknown ones as the next code."""
        table = read_table(X, self.schema, reader="export")
        values = floats_of(np.array(table.values), self.schema.kinds)
        if self.schema.zero_missing:
            number = np.array([column.kind != "category" for column in self.columns])
            values[(np.abs(values) <= self.schema.zero_band) & number] = np.nan
        return values

    def with_levels(self, matrix: FloatArray, columns: Sequence[int], other: float) -> FloatArray:
        """Return a table of :meth:`matrix` with numbers as categories in place of their codes."""
        found = matrix.copy()
        for j in columns:
            levels = np.append(np.array(self.columns[j].levels, dtype=np.float64), other)
            at = ~np.isnan(found[:, j])
            found[at, j] = levels[found[at, j].astype(np.int64)]
        return found

    def inputs_of(self, matrix: FloatArray) -> FloatArray:
        """Return the inputs of the trees for a table of :meth:`matrix`."""
        inputs = self.model.inputs
        return matrix if inputs is None else inputs.values(matrix, self.schema)

    def scores(self, matrix: FloatArray) -> FloatArray:
        """Return raw scores of a table of :meth:`matrix`, shape (n_rows, n_outputs)."""
        forest, schema, inputs = self.model.forest, self.schema, self.model.inputs
        values: AnyArray = matrix
        if self.schema.has_int:
            values = keys_of_floats(matrix)
            for j, kind in enumerate(self.schema.kinds):
                if kind == "int":
                    known = ~np.isnan(matrix[:, j])
                    values[known, j] = matrix[known, j].astype(np.int64)
        if inputs is not None:
            values, schema = inputs.values(values, schema), inputs.schema(schema)
        return Predictor(forest, schema.kinds).raw_scores(values).T


def plain_model(model: Model, classes: AnyArray | None, raw: bool, target: str) -> PlainModel:
    """Prepare a model for a writer; raise for features that only Hedgerow's format has."""
    inputs = model.inputs
    held = {
        "linear leaves (linear_leaves)": model.forest.slopes is not None,
        "target statistics of categories": inputs is not None and inputs.statistics,
        "crosses of columns (feature_crosses)": inputs is not None and inputs.crosses,
        "offset columns": OFFSET_COLUMNS in model.training,
        "labels that depend on class_weight": CLASS_WEIGHT in model.training,
    }
    known = _OF_COMPLETE if target in _COMPLETE else ()
    reasons = [what for what, is_held in held.items() if is_held and what not in known]
    if reasons:
        raise ParameterError(
            f"{' and '.join(reasons)} cannot be written to {target}: save the model instead, or "
            "train it without this feature."
        )
    return PlainModel(model, classes, None if raw else _link(model, target))


def _link(model: Model, target: str) -> str:
    objective = objective_of_record(model.objective, model.forest.n_outputs, model.training)
    if isinstance(objective, SeveralTargets):
        single = objective.single
        known = _LINKS.get(single.name)
        if isinstance(single, Linked) and single.task == "regression":
            known = single.link
        if known == "identity":
            return "identity"
    elif model.objective == CUSTOM:
        given = model.training["loss_parameters"]
        if given["task"] == "regression" and given["link"] in ("identity", "log"):
            return str(given["link"]) if model.forest.n_outputs == 1 else "identity"
        if given["task"] == "classes":
            return "logit_each" if given["link"] == "logit" else "softmax"
        if given["link"] == "logit":
            return "logit"
    elif model.objective in _LINKS and (
        model.forest.n_outputs == 1 or model.objective == "softmax"
    ):
        return _LINKS[model.objective]
    raise ParameterError(
        f"predictions of objective {model.objective!r} with {model.forest.n_outputs} output(s) "
        f"cannot be expressed in {target}: raw=True writes the raw scores."
    )


def check_names(plain: PlainModel, target: str, forbidden: str) -> None:
    """Raise for names with a forbidden letter, or with half of a pair of UTF-16."""
    for name in plain.names:
        letter = next(
            (each for each in name if each in forbidden or "\ud800" <= each < "\ue000"), ""
        )
        if letter:
            raise refuse(
                f"the column name {name!r}, which holds {letter!r},", target, ": rename the column"
            )


def refuse(what: str, target: str, advice: str = "") -> ParameterError:
    """Return an error that names what a format cannot express."""
    return ParameterError(f"{what} cannot be written to {target}{advice or ''}.")
