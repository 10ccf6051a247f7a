"""The server as a process that answers HTTP requests."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("starlette", reason="needs hedgerow[serve]")
pytest.importorskip("uvicorn", reason="needs hedgerow[serve]")
pytest.importorskip("prometheus_client", reason="needs hedgerow[serve]")

import hedgerow
from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor, train
from hedgerow.cli.main import main
from tests.helpers.clocks import wait_until
from tests.helpers.servers import Server, ask, records, rows, serving

LABELS = np.array(["no", "perhaps", "yes"])


def make_classifier(n_estimators: int = 10) -> HedgerowClassifier:
    X = rows()
    score = np.nan_to_num(X["size"]) + (X["city"] == "Oslo") + X["age"] / 40
    y = LABELS[np.digitize(score, [1.2, 2.2])]
    return HedgerowClassifier(n_estimators=n_estimators, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def classifier() -> HedgerowClassifier:
    return make_classifier()


@pytest.fixture(scope="module")
def path(classifier, tmp_path_factory) -> Path:
    found = tmp_path_factory.mktemp("served") / "income.hedgerow"
    classifier.save(found)
    return found


@pytest.fixture(scope="module")
def server(path):
    with serving(path) as found:
        yield found


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """Start a server of a model with unnamed numeric columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    booster = train({"n_estimators": 10}, Dataset(X, X[:, 0] + X[:, 1]))
    found = tmp_path_factory.mktemp("numbers") / "numbers.hedgerow"
    booster.save(found)
    with serving(found, "--name", "plain") as server:
        yield booster, X, server


# -- answers --------------------------------------------------------------------------


def test_records_have_the_predictions_of_the_model(server, classifier) -> None:
    X = rows()
    for n in (1, 3, 32, 33, 400):
        for kind, predict in (
            ("value", classifier.predict),
            ("probability", classifier.predict_proba),
            ("raw", classifier.decision_function),
        ):
            status, found = server.ask("POST", "/predict", {"records": records()[:n], "kind": kind})
            assert status == 200, found
            assert found["model"] == "income"
            assert found["predictions"] == predict(X.head(n)).tolist()
            known = {"probability": classifier.classes_.tolist()}.get(kind)
            assert found.get("classes") == known
    ordered = [list(row.values()) for row in records()[:5]]
    status, found = server.ask("POST", "/predict", {"records": ordered})
    assert found["predictions"] == classifier.predict(X.head(5)).tolist()


def test_explanations_add_up(server, classifier) -> None:
    body = {"records": records()[:3], "kind": "raw", "explain": True}
    status, found = server.ask("POST", "/predict", body)
    assert status == 200
    for raw, by_output in zip(found["predictions"], found["explanations"], strict=True):
        for score, label in zip(raw, classifier.classes_, strict=True):
            part = by_output[label]
            assert set(part["contributions"]) == {"size", "age", "city"}
            total = part["base_value"] + sum(part["contributions"].values())
            assert total == pytest.approx(score, abs=1e-9)


