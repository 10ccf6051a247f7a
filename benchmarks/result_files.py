"""Files of results: ``results/<processor>/<name>.json``, each with its machine and engine."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import engine
from machine import describe, folder_name

RESULTS = Path(__file__).with_name("results")

Result = dict[str, Any]


def path_of(name: str, folder: Path = RESULTS) -> Path:
    """Return the file of the results ``name`` on this machine."""
    return folder / folder_name(str(describe()["cpu"])) / f"{name}.json"


def save(result: Result, path: Path) -> None:
    """Write a result, with the machine, the engine and the time (UTC)."""
    result |= {"machine": describe(), "engine": engine.write()}
    result["date"] = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"  -> {path}", flush=True)


def load() -> list[dict[str, Result]]:
    """Return the results of each machine by name, those of the newest date first."""
    machines = []
    for folder in RESULTS.iterdir():
        files = sorted(folder.glob("*.json")) if folder != engine.ENGINES else []
        if files:
            machines.append({f.stem: json.loads(f.read_text(encoding="utf-8")) for f in files})
    return sorted(machines, key=newest_date, reverse=True)


def newest_date(results: dict[str, Result]) -> str:
    """Return the time of the last measurement; older files have only its date."""
    return max(result["date"] for result in results.values())


def newest_engine(results: dict[str, Result]) -> str | None:
    """Return the engine of the last measurement, None if it was not kept."""
    found: str | None = max(results.values(), key=lambda result: result["date"]).get("engine")
    return found
