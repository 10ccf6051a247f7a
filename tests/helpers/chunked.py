"""The same rows in memory, in batches and in files, and the division of files into chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hedgerow import Booster, Dataset, train
from hedgerow.boosting.loop.setup.job import Job
from hedgerow.data.external import disk_store, memory_plan
from hedgerow.data.reading import mapped_table
from hedgerow.errors import AllRowsNeededError


@contextmanager
def divided_into(n_rows: int) -> Iterator[None]:
    """Divide the rows of files into chunks of ``n_rows`` rows; fail if they are read as a table.

    Sorted lists are mapped files, however short they are, and are copied in several parts.
    """

    def refused(job: Job, why: str) -> Job:
        raise AllRowsNeededError(why)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_plan, "FEWEST_ROWS", n_rows)
        patch.setattr(memory_plan, "MOST_ROWS", n_rows)
        patch.setattr(disk_store, "fits_in_one_chunk", lambda limit, shape, sizes: False)
        patch.setattr(Job, "in_memory", refused)
        patch.setattr(mapped_table, "_LIST_SHARE", 0.0)
        patch.setattr(mapped_table, "BLOCK_ROWS", n_rows + 2)
        patch.setattr("hedgerow.boosting.loop.scores.BLOCK_ROWS", 100)
        yield


@dataclass(frozen=True)
class Rows:
    """Rows of a table; ``roles`` has the columns of weights, offsets, queries and so on."""

    table: pd.DataFrame
    features: list[str]
    target: str | list[str] = "y"
    roles: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of_arrays(X: Any, y: Any, weight: Any = None) -> Rows:
        """Return rows with the columns x0, x1, ..."""
        names = [f"x{k}" for k in range(X.shape[1])]
        table = pd.DataFrame(X, columns=names).assign(y=y)
        if weight is None:
            return Rows(table, names)
        return Rows(table.assign(w=weight), names, roles={"weight": "w"})

    def part(self, start: int, stop: int) -> Rows:
        return replace(self, table=self.table[start:stop])

    def without(self, role: str) -> Rows:
        return replace(self, roles={key: self.roles[key] for key in self.roles if key != role})

    def in_memory(self, **more: Any) -> Dataset:
        known = {
            role: name if role == "offset" else self.table[name].to_numpy()
            for role, name in self.roles.items()
        }
        offsets = self.roles.get("offset", [])
        columns = [*self.features, *([offsets] if isinstance(offsets, str) else offsets)]
        target: Any = self.table[self.target]
        y = target if isinstance(self.target, list) else target.to_numpy()
        return Dataset(self.table[columns], y, **known, **more)

    def in_batches(self, size: int = 170, **more: Any) -> Dataset:
        def batches() -> Iterator[pd.DataFrame]:
            for start in range(0, len(self.table), size):
                yield self.table[start : start + size]

        return Dataset.from_batches(
            batches, self.target, features=self.features, **self.roles, **more
        )

    def in_files(self, paths: Sequence[Path], **more: Any) -> Dataset:
        return Dataset.from_files(paths, self.target, features=self.features, **self.roles, **more)


def same_bytes(
    params: dict[str, Any], rows: Rows, unseen: Rows | None = None, size: int = 170, **more: Any
) -> Booster:
    """Check that batches give the bytes of memory; return the model."""
    memory = train(params, rows.in_memory(), unseen and unseen.in_memory(), **more)
    files = train(params, rows.in_batches(size), unseen and unseen.in_batches(size), **more)
    assert files.to_bytes() == memory.to_bytes()
    return memory
