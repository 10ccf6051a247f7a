"""The first pass over the columns of rows of files, of batches and of ranks of a cluster.

::

    Job.read                       FileDataset (files, batches, partitions of a cluster)
      |  survey() --------------->  reads all rows once: targets, weights and so on
      |  makes the loss, and holds rows out
      |  pass_one() ------------->  schema and cuts of the training rows
      v
    Sample with a FileTable ----->  hedgerow.boosting.loop.fit, as for rows in memory

The model has the same bytes as a model of all rows in memory: trees are computed from sums of
integers (:mod:`hedgerow.growing.chunks.grower`), and all other sums over rows are exact
(:mod:`hedgerow.kernels.primitives.exact_sum`).

Exact and approximate search sort columns, so a second pass writes the inputs of each row to a
mapped file (:mod:`hedgerow.boosting.loop.setup.training_matrix`); the rounds are those of rows in
memory.  Sorted columns, and the lists that trees divide, are in mapped files, too, if they take
more than a part of the memory
(:meth:`hedgerow.data.reading.mapped_table.RowSpace.lists`); they are read from front to back.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import cast

import numpy as np

from hedgerow.boosting.automatic.blending import asks_for_several
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.boosting.external.file_table import FileTable
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.resume.continuing import Start, check_reading
from hedgerow.boosting.row_data.queries import check_values, split_sample
from hedgerow.boosting.row_data.statistics import choose_columns, copies_of
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.comm.base import count_rows
from hedgerow.data import Table, recode
from hedgerow.data.binning.cut_sample import CutSample, masses_of_levels
from hedgerow.data.schema import check_same_names, with_more_levels
from hedgerow.errors import AllRowsNeededError, brief
from hedgerow.growing.limits.constraints import resolve_constraints
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams

_ASIDE_SHARE = 0.2
"""Share of the memory limit for the bins of rows that are held out."""


def check_parts(data: object, params: BoostParams, stopping: StoppingParams) -> None:
    """Before rows are read, reject options that trees on rows in parts do not support."""
    # Later checks cover options that depend on the rows. ``data`` is None for rows on a cluster,
    # which are never a single chunk.
    if params.device == "cuda":
        raise AllRowsNeededError(
            "device='cuda' needs all rows in memory: give the rows as a table, or use "
            "device='cpu', which gives the same model."
        )
    if data is None and params.tree_method != "hist":
        raise AllRowsNeededError(
            f"tree_method={params.tree_method!r} sorts complete columns, which no worker of a "
            "cluster has: use tree_method='hist', or train on a table in memory."
        )
    if stopping.by_folds and data is None:
        raise AllRowsNeededError(
            "early_stopping='cv' trains on folds of all rows, which workers of a cluster do not "
            "have: give validation rows, or use early_stopping=True."
        )
    if stopping.by_folds:
        raise AllRowsNeededError(
            "folds (hedgerow.cv, early_stopping='cv') need all rows in memory: use "
            "early_stopping=True, which holds rows out."
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
    stopping: StoppingParams,
    start: Start | None,
    has_validation: bool,
) -> tuple[Sample, list[Sample]]:
    """Return the training rows, with their schema, and the rows that are held out of them."""
    # Rows are held out before the schema is known: their categories must be unknown to the model.
    data = cast(FileTable, rows.table).data
    others = data.communicator
    check_values(
        rows, (), objective, params, stopping, has_validation=has_validation, others=others
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
    train = replace(rows, table=replace(table, schema=schema))
    if start is None:
        own = resolve_constraints(params, schema, objective)
        n_rows = count_rows(train.n_rows, others)[1]
        groups = choose_columns(schema, n_rows, objective, own)
        if groups and (others.size > 1 or copies_of(n_rows, own) > 1):
            names = ", ".join(repr(schema.names[j]) for j in sorted({*chain(*groups)}))
            copies = ", of several copies of these few rows" if others.size == 1 else ""
            raise AllRowsNeededError(
                f"target_statistics={own.target_statistics!r} computes statistics of the columns "
                f"{names}{copies}, which needs all rows in memory: use target_statistics=False, or "
                "train on a table in memory."
            )
    if unseen is None:
        return train, []
    table = replace(cast(FileTable, unseen.table), schema=schema, room=room)
    return train, [replace(unseen, table=table, group=None, time=None)]


def _sample_in_model(sample: CutSample, start: Start, data: FileDataset) -> CutSample:
    """Return the sample for cuts, and the masses of levels, in terms of the model."""
    table, known = sample.table, start.model.schema
    found = table.schema
    check_reading(known, data.categorical_features, data.unknown_category, start.name)
    if known.named:
        check_same_names(found.names, known.names)
    if (found.names, found.types) != (known.names, known.types):
        raise AllRowsNeededError(
            f"{start.name} has its columns in another order or of other kinds than these rows, "
            "which are therefore needed in memory."
        )
    assert isinstance(table, Table)
    if known.has_categories:
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
