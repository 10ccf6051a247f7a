"""Rows of a batch, binned and written to a store."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.arrays import FloatArray
from hedgerow.boosting.external.dataset.continued import scores_before
from hedgerow.boosting.external.dataset.encoded import EncodedRows
from hedgerow.boosting.external.dataset.file_rows import Rows
from hedgerow.boosting.loop.setup.resolved import numbers_for
from hedgerow.boosting.row_data.statistics import share_of_copy
from hedgerow.data import bin_table
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.bundles import Layout
from hedgerow.data.binning.matrix import spread_bundles
from hedgerow.data.external.chunk_sink import ChunkSink
from hedgerow.data.external.row_store import RowVectors
from hedgerow.data.schema import Schema
from hedgerow.data.sparse import AnyTable, SparseTable, sparse_of
from hedgerow.model.forest import Forest
from hedgerow.params import BoostParams


@dataclass(frozen=True, slots=True, eq=False)
class RowBinning:
    """The mapping of rows to bins.

    Attributes
    ----------
    spec : BinSpec
    first : Forest or None
        Trees of the model to continue, whose raw scores take the place of the offset.
    encoded : EncodedRows or None
        Target statistics and crosses.
    params : BoostParams
        Linear leaves need the values of the rows beside the bins.
    n_threads : int
    layout : Layout or None
        Bundles of features, whose conflicts hide values of training rows.
    """

    spec: BinSpec
    first: Forest | None
    encoded: EncodedRows | None
    params: BoostParams
    n_threads: int
    layout: Layout | None = None

    @property
    def schema(self) -> Schema:
        """Schema of the user's columns."""
        return self.spec.schema if self.encoded is None else self.encoded.encoding.schema

    @property
    def n_copies(self) -> int:
        """Number of copies of the training rows to append."""
        return 1 if self.encoded is None else self.encoded.n_copies

    def append(self, sink: ChunkSink, table: AnyTable, rows: Rows, number: int | None) -> int:
        """Append rows of a batch to a sink; return their number."""
        if rows.n_rows == 0:
            return 0
        offset = rows.offset
        if self.first is not None:
            own = rows.of(table)
            offset = scores_before(self.first, own, rows.target, offset, self.n_threads)
        inputs, weight = self.inputs(table, rows, number)
        if self.layout is None or number is None:
            matrix = bin_table(inputs, self.spec, self.n_threads)
        else:
            entries = inputs if isinstance(inputs, SparseTable) else sparse_of(inputs)
            bundled = bin_table(entries, self.spec, self.n_threads, layout=self.layout)
            matrix = spread_bundles(bundled)
        vectors = RowVectors(rows.target, weight, offset)
        sink.append(matrix, vectors, numbers_for(self.params, inputs))
        return rows.n_rows

    def inputs(
        self, table: AnyTable, rows: Rows, number: int | None
    ) -> tuple[AnyTable, FloatArray | None]:
        """Return rows as trees see them, with their weights; the arguments are as for append."""
        table = rows.of(table)
        if self.encoded is None:
            return table, rows.weight
        if number is None or isinstance(table, SparseTable):  # which has no statistics
            return self.encoded.of_new(table), rows.weight
        numbered = slice(number, number + rows.n_rows)
        weight = share_of_copy(rows.weight, rows.n_rows, self.encoded.n_copies)
        return self.encoded.of_training(table.values, numbered), weight
