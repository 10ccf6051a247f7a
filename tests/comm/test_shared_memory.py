"""Messages between ranks through shared memory, with connections as the fallback."""

from __future__ import annotations

import errno
import os
import threading
from typing import Any

import numpy as np
import pytest

from hedgerow.comm import shared_memory
from hedgerow.comm.collectives import Collectives
from hedgerow.comm.mailbox import Mailbox
from hedgerow.comm.messages import Call, Kind, Stamp, copied, opened, with_checksum
from hedgerow.comm.shared_memory import FOLDER, Inbox, Outbox, SharedMemory, open_inboxes
from hedgerow.errors import CommunicationError

pytestmark = pytest.mark.skipif(not os.path.isdir(FOLDER), reason=f"there is no {FOLDER}")


def stamp_of_test() -> Stamp:
    return Stamp(os.urandom(16), 3)


class MemoryTransport:
    """Ranks in threads that share memory; mailboxes carry the other messages."""

    def __init__(self, rank: int, mailboxes: list[Mailbox], outbox: Outbox) -> None:
        self.rank, self.size, self.stamp = rank, len(mailboxes), mailboxes[rank].stamp
        self._mailboxes = mailboxes
        self.memory = SharedMemory(outbox, open_inboxes(self.stamp, mailboxes[rank]))
        self.n_by_connection = 0

    @property
    def by_memory(self) -> frozenset[int]:
        return self.memory.ranks

    def post(self, messages: Any) -> None:
        header = opened(messages[0][1].header)
        if header.call.kind not in (Kind.ABORT, Kind.LEAVE):
            payloads = [(rank, message.payload) for rank, message in messages]
            if self.memory.post(header.sequence, header.call, payloads):
                return
            self.n_by_connection += 1
            messages = [(rank, with_checksum(copied(message))) for rank, message in messages]
        for rank, message in messages:
            self._mailboxes[rank].deliver(message)

    def flush(self, timeout: float) -> None:
        pass

    def receive(self, source: int, sequence: int, timeout: float) -> Any:
        found = self.memory.receive(source, sequence, timeout)
        if found is None:
            header, payload = self._mailboxes[self.rank].take(source, sequence, timeout)
            return header.call, payload
        return found


def run(size: int, function: Any, timeout: float = 20.0) -> tuple[list[Any], list[MemoryTransport]]:
    """Run a function on all ranks; return each result or error, and each transport."""
    stamp = stamp_of_test()
    mailboxes = [Mailbox(stamp, rank, size) for rank in range(size)]
    outboxes = [Outbox(stamp, rank, size) for rank in range(size)]
    transports = [MemoryTransport(rank, mailboxes, outboxes[rank]) for rank in range(size)]
    for transport in transports:
        transport.memory.keep(set(range(size)) - {transport.rank})
    assert not [name for name in os.listdir(FOLDER) if stamp.run.hex() in name]
    found: list[Any] = [None] * size

    def work(rank: int) -> None:
        ranks = Collectives(transports[rank], timeout)
        try:
            found[rank] = function(ranks)
            ranks.leave()
        except Exception as error:
            found[rank] = error
            ranks.abort(str(error))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for transport in transports:
        transport.memory.close()
    return found, transports


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


@pytest.mark.parametrize("size", [2, 3, 5, 7])
def test_collectives_give_what_they_should(size: int) -> None:
    found, transports = run(size, all_collectives)
    assert not [error for error in found if isinstance(error, Exception)]
    assert [transport.n_by_connection for transport in transports] == [0] * size


@pytest.mark.parametrize("size", [3, 6])
def test_messages_without_space_take_the_connection(monkeypatch: Any, size: int) -> None:
    """A container may have little shared memory; the next small message uses it again."""
    fallocate = os.posix_fallocate

    def full(file: int, start: int, length: int) -> None:
        if length > 1 << 17:
            raise OSError(errno.ENOSPC, "no space")
        fallocate(file, start, length)

    monkeypatch.setattr(shared_memory.os, "posix_fallocate", full)
    found, transports = run(size, all_collectives)
    assert not [error for error in found if isinstance(error, Exception)]
    assert all(transport.n_by_connection > 0 for transport in transports)


def test_a_rank_that_gives_up_ends_the_others() -> None:
    def function(ranks: Collectives) -> None:
        ranks.barrier()
        if ranks.rank == 1:
            raise KeyError("of its own")
        ranks.barrier()

    found, _ = run(2, function)
    assert isinstance(found[1], KeyError)
    assert isinstance(found[0], CommunicationError)
    assert "of its own" in str(found[0])


def test_a_rank_that_does_not_answer_is_named() -> None:
    gave_up = threading.Event()

    def function(ranks: Collectives) -> None:
        ranks.barrier()
        if ranks.rank == 1:
            gave_up.wait(60.0)
        try:
            ranks.barrier()
        finally:
            gave_up.set()

    found, _ = run(2, function, timeout=2.0)
    assert "rank 1 did not answer within 2 s (rank 0, exchange 1)" in str(found[0])
    assert isinstance(found[1], CommunicationError)


def test_a_rank_that_has_ended_is_named() -> None:
    found, _ = run(2, lambda ranks: ranks.barrier() if ranks.rank == 0 else None)
    assert "rank 1 has ended its part" in str(found[0])


def test_ranks_out_of_step_are_noticed() -> None:
    found, _ = run(2, lambda ranks: ranks.barrier() if ranks.rank == 0 else ranks.allgather(b"x"))
    assert all("out of step" in str(error) for error in found)


def test_files_that_are_not_of_this_run_are_not_read(tmp_path: Any) -> None:
    stamp = stamp_of_test()
    mailbox = Mailbox(stamp, 0, 2)
    assert open_inboxes(stamp, mailbox) == {}
    outbox = Outbox(stamp, 1, 2)
    try:
        assert list(open_inboxes(stamp, mailbox)) == [1]
        assert open_inboxes(Stamp(stamp.run, stamp.epoch + 1), mailbox) == {}
        with pytest.raises(OSError, match="File exists"):
            Outbox(stamp, 1, 2)
    finally:
        outbox.close()
    assert open_inboxes(stamp, mailbox) == {}
    link = os.path.join(FOLDER, f"hedgerow-{stamp.run.hex()}-{stamp.epoch}-1-0")
    target = tmp_path / "elsewhere"
    target.write_bytes(bytes(8192))
    os.symlink(target, link)
    try:
        with pytest.raises(OSError, match="symbolic links"):
            Inbox(stamp, 1, mailbox)
    finally:
        os.unlink(link)


def test_payloads_of_an_exchange_hold_until_the_one_after_the_next() -> None:
    def function(ranks: Collectives) -> bool:
        transport: Any = ranks._transport
        first = ranks._exchange(Call(Kind.ALLGATHER), [b"%d" % ranks.rank * 9] * 2)
        ranks._exchange(Call(Kind.ALLGATHER), [b"second"] * 2)
        assert transport is not None
        return bytes(first[1 - ranks.rank]) == b"%d" % (1 - ranks.rank) * 9

    assert run(2, function)[0] == [True, True]
