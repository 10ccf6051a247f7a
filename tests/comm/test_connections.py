"""Connections of ranks: who may connect, what an error names, and what runs through memory."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.comm import connections, shared_memory
from hedgerow.comm.collectives import Collectives
from hedgerow.comm.connections import TOKEN_BYTES, Listener, Tls, joined
from hedgerow.comm.shared_memory import FOLDER, Box, SharedMemory
from hedgerow.errors import CommunicationError
from tests.helpers.ranks import blocked_address, rank_outcomes, run_ranks

has_memory = pytest.mark.skipif(not os.path.isdir(FOLDER), reason=f"there is no {FOLDER}")


def all_collectives(ranks: Collectives) -> list[Any]:
    """Exchange messages that grow and shrink, some empty; overwrite each after it is sent."""
    rng, found = np.random.default_rng(0), []
    for length in (1, 100_003, 7, 0, 40_000, 300_001, 12):
        everyone = rng.integers(-(2**40), 2**40, (ranks.size, length))
        own = everyone[ranks.rank].copy()
        starts = np.sort(np.append(rng.integers(0, length + 1, ranks.size - 1), [0, length]))
        part = ranks.reduce_scatter(own, starts)
        right = everyone.sum(axis=0)
        np.testing.assert_array_equal(part, right[starts[ranks.rank] : starts[ranks.rank + 1]])
        out = np.empty(len(part), dtype=np.int64)
        assert ranks.reduce_scatter(own, starts, out) is out
        np.testing.assert_array_equal(out, part)
        np.testing.assert_array_equal(ranks.allreduce(own), right)
        np.testing.assert_array_equal(ranks.allreduce(own, "max"), everyone.max(axis=0))
        gathered = ranks.allgather(own.tobytes())
        own[:] = 0
        ranks.barrier()
        assert gathered == [one.tobytes() for one in everyone]
        found.append(part)
    return found


@pytest.mark.fast(3)
@pytest.mark.parametrize("size", [2, 3, 5, 7])
@pytest.mark.parametrize("shares_memory", [False, pytest.param(True, marks=has_memory)])
def test_collectives_give_what_they_should(size: int, shares_memory: bool) -> None:
    run_ranks(size, all_collectives, shares_memory=shares_memory)


@has_memory
@pytest.mark.parametrize("size", [3, 6])
def test_messages_without_space_take_the_connection(monkeypatch: Any, size: int) -> None:
    """A container may have little shared memory; the next small message uses it again."""
    fallocate, n_full = os.posix_fallocate, []

    def full(file: int, start: int, length: int) -> None:
        if length > 1 << 17:
            n_full.append(length)
            raise OSError(errno.ENOSPC, "no space")
        fallocate(file, start, length)

    monkeypatch.setattr(shared_memory.os, "posix_fallocate", full)
    run_ranks(size, all_collectives, shares_memory=True)
    assert n_full


@pytest.mark.parametrize("shares_memory", [False, pytest.param(True, marks=has_memory)])
def test_two_ranks_add_arrays_of_any_length_in_one_exchange(shares_memory: bool) -> None:
    def rank(ranks: Collectives) -> int:
        before = ranks.n_exchanges
        for length in (1, 100_003):
            found = ranks.allreduce(np.arange(length) + ranks.rank)
            np.testing.assert_array_equal(found, 2 * np.arange(length) + 1)
        return ranks.n_exchanges - before

    assert run_ranks(2, rank, shares_memory=shares_memory) == [2, 2]


@has_memory
def test_no_file_is_left_and_no_other_file_is_read(tmp_path: Path) -> None:
    def files() -> set[str]:
        return {name for name in os.listdir(FOLDER) if name.startswith("hedgerow-")}

    def rank(ranks: Collectives) -> set[str]:
        ranks.barrier()
        ranks.barrier()
        return files()

    before = files()
    assert run_ranks(3, rank, shares_memory=True) == [before] * 3

    token = os.urandom(TOKEN_BYTES)
    outbox = Box(token, 1, 2, is_new=True)
    path = outbox._paths[0]
    assert token.hex() not in path
    try:
        with pytest.raises(OSError, match="File exists"):
            Box(token, 1, 2, is_new=True)
        memory = SharedMemory.open(token, 0, 2)
        memory.map_neighbours()
        assert memory.reads(1)
        memory.close()
    finally:
        outbox.close()
    target = tmp_path / "elsewhere"
    target.write_bytes(bytes(8192))
    os.symlink(target, path)
    try:
        with pytest.raises(OSError, match="symbolic links"):
            Box(token, 1, 2, is_new=False)
    finally:
        os.unlink(path)


@has_memory
@pytest.mark.parametrize("size", [2, 5])
def test_a_rank_that_sleeps_is_woken(monkeypatch: Any, size: int) -> None:
    monkeypatch.setattr(connections, "_LOOK_SECONDS", 60.0)  # it does not wake up by itself

    def rank(ranks: Collectives) -> None:
        for late in range(3):
            if ranks.rank == late % 2:
                time.sleep(0.2)
            ranks.barrier()

    began = time.monotonic()
    run_ranks(size, rank, timeout=300.0, shares_memory=True)
    assert time.monotonic() - began < 30.0


@pytest.mark.fast(2)
@pytest.mark.parametrize(
    ("size", "shares_memory"),
    [(8, False), *(pytest.param(k, True, marks=has_memory) for k in (2, 5))],
)
def test_every_rank_names_the_rank_that_stalls(size: int, shares_memory: bool) -> None:
    def rank(ranks: Collectives) -> None:
        ranks.barrier()
        if ranks.rank == 1:  # from now on, however long the ranks took to meet
            time.sleep(2.0)
        ranks.barrier()

    for outcome in rank_outcomes(size, rank, timeout=1.0, shares_memory=shares_memory):
        assert "rank 1 did not answer within 1 s" in str(outcome.error)


@pytest.mark.parametrize("size", [2, 7])
def test_every_rank_names_the_rank_that_is_lost(size: int) -> None:
    def rank(ranks: Any) -> None:
        ranks.barrier()
        if ranks.rank == 1:
            for connection in ranks._transport._connections.values():
                connection.stream.shutdown(socket.SHUT_RDWR)
            time.sleep(0.5)
            raise KeyError("not told to anybody")
        ranks.barrier()

    for number, outcome in enumerate(rank_outcomes(size, rank)):
        if number != 1:
            assert "lost rank 1 at 127.0.0.1:" in str(outcome.error)


def test_a_training_can_be_cancelled() -> None:
    cancelled = threading.Event()

    def rank(ranks: Collectives) -> None:
        if ranks.rank == 1:
            cancelled.set()
            time.sleep(1.0)
        ranks.barrier()

    outcomes = rank_outcomes(2, rank, is_cancelled=cancelled.is_set)
    assert "was cancelled" in str(outcomes[0].error)


def joining(
    token: bytes, listeners: list[Listener], rank: int, found: list[Any], **options: Any
) -> threading.Thread:
    """Start a thread that joins as a rank, calls one collective, and tries its own port then."""

    def run() -> None:
        addresses = [listener.address for listener in listeners]
        try:
            with joined(listeners[rank], token, rank, addresses, **options) as ranks:
                found[rank] = ranks.allgather(bytes([rank]))
                with pytest.raises(OSError, match="refused"):  # nobody listens while ranks work
                    socket.create_connection(("127.0.0.1", int(addresses[rank].split(":")[1])))
        except Exception as error:
            found[rank] = error

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_strangers_have_no_part(monkeypatch: Any) -> None:
    """Silence, noise, another token, and the right one of no rank that is there do no harm."""
    monkeypatch.setattr(connections, "_HANDSHAKE_SECONDS", 0.3)
    token, listeners = os.urandom(TOKEN_BYTES), [Listener("127.0.0.1") for _ in range(2)]
    place = ("127.0.0.1", int(listeners[0].address.split(":")[1]))
    found: list[Any] = [None, None]
    first = joining(token, listeners, 0, found)
    silent = socket.create_connection(place)
    loud = socket.create_connection(place)
    loud.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(100_000))
    for secret, caller in ((bytes(32), 1), (token, 5)):
        with pytest.raises((OSError, EOFError)):
            connections._call(place, "127.0.0.1", secret, caller, 0, time.monotonic() + 5, None)
    second = joining(token, listeners, 1, found)
    first.join(30)
    second.join(30)
    assert found == [[b"\0", b"\1"]] * 2
    for stranger in (silent, loud):
        stranger.close()


def test_a_rank_does_not_talk_to_who_does_not_know_the_token() -> None:
    listeners = [Listener("127.0.0.1") for _ in range(2)]
    found: list[Any] = [None, None]
    threads = [
        joining(bytes([rank]) * 32, listeners, rank, found, connect_timeout=2.0)
        for rank in range(2)
    ]
    for thread in threads:
        thread.join(30)
    assert "rank 0 at 127.0.0.1" in str(found[0])
    assert "has no connection from rank 1 at 127.0.0.1" in str(found[0])
    assert "rank 1 cannot connect to rank 0 at 127.0.0.1" in str(found[1])


def test_other_callers_with_the_token_are_not_heard() -> None:
    listeners = [Listener("127.0.0.1") for _ in range(2)]
    found: list[Any] = [None, None]
    thread = joining(bytes(32), listeners, 0, found, connect_timeout=2.0)
    place = ("127.0.0.1", int(listeners[0].address.split(":")[1]))
    for host, rank in (("127.0.0.2", 1), ("127.0.0.1", 5)):  # right token, wrong address or rank
        with pytest.raises((OSError, EOFError)):
            connections._call(place, host, bytes(32), rank, 0, time.monotonic() + 5, None)
    thread.join(30)
    assert "has no connection from rank 1" in str(found[0])
    listeners[1].close()


def test_a_port_at_which_nobody_listens_is_named(monkeypatch: Any) -> None:
    listeners = [Listener("127.0.0.1") for _ in range(2)]
    listeners[0].close()
    found: list[Any] = [None, None]
    joining(bytes(32), listeners, 1, found, connect_timeout=2.0).join(30)
    assert isinstance(found[1], CommunicationError)
    assert f"cannot connect to rank 0 at {listeners[0].address}" in str(found[1])
    assert "is the port blocked" in str(found[1])

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv(connections.PORTS, f"{port}-{port}")
        with pytest.raises(CommunicationError, match=f"no rank can listen .* ports {port} to"):
            Listener("127.0.0.1")
    monkeypatch.setenv(connections.PORTS, "all")
    with pytest.raises(CommunicationError, match="'all' is not a range of ports"):
        Listener("127.0.0.1")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse callers of a full queue")
def test_a_blocked_port_is_named_in_time() -> None:
    """Rank 0 listens, but no message arrives at its port."""
    found: list[Any] = [None] * 3
    began = time.monotonic()
    with blocked_address() as blocked:
        listeners = [Listener("127.0.0.1") for _ in found]
        listeners[0].address = blocked
        threads = [
            joining(bytes(32), listeners, rank, found, connect_timeout=2.0) for rank in range(3)
        ]
        for thread in threads:
            thread.join(30)
    assert time.monotonic() < began + 10.0
    assert f"rank 0 at {blocked} has no connection from rank 1 at {listeners[1].address}" in str(
        found[0]
    )
    for rank in (1, 2):
        assert f"rank {rank} cannot connect to rank 0 at {blocked} (timed out)" in str(found[rank])
        assert "is the port blocked" in str(found[rank])


def test_connections_may_be_encrypted(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=rank"
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cafile=str(certificate))
    client.check_hostname = False
    run_ranks(3, all_collectives, tls=Tls(server, client))
