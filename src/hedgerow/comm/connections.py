"""Ranks in processes of one or several machines, which communicate over TCP and shared memory.

An engine (Dask, Spark) only starts the ranks and tells them the addresses::

    listener = Listener(host)                  on each rank; its address goes to the engine
    with joined(listener, token, rank, addresses) as ranks:
        ranks.allreduce(...)

``token`` are 32 random bytes of one attempt of one training, on all ranks.  A rank accepts
connections only from hosts in ``addresses``.  Both ends of a connection prove that they know the
token, without sending it, before anything else is read.  Messages are numbers and bytes; nothing
is unpickled.  Messages are not encrypted unless the engine gives TLS contexts.

Only ranks that exchange messages (:func:`hedgerow.comm.collectives.neighbours`) are connected.  The
thread of a rank sends and receives itself, while it waits in a collective.  A rank that
ends without saying so closes its connections: its neighbours see that at once, and each
rank that gives up tells its neighbours the reason.  Ranks of one machine send messages through
shared memory (:mod:`hedgerow.comm.shared_memory`), and wake each other and give up by TCP.
"""

from __future__ import annotations

import hmac
import os
import secrets
import selectors
import socket
import ssl
import struct
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from hedgerow.comm.collectives import Call, Collectives, Kind, Message, Payload, neighbours
from hedgerow.comm.shared_memory import SharedMemory
from hedgerow.errors import CommunicationError

DEFAULT_TIMEOUT = 300.0
"""Seconds without an answer after which a rank counts as lost: longer than a first
compilation or a pass over a large part of the rows."""

TOKEN_BYTES = 32
PORTS = "HEDGEROW_PORTS"
"""Environment variable with the ports for ranks, ``first-last``; by default any free port."""

_MAGIC = b"HGR3"
_HEADER = struct.Struct("<4sB3xQQQII")
_KINDS = frozenset(map(int, Kind))
_PROOF_BYTES = 32
_HELLO = struct.Struct("<I32s32s")
_HANDSHAKE_SECONDS = 3.0
"""Limit of the time in which a new connection must prove that it knows the token."""

_LOOK_SECONDS = 0.5
"""Interval in seconds of checks whether the training was cancelled."""

_LAST_SECONDS = 1.0
"""Limit of the time in which announcements of a rank that ends are sent and read."""

