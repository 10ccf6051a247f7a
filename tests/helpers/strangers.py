"""Strangers at the port of a rank, from its own machine, while the ranks of a run join."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hedgerow.comm import connections

_WAIT = 30.0
"""Seconds after which a stranger counts as not refused."""


def _noise(stream: socket.socket, token: bytes, n_ranks: int) -> None:
    stream.sendall(bytes(range(250)))


def _silent(stream: socket.socket, token: bytes, n_ranks: int) -> None:
    pass


def _without_token(stream: socket.socket, token: bytes, n_ranks: int) -> None:
    _say_hello(stream, os.urandom(len(token)), caller=1)


def _with_token(stream: socket.socket, token: bytes, n_ranks: int) -> None:
    """Know the token, but be no rank that is expected."""
    _say_hello(stream, token, caller=n_ranks)


def _say_hello(stream: socket.socket, token: bytes, caller: int) -> None:
    challenge, own = stream.recv(connections._PROOF_BYTES, socket.MSG_WAITALL), os.urandom(32)
    about = struct.pack("<II", caller, 0) + challenge + own
    proof = connections._proof(token, b"call" + about)
    stream.sendall(connections._HELLO.pack(caller, own, proof))


KINDS: Sequence[Callable[[socket.socket, bytes, int], None]] = (
    _noise, _silent, _without_token, _with_token,
)  # fmt: skip
ALL = {kind.__name__ for kind in KINDS} | {"late"}
"""Names of the files of all strangers that were refused."""


@contextmanager
def joined_beside_strangers(
    refused: str, listener: Any, token: bytes, rank: int, addresses: Sequence[str], **options: Any
) -> Iterator[Any]:
    """Join as a rank; on rank 0, strangers come first, and a file tells of each that is refused.

    The folder of the files is ``refused``, the first parameter, so that ``partial`` gives the rest
    the form of :func:`hedgerow.comm.connections.joined`.
    """
    place = connections._ends_of(listener.address)

    def call(kind: Any, stream: socket.socket) -> None:
        with stream:
            try:
                kind(stream, token, len(addresses))
                while answer := stream.recv(64):
                    # The challenge is no answer; an accepted stranger gets a proof after it.
                    if kind.__name__ in ("_without_token", "_with_token"):
                        raise AssertionError(f"{kind.__name__} was answered: {answer!r}")
            except ConnectionError:
                pass
            except TimeoutError:
                return
        Path(refused, kind.__name__).touch()

    threads = []
    for kind in KINDS if rank == 0 else ():
        stream = socket.create_connection(place, timeout=_WAIT)  # it waits in the queue
        threads.append(threading.Thread(target=call, args=(kind, stream), daemon=True))
        threads[-1].start()
    with connections.joined(listener, token, rank, addresses, **options) as ranks:
        for thread in threads:
            thread.join(_WAIT)
        if rank == 0:
            try:
                socket.create_connection(place, timeout=_WAIT).close()
            except OSError:
                Path(refused, "late").touch()
        yield ranks


def refused_strangers(folder: Path) -> set[str]:
    """Return the names of the strangers that were refused."""
    return set(os.listdir(folder))
