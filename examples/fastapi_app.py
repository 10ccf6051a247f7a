"""A FastAPI service of one model: ``uvicorn examples.fastapi_app:app``.

The model file is named by the environment variable ``MODEL``.  Endpoints are plain functions, which
FastAPI calls in threads: a booster may be called from many at once.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import Any, Literal

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, Field

import hedgerow


class Question(BaseModel):
    """Records, and what is asked of them."""

    records: list[dict[str, float | int | str | None]] = Field(min_length=1, max_length=1000)
    kind: Literal["value", "raw", "probability"] = "value"


@asynccontextmanager
async def lifespan(app: FastAPI):
    app.state.booster = hedgerow.load(os.environ["MODEL"])
    yield


app = FastAPI(lifespan=lifespan)


@app.post("/predict")
def predict(question: Question, request: Request) -> dict[str, Any]:
    booster: hedgerow.Booster = request.app.state.booster
    try:
        found = [booster.predict_one(row, question.kind) for row in question.records]
    except (hedgerow.DataError, hedgerow.DataTypeError, hedgerow.ParameterError) as error:
        raise HTTPException(status_code=400, detail=str(error)) from None
    return {"predictions": [one.tolist() for one in found]}
