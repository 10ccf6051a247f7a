"""Inputs of a fit: ordered target statistics of categories, and crosses of numbers.

Category columns become target means, without target leakage.  The ordered value of a row is the
mean over the rows of the same category that precede it in a random order, shrunk towards the
overall mean by one row's weight; so trees learn how predictive such a mean is for new rows
(Prokhorenkova et al., CatBoost, 2018)::

    copy 0   row 0  row 1 ...   values by order 0    weight / n_copies
    copy 1   row 0  row 1 ...   values by order 1    weight / n_copies
    ...                          |
                                 v   one fit on all copies
    new rows                     statistics over all training rows

The first rows of an order have almost no preceding rows; with several orders, every row is early in
some and late in others.  A mean does not show how many rows it covers, and in columns with very
many levels rare levels often behave differently from common ones: so these columns also get their
number of rows, without the row itself, as an input.  A column with a statistic no longer takes part
in splits by category set: with these, a tree would memorise the training rows.

A row of weight k is not equivalent to k rows here, since k rows would precede each other; a common
factor on all weights changes nothing.  Ordered values of rows in files are in a mapped file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Any, cast

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.external.file_table import FileTable, blocks_of
from hedgerow.boosting.loop.sample import Sample
from hedgerow.data import AnyTable, Schema, Table
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.data.external.block_files import mapped_array
from hedgerow.data.inputs import FIRST_TARGET, ROWS, TARGET, Cross, Inputs, Statistic, joint_keys
from hedgerow.errors import ParameterError
from hedgerow.growing.limits.constraints import NO_INTERACTIONS, PAIRWISE
from hedgerow.kernels.tables.statistics import (
    ORDER_STREAM,
    means_of_sums,
    number_keys,
    ordered_means,
    shuffle,
)
from hedgerow.model.forest import Forest, renumbered, used_columns
from hedgerow.model.model import Model
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.params import BoostParams
from hedgerow.threads import run_blocks

MANY_LEVELS = 254
"""``target_statistics="auto"`` encodes columns with more levels than a column has bins."""

_OF_CLASSES = ("softmax", "one_vs_all")
"""Losses whose outputs are classes, each with a share of its own."""

STRENGTH = 1.0
"""Weight, in rows, of the overall mean in the mean of a category."""


def compute(
    train: Sample,
    groups: Sequence[tuple[int, ...]],
    objective: Objective,
    seed: int,
    n_copies: int,
    n_threads: int,
) -> tuple[tuple[Statistic, ...], FloatArray]:
    """Return the means over all rows, and the ordered values (n_values, n_copies * n_rows)."""
    # Statistics are independent, so each is computed by one thread.
    table, schema, n_rows = train.table, train.table.schema, train.n_rows
    columns: dict[int, AnyArray] = {j: np.empty(n_rows, np.int32) for j in {*chain(*groups)}}
    place = 0
    for rows in blocks_of(table):
        values, start, place = cast(Table, rows).values, place, place + rows.n_rows
        for j, codes in columns.items():
            codes[start:place] = codes_of(values[:, j], schema.n_levels(j))
    classes, targets = _averaged(train.target, objective)
    # A copy of weights that are read-only: kernels are compiled for writable ones.
    weight: FloatArray = np.ones(n_rows) if train.weight is None else train.weight
    weight = np.require(weight, requirements="W")
    total = weight.sum()
    unit = float(total) / n_rows
    priors = np.array([(weight * y).sum() / total for y in targets])
    orders = [np.arange(n_rows) for _ in range(n_copies)]
    for copy, order in enumerate(orders):
        shuffle(seed, ORDER_STREAM + copy, order)
    n_slots = 1 << n_rows.bit_length()
    # Columns of many levels also get the number of rows of each.
    counted = [len(own) == 1 and schema.n_levels(own[0]) > MANY_LEVELS for own in groups]
    sizes = [len(classes) + is_counted for is_counted in counted]
    first = np.cumsum([0, *sizes])
    shape = int(first[-1]), n_copies * n_rows
    if isinstance(table, FileTable):
        n_threads = max(1, min(n_threads, table.data.memory_limit // (_THREAD_BYTES * n_rows)))
        block: FloatArray = mapped_array(table.data.cache_dir[0], shape, np.float64)
    else:
        block = np.empty(shape)
    found: dict[int, Statistic] = {}

    def fill(start: int, stop: int) -> None:
        for number in range(start, stop):
            joint = joint_keys(columns, schema, groups[number])
            codes, keys = np.empty_like(joint), np.empty_like(joint)
            n_codes = number_keys(joint, np.full(n_slots, -1), codes, keys)
            found[number] = of_group(number, codes, keys[:n_codes])

    def of_group(number: int, codes: IntArray, keys: IntArray) -> Statistic:
        own, known = block[first[number] : first[number + 1]], (classes, priors)
        values = np.empty((len(own), len(keys)))
        places = np.argsort(keys)
        if counted[number]:  # the rows of each code, here without the row itself
            mass = np.bincount(codes, weights=weight, minlength=len(keys))
            values[0] = _shortened(mass / unit)
            own[0] = np.tile(_shortened((mass[codes] - weight) / unit), n_copies)
            known = (ROWS, *classes), np.append(0.0, priors)
        lines = zip(own[-len(classes) :], values[-len(classes) :], targets, priors, strict=True)
        for line, mean, target, prior in lines:
            for copy, order in enumerate(orders):
                sums = np.zeros(2 * len(keys))
                means = line[copy * n_rows : (copy + 1) * n_rows]
                ordered_means(codes, order, target, weight, STRENGTH * unit, prior, sums, means)
                if copy == 0:
                    mean[:] = means_of_sums(sums, STRENGTH * unit, prior)
        kept = np.ascontiguousarray(values[:, places])
        return Statistic(groups[number], known[0], keys[places], kept, known[1])

    run_blocks(fill, len(groups), n_threads, 1)
    return tuple(found[number] for number in range(len(groups))), block


def _shortened(counts: FloatArray) -> FloatArray:
    """Round counts to float32, so that a common factor on all weights changes nothing."""
    return counts.astype(np.float32).astype(np.float64)


def n_means_of(objective: Objective) -> int:
    """Return the number of means in each statistic: one for each class or target."""
    several = objective.name in _OF_CLASSES or isinstance(objective, SeveralTargets)
    return objective.n_outputs if several else 1


def _averaged(target: FloatArray, objective: Objective) -> tuple[tuple[int, ...], list[FloatArray]]:
    """Return the (pseudo-)classes of each statistic, and the values of which it has the means."""
    outputs = range(n_means_of(objective))
    if isinstance(objective, SeveralTargets):
        columns = [np.ascontiguousarray(target[:, k]) for k in outputs]
        return tuple(FIRST_TARGET - k for k in outputs), columns
    if objective.name in _OF_CLASSES:
        return tuple(outputs), [(target == k).astype(np.float64) for k in outputs]
    return (TARGET,), [target]


MOST_CLASSES = 10
"""Largest number of classes or targets: each has its own statistics; with more there are none."""

MOST_PAIRS = 64
"""Largest number of values of column pairs: pairs times classes or targets."""

_THREAD_BYTES = 56
"""Memory for each row of the statistic that a thread computes: joint keys, with a hash table."""

MOST_COPIES = 4
COPIED_ROWS = 400_000
"""Approximate largest number of rows in all copies together."""


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Training and validation rows as the trees see them.

    train   ``n_copies`` copies of the rows, one after another
    inputs  None: the columns are unchanged
    """

    train: Sample
    validation: Sequence[Sample] = ()
    inputs: Inputs | None = None
    n_copies: int = 1