def test_the_protocol_of_open_inference(server, classifier) -> None:
    assert server.ask("GET", "/v2/health/live") == (200, "")
    assert server.ask("GET", "/v2/health/ready") == (200, "")
    status, about = server.ask("GET", "/v2")
    assert about == {"name": "hedgerow", "version": hedgerow.__version__, "extensions": []}
    status, about = server.ask("GET", "/v2/models/income")
    (version,) = about["versions"]
    assert about["platform"] == "hedgerow"
    assert about["inputs"] == [
        {"name": "size", "datatype": "FP64", "shape": [-1]},
        {"name": "age", "datatype": "INT64", "shape": [-1]},
        {"name": "city", "datatype": "BYTES", "shape": [-1]},
    ]
    assert about["outputs"] == [
        {"name": "prediction", "shape": [-1], "datatype": "BYTES"},
        {"name": "probability", "shape": [-1, 3], "datatype": "FP64"},
    ]
    for path in ("/v2/models/income/ready", f"/v2/models/income/versions/{version}/ready"):
        assert server.ask("GET", path) == (200, "")
    X = rows().head(5)
    table = records()[:5]
    inputs = [
        {"name": "city", "shape": [5, 1], "datatype": "BYTES", "data": [r["city"] for r in table]},
        {"name": "size", "shape": [5], "datatype": "FP64", "data": [r["size"] for r in table]},
        {"name": "age", "shape": [5], "datatype": "INT64", "data": [r["age"] for r in table]},
    ]
    body = {"id": "seven", "inputs": inputs}
    status, found = server.ask("POST", f"/v2/models/income/versions/{version}/infer", body)
    assert status == 200, found
    names = ("model_name", "model_version", "id")
    assert [found[name] for name in names] == ["income", version, "seven"]
    value, probability = found["outputs"]
    assert value == {
        "name": "prediction", "shape": [5], "datatype": "BYTES",
        "data": classifier.predict(X).tolist(),
    }  # fmt: skip
    assert probability["shape"] == [5, 3]
    assert probability["data"] == classifier.predict_proba(X).reshape(-1).tolist()
    params = [{"name": name} for name in ("contributions", "base_value", "raw", "classes")]
    status, found = server.ask("POST", "/v2/models/income/infer", {**body, "outputs": params})
    values, base, raw, classes = (np.reshape(o["data"], o["shape"]) for o in found["outputs"])
    assert classes.tolist() == classifier.classes_.tolist()
    assert values.shape == (5, 3, 3)
    np.testing.assert_allclose(values.sum(axis=1) + base, raw, atol=1e-9)


def test_one_tensor_for_all_columns(numbers) -> None:
    booster, X, server = numbers
    status, about = server.ask("GET", "/v2/models/plain")
    assert about["inputs"] == [{"name": "X", "datatype": "FP64", "shape": [-1, 4]}]
    expected = booster.predict(X[:6]).tolist()
    for data in (X[:6].tolist(), X[:6].reshape(-1).tolist()):
        tensor = {"name": "any", "shape": [6, 4], "datatype": "FP64", "data": data}
        status, found = server.ask("POST", "/v2/models/plain/infer", {"inputs": [tensor]})
        assert status == 200, found
        assert found["outputs"][0]["data"] == expected
    single = X[:6].astype(np.float32).astype(float)
    tensor = {"name": "X", "shape": [6, 4], "datatype": "FP32", "data": X[:6].tolist()}
    status, found = server.ask("POST", "/v2/models/plain/infer", {"inputs": [tensor]})
    assert found["outputs"][0]["data"] == booster.predict(single).tolist()
    shuffled = [{f"x{j}": row[j] for j in (3, 1, 0, 2)} for row in X[:6].tolist()]
    status, found = server.ask("POST", "/predict", {"records": shuffled})
    assert found["predictions"] == expected


def test_dates_are_text_and_durations_microseconds(tmp_path) -> None:
    days = np.arange(200)
    X = pd.DataFrame(
        {
            "when": pd.Timestamp("2026-01-01") + pd.to_timedelta(days, unit="D"),
            "span": pd.to_timedelta(days % 7, unit="h"),
        }
    )
    model = HedgerowRegressor(n_estimators=5, early_stopping=False).fit(X, days % 7 + days / 9)
    model.save(tmp_path / "dates.hedgerow")
    expected = model.predict(X[:3]).tolist()
    texts, ticks = X.when[:3].astype(str).tolist(), [0, 3_600_000_000, 7_200_000_000]
    with serving(tmp_path / "dates.hedgerow") as server:
        rows = [list(row) for row in zip(texts, ticks, strict=True)]
        assert server.ask("POST", "/predict", {"records": rows})[1]["predictions"] == expected
        _, about = server.ask("GET", "/v2/models/dates")
        assert [each["datatype"] for each in about["inputs"]] == ["BYTES", "INT64"]
        inputs = [
            {"name": "when", "shape": [3], "datatype": "BYTES", "data": texts},
            {"name": "span", "shape": [3], "datatype": "INT64", "data": ticks},
        ]
        _, found = server.ask("POST", "/v2/models/dates/infer", {"inputs": inputs})
        assert found["outputs"][0]["data"] == expected
        wrong = {"records": [{"when": 20_454, "span": None}]}
        status, answer = server.ask("POST", "/predict", wrong)
        assert status == 400
        assert "'when' holds numbers, but held dates" in answer["error"]


