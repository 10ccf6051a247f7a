"""The model in service, and its replacement.

A request keeps the model that it started with.  The server loads, checks and warms up a new
model beside the old one, and then replaces the old model in one assignment.  No request waits or
is lost.  A file that is not a model changes nothing.
"""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from hedgerow.booster import Booster, load
from hedgerow.data.schema import Schema
from hedgerow.errors import HedgerowError, ModelFormatError
from hedgerow.objectives import objective_of_record
from hedgerow.objectives.catalogue import task_of

Signature: TypeAlias = tuple[int, int, int]
"""Identity of a file: its inode, its size and the time of its last change."""

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, eq=False)
class ServedModel:
    """A model that is ready."""

    booster: Booster
    name: str
    version: str  # the first 12 digits of the file's SHA-256
    signature: Signature
    columns: tuple[str, ...]  # that a record must have: features and offsets
    has_probabilities: bool
    class_names: list[Any]  # in the order of the probabilities; empty for regression

    @property
    def schema(self) -> Schema:
        """Columns of the model."""
        return self.booster.model.schema


def read_model(path: str, name: str) -> ServedModel:
    """Load a file that may be replaced at the same time."""
    for _ in range(_ATTEMPTS):
        before = signature_of(path)
        with open(path, "rb") as file:
            version = hashlib.file_digest(file, "sha256").hexdigest()[:12]
        booster = load(path)
        if signature_of(path) == before:
            break
    else:
        raise ModelFormatError(f"{path}: the file keeps changing while it is read.")
    model = booster.model
    objective = objective_of_record(model.objective, model.forest.n_outputs, model.training)
    columns = (*booster.feature_names, *booster.offset_columns)
    classified = task_of(objective) != "regression"
    classes: list[Any] = []  # in the order of the probabilities
    if classified and booster.classes is not None:
        classes = booster.classes.tolist()
    elif classified:
        classes = [*(booster.target_names or range(max(2, model.forest.n_outputs)))]
    # Predict and explain rows of missing values, so that the first request is fast.
    empty = dict.fromkeys(columns) | dict.fromkeys(booster.offset_columns, 0.0)
    booster.predict_one(empty)
    booster.predict([empty] * 2)
    booster.explain([empty])
    booster.reset_unseen_categories()
    return ServedModel(booster, name, version, before, columns, classified, classes)


def signature_of(path: str) -> Signature:
    """Return the identity of a file, which changes when it is replaced or written."""
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns


class ModelSlot:
    """The model in service, and the error of a file that could not replace it."""

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.model = read_model(path, name)
        self.failure: str | None = None
        self._refused: Signature | None = None
        self._lock = threading.Lock()

    def refresh(self, always: bool) -> Literal["served", "refused"] | None:
        """Load the file if it has changed; tell of another model in service, or another failure."""
        with self._lock:
            try:
                now = signature_of(self.path)
                if now == self.model.signature or (now == self._refused and not always):
                    return None
                self._refused = now
                self.model = read_model(self.path, self.model.name)
            except (OSError, HedgerowError) as error:
                before, self.failure = self.failure, str(error)
                return None if self.failure == before else "refused"
            self._refused = self.failure = None
            return "served"
