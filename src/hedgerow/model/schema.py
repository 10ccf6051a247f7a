"""What a model knows of its columns: names and how their values compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ColumnKind = Literal["float", "int"]


@dataclass(frozen=True, slots=True)
class Column:
    """One feature.

    Attributes
    ----------
    name : str
        Name in the user's frame, or ``"x0"``, ``"x1"``, ... for plain arrays.
    kind : {"float", "int"}
        How values compare: ``"float"`` as float64 (every integer type up to
        32 bits, bool and float is held exactly), ``"int"`` as int64.
    """

    name: str
    kind: ColumnKind = "float"


@dataclass(frozen=True, slots=True)
class Schema:
    """All features in the order of training; ``named`` if the names are the user's own."""

    columns: tuple[Column, ...]
    named: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def n_features(self) -> int:
        return len(self.columns)
