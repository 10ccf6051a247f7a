"""Tables in several files, LibSVM files, and tables larger than memory.

::

    one file that fits          cli.tables reads the file
    several files that fit      this module reads them into the same columns as one file
    larger than memory          rows stay in files; binned rows go to a folder on disk

The model has the same bytes in all three cases.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.boosting.external.dataset.file_dataset import FileDataset
from hedgerow.boosting.external.dataset.from_files import from_files
from hedgerow.cli.engine import finished
from hedgerow.cli.reading.features import refuse_odd_text, task_of_numbers
from hedgerow.cli.reading.tables import ARROW_SUFFIXES, CSV_SUFFIXES, NamedColumns
from hedgerow.cli.usage import UsageError
from hedgerow.data.categories.columns import Encoded, nearly_numbers
from hedgerow.data.external.memory import memory_bytes, shown_bytes
from hedgerow.data.reading.temporal import array_of_ticks
from hedgerow.data.sources import (
    Roles,
    Source,
    find_text_types,
    keep_text,
    open_files,
    set_text_types,
)
from hedgerow.data.sources.arrow_files import open_native
from hedgerow.data.sources.base import make_roles
from hedgerow.data.sources.columns import floats_of
from hedgerow.data.sources.facts import ColumnFacts
from hedgerow.data.sources.paths import DataFile, find_files
from hedgerow.data.sources.row_sample import stack_sparse
from hedgerow.data.sources.stacking import stack_one
from hedgerow.io.checkpoint_folder import checkpoint_at

if TYPE_CHECKING:
    from hedgerow.estimators.file_fit import FileEstimator, TargetFacts

_BATCH_BYTES = 1 << 26
_COPIES = 3
"""Memory of a table, in multiples of its numbers: values read, columns, and bins."""
_TEXT_TO_MEMORY, _PACKED_TO_TEXT = 2, 5


@dataclass(frozen=True, slots=True)
class Way:
    """Way of reading the rows: at once or in batches.

    Attributes
    ----------
    needed, limit : int
        Approximate bytes of the table in memory, and the limit.
    """

    in_memory: bool
    needed: int
    limit: int
    n_files: int

    def __str__(self) -> str:
        files = "1 file" if self.n_files == 1 else f"{self.n_files} files"
        fits = "fits" if self.in_memory else "does not fit"
        how = "read at once" if self.in_memory else "read in batches, binned rows on disk"
        return (
            f"{files}: {how} (about {shown_bytes(self.needed)} in memory, which {fits} into the "
            f"limit of {shown_bytes(self.limit)})"
        )


def choose_way(paths: Sequence[str], memory_limit: str | None) -> Way:
    """Choose the way of reading: at once if the tables fit into memory, else in batches."""
    limit = memory_bytes(memory_limit, "--memory-limit")
    files = find_files(paths)
    needed = sum(_bytes_in_memory(file.path, file.format) for file in files)
    return Way(needed <= limit, needed, limit, len(files))


def _bytes_in_memory(path: str, kind: str) -> int:
    size = os.path.getsize(path)
    if kind == "parquet":
        try:
            import pyarrow.parquet

            with open_native(path) as source, pyarrow.parquet.ParquetFile(source) as file:
                return _COPIES * 8 * file.metadata.num_rows * file.metadata.num_columns
        except (ImportError, OSError, ValueError):
            return _COPIES * _PACKED_TO_TEXT * size  # the reader reports the error
    packed = _PACKED_TO_TEXT if path.lower().endswith(".gz") else 1
    return _COPIES * packed * size * (_TEXT_TO_MEMORY if kind != "arrow" else 1)


def shown(paths: Sequence[str]) -> str:
    """Return the name of the data for messages."""
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def roles_of(options: Any) -> Roles:
    """Return the roles of columns, from the command line."""
    return make_roles(
        options.target, options.weight, options.offset, options.drop, None, options.qid,
        options.position, options.groups,
    )  # fmt: skip


# ---- into memory ---------------------------------------------------------------------


def single_table(paths: Sequence[str]) -> DataFile | None:
    """Return the only file, named or matched, if ``cli.reading.tables`` reads its kind."""
    files = find_files(paths)
    if len(files) > 1 or files[0].partition or os.path.isdir(paths[0]):
        return None
    known = files[0].path.lower().endswith((*CSV_SUFFIXES, *ARROW_SUFFIXES))
    return files[0] if known else None


def read_tables(
    paths: Sequence[str], roles: Roles, text: Collection[str] = ()
) -> NamedColumns | tuple[Any, AnyArray]:
    """Read all rows of some files: named columns, or sparse rows with their targets."""
    source = open_files(list(paths), roles, types_known=True)
    keep_text(source.parts, text)
    set_text_types(source.parts, find_text_types(source.parts, _BATCH_BYTES))
    names = source.parts[0].column_names()
    if names is None:
        return _read_sparse(source)
    needed = None if roles.features is None else {*roles.features, *roles.aside()}
    wanted = [n for n in names if n not in roles.drop and (needed is None or n in needed)]
    facts = {name: ColumnFacts() for name in wanted}
    found: dict[str, list[Any]] = {name: [] for name in wanted}
    for part in source.parts:
        for batch in part.batches(wanted, _BATCH_BYTES):
            for name in wanted:
                facts[name].add(batch.columns[name], part.name)
                found[name].append(batch.columns[name].values)
    columns = {name: _joined(name, parts, facts[name]) for name, parts in found.items()}
    return NamedColumns(shown(paths), columns)


def _joined(name: str, parts: Sequence[Any], facts: ColumnFacts) -> AnyArray:
    kind = facts.kind(name, None, types_known=True)
    if kind == "category":
        return np.concatenate([_texts(part) for part in parts])
    plain = [
        np.full(len(part.codes), np.nan) if isinstance(part, Encoded) else part for part in parts
    ]
    if kind == "int":
        temporal = facts.temporal()
        values = stack_one(plain, kind)
        return values if temporal is None else array_of_ticks(values, temporal)
    return np.concatenate([floats_of(part).astype(np.float64) for part in plain])


def _texts(part: Any) -> AnyArray:
    """Return text, with None for missing values."""
    if not isinstance(part, Encoded):
        return np.full(len(part), None, dtype=object)
    texts = np.array([*map(str, part.values), None], dtype=object)
    chosen: AnyArray = texts[part.codes]  # -1 selects the last
    return chosen


def _read_sparse(source: Source) -> tuple[Any, AnyArray]:
    tables, targets = [], []
    for part in source.parts:
        for batch in part.batches(None, _BATCH_BYTES):
            assert batch.target is not None
            tables.append(batch.sparse)
            targets.append(batch.target.plain(""))
    if not tables:
        raise UsageError(f"{source.parts[0].name} has no rows")
    return stack_sparse(tables), np.concatenate(targets)


# ---- out of core ---------------------------------------------------------------------


def open_dataset(
    paths: Sequence[str], roles: Roles, way: Way, cache_dir: Sequence[str] | None
) -> FileDataset:
    """Return the rows of some files as batches."""
    return from_files(
        list(paths),
        roles,
        cache_dir=list(cache_dir) if cache_dir else None,
        memory_limit=way.limit,
        types_known=True,
    )


def fit(
    estimator: FileEstimator,
    data: FileDataset,
    facts: TargetFacts,
    valid: FileDataset | None,
    checkpoint: str | None = None,
    init_model: str | None = None,
) -> FileEstimator:
    """Fit an estimator to rows in files; see :func:`hedgerow.cli.engine.fit`."""
    from hedgerow.estimators.file_fit import fit_files

    fit_files(estimator, data, facts, valid, checkpoint_at(checkpoint), init_model)
    return finished(estimator)


def guess_task(facts: TargetFacts, path: str, name: str) -> tuple[str, str]:
    """Guess the task from all targets, as :func:`hedgerow.cli.reading.features.guess_task` does."""
    if facts.n_targets > 1:
        return "regression", f"{facts.n_targets} targets"
    if facts.is_text:
        found = nearly_numbers(facts.values.tolist(), facts.masses)
        if found is not None:
            refuse_odd_text(found, path, name, f"{found.odd!r} is none")
        return "classification", "the target is text"
    return task_of_numbers(facts.values, has_more=facts.has_more)
