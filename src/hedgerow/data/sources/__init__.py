"""Data larger than memory: sources of rows, read in two passes.

::

    paths or a function
        |  open_source           paths.py; arrow_files, text_files, batches
        v
    parts, in order  -- batches of columns, read as a table in memory is (columns.py)
        |
        |  pass one: Survey      facts.py: one kind per column, levels;
        v                        binning.cut_sample: the rows from which cuts are chosen
    Schema, BinSpec
        |
        |  pass two: batch_table, data.bin_table
        v
    a BinnedMatrix per batch, for a store of chunks

The schema, cuts and bins are the same as for the same table in memory.
"""
