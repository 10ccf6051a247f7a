"""Collectives between threads: right results, or errors if something fails."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.comm.base import Alone, Communicator
from hedgerow.comm.collectives import WHOLE_BYTES
from hedgerow.errors import CommunicationError
from tests.helpers.examples import examples
from tests.helpers.faults import Fault, RankDied, with_each_fault
from tests.helpers.ranks import rank_outcomes, run_ranks

TIMEOUT = 0.2
SILENT = frozenset({Fault.LOST, Fault.STALLS})
"""Faults that only a timeout shows.  The others are seen at once."""


def patience(fault: Fault) -> float:
    """Return the timeout of a test: short only if the test waits for it to pass."""
    return TIMEOUT if fault in SILENT else 60.0


def arrays(size: int, length: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-(2**60), 2**60, length) for _ in range(size)]


@given(
    size=st.integers(1, 6),
    length=st.sampled_from([0, 1, 3, 17, WHOLE_BYTES // 8 + 1]),
    seed=st.integers(0, 99),
)
def test_sums_and_maxima_are_those_of_all_ranks(size: int, length: int, seed: int) -> None:
    parts = arrays(size, length, seed)
    places = np.sort(np.random.default_rng(seed).integers(0, length + 1, size - 1))
    starts = [0, *places.tolist(), length]

    def rank(ranks: Communicator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        own_part = parts[ranks.rank]
        ranks.barrier()
        return (
            ranks.allreduce(own_part),
            ranks.allreduce(own_part, "max"),
            ranks.reduce_scatter(own_part, starts),
        )

    with np.errstate(over="ignore"):
        total = np.sum(parts, axis=0)
    results = run_ranks(size, rank)
    for number, (sums, maxima, part) in enumerate(results):
        np.testing.assert_array_equal(sums, total)
        np.testing.assert_array_equal(maxima, np.max(parts, axis=0))
        np.testing.assert_array_equal(part, total[starts[number] : starts[number + 1]])


def test_arrays_keep_their_shape_and_are_not_written_to() -> None:
    kept = np.arange(12).reshape(3, 4)

    def rank(ranks: Communicator) -> np.ndarray:
        return ranks.allreduce(kept[::-1].T)

    for result in run_ranks(3, rank):
        np.testing.assert_array_equal(result, 3 * kept[::-1].T)
    np.testing.assert_array_equal(kept, np.arange(12).reshape(3, 4))


@given(messages=st.lists(st.binary(max_size=50), min_size=1, max_size=9))
@settings(max_examples=examples(20))
def test_allgather_gives_all_messages_in_the_order_of_ranks(messages: list[bytes]) -> None:
    assert run_ranks(len(messages), lambda ranks: ranks.allgather(messages[ranks.rank])) == [
        messages
    ] * len(messages)


def test_one_rank_is_like_nobody_else() -> None:
    array = np.arange(5)

    def rank(ranks: Communicator) -> list[list[int]]:
        ranks.barrier()
        found = [ranks.allreduce(array), ranks.reduce_scatter(array, [0, 5])]
        assert ranks.allgather(b"alone") == [b"alone"]
        return [part.tolist() for part in found]

    assert run_ranks(1, rank)[0] == rank(Alone())


def test_the_barrier_holds_back_who_comes_first() -> None:
    arrived = []

    def rank(ranks: Communicator) -> int:
        time.sleep(0.05 * ranks.rank)
        arrived.append(ranks.rank)
        ranks.barrier()
        return len(arrived)

    assert run_ranks(3, rank) == [3, 3, 3]


def test_what_is_not_int64_or_not_divided_is_refused() -> None:
    with pytest.raises(TypeError, match="int64, not of float64"):
        run_ranks(1, lambda ranks: ranks.allreduce(np.zeros(3)))
    for starts in ([0, 2], [0, 2, 1, 3], [1, 2, 3], [0, 1, 2]):
        with pytest.raises(ValueError, match="do not divide"):
            run_ranks(2, lambda ranks, places=starts: ranks.reduce_scatter(np.arange(3), places))


def busy(ranks: Communicator) -> list[int]:
    """Call all collectives; they return the same numbers on every rank."""
    size = ranks.size
    large = np.arange(20_000) * (ranks.rank + 1)
    starts = [part * large.size // size for part in range(size + 1)]
    ranks.barrier()
    found = [int(ranks.allreduce(np.array([ranks.rank + 1]))[0])]
    part = ranks.reduce_scatter(large, starts)
    gathered = ranks.allgather(part.tobytes())
    found.append(int(np.frombuffer(b"".join(gathered), dtype=np.int64).sum()))
    found.append(int(ranks.allreduce(large, "max").sum()))
    ranks.barrier()
    return found


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 8, 13])
def test_many_ranks_send_few_messages_and_no_more_bytes(size: int) -> None:
    large = np.arange(13 * 1000)
    starts = [part * large.size // size for part in range(size + 1)]

    def rank(ranks: Any) -> tuple[int, int]:
        ranks.reduce_scatter(large, starts)
        return ranks.n_exchanges, ranks.bytes_sent

    for rank_, (n_exchanges, n_bytes) in enumerate(run_ranks(size, rank)):
        assert n_exchanges == (size - 1).bit_length()
        assert n_bytes == large.nbytes - 8 * (starts[rank_ + 1] - starts[rank_])


@pytest.mark.parametrize("size", [3, pytest.param(6, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fault", sorted(Fault, key=lambda fault: fault.name))
def test_a_fault_ends_every_rank_in_time_and_gives_no_wrong_result(fault: Fault, size: int) -> None:
    expected = run_ranks(size, busy)[0]
    runs = list(with_each_fault(size, busy, fault, rank=1, timeout=patience(fault)))
    for injection, outcomes in runs:
        at_end = injection.exchange >= len(runs) - (size - 1).bit_length()
        for rank, outcome in enumerate(outcomes):
            if outcome.error is None:
                # In the last collective, a rank may have all it needs before another fails.
                assert at_end, (injection, rank)
                assert outcome.result == expected, injection
                continue
            died = rank == 1 and fault == Fault.DIES
            assert isinstance(outcome.error, RankDied if died else CommunicationError), injection
        assert any(outcome.error for outcome in outcomes) or fault == Fault.EARLY, injection
    assert len(runs) == 7 * (size - 1).bit_length()


def test_nothing_is_done_after_a_failure() -> None:
    def rank(ranks: Communicator) -> None:
        if ranks.rank == 1:
            raise KeyError("of its own")
        messages = set()
        for _ in range(2):
            with pytest.raises(CommunicationError, match="of its own") as caught:
                ranks.barrier()
            messages.add(str(caught.value))
        assert len(messages) == 1

    outcomes = rank_outcomes(3, rank)
    assert [type(outcome.error) for outcome in outcomes] == [type(None), KeyError, type(None)]
    with pytest.raises(KeyError, match="of its own"):
        run_ranks(3, rank)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (lambda ranks: ranks.allgather(b"x"), "rank [01] calls (barrier|allgather)"),
        (lambda ranks: ranks.allreduce(np.arange(3)), "out of step"),
    ],
)
def test_different_calls_of_ranks_are_errors(second: object, message: str) -> None:
    def rank(ranks: Communicator) -> None:
        if ranks.rank == 0:
            ranks.barrier()
        else:
            second(ranks)  # type: ignore[operator]

    for outcome in rank_outcomes(2, rank):
        assert isinstance(outcome.error, CommunicationError)
        assert "out of step" in str(outcome.error)
    with pytest.raises(CommunicationError, match=message):
        run_ranks(2, rank)


@pytest.mark.parametrize("by_parts", [False, True])
def test_arrays_of_different_lengths_are_errors(by_parts: bool) -> None:
    def rank(ranks: Communicator) -> None:
        length = 10 + ranks.rank
        if by_parts:
            ranks.reduce_scatter(np.arange(length), [0, 5, length])
        else:
            ranks.allreduce(np.arange(length))

    for outcome in rank_outcomes(2, rank):
        assert "different lengths or different parts" in str(outcome.error)


def test_a_rank_that_is_done_keeps_nobody_waiting() -> None:
    def rank(ranks: Communicator) -> None:
        if ranks.rank:
            ranks.barrier()

    began = time.monotonic()
    outcomes = rank_outcomes(3, rank, timeout=120.0)
    assert time.monotonic() - began < 60  # not at the end of the timeout
    assert outcomes[0].error is None
    assert "has ended its part" in str(outcomes[1].error)


def test_a_rank_that_never_ends_is_left_behind() -> None:
    over, ended = threading.Event(), threading.Event()

    def rank(ranks: Communicator) -> None:
        if ranks.rank == 1:
            over.wait(60)
            ended.set()
        ranks.barrier()

    outcomes = rank_outcomes(2, rank, timeout=TIMEOUT)
    assert not ended.is_set()
    over.set()
    assert "did not answer within 0.2 s" in str(outcomes[0].error)
    assert "has not ended in time" in str(outcomes[1].error)