_BLOCKED = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Tls(NamedTuple):
    """Contexts for encrypted connections."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class Listener:
    """A port at which other ranks connect to this rank."""

    def __init__(self, host: str) -> None:
        first, _, last = os.environ.get(PORTS, "0").partition("-")
        try:
            ports = range(int(first), int(last or first) + 1)
        except ValueError:
            raise CommunicationError(
                f"{PORTS}={os.environ[PORTS]!r} is not a range of ports such as 9000-9100"
            ) from None
        reason: OSError | None = None
        for port in ports:
            try:
                family = socket.AF_INET6 if ":" in host else socket.AF_INET
                self.socket = socket.create_server((host, port), family=family, backlog=128)
                break
            except OSError as error:
                reason = error
        else:
            raise CommunicationError(
                f"no rank can listen at {host}, ports {first} to {last or first}: {reason}"
            )
        self.address = f"{host}:{self.socket.getsockname()[1]}"

    def close(self) -> None:
        """Close the port; connections stay open."""
        self.socket.close()


class _Connection:
    """A connection to one rank; frames are read and written as far as possible without waiting."""

    def __init__(self, rank: int, address: str, stream: socket.socket) -> None:
        self.rank, self.address, self.stream = rank, address, stream
        stream.setblocking(False)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frames: deque[tuple[int, Call, Payload]] = deque()
        self.unsent: deque[memoryview] = deque()
        self.has_left = False
        self.is_open = True
        self.waits_for: int | None = None
        self._header: tuple[int, int, int, int] | None = None
        self._checksum = 0
        self._content, self._rest = bytearray(), memoryview(b"")
        self._expect(_HEADER.size)

    def send(self, call: Call, sequence: int, payload: Payload) -> None:
        """Start to send a message, whose payload must not change before ``unsent`` is empty."""
        fields = _HEADER.pack(
            _MAGIC, call.kind, sequence, call.agreed, len(payload), zlib.crc32(payload), 0
        )[:-4]
        self.unsent.append(memoryview(fields + struct.pack("<I", zlib.crc32(fields))))
        if len(payload):
            self.unsent.append(memoryview(payload))
        self.write()

    def write(self) -> None:
        """Send what can be sent now."""
        try:
            while self.unsent:
                part = self.unsent[0]
                n_sent = self.stream.send(part)
                if n_sent == len(part):
                    self.unsent.popleft()
                else:
                    self.unsent[0] = part[n_sent:]
        except _BLOCKED:
            return
        except OSError as error:
            self.unsent.clear()
            self.read()  # the rank may have said why it ended
            if not self.has_left:
                raise self._lost(error) from error

    def read(self) -> None:
        """Read what has arrived; raise if the rank has given up or is lost."""
        try:
            while self.is_open:
                n_read = self.stream.recv_into(self._rest)
                if not n_read:
                    self.is_open = False
                    if not self.has_left:
                        raise self._lost("the connection was closed")
                self._rest = self._rest[n_read:]
                while not self._rest and self.is_open:
                    self._take()
        except _BLOCKED:
            return
        except OSError as error:
            self.is_open = False
            if not self.has_left:
                raise self._lost(error) from error

    def _expect(self, n_bytes: int) -> None:
        self._content = bytearray(n_bytes)
        self._rest = memoryview(self._content)

    def _take(self) -> None:
        """Take a complete header or payload."""
        content = self._content
        if self._header is None:
            self._header = self._opened(content)
            self._expect(self._header[3])
            return
        kind, sequence, agreed, _ = self._header
        if zlib.crc32(content) != self._checksum:
            raise CommunicationError(
                f"message {sequence} of rank {self.rank} is damaged: its checksum is wrong"
            )
        self._header = None
        self._expect(_HEADER.size)
        if kind == Kind.ABORT:
            raise CommunicationError(content.decode("utf-8", "replace"))
        if kind == Kind.LEAVE:
            self.has_left = True
        elif kind == Kind.WAITING:
            self.waits_for = int(content)
        elif kind != Kind.WAKE:
            self.frames.append((sequence, Call(Kind(kind), agreed), content))

    def _opened(self, header: bytearray) -> tuple[int, int, int, int]:
        magic, kind, sequence, agreed, length, self._checksum, own = _HEADER.unpack(header)
        if own != zlib.crc32(header[:-4]):
            raise CommunicationError(
                f"the header of a message of rank {self.rank} is damaged: its checksum is wrong"
            )
        if magic != _MAGIC or kind not in _KINDS:
            raise CommunicationError(
                f"a message of rank {self.rank} does not have the header of this version of "
                "hedgerow: install the same version on all ranks"
            )
        return kind, sequence, agreed, length

    def _lost(self, reason: object) -> CommunicationError:
        return CommunicationError(f"lost rank {self.rank} at {self.address}: {reason}")


class _Transport:
    """The connections and the shared memory of one rank, used from its thread."""

    def __init__(
        self,
        rank: int,
        size: int,
        connections: Mapping[int, _Connection],
        timeout: float,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self.rank, self.size = rank, size
        self.memory = SharedMemory(None, b"", rank, size)
        self._connections, self._timeout, self._is_cancelled = connections, timeout, is_cancelled
        self._selector = selectors.DefaultSelector()
        for connection in connections.values():
            self._selector.register(connection.stream, selectors.EVENT_READ, connection)

    def swap(
        self, call: Call, sequence: int, target: int, payload: Payload, source: int
    ) -> Message:
        """Send to one rank, and return the message of another in the same exchange."""
        outgoing = self._connections[target]
        self._pump(0.0)  # another rank may have given up
        unsent = self.memory.post(target, sequence, call, payload)
        if unsent is not None:
            outgoing.send(unsent[0], sequence, unsent[1])
        found: Message | None = None
        began = looked = time.monotonic()
        told = -1
        while True:
            found = found or self._take(source, sequence)
            if found is not None and not outgoing.unsent:
                return found
            self._pump(min(_LOOK_SECONDS, self._timeout / 4))
            now = time.monotonic()
            if now > looked + _LOOK_SECONDS:
                looked = now
                if self._is_cancelled():
                    raise CommunicationError(
                        "the training was cancelled, or the client that started it has gone"
                    )
            if now < began + self._timeout / 2:
                continue
            late = source if found is None else target
            late = self._connections[late].waits_for or late
            if late == self.rank:
                late = source if found is None else target
            if now > began + self._timeout:
                raise CommunicationError(
                    f"rank {late} did not answer within {self._timeout:g} s (rank {self.rank}, "
                    f"exchange {sequence}): it stalls or is overloaded"
                )
            if late != told:  # so that ranks that wait for this one name the rank that stalls
                told = late
                self._to_all(Call(Kind.WAITING), sequence, b"%d" % late)

    def announce(self, kind: Kind, text: str) -> None:
        """Tell the neighbours, if they are reachable, that this rank gives up or is done."""
        deadline = time.monotonic() + _LAST_SECONDS
        self._to_all(Call(kind), 0, text.encode())
        while time.monotonic() < deadline:
            unsent = [one for one in self._connections.values() if one.is_open and one.unsent]
            if not unsent:
                return
            try:
                self._pump(0.05)
            except CommunicationError:
                continue  # a lost rank need not be told

    def close(self) -> None:
        """Close the connections, and release shared memory."""
        self.memory.close()
        for connection in self._connections.values():
            try:
                # Closing a connection with unread bytes would lose what was sent last.
                if not connection.has_left:
                    connection.stream.settimeout(_LAST_SECONDS)
                    connection.stream.shutdown(socket.SHUT_WR)
                    while connection.stream.recv(1 << 16):
                        pass
            except (OSError, ValueError):
                pass
            connection.stream.close()
        self._selector.close()

    def _take(self, source: int, sequence: int) -> Message | None:
        """Return the message of a rank in an exchange, or None while it is not there."""
        connection = self._connections[source]
        # Read this before the message: a rank posts all of its messages before it leaves.
        has_left = connection.has_left
        if self.memory.reads(source):
            found = self.memory.take(source, sequence)
            if found is not None:
                return found
        if connection.frames:
            number, call, payload = connection.frames.popleft()
            if number != sequence:
                raise CommunicationError(
                    f"rank {source} is in exchange {number}, rank {self.rank} in {sequence}"
                )
            return call, payload
        if has_left:
            raise CommunicationError(
                f"rank {source} has ended its part and takes no part in exchange {sequence}"
            )
        return None

    def _pump(self, seconds: float) -> None:
        """Send and read what is possible; wait at most some seconds for the first."""
        for connection in self._connections.values():
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
            known = self._selector.get_map().get(connection.stream)
            if not connection.is_open:
                if known is not None:
                    self._selector.unregister(connection.stream)
            elif known is not None and known.events != events:
                self._selector.modify(connection.stream, events, connection)
        for key, events in self._selector.select(seconds):
            if events & selectors.EVENT_READ:
                key.data.read()
            if events & selectors.EVENT_WRITE:
                key.data.write()

    def _to_all(self, call: Call, sequence: int, payload: bytes) -> None:
        for connection in self._connections.values():
            if connection.is_open and not connection.has_left:
                try:
                    connection.send(call, sequence, payload)
                except CommunicationError:
                    continue  # this rank sees in its next exchange that another is lost


@contextmanager
def joined(
    listener: Listener,
    token: bytes,
    rank: int,
    addresses: Sequence[str],
    *,
    timeout: float = DEFAULT_TIMEOUT,
    connect_timeout: float = 30.0,
    shares_memory: bool = True,
    is_cancelled: Callable[[], bool] = lambda: False,
    tls: Tls | None = None,
) -> Iterator[Collectives]:
    """Yield the communicator of a rank, and close its ``listener``."""
    # All must connect within ``connect_timeout`` seconds, and then answer in each exchange within
    # ``timeout``.  ``is_cancelled`` is asked while this rank waits: True ends the training.
    size = len(addresses)
    connections: dict[int, _Connection] = {}
    memory = SharedMemory.open(token, rank, size if shares_memory else 1)
    try:
        streams = _connect(
            listener, token, rank, addresses, time.monotonic() + connect_timeout, tls
        )
        for other, stream in streams:
            connections[other] = _Connection(other, addresses[other], stream)
    except BaseException:
        memory.close()
        for connection in connections.values():
            connection.stream.close()
        raise
    finally:
        listener.close()
    transport = _Transport(rank, size, connections, timeout, is_cancelled)
    communicator = Collectives(transport)
    try:
        if shares_memory:
            memory.map_neighbours()
            readable = communicator.allgather(bytes(memory.reads(other) for other in range(size)))
            memory.keep([other for other in connections if readable[other][rank]])
            transport.memory = memory
        yield communicator
        communicator.leave()
    except BaseException as error:  # report every error to the other ranks
        communicator.abort(f"{type(error).__name__}: {error}")
        raise
    finally:
        memory.close()
        transport.close()


def _connect(
    listener: Listener,
    token: bytes,
    rank: int,
    addresses: Sequence[str],
    deadline: float,
    tls: Tls | None,
) -> Iterator[tuple[int, socket.socket]]:
    """Connect to the lower neighbours of a rank, and accept the connections of the higher ones."""
    if len(token) != TOKEN_BYTES:
        raise ValueError(f"a token has {TOKEN_BYTES} bytes, not {len(token)}")
    ends = [_ends_of(address) for address in addresses]
    others = neighbours(rank, len(addresses))
    for other in others:
        if other < rank:
            try:
                yield other, _call(ends[other], ends[rank][0], token, rank, other, deadline, tls)
            except (OSError, ssl.SSLError, EOFError) as error:
                raise CommunicationError(
                    f"rank {rank} cannot connect to rank {other} at {addresses[other]} ({error}): "
                    "is the port blocked, or has the rank ended?"
                ) from error
    waiting = {other for other in others if other > rank}
    hosts = {found[4][0] for host, port in ends for found in socket.getaddrinfo(host, port)}
    while waiting:
        left = deadline - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            listener.socket.settimeout(left)
            stream, (host, *_) = listener.socket.accept()
        except TimeoutError:
            missing = ", ".join(f"rank {other} at {addresses[other]}" for other in sorted(waiting))
            raise CommunicationError(
                f"rank {rank} at {addresses[rank]} has no connection from {missing}: is the port "
                "blocked, or have these ranks ended?"
            ) from None
        caller = None
        if host in hosts:
            try:
                caller, stream = _answer(
                    stream,
                    token,
                    rank,
                    waiting,
                    min(deadline, time.monotonic() + _HANDSHAKE_SECONDS),
                    tls,
                )
            except (OSError, EOFError):  # also of TLS
                caller = None
        if caller is None:
            stream.close()  # a stranger
        else:
            waiting.remove(caller)
            yield caller, stream


def _call(
    end: tuple[str, int],
    own_host: str,
    token: bytes,
    rank: int,
    other: int,
    deadline: float,
    tls: Tls | None,
) -> socket.socket:
    """Connect to a rank, and prove knowledge of the token; it must prove it, too."""
    stream = socket.create_connection(
        end, max(deadline - time.monotonic(), 0.01), source_address=(own_host, 0)
    )
    try:
        if tls is not None:
            stream = tls.client.wrap_socket(stream)
        challenge, own = _read(stream, _PROOF_BYTES, deadline), secrets.token_bytes(_PROOF_BYTES)
        about = struct.pack("<II", rank, other) + challenge + own
        stream.sendall(_HELLO.pack(rank, own, _proof(token, b"call" + about)))
        if not hmac.compare_digest(
            _read(stream, _PROOF_BYTES, deadline), _proof(token, b"answer" + about)
        ):
            raise OSError("who answers does not know the token of this training")
    except BaseException:
        stream.close()
        raise
    return stream


def _answer(
    stream: socket.socket,
    token: bytes,
    rank: int,
    expected: set[int],
    deadline: float,
    tls: Tls | None,
) -> tuple[int | None, socket.socket]:
    """Return the rank that connects, or None if it does not know the token."""
    stream.settimeout(max(deadline - time.monotonic(), 0.01))
    if tls is not None:
        stream = tls.server.wrap_socket(stream, server_side=True)
    challenge = secrets.token_bytes(_PROOF_BYTES)
    stream.sendall(challenge)
    caller, its_own, proof = _HELLO.unpack(_read(stream, _HELLO.size, deadline))
    about = struct.pack("<II", caller, rank) + challenge + its_own
    if caller not in expected or not hmac.compare_digest(proof, _proof(token, b"call" + about)):
        return None, stream
    stream.sendall(_proof(token, b"answer" + about))
    return caller, stream


def _proof(token: bytes, about: bytes) -> bytes:
    return hmac.digest(token, about, "sha256")


def _read(stream: socket.socket, n_bytes: int, deadline: float) -> bytes:
    """Read exactly some bytes."""
    content = b""
    while len(content) < n_bytes:
        stream.settimeout(max(deadline - time.monotonic(), 0.01))
        part = stream.recv(n_bytes - len(content))
        if not part:
            raise EOFError("the connection was closed")
        content += part
    return content


def _ends_of(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
