"""Start real servers in new processes, for tests and benchmarks."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def rows() -> Any:
    """Return a frame of people, with missing values."""
    import numpy as np
    import pandas as pd

    rng, n = np.random.default_rng(0), 400
    X = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "age": rng.integers(18, 90, n),
            "city": rng.choice(["Oslo", "Rome", "Kiel"], n),
        }
    )
    X.loc[::9, "size"] = np.nan
    return X


def records(n: int = 400) -> list[dict[str, Any]]:
    """Return the first rows as bodies of requests hold them."""
    found = rows().head(n).astype(object).to_dict("records")
    return [{k: None if v != v else v for k, v in row.items()} for row in found]


ADDRESS = re.compile(r"on http://([\d.]+):(\d+)")


class Server:
    """A server that listens."""

    def __init__(self, process: subprocess.Popen[str], host: str, port: int) -> None:
        self.process, self.host, self.port = process, host, port
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    def connect(self, timeout: float = 60.0) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send a request; return the status and the answer (parsed, if it is JSON)."""
        connection = self.connect()
        try:
            return ask(connection, method, path, body, headers)
        finally:
            connection.close()

    def stop(self, number: int = signal.SIGTERM, seconds: float = 60.0) -> int:
        self.process.send_signal(number)
        return self.process.wait(seconds)


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, Any]:
    content = json.dumps(body) if isinstance(body, dict | list) else body
    connection.request(method, path, content, headers or {})
    answer = connection.getresponse()
    text = answer.read()
    is_json = answer.headers.get("content-type", "").startswith("application/json")
    return answer.status, json.loads(text) if is_json and text else text.decode()


@contextmanager
def serving(
    path: Path, *options: str, environment: dict[str, str] | None = None
) -> Iterator[Server]:
    """Run ``hedgerow serve`` on a free port."""
    command = [sys.executable, "-m", "hedgerow", "serve", str(path), "--port", "0", *options]
    found = {**os.environ, **(environment or {})}
    with started(command, found) as server:
        yield server


@contextmanager
def started(command: list[str], environment: dict[str, str]) -> Iterator[Server]:
    """Run a process that prints its address."""
    process = subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            found = ADDRESS.search(line)
            if found:
                break
        else:
            raise RuntimeError("".join(lines))
        server = Server(process, found[1], int(found[2]))
        server.lines += lines
        yield server
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
