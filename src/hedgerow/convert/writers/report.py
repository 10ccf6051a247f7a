"""What an export says of itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

ExportFormat: TypeAlias = Literal["lightgbm", "xgboost", "onnx", "treelite", "python", "json"]


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written, what differs, and what a check has found.

    Attributes
    ----------
    path : str
    format : str
    notes : tuple of str
        What differs from the model: what was rounded, and how much; what the reader must know.
    rows_checked : int
        Rows that the target has predicted; 0 without ``check``.
    largest_difference : float
        Of raw scores, between target and model; 0.0 if nothing was checked.
    """

    path: str
    format: str
    notes: tuple[str, ...] = ()
    rows_checked: int = 0
    largest_difference: float = 0.0


@dataclass(slots=True)
class Notes:
    """Notes that a writer gathers, each once."""

    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        """Add a note that is not there yet."""
        if line not in self.lines:
            self.lines.append(line)
