"""Data larger than memory: sources of rows, read in two passes.

::

    paths or a function
        |  open_source           paths.py; arrow_files, text_files, libsvm_files, batches
        v
    parts, in order  -- batches of columns, read as a table in memory is (columns.py)
        |
        |  pass one: Survey      facts.py: one kind per column; level_counts.py;
        v                        row_sample.py: the rows from which cuts are chosen
    Schema, BinSpec
        |
        |  pass two: BatchReader, data.bin_table
        v
    a BinnedMatrix per batch, for a store of chunks

The schema, cuts and bins are the same as for the same table in memory.
"""

from __future__ import annotations

from hedgerow.data.sources.base import Batch, Part, ReadRequest, Roles
from hedgerow.data.sources.batches import BatchFunction
from hedgerow.data.sources.binning import BatchReader
from hedgerow.data.sources.opening import (
    Source,
    find_text_types,
    keep_as_text,
    keep_text,
    open_files,
    open_function,
    open_parts,
    set_text_types,
)
from hedgerow.data.sources.survey import Found, Survey
from hedgerow.data.sources.text_files import TextTypes

__all__ = [
    "Batch",
    "BatchFunction",
    "BatchReader",
    "Found",
    "Part",
    "ReadRequest",
    "Roles",
    "Source",
    "Survey",
    "TextTypes",
    "find_text_types",
    "keep_as_text",
    "keep_text",
    "open_files",
    "open_function",
    "open_parts",
    "set_text_types",
]
