"""Train partitions on ranks in threads, for the tests of ``distributed``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from hedgerow.boosting.loop.setup.loss_spec import LossSpec
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data.sources.base import Roles
from hedgerow.distributed.cluster import contiguous
from hedgerow.distributed.partition import Partition, checksum_of, make_partition, names_of
from hedgerow.distributed.ranks import Shard
from hedgerow.distributed.work import TrainWork
from hedgerow.objectives import PARAMETERS
from hedgerow.params import boost_params
from tests.helpers.ranks import run_ranks

STOPPING = ("early_stopping", "patience")


def cut(borders: Sequence[int], X: Any, y: Any, **given: Any) -> list[Partition]:
    """Return partitions with borders at these rows, with the values that are not None."""
    places = [0, *borders, len(X)]
    given = {name: values for name, values in given.items() if values is not None}
    return [
        make_partition(X[i:j], y[i:j], **{name: values[i:j] for name, values in given.items()})
        for i, j in pairwise(places)
    ]


def train_ranks(
    n_ranks: int,
    partitions: list[Partition],
    folder: Path,
    more: list[Partition] | None = None,
    mode: str = "data",
    eval_metric: Any = None,
    saved: list[bytes] | None = None,
    checkpoint: Sequence[bytes] = (),
    has_queries: bool = False,
    roles: Roles | None = None,
    **params: Any,
) -> bytes:
    """Train on ranks and return the bytes of the model; rank 0 appends to ``saved``."""
    params = dict(params)
    stopping = {name: params.pop(name) for name in STOPPING if name in params}
    objective = params.pop("objective", "squared_error")
    values = {name: params.pop(name) for name in PARAMETERS if name in params}
    work = TrainWork(
        LossSpec(objective, values, has_queries=has_queries),
        boost_params(params),
        StoppingParams(**stopping),
        eval_metric,
        mode=mode,  # type: ignore[arg-type]
        has_validation=more is not None,
        names=names_of(partitions[0].X),
        memory_limit=10**8,
        checkpoint_every=0.0,
        checksums=([checksum_of(part) for part in partitions], []),
        roles=roles or Roles(of_rows={"qid": "qid"} if has_queries else {}),
    )

    def ranges(parts: list[Partition]) -> list[range]:
        if mode == "features":
            return [range(len(parts))] * n_ranks
        return contiguous([len(part.X) for part in parts], n_ranks)

    def rank(ranks: Any) -> bytes:
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
        return work(ranks, shard)

    results = run_ranks(n_ranks, rank, timeout=120.0)
    assert len(set(results)) == 1
    return results[0]
