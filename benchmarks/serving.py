"""Compare ``hedgerow serve`` with servers of LightGBM models: single rows, 64 HTTP clients.

Examples::

    python benchmarks/serving.py                      # FastAPI; requests a second, in pairs
    python benchmarks/serving.py --mlserver mlserver  # MLServer; the command that starts it
    python benchmarks/serving.py --minutes 10         # load with a reload each second

Server and clients are two processes on this machine.  All servers run in one process on uvicorn
with uvloop and httptools.  MLServer runs without extra workers, which is faster for small models.
Each client sends a request after it has received the answer to the previous one.  Every answer must
equal the expected one, byte by byte.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import uvloop

import hedgerow

PARAMS: dict[str, Any] = {
    "n_estimators": 100, "max_leaves": 31, "learning_rate": 0.1, "random_state": 0,
    "linear_leaves": False, "early_stopping": False, "target_statistics": False,
}  # fmt: skip
HERE = Path(__file__).resolve().parent
ADDRESS = re.compile(rb"http://127\.0\.0\.1:(\d+)")


class Client(asyncio.Protocol):
    """A connection that sends one request after the other."""

    def __init__(self, load: Load) -> None:
        self.load, self.buffer, self.number = load, b"", 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.send_request()

    def send_request(self) -> None:
        self.number = self.load.next_number()
        self.sent = time.perf_counter()
        self.transport.write(self.load.requests[self.number])

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        if len(body) < length:
            return
        self.buffer = b""
        self.load.record_answer(self.number, head[9:12], body, time.perf_counter() - self.sent)
        if not self.load.ended:
            self.send_request()
        else:
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.load.ended:
            self.load.lost += 1


class Load:
    """The requests of many clients, and counts of right, wrong and lost answers."""

    def __init__(
        self, bodies: list[bytes], answers: list[set[bytes]], path: str = "/predict"
    ) -> None:
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n".encode()
        self.requests = [head + b"Content-Length: %d\r\n\r\n" % len(body) + body for body in bodies]
        self.answers = answers
        self.ended, self.count, self.wrong, self.lost = False, 0, 0, 0
        self.seconds: list[float] = []

    def next_number(self) -> int:
        self.count += 1
        return self.count % len(self.requests)

    def record_answer(self, number: int, status: bytes, body: bytes, seconds: float) -> None:
        self.wrong += status != b"200" or body not in self.answers[number]
        self.seconds.append(seconds)

    async def run(self, port: int, n_clients: int, seconds: float) -> float:
        """Send requests for some seconds; return the answers per second."""
        loop = asyncio.get_running_loop()
        start = time.perf_counter()
        for _ in range(n_clients):
            await loop.create_connection(lambda: Client(self), "127.0.0.1", port)
        await asyncio.sleep(seconds)
        self.ended = True
        spent = time.perf_counter() - start
        await asyncio.sleep(0.5)
        return len(self.seconds) / spent


@contextmanager
def start_server(*command: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Start a server that prints its port on its first lines."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            found = ADDRESS.search(line)
            if found:
                break
        else:
            raise SystemExit(f"{' '.join(command)} ended: code {process.wait()}")
        yield int(found[1]), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@contextmanager
def start_mlserver(command: str, model: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Start MLServer with one LightGBM model, and wait until it is ready."""
    import urllib.request

    folder = model.parent / "mlserver"
    folder.mkdir(exist_ok=True)
    shutil.copy(model, folder / "model.bst")
    ports = find_free_ports(3)
    settings = {"host": "127.0.0.1", "http_port": ports[0], "grpc_port": ports[1],
                "metrics_port": ports[2], "parallel_workers": 0, "debug": False}  # fmt: skip
    (folder / "settings.json").write_text(json.dumps(settings))
    runtime = {"name": "model", "implementation": "mlserver_lightgbm.LightGBMModel",
               "parameters": {"uri": "./model.bst"}}  # fmt: skip
    (folder / "model-settings.json").write_text(json.dumps(runtime))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([command, "start", str(folder)], **quiet)  # type: ignore[call-overload]
    try:
        ready = f"http://127.0.0.1:{ports[0]}/v2/models/model/ready"
        for _ in range(300):
            try:
                urllib.request.urlopen(ready).close()
                break
            except OSError:
                time.sleep(0.2)
        yield ports[0], process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def find_free_ports(n_ports: int) -> list[int]:
    """Return ports without a listener."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n_ports)]
    ports = [found.getsockname()[1] for found in sockets]
    for found in sockets:
        found.close()
    return ports


def send_once(port: int, body: bytes, path: str = "/predict") -> bytes:
    import urllib.request

    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers)
    with urllib.request.urlopen(request) as answer:
        found: bytes = answer.read()
    return found


def make_data(kind: str) -> tuple[Any, np.ndarray, list[bytes]]:
    """Return a table, targets, and request bodies with a single row."""
    rng = np.random.default_rng(0)
    if kind == "numbers":
        X: Any = rng.normal(size=(20_000, 28))
        y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=len(X)) > 0).astype(int)
        rows: list[Any] = X[:500].tolist()
    else:
        columns: dict[str, Any] = {f"n{k}": rng.normal(size=20_000) for k in range(6)}
        for k in range(8):
            columns[f"c{k}"] = [f"v{v}" for v in rng.integers(0, 12, 20_000)]
        X = pd.DataFrame(columns)
        score = X["n0"] + X["c0"].str.len() + rng.normal(size=len(X))
        y, rows = (score > 2.5).to_numpy().astype(int), X.head(500).to_dict("records")
    return X, y, [json.dumps({"records": [row]}).encode() for row in rows]


def write_models(folder: Path, kind: str, X: Any, y: np.ndarray) -> None:
    """Train and save a regressor of each library."""
    hedgerow.HedgerowRegressor(**PARAMS).fit(X, y).save(folder / "ours.hedgerow")
    import lightgbm

    levels = {}
    if kind == "categories":
        levels = {name: sorted(X[name].unique()) for name in X if X[name].dtype.kind not in "fi"}
        X = X.astype({name: pd.CategoricalDtype(found) for name, found in levels.items()})
    params = {"num_leaves": 31, "learning_rate": 0.1, "verbosity": -1, "num_threads": 2}
    booster = lightgbm.train(params, lightgbm.Dataset(X, y), 100)
    booster.save_model(folder / "theirs.txt")
    (folder / "theirs.txt.levels").write_text(json.dumps(levels))


def processor_seconds(process: int) -> float:
    """Return the processor seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(
    port: int, process: int, bodies: list[bytes], n_clients: int, seconds: float,
    path: str = "/predict",
) -> tuple[float, float]:  # fmt: skip
    """Return requests per second, and the server's processor microseconds per request."""
    load = Load(bodies, [{send_once(port, body, path)} for body in bodies], path)
    before = processor_seconds(process)
    rate = uvloop.run(load.run(port, n_clients, seconds))
    spent = 1e6 * (processor_seconds(process) - before) / len(load.seconds)
    middle, late = np.quantile(load.seconds, [0.5, 0.99]) * 1e3
    print(
        f"  {rate:9,.0f} requests a second, {spent:.0f} us of the processor for each, "
        f"median {middle:.1f} ms, 99% {late:.1f} ms, {load.wrong} wrong, {load.lost} lost",
        flush=True,
    )
    return rate, spent


