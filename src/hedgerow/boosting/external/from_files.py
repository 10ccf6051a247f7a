"""Datasets in files or batches from what users say of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.data.categories.columns import CategoricalFeatures, check_unknown
from hedgerow.data.external.memory import memory_bytes
from hedgerow.data.external.scratch import temporary_folder
from hedgerow.data.schema import UnknownCategory, read_names
from hedgerow.data.sources.base import ReadRequest
from hedgerow.data.sources.opening import Source
from hedgerow.errors import ParameterError, StorageError, brief


def cache_folders(cache_dir: Any) -> tuple[str, ...]:
    """Return the folders for chunks, all writable; missing folders are created."""
    if cache_dir is None:
        return (temporary_folder(),)
    single = isinstance(cache_dir, (str, os.PathLike))
    if not single and not (isinstance(cache_dir, Sequence) and len(cache_dir) > 0):
        raise ParameterError(
            f"cache_dir must be a folder, or a list of them; got {brief(cache_dir)}."
        )
    folders = []
    for item in [cache_dir] if single else cache_dir:
        if not isinstance(item, (str, os.PathLike)):
            raise ParameterError(f"cache_dir must name folders; got {brief(item)}.")
        folder = str(os.fspath(item))
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cache_dir {folder!r} is not a folder and cannot be created: "
                f"{error.strerror or error}. Name another folder."
            ) from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise StorageError(f"cache_dir {folder!r}: no permission to write in it.")
        folders.append(folder)
    return tuple(folders)


def dataset_of(
    source: Source,
    *,
    feature_names: Sequence[str] | None = None,
    categorical_features: CategoricalFeatures = "auto",
    unknown_category: UnknownCategory = "missing",
    cache_dir: Any = None,
    memory_limit: Any = None,
) -> FileDataset:
    """Return the rows of a source; arguments as for :meth:`hedgerow.Dataset.from_batches`."""
    unknown, names = check_unknown(unknown_category), read_names(feature_names)
    return FileDataset(
        source,
        ReadRequest(source.roles, categorical_features, unknown, feature_names=names),
        memory_limit=memory_bytes(memory_limit),
        cache_dir=cache_folders(cache_dir),
    )
