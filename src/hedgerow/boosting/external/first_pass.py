"""The first pass over the columns of rows of files, of batches and of ranks of a cluster.

::

    Job.read                       FileDataset (files, batches, partitions of a cluster)
      |  survey() --------------->  reads all rows once: targets, weights and so on
      |
      |  makes the loss, and holds rows out
      |
      |  pass_one() ------------->  schema and cuts of the training rows
      v
    Sample with a FileTable ----->  hedgerow.boosting.loop.fit, as for rows in memory

The model has the same bytes as a model of all rows in memory.  Trees are computed from sums of
integers (:mod:`hedgerow.growing.chunks.grower`), and all other sums over rows are exact
(:mod:`hedgerow.kernels.primitives.exact_sum`).

Exact and approximate search (``tree_method`` "exact" or "approx")::

    pass one    schema
    pass two    values of each row --> a memory-mapped file
    rounds      the loop of rows in memory, on these arrays    boosting.loop.fit
                statistics, crosses --> another file           external.encoded
                values --> sorted columns                      data.external.blocks
                trees                                          growing.exact.grower

Sorted columns, and the lists that trees divide, are in mapped files if they take more than a part
of the memory (:meth:`hedgerow.data.reading.mapped_table.RowSpace.lists`); they are read from front
to back.  The arrays of a row are in memory, see :func:`bytes_of_a_row`.  Everything else is as for
rows in memory, so the model has the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from hedgerow.boosting.automatic.blending import asks_for_several
from hedgerow.boosting.external.encoded import check_memory
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.boosting.external.file_table import FileTable, by_dataset, read_together
from hedgerow.boosting.loop.driver import FitOptions, with_out_of_bag
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.training_matrix import sortable
from hedgerow.boosting.resume.continuing import Start, check_reading
from hedgerow.boosting.row_data.groups import check_held_out
from hedgerow.boosting.row_data.queries import split_sample, without_queries
from hedgerow.boosting.row_data.statistics import choose_columns, kept_columns
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.comm.base import count_rows
from hedgerow.data import SparseTable, Table, recode
from hedgerow.data.binning.cut_sample import CutSample, masses_of_levels
from hedgerow.data.external.blocks import ENTRY_BYTES, SORT_BYTES
from hedgerow.data.external.memory import give_back_memory, shown_bytes
from hedgerow.data.reading.mapped_table import MappedTable, RowFile, RowSpace
from hedgerow.data.schema import check_same_names, with_more_levels
from hedgerow.errors import AllRowsNeededError, ParameterError, brief
from hedgerow.growing.limits.constraints import resolve_constraints
from hedgerow.growing.sampling.goss import weighs_sample
from hedgerow.metrics import scored_as
from hedgerow.objectives import RANKING, Objective
from hedgerow.objectives.precomputed import prepared_shape
from hedgerow.params import BoostParams
from hedgerow.threads import resolve_threads

_ROW_SHARE = 0.75
_GROWER_BYTES = 17
"""Integer gradients, row ids and room to move them, and the side of a split."""

_RANKING_BYTES = 64
_LINE_SEARCH_BYTES = 48
_SAMPLE_WEIGHT_BYTES = 16

_ASIDE_SHARE = 0.2
"""Share of the memory limit for the bins of rows that are held out."""


def check_parts(data: object, params: BoostParams, stopping: StoppingParams) -> None:
    """Before rows are read, reject options that trees on rows in parts do not support.

    Later checks cover options that depend on the rows.  ``data`` is None for rows on a cluster,
    which are never a single chunk.
    """
    if params.device == "cuda":
        raise AllRowsNeededError(
            "device='cuda' needs all rows in memory: give the rows as a table, or use "
            "device='cpu', which gives the same model."
        )
    if data is None and params.tree_method != "hist":
        raise AllRowsNeededError(
            f"tree_method={params.tree_method!r} sorts complete columns, which no worker of a "
            "cluster has: use tree_method='hist', or one worker."
        )
    if stopping.by_folds and data is None:
        raise AllRowsNeededError(
            "early_stopping='cv' trains on folds of all rows, which workers of a cluster do not "
            "have: give validation rows, or use early_stopping=True or 'oob'."
        )
    if stopping.by_folds:
        raise AllRowsNeededError(
            "folds (hedgerow.cv, early_stopping='cv') need all rows in memory: use "
            "early_stopping=True, which holds rows out, or 'oob'."
        )
    if params.max_conflict_rate > 0.0 and params.bundle_features is not False:
        raise AllRowsNeededError(
            f"max_conflict_rate={params.max_conflict_rate!r} chooses bundles of columns from all "
            "rows, which must be in memory: use max_conflict_rate=0."
        )
    if asks_for_several(stopping.blend):
        raise AllRowsNeededError(
            f"blend={brief(stopping.blend)} trains several kinds of trees, which needs all rows in "
            "memory: use blend='auto', or give the rows as a table."
        )


def first_pass(
    rows: Sample,
    objective: Objective,
    params: BoostParams,
    options: FitOptions,
    start: Start | None,
    has_validation: bool,
) -> tuple[Sample, list[Sample]]:
    """Return the training rows, with their schema, and the rows that are held out of them.

    Rows are held out before the schema is known: their categories must be unknown to the model.
    """
    data, stopping = cast(FileTable, rows.table).data, options.stopping
    others = data.communicator
    ranks = scored_as(objective) == "ranking"
    if ranks and rows.query is None:
        raise without_queries(objective, "qid")
    check_held_out(
        rows, has_validation=has_validation, is_ranking=ranks, stopping=stopping, others=others
    )
    if others.size == 1:  # before rows are held out
        with rows.naming_rows():
            objective.check_target(rows.target)
    unseen: Sample | None = None
    if stopping.sets_rows_aside and not has_validation:
        parts = split_sample(rows, objective, stopping, params.seed, others)
        rows, unseen = (replace(rows.take(part), origin=None) for part in parts)
    rows = replace(rows, group=None, time=None)  # which divide rows only once
    table = cast(FileTable, rows.table)
    cuts = data.pass_one(params, table.numbers, rows.weight).sample
    if start is not None:
        cuts = _sample_in_model(cuts, start, data)
    data.cuts, schema, room = cuts, cuts.table.schema, int(_ASIDE_SHARE * data.memory_limit)
    train = replace(rows, table=replace(table, schema=schema, is_seen=True))
    n_rows = count_rows(train.n_rows, others)[1]
    own = resolve_constraints(params, schema, objective)
    own = with_out_of_bag(own, stopping, n_rows)
    groups = list[tuple[int, ...]]()
    if start is None:
        groups = choose_columns(schema, n_rows, objective, own)
        check_memory(groups, schema, n_rows, objective, own, data.memory_limit)
    if params.tree_method != "hist":
        check_sorting(train, groups, objective, own, options, start is not None)
    if unseen is None:
        return train, []
    table = replace(cast(FileTable, unseen.table), schema=schema, room=room)
    return train, [replace(unseen, table=table, group=None, time=None)]


def _sample_in_model(sample: CutSample, start: Start, data: FileDataset) -> CutSample:
    """Return the sample for cuts, and the masses of levels, in terms of the model."""
    table, known, requested = sample.table, start.model.schema, data.requested
    found = table.schema
    check_reading(known, requested.categorical, requested.unknown, start.name)
    if known.named:
        check_same_names(found.names, known.names)
    if (found.names, found.types) != (known.names, known.types):
        raise AllRowsNeededError(
            f"{start.name} has its columns in another order or of other kinds than these rows, "
            "which are therefore read into memory."
        )
    if not isinstance(table, SparseTable) and known.has_categories:
        more = {c.name: c.levels for c in found.columns if c.kind == "category"}
        schema = known if known.unknown == "error" else with_more_levels(known, more)
        table = recode(table, schema, "missing")
    masses = {}
    for j, mass in sample.level_mass.items():
        # The code of each level, from a table with a row for each.
        levels = np.full((len(mass), table.n_features), np.nan)
        levels[:, j] = np.arange(len(mass))
        n_levels = table.schema.n_levels(j)
        if len(mass) > 0:
            each = recode(Table(levels, sample.table.schema), table.schema, "missing")
            masses[j] = masses_of_levels(each.values[:, j], n_levels, mass)
    return replace(sample, table=table, level_mass=masses)


def bytes_of_a_row(objective: Objective, params: BoostParams, n_threads: int) -> int:
    """Return the memory in bytes that exact growth needs for each row, for any limit.

    It covers raw scores, arrays of the loss and of the grower, one temporary float64, the queries
    of a ranking and, for a line search, the rows by leaf, with the weights of a sample that follows
    gradients; and before that the sorting of a column.
    """
    prepared = prepared_shape(objective, 1)[0]
    searches = params.leaf_estimation == "line_search" or not objective.second_order
    needed = 8 * (objective.n_outputs + prepared + 1) + _LINE_SEARCH_BYTES * searches
    needed += _RANKING_BYTES * (objective.name in RANKING)
    needed += _GROWER_BYTES + ENTRY_BYTES * n_threads
    needed += _SAMPLE_WEIGHT_BYTES * weighs_sample(params)
    return max(needed, SORT_BYTES + 8)


def check_sorting(
    train: Sample,
    groups: Sequence[tuple[int, ...]],
    objective: Objective,
    params: BoostParams,
    options: FitOptions,
    goes_on: bool,
) -> None:
    """Raise an error unless the columns can be sorted and the rows fit: it saves a pass.

    ``groups`` are the columns of target statistics, and ``params`` those of the fit.
    """
    table = cast(FileTable, train.table)
    assert table.data.cuts is not None
    sample, schema, limit = table.data.cuts.table, table.schema, table.memory_limit
    table.data.cuts = None
    n_threads, n_rows = resolve_threads(options.n_jobs), table.data.n_rows
    if groups:
        kept = list(kept_columns(schema, groups))
        columns = tuple(schema.columns[j] for j in kept)
        sample = Table(cast(Table, sample).values[:, kept], replace(schema, columns=columns))
    sortable(sample, params.tree_method)
    each = bytes_of_a_row(objective, params, n_threads)
    each += 8 * objective.n_outputs * goes_on  # its scores
    least = int(each * n_rows / _ROW_SHARE)
    if least > limit:
        raise ParameterError(
            f"memory_limit of {shown_bytes(limit)} is too small: "
            f"tree_method={params.tree_method!r} keeps {each} bytes of each of "
            f"{n_rows:,} rows in memory, and needs at least {shown_bytes(least)}; give as "
            "much, or use tree_method='hist'."
        )


def mapped(samples: Sequence[Sample]) -> list[Sample]:
    """Return rows of files with their values in mapped files; rows in memory are unchanged."""
    found = {}
    for tables in by_dataset(rows.table for rows in samples):
        first = tables[0]
        space = RowSpace(first.data.cache_dir, first.memory_limit)
        files = [RowFile(first.data.cache_dir[0]) for _ in tables]
        for parts in read_together(tables):
            for file, part in zip(files, parts, strict=True):
                if part.n_rows > 0:
                    file.append(cast(Table, part).values)
        give_back_memory()
        for table, file in zip(tables, files, strict=True):
            found[id(table)] = MappedTable(file.finish(), table.schema, space=space)
    return [replace(rows, table=found.get(id(rows.table), rows.table)) for rows in samples]