def test_offsets_are_columns_of_records(tmp_path) -> None:
    X = rows()
    y = np.random.default_rng(0).poisson(1.0, len(X))
    booster = train({"objective": "poisson", "n_estimators": 5}, Dataset(X, y, offset="age"))
    booster.save(tmp_path / "counts.hedgerow")
    expected = booster.predict(X.head(3)).tolist()
    with serving(tmp_path / "counts.hedgerow") as server:
        status, found = server.ask("POST", "/predict", {"records": records()[:3]})
        assert (status, found["predictions"]) == (200, expected)
        about = server.ask("GET", "/v2/models/counts")[1]
        assert about["inputs"][-1] == {"name": "age", "datatype": "FP64", "shape": [-1]}


def test_metrics_are_counted(server) -> None:
    body = {"records": [{**records()[0], "city": "Atlantis"}]}

    def count(text: str, start: str) -> float:
        (line,) = [line for line in text.splitlines() if line.startswith(start)]
        return float(line.split()[-1])

    params = 'hedgerow_requests_total{route="predict",status="200"}'
    server.ask("POST", "/predict", body)
    before = server.ask("GET", "/metrics")[1]
    server.ask("POST", "/predict", body)
    after = server.ask("GET", "/metrics")[1]
    for start in (params, "hedgerow_rows_total", 'hedgerow_unseen_categories{column="city"}'):
        assert count(after, start) == count(before, start) + 1
    assert 'hedgerow_model_info{name="income"' in after
    assert "hedgerow_request_seconds_bucket" in after


# -- what is wrong --------------------------------------------------------------------

GOOD = {"size": 1.0, "age": 30, "city": "Oslo"}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "not JSON"),
        (b"{", 400, "not JSON"),
        (b"\xff\xfe{}", 400, "not JSON"),
        (b"[" * 100_000, 400, "deep"),
        (b'{"records": [[' + b"9" * 5000 + b"]]}", 400, "not JSON"),
        (b'{"records": [{"size": NaN, "age": 1, "city": "Oslo"}]}', 400, "null"),
        (b'{"records": [{"size": -1e999, "age": 1, "city": "Oslo"}]}', 400, "float64"),
        (b'{"records": [[' + b"9" * 400 + b'.5, 1, "Oslo"]]}', 400, "float64"),
        (b'{"records": [{"size": 1, "\\u0073ize": 2, "age": 1, "city": "Oslo"}]}', 400, "'size'"),
        (b'{"records": [], "records": [[1.0, 1, "Oslo"]]}', 400, "more than once"),
        ([], 400, "object"),
        ({}, 400, "records"),
        ({"records": []}, 400, "at least one"),
        ({"records": {}}, 400, "list"),
        ({"records": [3]}, 400, "object or a list"),
        ({"records": [GOOD, [1, 2, 3]]}, 400, "record 1"),
        ({"records": [GOOD], "model": "/etc/passwd"}, 400, "'model'"),
        ({"records": [GOOD], "kind": "leaf"}, 400, "kind"),
        ({"records": [GOOD], "explain": 1}, 400, "explain"),
        ({"records": [{"size": 1.0, "age": 30}]}, 400, "city"),
        ({"records": [{**GOOD, "colour": 1}]}, 400, "colour"),
        ({"records": [{**GOOD, "size": "large"}]}, 400, "'size'"),
        ({"records": [GOOD, {**GOOD, "city": 3}]}, 400, "record 1: column 'city'"),
        ({"records": [{**GOOD, "age": [1]}]}, 400, "'age'"),
        ({"records": [{**GOOD, "age": {"a": 1}}]}, 400, "'age'"),
        ({"records": [{**GOOD, "age": 2**70}]}, 400, "'age'"),
        ({"records": [GOOD] * 40 + [{**GOOD, "size": "x"}]}, 400, "'size'"),
        ({"records": [GOOD] * 10_001}, 413, "10001 records"),
    ],
)
def test_bad_records_are_answered_by_what_is_wrong(server, body, status, words) -> None:
    found = server.ask("POST", "/predict", body)
    assert found[0] == status
    assert words in found[1]["error"]


