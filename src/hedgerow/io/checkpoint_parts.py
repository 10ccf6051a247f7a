"""Convert rounds of a fit, with its fingerprint, to bytes, and read them.

They are a container (:mod:`hedgerow.io.container`) with a safetensors layout and a checksum.
Reading is a chain of checks as for model files.  The result is safe to use; otherwise
``ModelFormatError`` gives the reason.

===============  =========  ====================================================
array            elements
===============  =========  ====================================================
``feature`` ...  per node   the fields of :class:`hedgerow.growing.core.tree.GrownTree`;
                            ``bin``, ``column`` and ``left_bins`` are empty where
                            trees are not grown on bins
``left_bins``    4 x nodes  as int64
``tree_start``   trees + 1  first node of each tree
``base_score``   outputs
``scores``       rounds x curves of the history
``slope`` ...               :mod:`hedgerow.io.validate`
===============  =========  ====================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.boosting.loop.ensemble import make_forest
from hedgerow.boosting.resume.checkpoint import Fingerprint, Rounds
from hedgerow.errors import ModelFormatError
from hedgerow.growing.core.tree import GrownTree
from hedgerow.io import container, strict_json
from hedgerow.io.validate import (
    FOREST_DTYPES,
    SLOPE_DTYPES,
    VECTOR_DTYPES,
    check_forest,
    read_slopes,
    read_vectors,
    slope_arrays,
)
from hedgerow.kernels.prediction.slopes import part_of_slopes
from hedgerow.model.forest import Forest, node_arrays

ROUNDS_FORMAT = "hedgerow-rounds"
VERSION = "3"

_F64, _I64, _I32, _U8 = (np.dtype(t) for t in (np.float64, np.int64, np.int32, np.uint8))
_BIN_DTYPES = {"left_bins": _I64, "column": _I32, "bin": _U8}
_DTYPES = FOREST_DTYPES | _BIN_DTYPES | {"scores": _F64}
_ALL_DTYPES = _DTYPES | VECTOR_DTYPES | SLOPE_DTYPES
_WIDEST_FIRST = sorted(_ALL_DTYPES, key=lambda name: -_ALL_DTYPES[name].itemsize)
_SET_WORDS = 4
_METADATA = {"contents", "ended", "first", "format", "n_rounds", "settings", "version"}
_NATURAL = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


class OtherVersionError(ModelFormatError):
    """The bytes are valid, but of another version."""


def rounds_to_bytes(part: Rounds, fit: Fingerprint) -> list[bytes | memoryview]:
    """Convert a part of a fit to bytes."""
    forest = make_forest(list(part.trees), part.base_score, 0)
    arrays: dict[str, AnyArray] = {name: getattr(forest, name) for name in FOREST_DTYPES}
    for name in _BIN_DTYPES:
        arrays[name] = np.concatenate([getattr(tree, name) for tree in part.trees])
    arrays["left_bins"] = arrays["left_bins"].reshape(-1).view(np.int64)
    arrays["scores"] = part.scores.reshape(-1)
    if forest.vectors is not None:
        arrays["vector"] = forest.vectors.reshape(-1)
    arrays |= slope_arrays(forest.slopes)
    metadata = {
        "contents": strict_json.encode(fit.contents, "contents"),
        "ended": str(int(part.ended)),
        "first": str(part.first),
        "format": ROUNDS_FORMAT,
        "n_rounds": str(part.n_rounds),
        "settings": strict_json.encode(fit.settings, "settings"),
        "version": VERSION,
    }
    return container.pack(
        metadata, {name: arrays[name] for name in _WIDEST_FIRST if name in arrays}
    )


def rounds_from_bytes(data: bytes | memoryview) -> tuple[Rounds, Fingerprint]:
    """Read a part, and of which fit it is; ``OtherVersionError`` if it has another version."""
    header, payload = container.unpack(data)
    if header.metadata.get("format") != ROUNDS_FORMAT:
        raise ModelFormatError("the file names another format.")
    if header.metadata.get("version") != VERSION:
        raise OtherVersionError("it was written by another version of Hedgerow.")
    if header.metadata.keys() != _METADATA:
        raise ModelFormatError("metadata are missing or unknown.")
    entries = []
    for name in ("settings", "contents"):
        entry = strict_json.decode(header.metadata[name], name)
        if not isinstance(entry, dict) or not all(isinstance(text, str) for text in entry.values()):
            raise ModelFormatError(f"{name} is not a map from string to string.")
        entries.append(entry)
    dtypes = dict(_DTYPES)
    for more in (VECTOR_DTYPES, SLOPE_DTYPES):
        dtypes |= {} if more.keys().isdisjoint(header.entries) else more
    container.check_header(header, dtypes, set())
    # Copies, because kernels are compiled for writable arrays.
    arrays = {name: container.array_at(header, name, payload).copy() for name in dtypes}
    trees = _trees(arrays)
    first, n_rounds = (_number(header.metadata, name) for name in ("first", "n_rounds"))
    scores = arrays["scores"]
    if header.metadata["ended"] not in ("0", "1"):
        raise ModelFormatError("ended is malformed.")
    in_turn = 1 if "vector" in arrays else len(arrays["base_score"])
    if (
        n_rounds < 1
        or len(trees) == 0
        or len(trees) % (n_rounds * in_turn)
        or len(scores) % n_rounds
    ):
        raise ModelFormatError(f"trees or scores do not belong to {n_rounds} rounds.")
    ended, scores = header.metadata["ended"] == "1", scores.reshape(n_rounds, -1)
    return Rounds(first, trees, arrays["base_score"], scores, ended), Fingerprint(*entries)


def _number(metadata: Mapping[str, str], name: str) -> int:
    if not _NATURAL.fullmatch(metadata[name]):
        raise ModelFormatError(f"{name} is malformed.")
    return int(metadata[name])


def _trees(arrays: Mapping[str, AnyArray]) -> tuple[GrownTree, ...]:
    """Build the trees."""
    feature, column, bins = arrays["feature"], arrays["column"], arrays["bin"]
    fields: dict[str, Any] = {name: arrays[name] for name in FOREST_DTYPES}
    vectors, slopes = read_vectors(arrays), read_slopes(arrays)
    n_features, n_binned = int(feature.max(initial=0)) + 1, len(column)
    forest = Forest(**fields, n_features=n_features, vectors=vectors, slopes=slopes)
    check_forest(forest)
    if n_binned not in (0, len(feature)) or len(bins) != n_binned:
        raise ModelFormatError("column and bin must have one entry per node, or none.")
    if len(arrays["left_bins"]) != _SET_WORDS * n_binned:
        raise ModelFormatError(f"left_bins must have {_SET_WORDS} words for each bin.")
    if n_binned and not ((column >= 0) == (feature >= 0)).all():
        raise ModelFormatError("column must be -1 in leaves, and nowhere else.")
    if n_binned and int(column.min()) < -1:
        raise ModelFormatError("column must be the position of a column, or -1 in a leaf.")
    sets = arrays["left_bins"].view(np.uint64).reshape(-1, _SET_WORDS)
    return tuple(
        GrownTree(
            **node_arrays(forest, slice(begin, end)),
            column=column[begin:end],
            bin=bins[begin:end],
            left_bins=sets[begin:end],
            vectors=None if vectors is None else vectors[begin:end],
            slopes=part_of_slopes(slopes, begin, end),
        )
        for begin, end in pairwise(arrays["tree_start"].tolist())
    )
