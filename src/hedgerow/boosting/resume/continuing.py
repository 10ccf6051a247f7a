"""Continued training: more rounds on top of a model's trees, possibly with other rows.

::

    new rows --- read with the columns of the model (unknown levels are added)
       |
       +--- raw scores: base score, offset, trees of the model in their order
       +--- bins: computed from these rows; category bins stay at least as fine as the model's
       |
    rounds n, n + 1, ...  ->  trees of the model, which do not change, then the new ones

A model file keeps only the cuts that its trees use, so all cuts are computed
again: the same rows give the same cuts.  Trees of the model are traversed by values, as in
prediction.  Sampling and rounding are seeded by the number of the tree, which continues, so
50 rounds and then 50 more equal 100 rounds at once, to the last bit.

A split by category is a set of bins, and a model has one bin for each level.  If new
levels are added, the sets of the old trees are rewritten: a new level goes where a missing
value goes.  A column with more levels than bins keeps the bins of the model; its new
levels join the bin of the rarest levels, or share a new one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.arrays import BinArray, FloatArray, distinct
from hedgerow.boosting.loop.setup.resolved import ALL_OUTPUTS, ONE_OUTPUT, obstacle_to_vectors
from hedgerow.boosting.resume.checkpoint import array_digest
from hedgerow.data import AnyTable, Schema, numbers_of
from hedgerow.data.binning.bins import SMALLEST_STRIDE, BinSpec
from hedgerow.data.binning.cut_sample import MOST_CATEGORY_BINS
from hedgerow.data.categories.columns import chosen_columns
from hedgerow.errors import ParameterError, brief
from hedgerow.model.forest import CategoryTables, Forest, node_arrays
from hedgerow.model.model import AVERAGED, BLEND, Model, has_foreign_rules
from hedgerow.model.predict import Predictor
from hedgerow.objectives import Objective, loss_record
from hedgerow.params import BoostParams


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """A model to continue, with raw scores as they were when its trees were grown.

    total  whether ``n_estimators`` includes the rounds of the model
    name   the user's name of the argument, for messages
    """

    model: Model
    total: bool = False
    name: str = "init_model"

    @property
    def forest(self) -> Forest:
        return self.model.forest

    def rounds_to_add(self, n_estimators: int) -> int:
        """Return the number of rounds to add."""
        if not self.total:
            return n_estimators
        done = self.forest.n_rounds
        if n_estimators < done:
            raise ParameterError(
                f"n_estimators={n_estimators} is less than the {done} rounds of the fitted model: "
                "with warm_start=True it is the number of all rounds. Raise it, or set "
                "warm_start=False to train a new model."
            )
        return n_estimators - done

    def with_strategy(self, params: BoostParams, objective: Objective) -> BoostParams:
        """Return parameters whose trees can follow the trees of the model."""
        if objective.n_outputs == 1 or self.forest.n_trees == 0:
            return params
        if self.forest.vectors is not None:
            if params.multi_strategy != "auto":
                return params
            shares = obstacle_to_vectors(params) is None
            return replace(params, multi_strategy=ALL_OUTPUTS if shares else ONE_OUTPUT)
        if params.multi_strategy == ALL_OUTPUTS:
            raise ParameterError(
                f"multi_strategy={ALL_OUTPUTS!r}: the trees of {self.name} have one output each, "
                f"and vector leaves cannot follow: use multi_strategy={ONE_OUTPUT!r} or 'auto'."
            )
        return replace(params, multi_strategy=ONE_OUTPUT)

    def params_to_add(self, params: BoostParams) -> BoostParams:
        """Return the parameters of the rounds to add."""
        # A sequence of learning rates for all rounds is cut to the last rounds; a callable keeps
        # counting from the model's first round.
        n_rounds, rate = self.rounds_to_add(params.n_estimators), params.learning_rate
        kept = rate[-n_rounds:] if isinstance(rate, tuple) else rate
        return replace(params, n_estimators=n_rounds, learning_rate=kept)

    def rates_and(self, added: Any, n_rounds: int) -> Any:
        """Return the learning rates of all ``n_rounds`` rounds, for the record."""
        before = self.model.training.get("parameters", {}).get("learning_rate", added)
        n_first = self.forest.n_rounds
        if n_first == 0 or (before == added and not isinstance(added, list)):
            return added
        counts = (n_first, n_rounds - n_first)
        return [
            rate
            for given, count in zip((before, added), counts, strict=True)
            for rate in (given if isinstance(given, list) else [given] * count)
        ]

    def complete(self, record: dict[str, Any], n_rounds: int) -> None:
        """Put what the model knows into the record of the added rounds, of ``n_rounds`` in all."""
        parameters = record["parameters"]
        parameters["learning_rate"] = self.rates_and(parameters["learning_rate"], n_rounds)
        targets = self.model.training.get("targets")
        if targets is not None and targets["named"]:
            record["targets"] = targets
        if BLEND in self.model.training:
            record[BLEND] = self.model.training[BLEND]

    def check(self, objective: Objective, params: BoostParams, schema: Schema) -> None:
        """Raise ``ParameterError`` unless rounds with these parameters can be added."""
        model, forest, n_trees = self.model, self.forest, params.num_parallel_tree
        before = model.training.get("parameters", {}).get("boosting", "gbdt")
        of_model, of_fit = (
            f": boosting={mode!r} of {whose} rescales trees when others are added, so a finished "
            "model cannot be continued: use boosting='gbdt', or train all rounds at once"
            for mode, whose in ((before, "the model"), (params.boosting, "this fit"))
        )
        has_crosses = model.inputs is not None and bool(model.inputs.crosses)
        obstacles = {
            of_fit: params.boosting != "gbdt",
            of_model: before != "gbdt",
            f" has {forest.n_parallel} trees of each output in a round, but this fit has "
            f"num_parallel_tree={n_trees}: give the same": (
                forest.n_trees > 0 and forest.n_parallel != n_trees
            ),
            " is the mean of several fold models, whose trees are concatenated: continue the model "
            "of a fold, or that of cross_fit(model='refit')": AVERAGED in model.training,
            " comes from another library, whose rules for categories, zeros or linear leaves "
            "differ, so rounds cannot be added: train a new model": has_foreign_rules(model),
            " cannot be continued with crosses of columns (feature_crosses), its own or others: "
            "train both with feature_crosses=None, or train a new model": (
                bool(params.feature_crosses) or has_crosses
            ),
            ": target statistics of categories (target_statistics) belong to the rows from which "
            "they were computed, so such a model cannot be continued: train it with "
            "target_statistics=False": model.inputs is not None or params.target_statistics is True,
            f" was trained with zero_as_missing={model.schema.zero_missing}: give the same": (
                bool(params.zero_as_missing) != model.schema.zero_missing
            ),
        }
        for obstacle, is_there in obstacles.items():
            if is_there:
                raise ParameterError(f"{self.name}{obstacle}.")
        self._check_loss(objective)
        assert schema.names == model.schema.names

    def _check_loss(self, objective: Objective) -> None:
        """Raise ``ParameterError`` unless the losses are equal, with the same targets in order."""
        model, requested = self.model, loss_record(objective)
        kept = {key: model.training.get(key) for key in requested}
        named = [bool((record.get("targets") or {}).get("named")) for record in (requested, kept)]
        counts = objective.n_outputs, model.forest.n_outputs
        by_position = "targets" in model.training and not all(named)
        compared = [key for key in requested if not (by_position and key == "targets")]
        differs = any(requested[key] != kept[key] for key in compared)
        if differs or objective.name != model.objective or counts[0] != counts[1]:
            raise ParameterError(
                f"{self.name} was trained with {_loss_text(model.objective, kept)} and "
                f"{counts[1]} output(s), but this fit has {_loss_text(objective.name, requested)} "
                f"and {counts[0]}: give the same."
            )

    def digest(self) -> str:
        """Return a digest of the trees."""
        forest, tables = self.forest, self.forest.categories
        arrays = [*node_arrays(forest).values(), forest.tree_start, forest.base_score]
        arrays += [] if tables is None else [tables.sets, tables.level_bin]
        arrays += [] if forest.vectors is None else [forest.vectors]
        arrays += forest.slopes or []
        text = "".join(map(array_digest, arrays))
        return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def _loss_text(name: str, record: Mapping[str, Any]) -> str:
    values = dict(record)
    values |= values.pop("loss_parameters", None) or {}
    if (targets := values.pop("targets", None)) is not None:
        values["targets"] = targets["names"]
    return f"objective {name!r}" + "".join(f", {key}={value!r}" for key, value in values.items())


def check_reading(schema: Schema, categorical: Any, unknown: Any, name: str) -> None:
    """Reject read options that contradict the schema of the model to continue."""
    chosen = chosen_columns(categorical, schema.names)
    had = np.array([kind == "category" for kind in schema.kinds])
    if chosen is not None and (chosen != had).any():
        column = schema.names[int(np.argmax(chosen != had))]
        what = "categories" if had[schema.names.index(column)] else "numbers"
        raise ParameterError(
            f"categorical_features: column {column!r} held {what} when {name} was trained: leave "
            "categorical_features at 'auto', so that columns are read as they were."
        )
    if unknown != "missing" and schema.has_categories and unknown != schema.unknown:
        raise ParameterError(
            f"unknown_category={brief(unknown)}, but {name} was trained with {schema.unknown!r}: "
            "give the same."
        )


def start_scores(
    forest: Forest, table: AnyTable, offset: FloatArray | None, n_threads: int
) -> FloatArray:
    """Return raw scores, shape (n_outputs, n_rows), before the first new tree."""
    # The order of additions is that of the model's fit: base score, offset, tree by tree.
    raw = np.repeat(forest.base_score[:, None], table.n_rows, axis=1)
    if offset is not None:
        raw += offset
    predictor = Predictor(forest, table.schema.kinds)
    predictor.add_scores(numbers_of(table), raw, n_threads)
    return raw


# -- categories --------------------------------------------------------------------------


def keep_bins(spec: BinSpec, start: Model) -> BinSpec:
    """Merge bins of these rows with the model's, so that no two of its bins are joined."""
    tables = start.forest.categories
    if tables is None:
        return spec
    found: list[BinArray] = []
    for j in range(spec.n_features):
        bins = spec.bins_of(j)
        if spec.schema.columns[j].kind == "category":
            old, levels = tables.bins_of(j), start.schema.columns[j].levels
            places = spec.schema.level_index(j).of_levels(levels)
            pairs = np.unique(np.stack([bins[places], old]), axis=1)
            if len(distinct(pairs[0])) < pairs.shape[1]:
                last = int(old.max(initial=0))
                free = last + 1 < MOST_CATEGORY_BINS
                bins = np.full(len(bins), last + 1 if free else last, dtype=np.uint8)
                bins[places] = old
        found.append(bins)
    level_bin = np.concatenate(found)
    counts = np.diff(spec.cut_start).max(initial=0), level_bin.max(initial=0)
    most = 1 + int(max(counts))
    stride = max(SMALLEST_STRIDE, 1 << most.bit_length())
    return replace(spec, level_bin=level_bin, stride=stride)


def in_bins_of(spec: BinSpec, start: Model) -> Forest:
    """Return the forest of the model with its sets in the bins of :func:`keep_bins`."""
    forest, tables = start.forest, start.forest.categories
    if tables is None:
        return forest
    bits = np.unpackbits(tables.sets.view(np.uint8), axis=1, bitorder="little")
    new = np.zeros_like(bits)
    nodes = np.flatnonzero(forest.has_sets)
    rows = forest.threshold[nodes]
    for j in np.flatnonzero(spec.is_category).tolist():
        chosen = forest.feature[nodes] == j
        # The model's bin that contains each bin; -1 for new levels.
        source = np.full(spec.n_bins(j), -1, dtype=np.int64)
        places = spec.schema.level_index(j).of_levels(start.schema.columns[j].levels)
        source[spec.bins_of(j)[places]] = tables.bins_of(j)
        known = source >= 0
        at, sides = rows[chosen], forest.missing_left[nodes[chosen]]
        part = np.repeat(sides[:, None], len(source), axis=1)
        part[:, known] = bits[at][:, source[known]]
        new[at, : len(source)] = part
    sets = np.packbits(new, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return replace(forest, categories=CategoryTables(sets, spec.level_bin, spec.level_start))
