"""Fingerprint of a fit on rows in chunks; see :mod:`hedgerow.boosting.resume.fingerprint`.

It covers the data of the fit: cuts, bins, numbers of linear leaves, targets, weights and offsets,
in the order of the rows.  It depends neither on files and batches nor on the division into chunks
(the memory limit).  It takes one pass over the chunks, while each tree takes several.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.boosting.external.external_sample import ExternalSample
from hedgerow.boosting.resume.fingerprint import schema_digest
from hedgerow.boosting.validation.row_sets import ONLY
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.external.row_store import Uses

_DIGEST_BYTES = 20


def external_contents(
    train: ExternalSample, validation: Mapping[str, ExternalSample]
) -> dict[str, str]:
    """Return digests of binned training rows and, by name, of validation rows."""
    contents = {"columns": schema_digest(train.schema), "cuts": cuts_digest(train.store.spec)}
    contents |= _contents_of(train, "")
    for name, sample in validation.items():
        contents |= _contents_of(sample, "_val" if name == ONLY else f"_val[{name!r}]")
    return contents


def cuts_digest(spec: BinSpec) -> str:
    """Return a digest of the cuts and category bins of all columns."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for field in fields(spec):
        values = getattr(spec, field.name)
        if isinstance(values, np.ndarray):
            digest.update(f"{field.name} {values.dtype.str} {values.shape}".encode())
            digest.update(_bytes_of(values))
    return digest.hexdigest()


def _contents_of(sample: ExternalSample, suffix: str) -> dict[str, str]:
    store = sample.store
    n_features = store.spec.n_features
    # One digest for each tile of columns, because rows are contiguous within a tile.
    found: dict[str, hashlib.blake2b] = {}

    def add(name: str, values: AnyArray) -> None:
        known = found.setdefault(name, hashlib.blake2b(digest_size=_DIGEST_BYTES))
        known.update(_bytes_of(values))

    target, weight, offset = sample.vectors
    for output, values in enumerate([target] if target.ndim == 1 else target.T):
        add(f"y {output}", values)
    if weight is not None:
        add("sample_weight", weight)
    for output, values in enumerate([] if offset is None else offset):
        add(f"offset {output}", values)
    for chunk in store.chunks(uses=Uses(columns=(), numbers=range(n_features))):
        matrix, n_rows = chunk.matrix, chunk.n_rows
        width = matrix.by_row.shape[2]
        for tile, rows in enumerate(matrix.by_row):
            add(f"X {tile}", rows[:n_rows, : min(width, n_features - tile * width)])
        if chunk.numbers is not None:
            for column, values in enumerate(chunk.numbers.T):
                add(f"X value {column}", values)
    for name, values in sample.values.digested().items():
        add(name, values)
    joined: dict[str, list[str]] = {}
    for name, digest in found.items():
        joined.setdefault(name.split()[0], []).append(digest.hexdigest())
    return {f"{name}{suffix}": " ".join(parts) for name, parts in joined.items()}


def _bytes_of(values: AnyArray) -> memoryview:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
