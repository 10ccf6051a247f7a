"""Fits on rows in files, in batches and on ranks of a cluster: from the survey to samples.

::

    fit_data                       FileDataset (files, batches, partitions of a cluster)
      |  survey() --------------->  reads all rows once
      |  rows <-------------------  targets, weights and so on of the rows of positive weight
      |
      |  chooses the loss, and the held-out rows
      |
      |  pass_one() ------------->  schema and cuts of the training rows
      v
    Sample with a FileTable ----->  hedgerow.boosting.loop.fit, as for rows in memory

The model has the same bytes as a model of all rows in memory.  Trees are computed from sums of
integers (:mod:`hedgerow.growing.chunks.grower`), and all other sums over rows are exact
(:mod:`hedgerow.kernels.primitives.exact_sum`).
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from typing import cast

import numpy as np

from hedgerow.boosting.automatic.blending import asks_for_several
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.boosting.external.file_table import FileTable
from hedgerow.boosting.external.folds import check_folds_in_chunks
from hedgerow.boosting.external.sorted_data import check_sorting, mapped
from hedgerow.boosting.loop.driver import FitOptions
from hedgerow.boosting.loop.fit import fit
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.scored import Ranks
from hedgerow.boosting.loop.setup.loss_spec import LossSpec, needs_all_rows
from hedgerow.boosting.resume.checkpoint import Checkpoint
from hedgerow.boosting.resume.continuing import Start, check_reading
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.groups import check_held_out
from hedgerow.boosting.row_data.offsets import check_both_offset
from hedgerow.boosting.row_data.queries import split_sample
from hedgerow.boosting.row_data.targets import targets_like
from hedgerow.boosting.validation.cross_stopping import check_folds
from hedgerow.boosting.validation.row_sets import (
    ValidRows,
    named_valid,
    reads_batches,
    stacked,
)
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.comm.base import Communicator, count_rows
from hedgerow.data import SparseTable, Table, recode
from hedgerow.data.binning.cut_sample import CutSample, masses_of_levels
from hedgerow.data.schema import check_same_names, with_more_levels
from hedgerow.errors import AllRowsNeededError, brief
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.kernels.tables.keys import float_of_key, keys_of_floats
from hedgerow.metrics import scored_as
from hedgerow.model.model import Model
from hedgerow.objectives import Objective, objective_of_record
from hedgerow.objectives.custom.losses import TRIED
from hedgerow.objectives.global_sums import gather_targets
from hedgerow.params import BoostParams

_ASIDE_SHARE = 0.2
"""Share of the memory limit for the bins of rows that are held out."""


def check_parts(data: object, params: BoostParams) -> None:
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


def refuse_members(stopping: StoppingParams) -> None:
    """Raise ``AllRowsNeededError`` if several kinds of trees are asked for."""
    if asks_for_several(stopping.blend):
        raise AllRowsNeededError(
            f"blend={brief(stopping.blend)} trains several kinds of trees, which needs all rows in "
            "memory: use blend='auto', or give the rows as a table."
        )


def fit_data(
    data: FileDataset,
    loss: LossSpec,
    params: BoostParams,
    options: FitOptions,
    *,
    valid: ValidRows = None,
    checkpoint: Checkpoint | None = None,
    ranks: Communicator | None = None,
    mode: GrowMode = "data",
) -> Model:
    """Train a model on data that are read in batches."""
    refuse_members(options.stopping)
    with ExitStack() as stack:

        def for_this_fit(rows: Dataset) -> Dataset:
            return stack.enter_context(closing(rows.for_one_use())) if reads_batches(rows) else rows

        data = cast(FileDataset, for_this_fit(data))
        sets = {name: for_this_fit(rows) for name, rows in named_valid(valid).items()}
        train, validation, objective = _read(data, sets, loss, params, options, ranks is not None)
        if params.tree_method != "hist":
            check_sorting(train, objective, params, options)
            samples = mapped([train, *validation], options.stopping)
            train, validation = samples[0], samples[1:]
        first_row = count_rows(train.n_rows, data.communicator)[0]
        return fit(
            train, objective, params, options, validation=validation, checkpoint=checkpoint,
            ranks=None if ranks is None else Ranks(ranks, mode, first_row),
        )  # fmt: skip


def _read(
    data: FileDataset,
    sets: dict[str, Dataset],
    loss: LossSpec,
    params: BoostParams,
    options: FitOptions,
    on_cluster: bool,
) -> tuple[Sample, list[Sample], Objective]:
    """Return training rows, each set of validation rows, and the loss."""
    start, stopping, others = options.start, options.stopping, data.communicator
    if start is not None:
        loss = _as_continued(data, loss, start)
    data.read_times(loss.objective, loss.target_names)
    sets_aside = stopping.sets_rows_aside and not sets
    data.survey(params, sets_aside)
    objective = _objective_of(data, loss, on_cluster)
    if stopping.by_folds:
        check_folds(stopping, bool(sets), start)
        check_folds_in_chunks(stopping, on_cluster)
    rows = data.rows
    data.check_offset(objective)
    check_held_out(
        rows, has_validation=bool(sets), is_ranking=scored_as(objective) == "ranking",
        stopping=stopping, others=others,
    )  # fmt: skip
    train, validation = rows, list[Sample]()
    if sets_aside:
        parts = split_sample(rows, objective, stopping, params.seed, others)
        train, unseen = (replace(rows.take(part), origin=None) for part in parts)
        validation.append(unseen)
    if not stopping.by_folds:  # groups and times divide rows only once
        train = replace(train, group=None, time=None)
    cuts = data.pass_one(params, train).sample
    if start is not None:
        cuts = _sample_in_model(cuts, start, data)
    schema = cuts.table.schema
    table = replace(cast(FileTable, train.table), schema=schema, is_seen=True)
    data.cuts = cuts
    train = replace(train, table=table)
    if validation:
        unseen, room = validation[0], int(_ASIDE_SHARE * data.memory_limit)
        own = replace(cast(FileTable, unseen.table), schema=schema, room=room)
        validation = [replace(unseen, table=own, group=None, time=None)]
    for name, given in sets.items():
        if data.offset_names and not reads_batches(given) and given.offset is None:
            given = given.having(offset=list(data.offset_names))
        if reads_batches(given):
            given.match_targets(objective, loss.target_names, data.has_intervals)
            given.survey(params)
            given.check_offset(objective)
            found = given.rows_like(schema)
        else:
            seen = given.table(schema)
            target = targets_like(given, seen.n_rows, objective, data.has_intervals)
            found = given.sample(seen, target, objective.n_outputs)
        check_both_offset(train.offset is not None, found.offset is not None)
        one = stacked({name: found})
        assert one is not None
        validation.append(one)
    return train, validation, objective


def _as_continued(data: FileDataset, loss: LossSpec, start: Start) -> LossSpec:
    """Read the targets in the order of the model to continue; return the loss of these targets.

    Targets with offsets keep their order, as in
    :meth:`hedgerow.boosting.loop.setup.job.Job.continued`.
    """
    roles = data.source.roles
    if roles.offset or not roles.named or start.order_of_targets(roles.targets) is None:
        return loss
    model = start.model
    count = model.forest.n_outputs
    data.match_targets(objective_of_record(model.objective, count, model.training))
    return loss.for_targets(data)


def _objective_of(data: FileDataset, loss: LossSpec, on_cluster: bool) -> Objective:
    """Return the loss for the targets of all ranks, which it checks unless the fit will do so."""
    rows, others = data.rows, data.communicator
    target = rows.target
    first = gather_targets([target[:TRIED]], others)[:TRIED]
    largest = np.array([-np.inf if len(target) == 0 else float(target.max())])
    largest = others.allreduce(keys_of_floats(largest), "max")
    n_rows = count_rows(len(target), others)[1]
    objective = loss.make(first, float_of_key(int(largest[0])), n_rows)
    if on_cluster and needs_all_rows(objective):
        raise AllRowsNeededError(
            f"objective {getattr(objective, 'label', objective.name)!r} compares all rows, "
            "which workers of a cluster do not have: use a loss of single rows, or train "
            "on a table in memory."
        )
    if not on_cluster:
        with rows.naming_rows():
            objective.check_target(target)
    return objective


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
