"""A FastAPI service of one model: ``uvicorn examples.fastapi_app:app``.

The environment variable ``MODEL`` has the path of the model file.  Endpoints are plain functions,
which FastAPI calls in threads: a booster is thread-safe.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, Field

import hedgerow


class PredictRequest(BaseModel):
    """Records, and the kind of prediction."""

    records: list[dict[str, float | int | str | None]] = Field(min_length=1, max_length=1000)
    kind: Literal["value", "raw", "probability"] = "value"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.booster = hedgerow.load(os.environ["MODEL"])
    yield


app = FastAPI(lifespan=lifespan)


@app.post("/predict")
def predict(body: PredictRequest, request: Request) -> dict[str, Any]:
    booster: hedgerow.Booster = request.app.state.booster
    try:
        predictions = [booster.predict_one(row, body.kind) for row in body.records]
    except (hedgerow.DataError, hedgerow.DataTypeError, hedgerow.ParameterError) as error:
        raise HTTPException(status_code=400, detail=str(error)) from None
    return {"predictions": [prediction.tolist() for prediction in predictions]}
