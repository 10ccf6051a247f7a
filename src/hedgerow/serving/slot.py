"""The model that is served, and how another takes its place.

A request keeps the model that it began with.  Its successor is loaded, checked and warmed
beside it, and then takes its place in one assignment: no request waits or is lost, and a
file that is no model leaves everything as it was.
"""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass
from typing import Any, TypeAlias

from hedgerow.booster import Booster, load
from hedgerow.data.schema import Schema
from hedgerow.errors import HedgerowError, ModelFormatError
from hedgerow.metrics import task_of
from hedgerow.objectives import objective_of_record

Signature: TypeAlias = tuple[int, int, int]
"""Of a file: its number on the disk, its size and the time of its last change."""

_ATTEMPTS = 5
_BLOCK = 2**20


@dataclass(frozen=True, slots=True, eq=False)
class ServedModel:
    """A model that is ready.

    Attributes
    ----------
    booster : Booster
    name : str
    version : str
        The first 12 digits of the file's SHA-256.
    signature : tuple of int
    columns : tuple of str
        Those that a record must have: features and offsets.
    has_probabilities : bool
    """

    booster: Booster
    name: str
    version: str
    signature: Signature
    columns: tuple[str, ...]
    has_probabilities: bool

    @property
    def schema(self) -> Schema:
        """Of the features."""
        return self.booster.model.schema

    def warm(self) -> None:
        """Predict and explain rows without values, so that the first request finds all made."""
        empty: dict[str, Any] = dict.fromkeys(self.columns)
        for name in self.booster.offset_columns:
            empty[name] = 0.0
        self.booster.predict_one(empty)
        self.booster.predict([empty] * 2)
        self.booster.explain([empty])
        self.booster.reset_unseen_categories()


def read_model(path: str, name: str) -> ServedModel:
    """Load a file that may be replaced meanwhile.

    Raises
    ------
    OSError, ModelFormatError
        See :func:`hedgerow.load`.
    """
    for _ in range(_ATTEMPTS):
        before = signature_of(path)
        version = _digest(path)
        booster = load(path)
        if signature_of(path) == before:
            break
    else:
        raise ModelFormatError(f"{path}: the file changes again and again while it is read.")
    model = booster.model
    objective = objective_of_record(model.objective, model.forest.n_outputs, model.training)
    columns = (*booster.feature_names, *booster.offset_columns)
    classified = task_of(objective) != "regression"
    served = ServedModel(booster, name, version, before, columns, classified)
    served.warm()
    return served


def signature_of(path: str) -> Signature:
    """What changes when a file is replaced or written to."""
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()[:12]


class ModelSlot:
    """Where requests find the model.

    Parameters
    ----------
    path, name : str

    Attributes
    ----------
    model : ServedModel
        The one that is served now.
    n_reloads, n_failures : int
        Successors that took its place; files that could not.
    failure : str or None
        What is wrong with the file that stands there now.
    """

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.model = read_model(path, name)
        self.n_reloads = self.n_failures = 0
        self.failure: str | None = None
        self._refused: Signature | None = None
        self._lock = threading.Lock()

    def refresh(self, always: bool = False) -> bool:
        """Serve the file as it is now, if it has changed; whether another model took its place.

        Parameters
        ----------
        always : bool, default=False
            Try again a file that was refused before and has not changed.
        """
        with self._lock:
            try:
                now = signature_of(self.path)
                if now == self.model.signature or (now == self._refused and not always):
                    return False
                self._refused = now
                self.model = read_model(self.path, self.model.name)
            except (OSError, HedgerowError) as error:
                if str(error) != self.failure:
                    self.n_failures += 1
                self.failure = str(error)
                return False
            self._refused = self.failure = None
            self.n_reloads += 1
            return True
