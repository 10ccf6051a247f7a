"""Rows in files that continue a model: columns as the model has them, and its scores.

In the chunks of such rows, the raw scores of the model (with the offset, if there is one) take the
place of the offset.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.external.external_sample import StorePlan
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.resolved import resolved
from hedgerow.boosting.loop.setup.training_matrix import of_a_kind
from hedgerow.boosting.resume.continuing import (
    Start,
    check_reading,
    in_bins_of,
    keep_bins,
    start_scores,
)
from hedgerow.data import AnyTable, SparseTable, Table, recode
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.cut_sample import CutSample, masses_of_levels
from hedgerow.data.schema import check_same_names, with_more_levels
from hedgerow.data.sources.base import ReadRequest
from hedgerow.errors import AllRowsNeededError
from hedgerow.model.forest import Forest


def as_in_model(table: AnyTable, start: Start, requested: ReadRequest) -> AnyTable:
    """Return rows with the columns of the model, and with the levels of both."""
    known, found = start.model.schema, table.schema
    check_reading(known, requested.categorical, requested.unknown, start.name)
    if known.named:
        check_same_names(found.names, known.names)
    if (found.names, found.types) != (known.names, known.types):
        raise AllRowsNeededError(
            f"{start.name} has its columns in another order or of other kinds than these rows, "
            "which are therefore read into memory."
        )
    if isinstance(table, SparseTable) or not known.has_categories:
        return table
    levels = {column.name: column.levels for column in found.columns if column.kind == "category"}
    schema = known if known.unknown == "error" else with_more_levels(known, levels)
    return recode(table, schema, "missing")


def sample_in_model(sample: CutSample, start: Start, requested: ReadRequest) -> CutSample:
    """Return the sample for cuts, and the masses of levels, in terms of the model."""
    table = as_in_model(sample.table, start, requested)
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


def bins_to_continue(spec: BinSpec, plan: StorePlan) -> tuple[BinSpec, Forest | None]:
    """Return bins that keep those of the model apart, and its forest in terms of these bins."""
    start, objective = plan.start, plan.objective
    if start is None:
        return spec, None
    assert objective is not None
    spec = keep_bins(spec, start.model)
    params = resolved(plan.params, objective, spec.schema, start)
    return spec, of_a_kind(in_bins_of(spec, start.model), params)


def scores_before(
    first: Forest, table: AnyTable, target: FloatArray, offset: FloatArray | None, n_threads: int
) -> FloatArray:
    """Return the raw scores of rows by the model to continue, with their offsets."""
    return start_scores(first, Sample(table, target, offset=offset), n_threads)
