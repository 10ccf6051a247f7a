"""Name the engine that a figure was measured on, and say how much of it has changed since.

The engine is what fits and predictions run: the modules of :data:`PACKAGES`.  Results hold the
digest of all of them; ``results/engines/<digest>.json`` has the digest of each module.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "hedgerow"
ENGINES = Path(__file__).with_name("results") / "engines"
PACKAGES = ("boosting", "data", "growing", "kernels", "model", "objectives")
LIMIT = 0.3
"""The share of the engine's lines, in modules that have changed, from which figures are stale."""


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=5).hexdigest()


def _sources() -> dict[str, bytes]:
    files = sorted(file for name in PACKAGES for file in (PACKAGE / name).rglob("*.py"))
    return {file.relative_to(PACKAGE).as_posix(): file.read_bytes() for file in files}


def modules() -> dict[str, str]:
    """Return the digest of each module of the engine in this checkout."""
    return {name: _digest(content) for name, content in _sources().items()}


def write() -> str:
    """Write the digests of the modules of this engine, and return the digest of all of them."""
    text = json.dumps(modules(), indent=0) + "\n"
    digest = _digest(text.encode())
    ENGINES.mkdir(parents=True, exist_ok=True)
    (ENGINES / f"{digest}.json").write_text(text, encoding="utf-8")
    return digest


def changed(digest: str | None) -> float:
    """Return the share of today's lines in modules that the engine ``digest`` does not have."""
    file = ENGINES / f"{digest}.json"
    then = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    lines = {name: content.count(b"\n") for name, content in _sources().items()}
    new = sum(lines[name] for name, now in modules().items() if then.get(name) != now)
    return new / sum(lines.values())
