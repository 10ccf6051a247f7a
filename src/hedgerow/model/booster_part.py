"""The attributes of a booster that methods of other modules may use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.data.reading.table import UnseenCounts
from hedgerow.data.schema import Schema
from hedgerow.data.sparse import SparseTable
from hedgerow.model.model import Model
from hedgerow.model.predict import Predictor
from hedgerow.objectives import Objective
from hedgerow.params import PredictionKind


class BoosterPart(ABC):
    """Base class of the classes that :class:`hedgerow.Booster` consists of."""

    model: Model
    _classes: AnyArray | None
    _schema: Schema
    _objective: Objective
    _predictor: Predictor
    _unseen: UnseenCounts

    @abstractmethod
    def __init__(self, model: Model, classes: AnyArray | None = None) -> None:
        """Build a booster from a model."""

    @property
    @abstractmethod
    def offset_columns(self) -> tuple[str, ...]:
        """Columns of a table that are added to the raw scores and are not features."""

    @abstractmethod
    def predict(
        self,
        X: Any,
        kind: PredictionKind = "value",
        *,
        first_round: int = 0,
        n_rounds: int | None = None,
        n_jobs: int | None = None,
        offset: Any = None,
    ) -> npt.NDArray[Any]:
        """Predict a table."""

    @abstractmethod
    def raw_scores(
        self, X: Any, *, n_jobs: int | None = None, reader: str = "Booster", offset: Any = None
    ) -> FloatArray:
        """Return raw scores of shape (n_outputs, n_rows)."""

    @abstractmethod
    def _inputs(
        self, X: Any, n_jobs: int | None, reader: str
    ) -> tuple[AnyArray | SparseTable, int]:
        """Return the inputs of the trees for each row, and the number of threads."""

    @abstractmethod
    def _threads(self, n_rows: int, n_jobs: int | None) -> int:
        """Return the number of threads for this many rows."""

    @abstractmethod
    def _check_kind(self, kind: str) -> None:
        """Raise for a kind that is unknown, or that this model does not support."""

    @abstractmethod
    def _prediction(self, raw: FloatArray, kind: str) -> npt.NDArray[Any]:
        """Convert raw scores to the result of :meth:`predict`."""
