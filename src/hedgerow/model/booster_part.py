"""The attributes of a booster that methods of other modules may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.data.reading.table import UnseenCounts
from hedgerow.data.schema import Schema
from hedgerow.data.sparse import SparseTable
from hedgerow.model.model import Model
from hedgerow.objectives import Objective
from hedgerow.params import PredictionKind

if TYPE_CHECKING:
    from hedgerow.model.predict import Predictor


class BoosterPart:
    """Base class of the classes that :class:`hedgerow.Booster` consists of."""

    model: Model
    _classes: AnyArray | None
    _schema: Schema
    _objective: Objective
    _predictor: Predictor
    _unseen: UnseenCounts

    if TYPE_CHECKING:  # the booster has these methods

        def __init__(self, model: Model, classes: AnyArray | None = None) -> None: ...

        @property
        def offset_columns(self) -> tuple[str, ...]: ...

        def predict(
            self, X: Any, kind: PredictionKind = "value", *, first_round: int = 0,
            n_rounds: int | None = None, n_jobs: int | None = None, offset: Any = None,
        ) -> npt.NDArray[Any]: ...  # fmt: skip

        def raw_scores(
            self, X: Any, *, n_jobs: int | None = None, reader: str = "Booster", offset: Any = None
        ) -> FloatArray: ...

        def _inputs(
            self, X: Any, n_jobs: int | None, reader: str
        ) -> tuple[AnyArray | SparseTable, int]: ...

        def _threads(self, n_rows: int, n_jobs: int | None) -> int: ...

        def _check_kind(self, kind: str) -> None: ...

        def _prediction(self, raw: FloatArray, kind: str) -> npt.NDArray[Any]: ...