def copies_of(n_rows: int, params: BoostParams) -> int:
    """Return the number of copies of the rows in a fit with statistics."""
    # Four copies are as good as six on 26,000 rows (Amazon, see docs/categories.md); two lose a
    # third of the gain. With more rows, more rows precede each row in one order, and copies cost
    # more. Random forests, DART and out-of-bag scores need each row only once.
    if params.boosting != "gbdt" or params.oob_score:
        return 1
    return max(1, min(MOST_COPIES, COPIED_ROWS // n_rows))


def encode(
    train: Sample,
    validation: Sequence[Sample],
    objective: Objective,
    params: BoostParams,
    n_threads: int = 1,
) -> Encoded:
    """Replace category columns by statistics, and add crosses, where ``params`` requests them."""
    schema = train.table.schema
    groups = choose_columns(schema, train.n_rows, objective, params)
    crosses = tuple(
        Cross(schema.names.index(first), schema.names.index(second), operation)
        for first, second, operation in params.feature_crosses or ()
    )
    if not groups and not crosses:
        return Encoded(train, validation)
    inputs, n_copies, ordered = Inputs(kept_columns(schema, groups), (), crosses), 1, None
    if groups:
        n_copies = copies_of(train.n_rows, params)
        found, ordered = compute(train, groups, objective, params.seed, n_copies, n_threads)
        inputs = replace(inputs, statistics=found)
    seen = _with_inputs(train.table, inputs, n_threads, ordered)
    unseen = [replace(one, table=_with_inputs(one.table, inputs, n_threads)) for one in validation]
    learned = replace(train, table=seen)
    if n_copies > 1:
        weight = np.ones(train.n_rows) if train.weight is None else train.weight
        shared = replace(train, weight=weight / n_copies).repeated(n_copies)
        learned = Sample(seen, np.concatenate([train.target] * n_copies), **shared.present)
    return Encoded(learned, unseen, inputs, n_copies)


def _with_inputs(
    table: AnyTable, inputs: Inputs, n_threads: int, ordered: FloatArray | None = None
) -> AnyTable:
    """Return rows as trees see them; training rows with the ordered values of statistics."""
    if isinstance(table, FileTable):
        own, schema = table.schema, inputs.schema(table.schema)
        return replace(table, inputs=inputs, ordered=ordered, columns=own, schema=schema)
    return inputs.of_table(table, n_threads, ordered)


def choose_columns(
    schema: Schema, n_rows: int, objective: Objective, params: BoostParams
) -> list[tuple[int, ...]]:
    """Return the columns of each statistic: one, or two with the smaller position first."""
    # ``schema`` has only levels that occur in the rows.
    wanted, several = params.target_statistics, isinstance(objective, SeveralTargets)
    present = [j for j, kind in enumerate(schema.kinds) if kind == "category"]
    n_levels = {j: schema.n_levels(j) for j in present}
    least = MANY_LEVELS if wanted == "auto" else 2
    singles = [j for j in present if n_levels[j] > least]
    if not wanted or (wanted == "auto" and (several or not singles)):
        return []
    n_means, obstacle = n_means_of(objective), None
    if not present:
        raise ParameterError(
            "target_statistics=True needs a category column, but the table has none: name them "
            "(categorical_features), or leave target_statistics at 'auto'."
        )
    if getattr(objective, "scored_as", None) == "survival":
        obstacle = "takes means of the target, which censored times do not have"
    elif n_means > MOST_CLASSES:
        what = "targets" if several else "classes"
        obstacle = (
            f"makes statistics for each of at most {MOST_CLASSES} {what}, but there are {n_means}"
        )
    if obstacle is not None:
        if wanted == "auto":
            return []
        raise ParameterError(f"target_statistics=True {obstacle}: use target_statistics=False.")
    groups: list[tuple[int, ...]] = [(j,) for j in singles]
    if params.statistics_order == 2:
        pairs = _pairs(singles, n_levels, n_rows)
        together = params.interaction_constraints
        if together is not None and together != PAIRWISE:  # may both split on one branch?
            sets = () if together == NO_INTERACTIONS else together
            pairs = [pair for pair in pairs if any(set(pair) <= set(own) for own in sets)]
        groups += sorted(pairs[: MOST_PAIRS // n_means])
    return groups


def _pairs(singles: Sequence[int], n_levels: dict[int, int], n_rows: int) -> list[tuple[int, int]]:
    """Return pairs of a column with a statistic and any other category column, best first."""
    # Pairs with the most combinations come first, as they add most to single columns; pairs with a
    # column of fewer than about two rows a level come last.

    def rank(pair: tuple[int, int]) -> tuple[bool, int]:
        first, second = n_levels[pair[0]], n_levels[pair[1]]
        return max(first, second) > n_rows // 2, -first * second

    pairs = [
        pair for pair in combinations(sorted(n_levels), 2) if not set(pair).isdisjoint(singles)
    ]
    return sorted(pairs, key=rank)


def constraints_of_inputs(params: BoostParams, inputs: Inputs | None) -> BoostParams:
    """Map per-column constraints to constraints of the encoded inputs."""
    if inputs is None:
        return params
    sources, signs = inputs.sources, params.monotone_constraints
    factors, bins = params.feature_penalties, params.max_bins_by_feature
    weights, groups = params.feature_weights, params.interaction_constraints
    n_columns = 1 + max(j for source in sources for j in source)
    if groups == PAIRWISE:
        groups = tuple(combinations(range(n_columns), 2))
    elif groups == NO_INTERACTIONS:
        groups = tuple((j,) for j in range(n_columns))
    if groups is not None:
        together = (
            tuple(i for i, source in enumerate(sources) if set(source) <= set(group))
            for group in groups
        )
        groups = tuple(group for group in together if group)

    def of_inputs(values: Any, joined: Callable[[list[Any]], Any]) -> Any:
        if values is None:
            return None
        return tuple(joined([values[j] for j in source]) for source in sources)

    return replace(
        params,
        monotone_constraints=of_inputs(signs, lambda own: own[0] if len(own) == 1 else 0),
        interaction_constraints=groups,
        feature_penalties=of_inputs(factors, math.prod),
        feature_weights=of_inputs(weights, lambda own: sum(own) / len(own) if all(own) else 0.0),
        max_bins_by_feature=of_inputs(bins, min),
    )


def kept_columns(schema: Schema, groups: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the columns that trees split directly: those without a statistic of their own."""
    singles = {group[0] for group in groups if len(group) == 1}
    return tuple(j for j in range(schema.n_features) if j not in singles)


def assembled(
    forest: Forest,
    schema: Schema,
    objective: Objective,
    record: Mapping[str, Any],
    inputs: Inputs | None,
    n_copies: int,
    seconds: Sequence[float] = (),
) -> Model:
    """Return the model of a forest, with the computed inputs that its trees use."""
    # ``n_copies``: number of copies of each row, for the record of a fit with statistics.
    # ``seconds``: time of each round.
    if inputs is not None:
        if inputs.statistics:
            record = {**record, "copies": n_copies}
        inputs, forest = without_unused(inputs, forest, schema.n_features)
    return Model(forest, schema, objective.name, dict(record), inputs, tuple(seconds))


def without_unused(inputs: Inputs, forest: Forest, n_columns: int) -> tuple[Inputs | None, Forest]:
    """Drop the statistics and crosses that no tree uses, and renumber the inputs."""
    # Kept columns stay; without any, one statistic stays. None instead of inputs that are the
    # columns of the table.
    used = np.zeros(inputs.n_inputs, dtype=np.bool_)
    used[used_columns(forest)] = True
    used[: len(inputs.kept)] = True
    used[0] = True
    statistics, begin = [], len(inputs.kept)
    for statistic in inputs.statistics:
        chosen = used[begin : begin + len(statistic.classes)]
        begin += len(statistic.classes)
        if chosen.any():
            statistics.append(statistic.with_classes(chosen))
    chosen = used[begin:]
    crosses = tuple(cross for cross, is_used in zip(inputs.crosses, chosen, strict=True) if is_used)
    n_inputs = int(used.sum())
    tables = forest.categories
    if tables is not None:  # statistics and crosses come last, and have no levels
        tables = replace(tables, level_start=tables.level_start[: n_inputs + 1])
    pruned = renumbered(forest, (np.cumsum(used) - 1).astype(np.int32), n_inputs)
    found = Inputs(inputs.kept, tuple(statistics), crosses)
    is_plain = not crosses and found.are_columns(n_columns)
    return None if is_plain else found, replace(pruned, categories=tables)
