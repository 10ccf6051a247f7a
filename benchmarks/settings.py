"""Define the settings that every library gets, with their common meaning."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Task = Literal["binary", "multiclass", "regression"]


@dataclass(frozen=True)
class Settings:
    """Equal settings of one comparison.

    XGBoost has no counterpart of ``min_rows``, only the sum of hessians.  All other settings mean
    the same in all libraries.
    """

    task: Task
    leaves: int = 31
    trees: int = 100
    learning_rate: float = 0.1
    bins: int = 255
    min_rows: int = 20
    min_hessian: float = 1e-3
    l2: float = 0.0
    threads: int = 2
    classes: int = 2
    seed: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
