"""Serve a LightGBM model with FastAPI as users do; ``serving.py`` measures this server.

``python benchmarks/fastapi_lightgbm.py MODEL numbers|categories``: ``Booster.predict`` gets rows
of numbers as an array, which is the fastest way, and records with categories as a frame, which is
the only way.  Each prediction uses one thread.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Numbers(BaseModel):
    records: list[list[float]]


class Records(BaseModel):
    records: list[dict[str, float | str]]


def make_numbers_app(booster: lightgbm.Booster) -> FastAPI:
    app = FastAPI()

    @app.post("/predict")
    async def predict(given: Numbers) -> dict[str, Any]:
        X = np.array(given.records)
        return {"predictions": booster.predict(X, num_threads=1).tolist()}

    return app


def make_records_app(booster: lightgbm.Booster, levels: dict[str, list[str]]) -> FastAPI:
    app = FastAPI()
    types = {name: pd.CategoricalDtype(found) for name, found in levels.items()}

    @app.post("/predict")
    async def predict(given: Records) -> dict[str, Any]:
        X = pd.DataFrame(given.records).astype(types)
        return {"predictions": booster.predict(X, num_threads=1).tolist()}

    return app


def main() -> None:
    path, kind = sys.argv[1:3]
    booster = lightgbm.Booster(model_file=path)
    if kind == "numbers":
        app = make_numbers_app(booster)
    else:
        app = make_records_app(booster, json.loads(Path(f"{path}.levels").read_text()))
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(f"serving on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run([listening])


if __name__ == "__main__":
    main()
