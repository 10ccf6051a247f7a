"""The report of an export."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

ExportFormat: TypeAlias = Literal["lightgbm", "xgboost", "onnx", "treelite", "python", "json"]


@dataclass(frozen=True, slots=True)
class ExportReport:
    """Path and format of an export, notes on differences, and the result of a check.

    Attributes
    ----------
    path : str
    format : str
    notes : tuple of str
        Differences from the model: rounded numbers, and properties of the format.
    rows_checked : int
        Rows that the target predicted; 0 without ``check``.
    largest_difference : float
        Largest difference of raw scores; 0.0 if nothing was checked.
    """

    path: str
    format: str
    notes: tuple[str, ...] = ()
    rows_checked: int = 0
    largest_difference: float = 0.0


@dataclass(slots=True)
class Notes:
    """Notes of a writer, without duplicates."""

    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        """Add a note unless it exists."""
        if line not in self.lines:
            self.lines.append(line)
