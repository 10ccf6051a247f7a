"""Train partitions on ranks in threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from hedgerow.comm.base import Communicator
from hedgerow.distributed.cluster import contiguous
from hedgerow.distributed.partition import (
    Partition,
    checksum_of,
    columns_of,
    describe,
    make_partition,
)
from hedgerow.distributed.ranks import Shard
from hedgerow.distributed.work import TrainWork
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.training import loss_of, read_settings, stopping_of, trees_of
from tests.helpers.ranks import run_ranks


def cut(borders: Sequence[int], X: Any, y: Any, **given: Any) -> list[Partition]:
    """Return partitions with borders at these rows, with the values that are not None."""
    places = [0, *borders, len(X)]
    given = {name: values for name, values in given.items() if values is not None}
    return [
        make_partition(X[i:j], y[i:j], **{name: values[i:j] for name, values in given.items()})
        for i, j in pairwise(places)
    ]


def train_ranks(n_ranks: int, *arguments: Any, **more: Any) -> bytes:
    """Train on ranks, with the arguments of :func:`rank_of`; return the bytes of the model."""
    results = run_ranks(n_ranks, rank_of(n_ranks, *arguments, **more), timeout=120.0)
    assert len(set(results)) == 1
    return results[0]


def rank_of(
    n_ranks: int,
    partitions: list[Partition],
    folder: Path,
    more: list[Partition] | None = None,
    mode: GrowMode = "data",
    saved: list[bytes] | None = None,
    checkpoint: Sequence[bytes] = (),
    callback_of: Callable[[int], Any] = lambda rank: None,
    **params: Any,
) -> Callable[[Communicator], bytes]:
    """Return the training of each rank; rank 0 appends to ``saved``."""
    first, settings = describe(partitions[0]), read_settings(params)
    given = partitions[0].given
    work = TrainWork(
        loss_of(settings, "qid" in given),
        trees_of(settings),
        stopping_of(settings),
        settings.get("eval_metric"),
        mode=mode,
        has_validation=more is not None,
        memory_limit=10**8,
        n_jobs=settings.get("n_jobs"),
        checkpoint_every=0.0,
        checksums=([checksum_of(part) for part in partitions], []),
        **columns_of(first, given),
    )

    def ranges(parts: list[Partition]) -> list[range]:
        if mode == "features":
            return [range(len(parts))] * n_ranks
        return contiguous([len(part.X) for part in parts], n_ranks)

    def rank(ranks: Communicator) -> bytes:
        own, others = ranges(partitions)[ranks.rank], ranges(more or [])[ranks.rank]
        shard = Shard(
            [partitions[number] for number in own],
            tuple(own),
            more=[(more or [])[number] for number in others],
            more_numbers=tuple(others),
            scratch=str(folder),
            checkpoint=checkpoint,
            save=saved.append if saved is not None and ranks.rank == 0 else lambda part: None,
        )
        return replace(work, callback=callback_of(ranks.rank))(ranks, shard)

    return rank
