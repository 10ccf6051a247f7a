"""A BentoML service of one model: ``bentoml serve examples.bentoml_service:HedgerowService``.

The environment variable ``MODEL`` has the path of the model file.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import bentoml

import hedgerow

Kind = Literal["value", "raw", "probability", "leaf"]


@bentoml.service(traffic={"timeout": 10})
class HedgerowService:
    """Predict records."""

    def __init__(self) -> None:
        self.booster = hedgerow.load(os.environ["MODEL"])

    @bentoml.api
    def predict(self, records: list[dict[str, Any]], kind: Kind = "value") -> list[Any]:
        try:
            predictions = [self.booster.predict_one(row, kind) for row in records]
        except (hedgerow.DataError, hedgerow.DataTypeError, hedgerow.ParameterError) as error:
            raise bentoml.exceptions.InvalidArgument(str(error)) from None
        return [prediction.tolist() for prediction in predictions]
