"""The rows of a fit, divided between ranks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from hedgerow.objectives.global_sums import AllRows
from tests.helpers.ranks import run_ranks


def on_ranks(n_ranks: int, question: Any, target: Any, weight: Any = None, offset: Any = None):
    """Return the answer for rows that are divided between ranks, of which the last has none."""
    cuts = np.append(np.linspace(0, len(target), n_ranks).astype(int), len(target))
    parts = [slice(start, stop) for start, stop in pairwise(cuts)]

    def answer(ranks: Any) -> Any:
        own = parts[ranks.rank]
        rows = target[own], None if weight is None else weight[own]
        added = None if offset is None else np.ascontiguousarray(offset[:, own])
        return question(AllRows(*rows, added, ranks))

    answers = run_ranks(n_ranks, answer)
    assert all(np.array_equal(one, answers[0]) for one in answers)
    return answers[0]