def tensor(**more) -> dict:
    return {"name": "size", "shape": [1], "datatype": "FP64", "data": [1.0], **more}


OTHERS = [
    {"name": "age", "shape": [1], "datatype": "INT64", "data": [30]},
    {"name": "city", "shape": [1], "datatype": "BYTES", "data": ["Oslo"]},
]


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (None, "inputs"),
        ([], "inputs"),
        ([3], "input 0"),
        ([{}], "name"),
        ([tensor(shape=[-1])], "shape"),
        ([tensor(shape=[1, 1, 1])], "shape"),
        ([tensor(shape=[True])], "shape"),
        ([tensor(shape=[10**9])], "rows"),
        ([tensor(shape=[2])], "'size' has 1 values"),
        ([tensor(shape=[1, 1], data=[[1.0, 2.0]])], "'size'"),
        ([tensor(data="x")], "'size'"),
        ([tensor(data=["x"])], "'size' is FP64, but contains a str"),
        ([tensor(data=[True])], "contains a bool"),
        ([tensor(datatype="FP128")], "FP128"),
        ([tensor(datatype="INT8", data=[300])], "300"),
        ([tensor(datatype="INT8", data=[1.5])], "contains a float"),
        ([tensor(datatype="FP32", data=[10**400])], "contains an integer that no FP32 can hold"),
        ([tensor(file="/etc/passwd")], "'file'"),
        ([tensor()], "age"),
        ([tensor(), tensor()], "twice"),
        ([tensor(), *OTHERS, {**OTHERS[0], "name": "more"}], "more"),
        ([tensor(shape=[2], data=[1.0, 2.0]), *OTHERS], "shape"),
        ([tensor(datatype="BYTES", data=["x"]), *OTHERS], "'size'"),
    ],
)
def test_bad_tensors_are_answered_by_what_is_wrong(server, inputs, words) -> None:
    status, found = server.ask("POST", "/v2/models/income/infer", {"inputs": inputs})
    assert status in (400, 413), found
    assert words in found["error"]


@pytest.mark.parametrize(
    ("method", "address", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/predict", 405),
        ("POST", "/v2/models/other/infer", 404),
        ("GET", "/v2/models/other", 404),
        ("GET", "/v2/models/income/versions/0/ready", 404),
        ("GET", "/v2/models/..%2f..%2fetc%2fpasswd", 404),
        *((method, f"{path}/", 404) for method in ("GET", "POST") for path in ("/predict", "/v2")),
    ],
)
def test_other_addresses(server, method, address, status) -> None:
    found = server.ask(method, address)
    assert found[0] == status
    assert found[1]["error"]


def test_binary_tensors_are_refused(server) -> None:
    status, found = server.ask(
        "POST", "/v2/models/income/infer", b"{}\0", {"Inference-Header-Content-Length": "2"}
    )
    assert status == 400
    assert "JSON" in found["error"]


# -- limits ---------------------------------------------------------------------------


