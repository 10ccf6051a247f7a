"""Datasets larger than memory for :func:`hedgerow.train`: ``Dataset.from_files``.

::

    survey     targets and weights of all rows (no other columns of files are read)
    stored     pass one: schema, levels and cuts, from the training rows
               pass two: each batch is binned, and bins are written to chunks on disk

With several processes each one has some of the parts, in order.  Each process merges the
results of pass one in the same way, so all have the same cuts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

from hedgerow.arrays import BoolArray, FloatArray
from hedgerow.boosting.external.dataset.binned_rows import RowBinning
from hedgerow.boosting.external.dataset.bundling import with_layout
from hedgerow.boosting.external.dataset.continued import bins_to_continue, sample_in_model
from hedgerow.boosting.external.dataset.encoded import EncodedRows, encode_rows
from hedgerow.boosting.external.dataset.file_checks import (
    check_backoff,
)
from hedgerow.boosting.external.dataset.file_rows import Rows
from hedgerow.boosting.external.dataset.row_facts import RowFacts
from hedgerow.boosting.external.dataset.source_rows import SourceRows
from hedgerow.boosting.external.external_sample import ExternalSample, StorePlan
from hedgerow.boosting.loop.driver import NewRows
from hedgerow.boosting.loop.sample import counted_rows
from hedgerow.boosting.row_data.row_values import RowValues
from hedgerow.boosting.row_data.statistics import constraints_of_inputs
from hedgerow.comm.base import count_rows
from hedgerow.data.binning.bins import fit_sample
from hedgerow.data.external.chunk_sink import ChunkSink
from hedgerow.data.external.memory import give_back_memory
from hedgerow.data.external.scratch import ScratchFolder
from hedgerow.data.reading.table import check_n_features
from hedgerow.data.schema import Schema, check_same_names
from hedgerow.data.sources.batches import BatchReader
from hedgerow.data.sources.opening import keep_as_text
from hedgerow.data.sources.survey import Found, Survey
from hedgerow.data.sparse import AnyTable, numbers_of
from hedgerow.errors import DataError
from hedgerow.growing.limits.constraints import resolve_bins, resolve_constraints
from hedgerow.params import BoostParams

_TRAIN_SHARE, _VALIDATION_SHARE = 0.6, 0.2
"""Shares of the memory limit; the remainder is for what a fit holds besides its chunks."""


class FileDataset(SourceRows):
    """Rows in files or batches; made by ``Dataset.from_files`` and ``Dataset.from_batches``."""

    _counted: RowFacts | None = None
    _survey: Survey | None = None
    _names: tuple[str, ...] = ()
    _types_known = False

    def survey(
        self,
        note: Callable[[FloatArray], None],
        params: BoostParams | None = None,
        sets_aside: bool = True,
    ) -> None:
        """Read all rows once, and pass on the targets of those of positive weight, in order.

        ``note`` is called for each batch with finite float64 (n_rows,), or (n_rows, n_targets) for
        several targets.  ``sets_aside`` tells whether rows may be held out: if not, and no rows
        are weighted, this is already pass one, with the same ``params``.
        """
        params = params or BoostParams()
        self.requested = replace(self.requested, zero_missing=bool(params.zero_as_missing))
        self._find_types()
        self.close()
        alone = self.communicator.size == 1 and self.source.roles.weight is None
        alone = alone and self._reader.class_weight is None
        survey = None if sets_aside or not alone else self._new_survey(params)
        facts, weighted = RowFacts(self.source.roles), False
        for rows in self._reader.read(features=survey is not None):
            facts.add(rows)
            if rows.weight is not None:
                survey, weighted = None, True
            with counted_rows(weighted):
                note(rows.target)
            if survey is not None:
                self._begin(survey, rows)
                survey.add(rows.batch, None, None, rows.part.name)
        if facts.finish(self.communicator) == 0:
            what = "weight is zero in all rows" if weighted else "the data have no rows"
            raise DataError(f"{self.source.name}: {what}.")
        self._counted, self._survey = facts, survey

    def _new_survey(self, params: BoostParams, largest_weight: float | None = None) -> Survey:
        return Survey(
            self.requested,
            seed=params.seed,
            memory_limit=self.memory_limit,
            largest_weight=largest_weight,
        )

    def stored(self, plan: StorePlan) -> tuple[ExternalSample, ExternalSample | None]:
        """Bin all rows; return training rows and held-out rows, whose stores the caller closes."""
        self._count(plan)
        with ExitStack() as stack:
            binning, first_row, n_rows = self._binning(plan, stack)
            give_back_memory()
            binning = with_layout(
                binning, lambda: self.tables(binning.schema, plan), first_row, n_rows,
                self.communicator, self.memory_limit,
            )  # fmt: skip
            give_back_memory()
            samples = self._binned(binning, plan, first_row)
        give_back_memory()
        return samples

    def stored_like(self, trained: ExternalSample, plan: StorePlan) -> ExternalSample:
        """Bin validation rows with the bins of the training rows; the caller closes the store."""
        self._count(plan)
        encoding, encoded = trained.encoding, None
        if encoding is not None:
            encoded = EncodedRows(encoding, None, plan.n_threads)
        spec, first = trained.store.spec, trained.first
        binning = RowBinning(spec, first, encoded, plan.params, plan.n_threads)
        room = int(_TRAIN_SHARE * self.memory_limit)
        with ChunkSink(spec, self.cache_dir, room, n_outputs=plan.n_outputs) as sink:
            n_rows = 0
            for table, rows, _ in self.tables(trained.schema, plan, is_strict=True):
                n_rows += binning.append(sink, table, rows, None)
            return self._sample(sink, binning, count_rows(n_rows, self.communicator)[0])

    def _count(self, plan: StorePlan) -> None:
        """Survey the rows, unless that has been done."""
        if self._counted is None:
            self.survey(lambda target: None, plan.params, plan.aside is not None)

    def _binning(self, plan: StorePlan, stack: ExitStack) -> tuple[RowBinning, int, int]:
        """Return how rows are binned, and the training rows on earlier ranks and on all ranks.

        The latter include copies.
        """
        found, first_row = self._found(plan)
        sample, encoded = found.sample, None
        if plan.start is not None:
            sample = sample_in_model(sample, plan.start, self.requested)
        params = resolve_bins(plan.params, sample.table.schema)
        if plan.objective is not None:  # an error here saves the longer passes
            resolved = resolve_constraints(params, sample.table.schema, plan.objective)
            encoded = encode_rows(
                found, replace(plan, params=resolved),
                lambda: self.tables(found.schema, plan),
                self.communicator, self.memory_limit,
                lambda: stack.enter_context(closing(ScratchFolder(self.cache_dir[0]))),
            )  # fmt: skip
        if encoded is not None:
            params = constraints_of_inputs(resolved, encoded.encoding.inputs)
            spec = encoded.bins(found, params)
        else:
            most_bins, forced = params.max_bins_by_feature or params.max_bins, params.forced_bins
            spec = fit_sample(sample, most_bins, plan.n_threads, forced)
        spec, first = bins_to_continue(spec, plan)
        binning = RowBinning(spec, first, encoded, plan.params, plan.n_threads)
        return binning, first_row, binning.n_copies * found.n_rows

    def close(self) -> None:
        """Release the results of the survey."""
        self._counted = self._survey = None

    # -- pass one ------------------------------------------------------------------

    def pass_one(self, plan: StorePlan) -> Found:
        """Run only pass one; return the schema of the training rows, and some of them."""
        self._count(plan)
        return self._found(plan)[0]

    def _found(self, plan: StorePlan) -> tuple[Found, int]:
        """Run pass one over the training rows; also return their number on earlier ranks."""
        if self._survey is not None and plan.aside is None:
            survey, first = self._survey, 0
        else:
            assert self._counted is not None
            first, largest = self._counted.training_rows(plan, self.communicator)
            survey = self._new_survey(plan.params, largest)
            names = self._names_of_first()
            for rows, _ in self._divided(plan):
                self._begin(survey, rows, names)
                survey.add(rows.batch, rows.kept, rows.weight, rows.part.name)
            if self.communicator.size > 1:
                survey = self._merged(survey, plan.params)
        give_back_memory()  # release buffers of reading before rows are copied
        found = survey.finish()
        # Ranks may have the columns in a different order from the first rank.
        self._names, self._types_known = survey.names or (), survey.types_known
        self._survey = None
        give_back_memory()
        return found, first

    def _merged(self, own: Survey, params: BoostParams) -> Survey:
        """Return the merged survey of all ranks, in their order; it is the same on each rank."""
        merged = self._new_survey(params)
        given = {"seed": params.seed, "memory_limit": self.memory_limit}
        for message in self.communicator.allgather(own.to_bytes()):
            merged.merge(Survey.from_bytes(message, self.requested, **given))
        return merged

    def _names_of_first(self) -> tuple[str, ...]:
        """Return the features of the first rank that has any; others may have another order."""
        own = json.dumps(list(self._reader.features())).encode("ascii")
        known = [json.loads(message) for message in self.communicator.allgather(own)]
        return tuple(next(filter(None, known), ()))

    def _begin(self, survey: Survey, rows: Rows, in_order: tuple[str, ...] = ()) -> None:
        sparse = rows.batch.sparse is not None
        names = () if sparse else self._reader.features()
        if set(names) == set(in_order):
            names = in_order
        survey.begin(names, not sparse and rows.batch.named, rows.part.types_known, sparse=sparse)

    def _divided(
        self, plan: StorePlan, n_outputs: int | None = None
    ) -> Iterator[tuple[Rows, Rows]]:
        """Yield training rows and held-out rows of each batch; weights of 1 are no weights."""
        assert self._counted is not None
        row = 0
        for rows in self._reader.read(n_outputs=n_outputs):
            if self._counted.weights is None:
                rows = replace(rows, weight=None)
            chosen = plan.held_out(row, row + rows.n_rows)
            yield rows.where(~chosen), rows.where(chosen)
            row += len(chosen)

    # -- pass two ------------------------------------------------------------------

    def tables(
        self, schema: Schema, plan: StorePlan, is_strict: bool = False
    ) -> Iterator[tuple[AnyTable, Rows, Rows]]:
        """Run only pass two; yield all batches as numbers, with training and held-out rows.

        ``is_strict``: the rows are validation rows, read with the schema of a model.
        """
        if is_strict:
            self._read_like(schema)
        reader = BatchReader(schema, self._names, self._types_known, is_strict)
        outputs = plan.n_outputs if self.source.roles.offset else None
        for rows, held_out in self._divided(plan, outputs):
            table = reader.table(rows.batch, rows.part.name)
            if is_strict or held_out.n_rows > 0:
                check_backoff(table)
            yield table, rows, held_out

    def surveyed_targets(self) -> Iterator[FloatArray]:
        """Yield the first target of each row of positive weight, after the survey."""
        assert self._counted is not None
        yield from self._counted.targets

    @property
    def n_counted(self) -> int:
        """Number of rows of positive weight, after the survey."""
        return 0 if self._counted is None else self._counted.n_rows

    @property
    def surveyed_values(self) -> RowValues:
        """Further values of each row of positive weight, after the survey."""
        return RowValues() if self._counted is None else self._counted.values

    def divided_values(self, aside: BoolArray | None) -> tuple[RowValues, RowValues]:
        """Return further values of the training rows, and of the rows that are held out."""
        values = self.surveyed_values
        return (values, RowValues()) if aside is None else (values.take(~aside), values.take(aside))

    def _read_like(self, schema: Schema) -> None:
        """Prepare to read rows with the schema of a model."""
        names = self._reader.features()
        if schema.named and self.requested.feature_names is None:
            check_same_names(names, schema.names)
            names = schema.names
        if names:
            check_n_features(len(names), schema, "Booster")
        self._names = names
        self._types_known = any(part.types_known for part in self.source.parts)
        keep_as_text(self.source.parts, schema)

    def _binned(
        self, binning: RowBinning, plan: StorePlan, first_row: int
    ) -> tuple[ExternalSample, ExternalSample | None]:
        spec, n_train, n_aside = binning.spec, 0, 0
        schema = binning.schema
        with ExitStack() as stack:
            room, n_outputs = int(_TRAIN_SHARE * self.memory_limit), plan.n_outputs
            train = stack.enter_context(
                ChunkSink(spec, self.cache_dir, room, n_outputs=n_outputs, n_vectors=plan.n_vectors)
            )
            aside = None
            if plan.aside is not None:
                room = int(_VALIDATION_SHARE * self.memory_limit)
                sink = ChunkSink(spec, self.cache_dir, room, n_outputs=n_outputs)
                aside = stack.enter_context(sink)
            for copy in range(binning.n_copies):
                for table, rows, held_out in self.tables(schema, plan):
                    n_train += binning.append(train, table, rows, first_row + n_train)
                    if aside is not None and copy == 0:
                        n_aside += binning.append(aside, table, held_out, None)
            seen = self._sample(train, binning, first_row)
            seen = self._of_training(seen, binning, plan)
            if aside is None:
                return seen, None
            try:
                before = count_rows(n_aside, self.communicator)[0]
                return seen, self._sample(aside, binning, before)
            except BaseException:
                seen.store.close()
                raise

    def _sample(self, sink: ChunkSink, binning: RowBinning, first_row: int) -> ExternalSample:
        """Return the rows of a sink."""
        has_offset = bool(self.source.roles.offset) or binning.first is not None
        encoding = None if binning.encoded is None else binning.encoded.encoding
        return ExternalSample(
            *sink.finish(), first_row, has_offset, first=binning.first, encoding=encoding
        )

    def _of_training(
        self, train: ExternalSample, binning: RowBinning, plan: StorePlan
    ) -> ExternalSample:
        assert self._counted is not None
        weighted = self._counted.weights is not None
        return replace(
            train, n_copies=binning.n_copies, has_weight=weighted, layout=binning.layout,
            read_again=lambda: self._as_new(binning, plan),
        )  # fmt: skip

    def _as_new(self, binning: RowBinning, plan: StorePlan) -> NewRows:
        """Yield the training rows as trees see other rows, with their offsets."""
        for table, rows, _ in self.tables(binning.schema, plan):
            if rows.n_rows > 0:
                yield numbers_of(binning.inputs(table, rows, None)[0]), rows.offset
