"""Messages between ranks: a header of fixed length, then the payload.

Glossary
--------
run       a training, identified by 16 random bytes
epoch     number of restarts of the run after a rank was lost
stamp     run and epoch; a message with another stamp comes from a rank that has not yet
          noticed that the run has ended or was restarted
sequence  number of the exchange, the same on all ranks
call      the collective of the sender, with what all ranks must agree on

The header has a checksum of itself and one of the payload.  They detect accidental damage;
every sender is trusted.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from hedgerow.errors import CommunicationError

Payload: TypeAlias = bytes | memoryview

MAGIC = b"HGR1"
_LAYOUT = struct.Struct("<4sB3xIII16sQQQII")
HEADER_BYTES = _LAYOUT.size


class Kind(IntEnum):
    """The collective, or the announcement, of the sender."""

    BARRIER = 1
    ALLGATHER = 2
    REDUCE_SCATTER = 3
    ALLREDUCE_SUM = 4
    ALLREDUCE_MAX = 5
    ALLREDUCE_PARTS = 6
    ABORT = 7
    LEAVE = 8


@dataclass(frozen=True, slots=True)
class Stamp:
    """Identification of a training and of its attempt."""

    run: bytes
    epoch: int = 0

    def __post_init__(self) -> None:
        if len(self.run) != 16:
            raise ValueError(f"run must be 16 bytes, not {len(self.run)}")


@dataclass(frozen=True, slots=True)
class Call:
    """A collective, equal on all ranks of an exchange: ``agreed`` is a hash of its arguments."""

    kind: Kind
    agreed: int = 0

    def __str__(self) -> str:
        return self.kind.name.lower()


class Header(NamedTuple):
    """Header of one message."""

    call: Call
    source: int
    target: int
    stamp: Stamp
    sequence: int
    length: int
    checksum: int


class Message(NamedTuple):
    """A header as bytes, and a payload."""

    header: bytes
    payload: Payload


def sealed(
    call: Call, source: int, target: int, stamp: Stamp, sequence: int, payload: Payload,
    checked: bool = True,
) -> Message:  # fmt: skip
    """Return the message for a payload; in shared memory no checksum of it is needed."""
    fields = _LAYOUT.pack(
        MAGIC,
        int(call.kind),
        source,
        target,
        stamp.epoch,
        stamp.run,
        sequence,
        call.agreed,
        len(payload),
        zlib.crc32(payload) if checked else 0,
        0,
    )
    body = fields[:-4]
    return Message(body + struct.pack("<I", zlib.crc32(body)), payload)


def copied(message: Message) -> Message:
    """Return the message with its own copy of the payload."""
    return Message(message.header, bytes(message.payload))


def with_checksum(message: Message) -> Message:
    """Return the message with a checksum of its payload."""
    header = opened(message.header)
    return sealed(
        header.call, header.source, header.target, header.stamp, header.sequence, message.payload
    )


def opened(header: bytes) -> Header:
    """Return the fields of a header; raise ``CommunicationError`` if it is damaged."""
    if len(header) != HEADER_BYTES or header[:4] != MAGIC:
        raise CommunicationError(
            f"a message does not have the header of this version of hedgerow ({len(header)} bytes, "
            f"{HEADER_BYTES} expected): install the same version on all ranks"
        )
    if struct.unpack("<I", header[-4:])[0] != zlib.crc32(header[:-4]):
        raise CommunicationError("the header of a message is damaged: its checksum is wrong")
    _, kind, source, target, epoch, run, sequence, agreed, length, checksum, _ = _LAYOUT.unpack(
        header
    )
    try:
        call = Call(Kind(kind), agreed)
    except ValueError:
        raise CommunicationError(
            f"a message is of the unknown kind {kind}: install the same version of hedgerow "
            "on all ranks"
        ) from None
    return Header(call, source, target, Stamp(run, epoch), sequence, length, checksum)


def check_payload(header: Header, payload: Payload) -> None:
    """Raise if a payload does not match its header."""
    where = f"message {header.sequence} of rank {header.source} to rank {header.target}"
    if len(payload) != header.length:
        raise CommunicationError(
            f"{where} has {len(payload)} bytes, but its header says {header.length}: it was "
            "truncated"
        )
    if zlib.crc32(payload) != header.checksum:
        raise CommunicationError(f"{where} is damaged: its checksum is wrong")
