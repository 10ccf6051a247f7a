"""Reading and validation of tables, bins, and binned matrices.

::

    array, frame, list, dict, ...
        |                        frames.py: frames;  objects.py: Python objects
        v
    ReadColumn, each column      columns.py: numbers, or different values and places among them
        |
        |  reading.table         order, kinds, levels and codes of categories (categories/)
        v
    Table  --- fit_bins ------->  BinSpec
        |                            |
        +--------- bin_table --------+--->  BinnedMatrix (uint8)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hedgerow.once import imported_once

if TYPE_CHECKING:
    from hedgerow.data.binning.bins import BinSpec, fit_bins
    from hedgerow.data.binning.matrix import PAD, BinnedMatrix, bin_table
    from hedgerow.data.categories.recode import drop_unused_levels, recode
    from hedgerow.data.reading.table import Table, read_table
    from hedgerow.data.schema import Column, ColumnKind, Schema, UnknownCategory, UnknownPolicy
    from hedgerow.data.sparse import AnyTable, SparseTable, numbers_of, read_any

__all__ = [
    "PAD",
    "AnyTable",
    "BinSpec",
    "BinnedMatrix",
    "Column",
    "ColumnKind",
    "Schema",
    "SparseTable",
    "Table",
    "UnknownCategory",
    "UnknownPolicy",
    "bin_table",
    "drop_unused_levels",
    "fit_bins",
    "numbers_of",
    "read_any",
    "read_table",
    "recode",
]

# A process that only predicts makes no bins.
_HOMES = {
    "binning.bins": ("BinSpec", "fit_bins"),
    "binning.matrix": ("PAD", "BinnedMatrix", "bin_table"),
    "categories.recode": ("drop_unused_levels", "recode"),
    "reading.table": ("Table", "read_table"),
    "schema": ("Column", "ColumnKind", "Schema", "UnknownCategory", "UnknownPolicy"),
    "sparse": ("AnyTable", "SparseTable", "numbers_of", "read_any"),
}
__getattr__ = imported_once(__name__, _HOMES)
