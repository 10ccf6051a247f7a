"""Present tables in memory as data that are read batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from hedgerow.boosting.external.dataset.continued import bins_to_continue, scores_before
from hedgerow.boosting.external.dataset.encoded import statistics_of
from hedgerow.boosting.external.dataset.file_dataset import FileDataset
from hedgerow.boosting.external.external_sample import ExternalSample, StorePlan
from hedgerow.boosting.loop.sample import Positions, Sample, with_own_levels
from hedgerow.boosting.resume.continuing import with_known_levels
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.comm.base import Alone
from hedgerow.data import Table, bin_table, fit_bins, numbers_of
from hedgerow.data.binning.matrix import BinnedMatrix
from hedgerow.data.external import disk_store, memory_plan
from hedgerow.data.external.memory_store import MemoryStore, rows_of
from hedgerow.data.external.row_store import RowVectors
from hedgerow.data.reading.numbers import floats_of
from hedgerow.data.sources import Roles, Source
from hedgerow.growing.limits.constraints import resolve_constraints


def never_join_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make chunks of 128 rows that no store joins."""
    monkeypatch.setattr(memory_plan, "FEWEST_ROWS", 128)
    monkeypatch.setattr(memory_plan, "MOST_ROWS", 128)
    monkeypatch.setattr(disk_store, "fits_in_one_chunk", lambda limit, shape, sizes: False)


class _Cluster(Alone):
    """A single rank that claims to be one of two, so that rows are never read as a table."""

    size = 2


class TableData(FileDataset):
    """Rows of a table instead of files, with ``size`` rows per batch and per chunk."""

    def __init__(self, data: Dataset, size: int) -> None:
        Dataset.__init__(self, None)
        self.data, self.size = data, size
        self.source = Source((), Roles())
        self.communicator = _Cluster()

    @property
    def has_queries(self) -> bool:
        return self.data.qid is not None

    @property
    def n_targets(self) -> int:
        return 1

    @property
    def target_names(self) -> None:
        return None

    def for_one_use(self) -> TableData:
        return self

    def match_targets(self, objective, times=None) -> None:
        pass

    @property
    def times(self) -> None:
        return None

    @property
    def group(self) -> np.ndarray | None:
        return self._sample().group

    @property
    def query(self) -> np.ndarray | None:
        return self._sample().query

    @property
    def positions(self) -> Positions | None:
        return self._sample().position

    def _sample(self, schema=None, zero_missing=False, n_outputs=1) -> Sample:
        table = self.data.table(schema, zero_missing)
        sample = self.data.sample(table, self.data.target(table.n_rows), n_outputs)
        return sample.without_zero_weights()

    def survey(self, note: Callable[[np.ndarray], None], params, sets_aside: bool) -> None:
        target = self._sample(zero_missing=params.zero_as_missing).target
        for start in range(0, len(target), self.size):
            note(target[start : start + self.size].copy())

    def surveyed_targets(self) -> Iterator[np.ndarray]:
        yield self._sample().target

    @property
    def n_counted(self) -> int:
        return self._sample().n_rows

    def stored_like(self, trained: ExternalSample, plan: StorePlan) -> ExternalSample:
        sample = self._sample(trained.schema, n_outputs=plan.n_outputs)
        return self.chunked(sample, trained.store.spec, False, trained.first)

    def stored(self, plan: StorePlan) -> tuple[ExternalSample, ExternalSample | None]:
        train, aside = self._sample(None, plan.params.zero_as_missing, plan.n_outputs), None
        if plan.aside is not None:
            aside = train.take(np.flatnonzero(plan.aside))
            train = train.take(np.flatnonzero(~plan.aside))
        if plan.start is None:
            train, aside = with_own_levels(train, aside, lenient=True)
        else:
            train, aside = with_known_levels(train, aside, plan.start.model.schema)
        params = resolve_constraints(plan.params, train.table.schema, plan.objective)
        ours = replace(plan, params=params)
        statistics_of(train.table.schema, train.n_rows, ours, self.communicator.size, 0)
        bins = params.max_bins_by_feature or params.max_bins
        forced = params.forced_bins
        spec = fit_bins(train.table, bins, train.weight, params.seed, plan.n_threads, forced)
        spec, first = bins_to_continue(spec, plan)
        return (
            self.chunked(train, spec, True, first),
            None if aside is None else self.chunked(aside, spec, False, first),
        )

    def chunked(self, sample: Sample, spec, columns: bool, first=None) -> ExternalSample:
        matrix = bin_table(sample.table, spec, columns=columns)
        given = sample.offset
        if first is not None:
            raw = scores_before(first, sample.table, sample.target, given, 1)
            sample = replace(sample, offset=raw)
        found = in_chunks(matrix, sample, self.size)
        return replace(
            found, first=first, read_again=lambda: iter([(numbers_of(sample.table), given)])
        )


def in_chunks(
    matrix: BinnedMatrix, sample: Sample, size: int, first_row: int = 0
) -> ExternalSample:
    numbers = None
    if isinstance(sample.table, Table):
        numbers = floats_of(sample.table.values, sample.table.schema.kinds)
    return ExternalSample(
        MemoryStore(matrix, numbers, chunk_rows=size),
        RowVectors(sample.target, sample.weight, sample.offset),
        first_row,
        sample.offset is not None,
        sample.query,
        read_again=lambda: iter([(sample.table, sample.offset)]),
    )  # fmt: skip


def part_of(stored: ExternalSample, sample: Sample, cuts: list[int], rank: int, size: int):
    """Return the rows of one rank: ``cuts`` has the ends of all ranks' rows, from 0."""
    (chunk,) = stored.store.chunks()
    start, stop = cuts[rank], cuts[rank + 1]
    rows = np.arange(start, stop)
    part = sample.take(rows)
    return in_chunks(rows_of(chunk.matrix, start, stop), part, size, start)
