"""CSV with only the standard library and NumPy.

Used if pyarrow is not installed; :mod:`hedgerow.cli.arrow_files` reads the
same files into the same columns, several times faster.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.cli.tables import infer_integers
from hedgerow.data.reading.csv_rows import csv_batches, header
from hedgerow.data.reading.encodings import check_encoding
from hedgerow.data.reading.files import check_names, reading
from hedgerow.data.reading.texts import parse_texts
from hedgerow.io.streaming import BATCH_ROWS


def read_csv(path: str, text: Collection[str] = ()) -> dict[str, AnyArray]:
    """Read a CSV or TSV file, gzipped or not, with column names in the first line.

    ``text`` holds the columns whose values stay text.
    """
    with reading(path):
        check_encoding(path)
        names = header(path)
        check_names(path, names)
        parts: dict[str, list[AnyArray]] = {name: [] for name in names}
        for batch in csv_batches(path, BATCH_ROWS):
            for name, part in batch.items():
                parts[name].append(part)
    columns = {name: np.concatenate(part) if part else np.empty(0) for name, part in parts.items()}
    return {
        name: column if name in text or not len(column) else infer_numbers(column)
        for name, column in columns.items()
    }


def infer_numbers(texts: AnyArray) -> AnyArray:
    """Convert texts to numbers, dates or text."""
    parsed = parse_texts(texts)
    if parsed.values.dtype == np.int64:
        return infer_integers(parsed.values, parsed.missing)
    return texts if parsed.sort == "text" else np.asarray(parsed.numbers("float"))
