"""Ordered target statistics: category columns become means of the target, without leaks.

Glossary
--------
statistic      mean target by category (:mod:`hedgerow.data.categories.statistics`)
ordered value  mean over the rows of the same category that come before a row in
               a random order, drawn towards the mean of all by one row's weight
copy           the training rows once more, with the ordered values of another
               order, each row with its share of the weight
rows           how many rows a category has: of a training row those beside it

::

    copy 0   row 0  row 1 ...   values by order 0    weight / n_copies
    copy 1   row 0  row 1 ...   values by order 1    weight / n_copies
    ...                          |
                                 v   one fit on all copies
    new rows                     values over all training rows

No row's own target is in its ordered values, so trees learn what such a mean is
worth for new rows (Prokhorenkova et al., CatBoost, 2018).  The first rows of an
order know next to nothing; with several orders on top of each other every row
is early in some and late in others.  A mean tells nothing of how many rows it is of,
and in columns of very many levels what is rare is often not like what is common: so
these columns also have their number of rows.  A column with a statistic is not offered as
sets of its categories any more: a tree would learn the training rows by heart
from them, and leave the statistics aside.

A row of weight k is not the same as k rows here, as these would stand before
each other; a common factor on all weights changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.loop.sample import Sample
from hedgerow.data import Schema, Table
from hedgerow.data.binning.bins import codes_of
from hedgerow.data.categories.statistics import (
    ROWS,
    TARGET,
    UNKNOWN_KEY,
    Inputs,
    Statistic,
    joint_keys,
    with_kept,
)
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
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.params import BoostParams
from hedgerow.threads import run_blocks

MANY_LEVELS = 254
"""``target_statistics="auto"`` is for columns with more levels than a column has bins."""

MOST_CLASSES = 10
"""Each class has statistics of its own, so with more classes there are none."""

MOST_PAIRS = 64
"""Values of pairs at most: pairs of columns, times classes where there are several."""

STRENGTH = 1.0
"""Rows that the mean of all counts as when it is mixed with that of a category."""

MOST_COPIES = 4
COPIED_ROWS = 400_000
"""Rows of all copies together, about at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Rows as the trees see them.

    Attributes
    ----------
    train, validation : Sample
        ``train`` holds ``n_copies`` copies of the rows, one after the other.
    inputs : Inputs or None
        None: the columns are as they were.
    n_copies : int
    """

    train: Sample
    validation: Sample | None
    inputs: Inputs | None = None
    n_copies: int = 1


def copies_of(n_rows: int, params: BoostParams) -> int:
    """How many copies of the rows a fit with statistics is made of.

    Four are as good as six on 26,000 rows (Amazon, see docs/categories.md), two
    lose a third of the gain.  More rows have more before them in one order, and
    cost more.  Modes that judge rows by the trees that did not see them need each
    row once.

    Examples
    --------
    >>> from hedgerow.params import BoostParams
    >>> [copies_of(n, BoostParams()) for n in (1_000, 100_000, 150_000, 1_000_000)]
    [4, 4, 2, 1]
    """
    if params.boosting != "gbdt" or params.oob_score:
        return 1
    return max(1, min(MOST_COPIES, COPIED_ROWS // n_rows))


def encode(
    train: Sample,
    validation: Sample | None,
    objective: Objective,
    params: BoostParams,
    n_threads: int = 1,
) -> Encoded:
    """Put statistics in the place of category columns, where ``params`` asks for them.

    Parameters
    ----------
    train : Sample
        Without rows of weight 0, and without levels that do not occur.
    validation : Sample, optional
        Gets the means over all training rows, and has no part in them.
    objective : Objective
    params : BoostParams
    n_threads : int, default=1
        The values do not depend on it.

    Returns
    -------
    Encoded

    Raises
    ------
    ParameterError
        If statistics are demanded but not possible.
    """
    groups = choose_columns(train.table.schema, train.n_rows, objective, params)
    if not groups:
        return Encoded(train, validation)
    schema = train.table.schema
    singles = {group[0] for group in groups if len(group) == 1}
    kept = tuple(j for j in range(schema.n_features) if j not in singles)
    n_copies = copies_of(train.n_rows, params)
    trainer = _Trainer(train, groups, objective, params.seed, n_copies, len(kept))
    run_blocks(trainer.fill, len(groups), n_threads, 1)
    inputs = Inputs(kept, trainer.statistics())
    names = inputs.schema(schema)
    table = Table(with_kept(trainer.block, _dense(train).values, kept), names)
    if validation is not None:
        values = inputs.values(_dense(validation).values, schema, n_threads)
        validation = replace(validation, table=Table(values, names))
    return Encoded(_repeated(train, table, n_copies), validation, inputs, n_copies)


def _dense(sample: Sample) -> Table:
    """The table; a sparse one has no categories, so there is nothing to encode."""
    assert isinstance(sample.table, Table)
    return sample.table


def choose_columns(
    schema: Schema, n_rows: int, objective: Objective, params: BoostParams
) -> list[tuple[int, ...]]:
    """Columns of each statistic: one, or two with the smaller position first.

    ``schema`` has only levels that occur.
    """
    wanted = params.target_statistics
    present = [j for j, kind in enumerate(schema.kinds) if kind == "category"]
    if not wanted or (wanted == "auto" and not _has_many(schema)):
        return []
    if not present:
        raise ParameterError(
            "target_statistics=True needs a category column, but the table has none: name them "
            "(categorical_features), or leave target_statistics at 'auto'."
        )
    if getattr(objective, "scored_as", None) == "survival":
        if wanted == "auto":
            return []
        raise ParameterError(
            "target_statistics=True takes means of the target, which times that are censored do "
            "not have: use target_statistics=False."
        )
    if isinstance(objective, SeveralTargets):
        if wanted == "auto":
            return []
        raise ParameterError(
            "target_statistics=True takes means of one target, but there are "
            f"{objective.n_outputs}: use target_statistics=False."
        )
    n_classes = _n_classes(objective)
    if n_classes > MOST_CLASSES:
        if wanted == "auto":
            return []
        raise ParameterError(
            f"target_statistics=True makes statistics for each class, of at most {MOST_CLASSES} "
            f"classes, but there are {n_classes}: use target_statistics=False."
        )
    n_levels = {j: schema.n_levels(j) for j in present}
    least = MANY_LEVELS if wanted == "auto" else 2
    singles = [j for j in present if n_levels[j] > least]
    groups: list[tuple[int, ...]] = [(j,) for j in singles]
    if params.statistics_order == 2:
        pairs = _pairs(singles, n_levels, n_rows)
        allowed = [pair for pair in pairs if _may_meet(pair, params.interaction_constraints)]
        groups += sorted(allowed[: MOST_PAIRS // n_classes])
    return groups


def _has_many(schema: Schema) -> bool:
    return any(c.kind == "category" and len(c.levels) > MANY_LEVELS for c in schema.columns)


def _n_classes(objective: Objective) -> int:
    several = objective.name in ("softmax", "one_vs_all")
    return objective.n_outputs if several else 1


def _pairs(singles: Sequence[int], n_levels: dict[int, int], n_rows: int) -> list[tuple[int, int]]:
    """Pairs of a column with a statistic and any other category column.

    First those with the most combinations, which tell most that single columns do
    not, and last those of a column with hardly two rows a level.
    """

    def rank(pair: tuple[int, int]) -> tuple[bool, int]:
        first, second = n_levels[pair[0]], n_levels[pair[1]]
        return max(first, second) > n_rows // 2, -first * second

    pairs = [
        pair for pair in combinations(sorted(n_levels), 2) if not set(pair).isdisjoint(singles)
    ]
    return sorted(pairs, key=rank)


def _may_meet(pair: tuple[int, int], constraint: Any) -> bool:
    """Whether a branch of a tree may be split by both columns."""
    if constraint is None or constraint == PAIRWISE:
        return True
    return constraint != NO_INTERACTIONS and any(set(pair) <= set(group) for group in constraint)


def constraints_of_inputs(params: BoostParams, inputs: Inputs | None) -> BoostParams:
    """Translate constraints of columns to constraints of the inputs made from them.

    Parameters
    ----------
    params : BoostParams
        Resolved (:func:`hedgerow.growing.limits.constraints.resolve_constraints`), with the
        schema of the table.
    inputs : Inputs or None

    Returns
    -------
    BoostParams
        Monotone constraints are on columns of numbers, which are kept.  A pair may
        meet whom both its columns may meet, its gains are multiplied by both
        factors, and it has as many bins as the column with fewer; it is drawn with the mean
        of their weights.
    """
    if inputs is None:
        return params
    sources, signs = inputs.sources, params.monotone_constraints
    factors, bins = params.feature_penalties, params.max_bins_by_feature
    weights, alone = params.feature_weights, {s[0]: i for i, s in enumerate(sources) if len(s) == 1}
    groups: Any = params.interaction_constraints
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
    return replace(
        params,
        monotone_constraints=signs and tuple(signs[s[0]] if len(s) == 1 else 0 for s in sources),
        interaction_constraints=groups,
        feature_penalties=factors
        and tuple(math.prod(factors[j] for j in source) for source in sources),
        feature_weights=weights
        and tuple(sum(weights[j] for j in source) / len(source) for source in sources),
        forced_splits=params.forced_splits
        and tuple((alone[j], *others) for j, *others in params.forced_splits),
        max_bins_by_feature=bins and tuple(min(bins[j] for j in source) for source in sources),
    )


class _Trainer:
    """Fills in the ordered values of all copies, and keeps the means over all rows.

    Statistics are independent of each other, so each is one thread's work.
    """

    def __init__(
        self,
        train: Sample,
        groups: Sequence[tuple[int, ...]],
        objective: Objective,
        seed: int,
        n_copies: int,
        n_kept: int,
    ) -> None:
        schema, n_rows = train.table.schema, train.n_rows
        several = _n_classes(objective) > 1
        self._classes = tuple(range(objective.n_outputs)) if several else (TARGET,)
        self._targets = [
            (train.target == k).astype(np.float64) if several else train.target
            for k in self._classes
        ]
        self._weight = np.ones(n_rows) if train.weight is None else train.weight
        total = self._weight.sum()
        self._unit = float(total) / n_rows
        self._strength = STRENGTH * self._unit
        self._prior = np.array([(self._weight * y).sum() / total for y in self._targets])
        used = sorted({j for group in groups for j in group})
        self._codes = {
            j: codes_of(_dense(train).values[:, j], len(schema.columns[j].levels)) for j in used
        }
        self._schema, self._groups = schema, groups
        self._counted = [
            len(group) == 1 and schema.n_levels(group[0]) > MANY_LEVELS for group in groups
        ]
        sizes = [len(self._classes) + counted for counted in self._counted]
        self._first = n_kept + np.cumsum([0, *sizes])
        self._orders = [_order(n_rows, seed, copy) for copy in range(n_copies)]
        self._found: list[Statistic | None] = [None] * len(groups)
        self.block = np.empty((self._first[-1], n_copies * n_rows))

    def statistics(self) -> tuple[Statistic, ...]:
        """In the order of the groups, after :meth:`fill`."""
        return tuple(statistic for statistic in self._found if statistic is not None)

    def fill(self, start: int, stop: int) -> None:
        """Do groups ``start`` to ``stop``."""
        n_rows = len(self._weight)
        n_slots = 1 << n_rows.bit_length()
        for group in range(start, stop):
            joint = joint_keys(self._codes, self._schema, self._groups[group])
            codes, found = np.empty_like(joint), np.empty_like(joint)
            n_codes = number_keys(joint, np.full(n_slots, -1), codes, found)
            self._fill_group(group, codes, found[:n_codes])

    def _fill_group(self, group: int, codes: IntArray, keys: IntArray) -> None:
        n_rows, n_codes = len(codes), len(keys)
        classes, priors = self._classes, self._prior
        values = np.empty((len(classes), n_codes))
        rows = self.block[self._first[group] : self._first[group + 1]]
        if self._counted[group]:
            count, rows[0] = self._count(codes, n_codes)
            rows = rows[1:]
        for k, (target, prior) in enumerate(zip(self._targets, self._prior, strict=True)):
            row = rows[k]
            for copy, order in enumerate(self._orders):
                sums = np.zeros(2 * n_codes)
                means = row[copy * n_rows : (copy + 1) * n_rows]
                ordered_means(
                    codes, order, target, self._weight, self._strength, prior, sums, means
                )
                if copy == 0:
                    means_of_sums(sums, self._strength, prior, values[k])
        if self._counted[group]:
            classes, priors = (ROWS, *classes), np.append(0.0, priors)
            values = np.vstack([count, values])
        places = np.argsort(keys)[np.count_nonzero(keys == UNKNOWN_KEY) :]
        self._found[group] = Statistic(
            self._groups[group],
            classes,
            keys[places],
            np.ascontiguousarray(values[:, places]),
            priors,
        )

    def _count(self, codes: IntArray, n_codes: int) -> tuple[FloatArray, FloatArray]:
        """Rows of each code, and for each training row of all copies those beside it."""
        mass = np.bincount(codes, weights=self._weight, minlength=n_codes)
        beside = (mass[codes] - self._weight) / self._unit
        n_copies = len(self._orders)
        return _shortened(mass / self._unit), np.tile(_shortened(beside), n_copies)


def _shortened(counts: FloatArray) -> FloatArray:
    """Without the last bits, in which a factor on all weights would be seen."""
    return counts.astype(np.float32).astype(np.float64)


def _order(n_rows: int, seed: int, copy: int) -> IntArray:
    order: IntArray = np.arange(n_rows)
    shuffle(seed, ORDER_STREAM + copy, order)
    return order


def _repeated(train: Sample, table: Table, n_copies: int) -> Sample:
    """The rows of ``table``, which are those of ``train`` several times."""
    if n_copies == 1:
        return replace(train, table=table)
    weight: FloatArray = np.ones(train.n_rows) if train.weight is None else train.weight
    return Sample(
        table,
        np.tile(train.target, n_copies),
        np.tile(weight / n_copies, n_copies),
        None if train.offset is None else np.tile(train.offset, (1, n_copies)),
        None if train.query is None else _repeated_queries(train.query, n_copies),
        position=None if train.position is None else train.position.repeated(n_copies),
    )


def _repeated_queries(query: IntArray, n_copies: int) -> IntArray:
    """Queries of the copies, each of which competes by itself."""
    n_queries = int(query.max()) + 1
    return np.concatenate([query + copy * n_queries for copy in range(n_copies)])


def without_unused(inputs: Inputs, forest: Forest) -> tuple[Inputs, Forest]:
    """Drop the statistics that no tree splits, and number the inputs anew.

    Kept columns stay, and one statistic where there are none.
    """
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
    n_inputs = int(used.sum())
    tables = forest.categories
    if tables is not None:  # statistics stand last, and have no levels
        tables = replace(tables, level_start=tables.level_start[: n_inputs + 1])
    pruned = renumbered(forest, (np.cumsum(used) - 1).astype(np.int32), n_inputs)
    return Inputs(inputs.kept, tuple(statistics)), replace(pruned, categories=tables)
