"""Save a booster as a file or bytes, and store the user's attributes in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Self

from hedgerow.boosting.row_data.classes import classes_of_record, labels_to_record
from hedgerow.errors import DataTypeError, brief
from hedgerow.io.model_file import model_from_bytes, model_to_bytes, save_model
from hedgerow.model.booster_part import BoosterPart
from hedgerow.objectives import objective_of_record

ATTRIBUTES = "attributes"
"""Key of the user's attributes in the training record."""


class ModelForms(BoosterPart):
    """Mixin of the booster for files and bytes."""

    def _record(self) -> dict[str, Any] | None:
        """Return the record to save with the model: class labels, if they are known."""
        known = self._classes
        return None if known is None else {"classes": labels_to_record(known)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a model file, with the class labels if they are known.

        An existing file is replaced atomically.

        Raises
        ------
        DataTypeError
            If a class label is neither text nor a number.
        OSError
            If the file cannot be written.  An existing file then stays intact.
        """
        save_model(self.model, path, estimator=self._record())

    def to_bytes(self) -> bytes:
        """Return the bytes that :meth:`save` writes; equal models have equal bytes.

        Raises
        ------
        DataTypeError
            If a label is neither text nor a number.

        Examples
        --------
        >>> from hedgerow import Booster, Dataset, train
        >>> booster = train({"n_estimators": 2}, Dataset([[1.0], [2.0]], [0.0, 1.0]))
        >>> Booster.from_bytes(booster.to_bytes()).num_rounds == booster.num_rounds
        True
        """
        return model_to_bytes(self.model, estimator=self._record())

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Build a booster from the bytes of a model file, which need not be trusted.

        Parameters
        ----------
        data : bytes-like
            Result of :meth:`to_bytes`, or the content of a model file.

        Raises
        ------
        ModelFormatError
            If the bytes are not a valid model file.
        """
        model, record = model_from_bytes(data)
        objective = objective_of_record(model.objective, model.forest.n_outputs, model.training)
        return cls(model, classes_of_record(objective, record))

    @property
    def attributes(self) -> Mapping[str, str]:
        """Texts about the model set by :meth:`set_attributes`; model files keep them.

        Examples
        --------
        >>> from hedgerow import Booster, Dataset, train
        >>> booster = train({"n_estimators": 2}, Dataset([[1.0], [2.0]], [0.0, 1.0]))
        >>> booster.set_attributes(data="2026-07", author="team")
        >>> dict(Booster.from_bytes(booster.to_bytes()).attributes)
        {'author': 'team', 'data': '2026-07'}
        """
        return MappingProxyType(dict(self.model.training.get(ATTRIBUTES, {})))

    def set_attributes(self, **texts: str | None) -> None:
        """Store texts about the model by name.  They do not affect predictions.

        Parameters
        ----------
        **texts : str or None
            Texts by name; None removes a text.

        Raises
        ------
        DataTypeError
            If a value is neither text nor None.
        """
        for name, text in texts.items():
            if text is not None and not isinstance(text, str):
                raise DataTypeError(
                    f"attribute {name!r} must be a text, or None to remove it; got {brief(text)}."
                )
        known = {**self.attributes, **texts}
        kept = {name: text for name, text in sorted(known.items()) if text is not None}
        training = {name: item for name, item in self.model.training.items() if name != ATTRIBUTES}
        self.model = replace(self.model, training=training | ({ATTRIBUTES: kept} if kept else {}))