def test_limits(path) -> None:
    options = ("--max-body", "2000", "--max-rows", "5", "--max-seconds", "1")
    with serving(path, *options, "--max-connections", "12") as server:
        assert server.ask("POST", "/predict", {"records": [GOOD] * 5})[0] == 200
        assert server.ask("POST", "/predict", {"records": [GOOD] * 6})[0] == 413
        status, found = server.ask("POST", "/predict", b" " * 2001)
        assert (status, "2001 bytes" in found["error"]) == (413, True)

        def parts():
            for _ in range(30):
                yield b" " * 100

        connection = server.connect()
        connection.request("POST", "/predict", parts(), encode_chunked=True)
        assert connection.getresponse().status == 413
        connection.close()
        # A body that never comes.
        start = time.monotonic()
        with socket.create_connection((server.host, server.port), 30) as raw:
            raw.sendall(b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
            answer = raw.recv(4096)
        assert b" 408 " in answer.split(b"\r\n")[0]
        assert time.monotonic() - start < 20
        assert server.ask("GET", "/v2/health/live")[0] == 200

        # Clients that send parts of heads, or nothing, lock nobody out for longer than the limit.
        answered = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"
        part = b"GET /v2/health/live HTTP/1.1\r\nX: "
        address = (server.host, server.port)
        clients = [socket.create_connection(address, 30) for _ in range(12)]
        for number, client in enumerate(clients):
            client.setblocking(False)
            client.sendall((b"", part, answered + part)[number % 3])
        open_ones = {client for number, client in enumerate(clients) if number % 3}

        def all_are_closed() -> bool:
            for client in list(open_ones):
                try:
                    client.sendall(b"x")  # each byte comes in time, the head does not
                    if client.recv(4096) == b"":
                        open_ones.discard(client)
                except BlockingIOError:
                    pass
                except OSError:
                    open_ones.discard(client)
            return not open_ones

        wait_until(all_are_closed)
        wait_until(lambda: server.ask("GET", "/v2/health/live")[0] == 200)
        for client in clients:
            client.close()


class _Sent:
    """A request as the service reads it."""

    headers: ClassVar[dict[str, str]] = {}

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def stream(self):
        yield self.body


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"records": [[1.0, 30, "Oslo"]], "\\u0065xplain": false}', 200),
        (b'{"records": [[1.0, 30, "Oslo"]], "\\u0065xplain": true}', 503),
        (b'{"records": [' + b",".join([b'[1,2,"a"]'] * 33) + b"]}", 503),
        (b'{"records": [[1.0, 30, "explain"]]}', 200),
    ],
)
def test_what_the_event_loop_answers(path, body, status, monkeypatch) -> None:
    """Few rows; with all threads busy, explanations and more rows, however written, wait."""
    from hedgerow.serving.app import Service
    from hedgerow.serving.records import read_records
    from hedgerow.serving.requests import RequestError, Settings
    from hedgerow.serving.slot import ModelSlot

    slot = ModelSlot(str(path), "income")
    service = Service(Settings(str(path)), slot)
    monkeypatch.setattr(service.workers, "submit", lambda *_: None)

    async def status_of_answer() -> int:
        try:
            return (await service._answer(_Sent(body), slot.model, read_records)).status
        except RequestError as error:
            return error.status

    assert asyncio.run(status_of_answer()) == status
    service.workers.close()


