"""Rows of a batch, binned and written to a store."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.boosting.external.continued import scores_before
from hedgerow.boosting.external.encoded import EncodedRows
from hedgerow.boosting.external.file_rows import Rows
from hedgerow.boosting.loop.slopes import numbers_for
from hedgerow.data import Table
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.external.chunk_sink import ChunkSink
from hedgerow.data.sources.binning import bin_rows_of
from hedgerow.data.sparse import AnyTable
from hedgerow.model.forest import Forest
from hedgerow.params import BoostParams


@dataclass(frozen=True, slots=True, eq=False)
class RowBinning:
    """How rows become bins.

    Attributes
    ----------
    spec : BinSpec
    first : Forest or None
        Trees of the model to continue, whose raw scores take the place of the offset.
    encoded : EncodedRows or None
        Target statistics and crosses.
    weighted : bool
        Whether rows have weights other than 1.
    params : BoostParams
        Linear leaves need the values of the rows beside the bins.
    n_threads : int
    """

    spec: BinSpec
    first: Forest | None
    encoded: EncodedRows | None
    weighted: bool
    params: BoostParams
    n_threads: int

    def append(
        self,
        sink: ChunkSink,
        table: AnyTable,
        rows: Rows,
        wanted: npt.NDArray[np.bool_],
        number: int | None,
    ) -> int:
        """Append the wanted rows of a batch to a sink; return their number.

        Parameters
        ----------
        sink : ChunkSink
        table : AnyTable
            All rows of the batch, read with the schema of the user's columns.
        rows : Rows
            What is known of the rows of positive weight.
        wanted : bool (rows.n_rows,)
        number : int or None
            Number of the first of these rows among the training rows; None for rows that are only
            scored.
        """
        places = np.flatnonzero(wanted)
        if len(places) == 0:
            return 0
        own = places if rows.kept is None else rows.kept[places]
        target = rows.target[places]
        weight = rows.weight[places] if self.weighted and rows.weight is not None else None
        offset = None if rows.offset is None else np.ascontiguousarray(rows.offset[:, places])
        if self.first is not None:
            offset = scores_before(self.first, table.take(own), target, offset, self.n_threads)
        if self.encoded is not None:
            assert isinstance(table, Table)
            values = table.values[own]
            if number is None:
                table = self.encoded.of_new(values)
            else:
                table = self.encoded.of_training(values, slice(number, number + len(own)))
            own = np.arange(len(own))
        numbers = numbers_for(self.params, table, own)
        matrix = bin_rows_of(table, own, self.spec, self.n_threads)
        sink.append(matrix, target, weight, offset, numbers)
        return len(places)


__all__ = ["RowBinning"]