def compare_with_fastapi(n_clients: int, seconds: float, n_pairs: int) -> None:
    for kind in ("numbers", "categories"):
        X, y, bodies = make_data(kind)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_models(folder, kind, X, y)
            ours = ("-m", "hedgerow", "serve", str(folder / "ours.hedgerow"), "--port", "0")
            theirs = (str(HERE / "fastapi_lightgbm.py"), str(folder / "theirs.txt"), kind)
            found = []
            for _ in range(n_pairs):
                for what, command in (("hedgerow serve", ours), ("FastAPI, LightGBM", theirs)):
                    print(f"{kind}, {n_clients} clients, {what}")
                    with start_server(*command) as (port, process):
                        found.append(measure(port, process.pid, bodies, n_clients, seconds))
            print_ratios(kind, found, n_pairs)


def print_ratios(kind: str, found: list[tuple[float, float]], n_pairs: int) -> None:
    """Print the medians over the pairs of Hedgerow and its peer."""
    rates, spent = np.array(found).reshape(n_pairs, 2, 2).transpose(2, 1, 0)
    print(
        f"{kind}: {np.median(rates[0] / rates[1]):.1f}x as many requests a second, "
        f"{np.median(spent[1] / spent[0]):.1f}x less of the processor for each"
    )


def compare_with_mlserver(n_clients: int, seconds: float, n_pairs: int, command: str) -> None:
    """Compare both servers on the same requests of the Open Inference Protocol."""
    X, y, _ = make_data("numbers")
    bodies = [inference_request(row) for row in X[:500]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_models(folder, "numbers", X, y)
        ours = ("-m", "hedgerow", "serve", str(folder / "ours.hedgerow"), "--port", "0")
        found = []
        for _ in range(n_pairs):
            print(f"protocol v2, {n_clients} clients, hedgerow serve")
            with start_server(*ours) as (port, process):
                path = "/v2/models/ours/infer"
                found.append(measure(port, process.pid, bodies, n_clients, seconds, path))
            print(f"protocol v2, {n_clients} clients, MLServer, LightGBM")
            with start_mlserver(command, folder / "theirs.txt") as (port, process):
                path = "/v2/models/model/infer"
                found.append(measure(port, process.pid, bodies, n_clients, seconds, path))
        print_ratios("protocol v2", found, n_pairs)


def inference_request(row: np.ndarray) -> bytes:
    """Return the body of a request with one row as one tensor."""
    tensor = {"name": "rows", "shape": [1, len(row)], "datatype": "FP64", "data": row.tolist()}
    return json.dumps({"id": "1", "inputs": [tensor]}).encode()


def resident_mb(process: int) -> float:
    """Return the resident memory of a process in MB."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


def run_with_reloads(n_clients: int, minutes: float) -> None:
    X, y, bodies = make_data("categories")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [folder / "first", folder / "second"]
        answers: list[set[bytes]] = [set() for _ in bodies]
        live = folder / "live.hedgerow"
        for file, n_estimators in zip(files, (100, 60), strict=True):
            params = {**PARAMS, "n_estimators": n_estimators}
            hedgerow.HedgerowRegressor(**params).fit(X, y).save(file)
            shutil.copy(file, live)
            with start_server("-m", "hedgerow", "serve", str(live), "--port", "0") as (port, _):
                for number, body in enumerate(bodies):
                    answers[number].add(send_once(port, body))
        command = ("-m", "hedgerow", "serve", str(live), "--port", "0", "--watch", "0.2")
        with start_server(*command) as (port, process):
            load = Load(bodies, answers)
            uvloop.run(_reload_under_load(load, port, process.pid, files, live, n_clients, minutes))


async def _reload_under_load(
    load: Load, port: int, process: int, files: list[Path], live: Path, n_clients: int,
    minutes: float,
) -> None:  # fmt: skip
    """Replace the served file by each file in turn while clients send requests."""
    seconds = 60 * minutes
    running = asyncio.create_task(load.run(port, n_clients, seconds))
    start, memory, n_replaced = time.perf_counter(), [], 0
    while time.perf_counter() - start < seconds - 1:
        await asyncio.sleep(1.0)
        shutil.copy(files[n_replaced % 2], live.with_suffix(".new"))
        os.replace(live.with_suffix(".new"), live)
        n_replaced += 1
        memory.append(resident_mb(process))
        if n_replaced % 20 == 0:
            print(
                f"  {n_replaced:4d} s  {memory[-1]:.0f} MB  {len(load.seconds):,} answers",
                flush=True,
            )
    rate = await running
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    reloads = re.search(r'reloads_total{outcome="served"} (\S+)', text)
    tenth = len(memory) // 10
    early, late = np.median(memory[tenth : 2 * tenth]), np.median(memory[-tenth:])
    print(
        f"{minutes:g} minutes, {n_clients} clients: {rate:,.0f} requests a second, "
        f"{float(reloads[1]):.0f} reloads, {load.wrong} wrong, {load.lost} lost; "  # type: ignore[index]
        f"memory {early:.0f} MB in the second tenth, {late:.0f} MB in the last"
    )


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument(
        "--mlserver",
        metavar="COMMAND",
        help="command that starts MLServer; compare with it instead",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=0.0,
        help="run a load test with reloads for this many minutes",
    )
    return parser


def main() -> None:
    given = build_parser().parse_args()
    if given.minutes:
        run_with_reloads(given.clients, given.minutes)
    elif given.mlserver:
        compare_with_mlserver(given.clients, given.seconds, given.pairs, given.mlserver)
    else:
        compare_with_fastapi(given.clients, given.seconds, given.pairs)


if __name__ == "__main__":
    main()
