"""Tables with all kinds of columns, and functions that write them to files."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet


def all_kinds(n_rows: int, seed: int = 0) -> pa.Table:
    """Return a column of each kind that a table may have, a target and a weight."""
    rng = np.random.default_rng(seed)
    words = np.array(["red", "green", "blue", "Ärger", "z", "a,b", 'qu"ote', "line\nbreak"])
    gone = rng.random(n_rows) < 0.2

    def nulls(values: Any, kind: Any = None) -> pa.Array:
        return pa.array(list(values), type=kind, mask=gone)

    floats = rng.normal(size=n_rows).round(2)
    floats[rng.random(n_rows) < 0.1] = np.nan
    floats[:1] = np.inf
    day = dt.date(2020, 1, 1)
    return pa.table(
        {
            "f64": floats,
            "f32": rng.normal(size=n_rows).astype(np.float32),
            "i8": pa.array(rng.integers(-5, 5, n_rows), pa.int8()),
            "i64": pa.array(rng.integers(-(2**60), 2**60, n_rows)),
            "u64": nulls(rng.integers(0, 2**50, n_rows).tolist(), pa.uint64()),
            "flag": nulls((rng.random(n_rows) < 0.5).tolist(), pa.bool_()),
            "text": nulls(words[rng.integers(0, 8, n_rows)].tolist(), pa.string()),
            "dict": nulls(
                words[rng.integers(0, 5, n_rows)].tolist(), pa.string()
            ).dictionary_encode(),
            "number_dict": pa.array(rng.integers(0, 6, n_rows)).dictionary_encode(),
            "day": nulls([day + dt.timedelta(int(d)) for d in rng.integers(0, 900, n_rows)]),
            "when": pa.array(rng.integers(0, 10**15, n_rows), pa.timestamp("us", "UTC")),
            "time": nulls([dt.time(int(h), 7) for h in rng.integers(0, 24, n_rows)]),
            "money": nulls(
                [Decimal(int(c)) / 100 for c in rng.integers(0, 999, n_rows)], pa.decimal128(10, 2)
            ),
            "nothing": pa.nulls(n_rows),
            "y": floats_of(rng, n_rows),
            "w": rng.choice([0.0, 0.5, 1.0, 2.5], n_rows),
        }
    )


def floats_of(rng: np.random.Generator, n_rows: int) -> Any:
    return rng.normal(size=n_rows)


def simple(n_rows: int, seed: int = 0) -> pa.Table:
    """Return columns of types that CSV files can hold."""
    rng = np.random.default_rng(seed)
    gone = rng.random(n_rows) < 0.1
    return pa.table(
        {
            "a": rng.normal(size=n_rows),
            "b": pa.array(rng.integers(0, 50, n_rows), mask=gone),
            "c": pa.array(np.array(["u", "v", "w"])[rng.integers(0, 3, n_rows)], mask=gone),
            "y": rng.normal(size=n_rows),
        }
    )


def split(table: pa.Table, cuts: Sequence[int]) -> list[pa.Table]:
    """Return parts of a table, some perhaps empty."""
    edges = [0, *sorted(cuts), table.num_rows]
    return [table.slice(a, b - a) for a, b in itertools.pairwise(edges)]


def write(table: pa.Table, path: Path, rows: int = 1000) -> Path:
    """Write a file in the format of its suffix, ``rows`` in each group or batch."""
    name = path.name
    if name.endswith(".parquet"):
        pyarrow.parquet.write_table(table, path, row_group_size=rows)
    elif name.endswith(".feather"):
        pyarrow.feather.write_feather(table, path, chunksize=rows)
    elif name.endswith(".arrow"):
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table, max_chunksize=rows)
    elif name.endswith(".arrows"):
        with pa.ipc.new_stream(path, table.schema) as file:
            file.write_table(table, max_chunksize=rows)
    else:
        frame = table.to_pandas()
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in name else ",")
    return path


def read_whole(path: Any) -> pa.Table:
    """Return a file as one table; columns of text files have the types that suit all values."""
    from hedgerow.data.reading.texts import parse
    from hedgerow.data.sources.opening import open_parts

    (part,) = open_parts(path)
    table = pa.concat_tables(part.tables(part.column_names(), 1 << 40))
    if not hasattr(part, "decimal"):
        return table
    return pa.table(
        {name: _number(parse(table[name], part.decimal)[1]) for name in table.column_names}
    )


def _number(column: Any) -> Any:
    """Return integers and booleans as floats, which most tools write for them in text."""
    is_exact = pa.types.is_boolean(column.type) or (
        pa.types.is_integer(column.type)
        and (column.null_count or all(abs(value) <= 2**53 for value in column.to_pylist()))
    )
    return column.cast(pa.float64(), safe=False) if is_exact else column


def columns_of(path: Any) -> dict[str, Any]:
    """Return the columns of a file as arrays."""
    table = read_whole(path)
    return {name: table[name].to_numpy() for name in table.column_names}
