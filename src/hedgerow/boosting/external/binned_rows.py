"""Rows of a batch, binned and written to a store."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.boosting.external.continued import scores_before
from hedgerow.boosting.external.file_rows import Rows
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.external.chunk_sink import ChunkSink
from hedgerow.data.sources.binning import bin_rows_of
from hedgerow.data.sparse import AnyTable
from hedgerow.model.forest import Forest


def append_rows(
    spec: BinSpec,
    first: Forest | None,
    weighted: bool,
    n_threads: int,
    sink: ChunkSink,
    table: AnyTable,
    rows: Rows,
    wanted: npt.NDArray[np.bool_],
) -> int:
    """Append the wanted rows of a batch to a sink; return their number.

    Parameters
    ----------
    spec : BinSpec
    first : Forest or None
        Trees of the model to continue, whose raw scores take the place of the offset.
    weighted : bool
        Whether rows have weights other than 1.
    n_threads : int
    sink : ChunkSink
    table : AnyTable
        All rows of the batch, read with the schema of ``spec``.
    rows : Rows
        What is known of the rows of positive weight.
    wanted : bool (rows.n_rows,)
    """
    places = np.flatnonzero(wanted)
    if len(places) == 0:
        return 0
    own = places if rows.kept is None else rows.kept[places]
    matrix = bin_rows_of(table, own, spec, n_threads)
    target = rows.target[places]
    weight = rows.weight[places] if weighted and rows.weight is not None else None
    offset = None if rows.offset is None else np.ascontiguousarray(rows.offset[:, places])
    if first is not None:
        offset = scores_before(first, table.take(own), target, offset, n_threads)
    sink.append(matrix, target, weight, offset)
    return len(places)


__all__ = ["append_rows"]