@pytest.fixture(scope="module")
def slow_path(tmp_path_factory) -> Path:
    """Return the path of a model whose explanations take long."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 20))
    params = {"n_estimators": 200, "max_leaves": 64, "linear_leaves": False}
    booster = train(params, Dataset(X, X[:, 0] * X[:, 1] + rng.normal(size=4000)))
    found = tmp_path_factory.mktemp("slow") / "slow.hedgerow"
    booster.save(found)
    return found


def slow_body(n: int = 3000) -> dict:
    """Return a request body that is fast to read but slow to answer."""
    X = np.random.default_rng(0).integers(-4, 5, size=(n, 20))
    return {"records": X.tolist(), "explain": True}


def test_queues_that_are_full(slow_path) -> None:
    options = ("--max-seconds", "600", "--threads", "1", "--max-queue", "1")
    body = json.dumps(slow_body())
    seen = set()

    def ask_until_full() -> None:
        for _ in range(20):
            if 503 in seen:
                break
            seen.add(server.ask("POST", "/predict", body)[0])

    with serving(slow_path, *options) as server, ThreadPoolExecutor(3) as pool:
        tasks = [pool.submit(ask_until_full) for _ in range(3)]
        wait_until(lambda: 503 in seen or all(task.done() for task in tasks))
        # Small requests pass by meanwhile.
        assert server.ask("POST", "/predict", {"records": slow_body(1)["records"]})[0] == 200
        for task in tasks:
            task.result()
    assert seen == {200, 503}


def test_requests_that_take_too_long(slow_path) -> None:
    options = ("--max-seconds", "0.1", "--threads", "1", "--max-queue", "1")
    body = json.dumps(slow_body())
    seen = set()

    def answers(content: object, status: int) -> bool:
        answered = server.ask("POST", "/predict", content)[0]
        seen.add(answered)
        return answered == status

    with serving(slow_path, *options) as server:
        wait_until(lambda: answers(body, 504))
        wait_until(lambda: answers({"records": slow_body(1)["records"]}, 200))
    # 408: on a busy machine, the body alone may take too long.  503: others still wait.
    assert seen <= {200, 408, 503, 504}


# -- token ----------------------------------------------------------------------------


def test_a_token_is_required(path, tmp_path) -> None:
    token = "correct horse battery staple"
    (tmp_path / "token").write_text(token + "\n")
    with serving(path, "--token-file", str(tmp_path / "token")) as server:
        for path_ in ("/metrics", "/v2", "/v2/models/income"):
            assert server.ask("GET", path_)[0] == 401
        wrong = ("", "Bearer", "Bearer wrong", f"Basic {token}", f"Bearer {token}x", "Bearer é")
        for sent in wrong:
            headers = {"Authorization": sent.encode("latin-1")}
            status, found = server.ask("POST", "/predict", {"records": [GOOD]}, headers)
            assert status == 401, sent
            assert "token" in found["error"]
        headers = {"Authorization": f"Bearer {token}"}
        assert server.ask("POST", "/predict", {"records": [GOOD]}, headers)[0] == 200
        assert server.ask("GET", "/v2/health/ready")[0] == 200


def test_what_cannot_be_served(path, tmp_path, capsys) -> None:
    (tmp_path / "bad").write_bytes(b"no model")
    for arguments, words in (
        ((str(tmp_path / "absent"),), "absent"),
        ((str(tmp_path / "bad"),), "bad"),
        ((str(path), "--port", "99999"), "port"),
    ):
        assert main(["serve", *arguments]) == 2
        assert words in capsys.readouterr().err


def test_what_is_refused_before_a_server_listens(path) -> None:
    # One process, as each takes a second to load the libraries.
    program = (
        "import os, sys; from hedgerow.cli.main import main\n"
        "path, port = sys.argv[1:]\n"
        "print(main(['serve', path, '--max-rows', '0']))\n"
        "print(main(['serve', path, '--port', port]))\n"
        "os.environ['HEDGEROW_TOKEN'] = 'short'\n"
        "print(main(['serve', path]))\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = subprocess.run(
            [sys.executable, "-c", program, str(path), str(taken.getsockname()[1])],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    assert found.stdout.split() == ["2", "2", "2"], found
    of_rows, of_port, of_token = found.stderr.splitlines()
    assert "rows" in of_rows
    assert "address" in of_port.lower()
    assert "16 characters" in of_token


# -- many at once, reloads, the end ---------------------------------------------------


def replace(source: Path, target: Path) -> None:
    shutil.copy(source, target.with_suffix(".new"))
    os.replace(target.with_suffix(".new"), target)


def hammer(
    server: Server, bodies: list, answers: list[dict], stop: threading.Event, lost: list
) -> int:
    """Send requests until stopped, and record answers that are not expected."""
    connection = server.connect()
    n_requests = 0
    for k in itertools.count():
        if stop.is_set():
            break
        at = k % len(bodies)
        try:
            status, found = ask(connection, "POST", "/predict", bodies[at])
        except OSError as error:
            lost.append(repr(error))
            connection = server.connect()
            continue
        right = status == 200 and any(
            found["version"] == one["version"] and found["predictions"] == one["predictions"][at]
            for one in answers
        )
        if not right:
            lost.append((status, found))
        n_requests += 1
    connection.close()
    return n_requests


def right_answers(path: Path, bodies: list) -> dict:
    from hedgerow.serving.slot import read_model

    model = read_model(str(path), "any")
    ask_one = model.booster.predict_one
    return {
        "version": model.version,
        "predictions": [[ask_one(row).item() for row in body["records"]] for body in bodies],
    }


def test_reloads_under_load_lose_nothing(path, tmp_path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    shutil.copy(path, first)
    make_classifier(30).save(second)
    live = tmp_path / "live.hedgerow"
    shutil.copy(first, live)
    bodies = [{"records": records()[k : k + 1 + k % 3]} for k in range(40)]
    answers = [right_answers(first, bodies), right_answers(second, bodies)]
    stop, lost = threading.Event(), []
    with serving(live, "--watch", "0.05") as server, ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(hammer, server, bodies, answers, stop, lost) for _ in range(8)]
        try:
            for k in range(7):
                replace((second, first)[k % 2], live)
                if k % 3 == 0:
                    server.process.send_signal(signal.SIGHUP)
                time.sleep(0.2)
        finally:
            stop.set()
        total = sum(one.result() for one in futures)
        assert not lost, lost[:3]
        assert total > 50
        text = server.ask("GET", "/metrics")[1]
        assert float(re.search(r'reloads_total{outcome="served"} (\S+)', text)[1]) >= 3


def test_a_file_that_is_no_model_changes_nothing(path, tmp_path) -> None:
    live = tmp_path / "income.hedgerow"
    shutil.copy(path, live)
    with serving(live, "--watch", "0.05") as server:
        before = server.ask("POST", "/predict", {"records": [GOOD]})

        def refused() -> bool:
            text = server.ask("GET", "/metrics")[1]
            return float(re.search(r'outcome="refused"} (\S+)', text)[1]) >= 1

        live.write_bytes(b"no model")
        wait_until(refused)
        assert server.ask("POST", "/predict", {"records": [GOOD]}) == before
        live.unlink()
        time.sleep(0.2)
        assert server.ask("POST", "/predict", {"records": [GOOD]}) == before
        make_classifier(5).save(live)
        wait_until(
            lambda: (
                server.ask("POST", "/predict", {"records": [GOOD]})[1]["version"]
                != before[1]["version"]
            )
        )


def test_running_requests_of_any_machine_are_answered_before_the_end(slow_path) -> None:
    with serving(slow_path, "--max-seconds", "60", "--host", "0.0.0.0") as server:
        assert any("no token" in line for line in server.lines)  # other machines may ask
        body = json.dumps(slow_body(700))

        def pending() -> bool:
            text = server.ask("GET", "/metrics")[1]
            return float(re.search(r"\nhedgerow_pending (\S+)", text)[1]) >= 3

        with ThreadPoolExecutor(3) as pool:
            futures = [pool.submit(server.ask, "POST", "/predict", body) for _ in range(3)]
            wait_until(pending)
            assert server.stop(signal.SIGTERM) == 0
            for one in futures:
                status, found = one.result()
                assert status == 200
                assert len(found["explanations"]) == 700
        with pytest.raises(OSError, match=r"refused|reset"):
            server.ask("GET", "/v2/health/live")
