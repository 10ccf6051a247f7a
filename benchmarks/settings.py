"""The settings that every library gets, in their common meaning."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Task = Literal["binary", "multiclass", "regression"]


@dataclass(frozen=True)
class Settings:
    """Equal settings of one comparison.

    ``min_rows`` has no counterpart in XGBoost, which only knows the sum of
    hessians; everything else means the same in all libraries.
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
