"""Sources from paths or from a function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hedgerow.data.sources.arrow_files import ArrowPart, partition_values
from hedgerow.data.sources.base import Part, Roles, check_same_columns
from hedgerow.data.sources.batches import FunctionPart
from hedgerow.data.sources.paths import Paths, find_files
from hedgerow.data.sources.text_files import TextPart
from hedgerow.errors import ParameterError

FilePart: TypeAlias = ArrowPart | TextPart


@dataclass(frozen=True, slots=True)
class Source:
    """Parts, and the roles of their columns."""

    parts: tuple[Part, ...]
    roles: Roles

    @property
    def texts(self) -> list[TextPart]:
        """The text files among the parts."""
        return [part for part in self.parts if isinstance(part, TextPart)]

    @property
    def name(self) -> str:
        """Name of the first part and the number of the others, for error texts."""
        first, *others = (part.name for part in self.parts) if self.parts else ("no files",)
        return f"{first} and {len(others)} more" if others else first

    @property
    def summary(self) -> str:
        """Number of files and names of the targets, known without reading them."""
        n_parts = len(self.parts)
        rows = f"{n_parts:,} {'file' if n_parts == 1 else 'files'}"
        if any(isinstance(part, FunctionPart) for part in self.parts):
            rows = "batches"
        target = ", ".join(map(repr, self.roles.targets)) or "part of the rows"
        return f"rows of {rows}; target {target}"


def open_files(paths: Paths, roles: Roles, *, types_known: bool = False) -> Source:
    """Find the files and check their columns."""
    parts = open_parts(paths, types_known=types_known)
    first, *others = parts
    if not roles.targets:
        raise ParameterError(
            f"{first.name} has named columns: say which one is the target (target='name')."
        )
    expected = first.column_names()
    roles.features_of(expected, first.name)
    everywhere = dict.fromkeys(name for part in parts for name in part.column_names())
    roles.check_drop(everywhere, "the data" if others else first.name)
    for part in others:
        check_same_columns(first.name, expected, part.name, part.column_names(), roles)
    return Source(parts, roles)


def open_parts(paths: Paths, *, types_known: bool = False) -> tuple[FilePart, ...]:
    """Find the files and read the names of their columns."""
    files = find_files(paths)
    # Text has no types, so types of other files are ignored as well.
    types_known = types_known or any(file.format == "csv" for file in files)
    values = partition_values(files)
    return tuple(
        TextPart(file) if file.format == "csv" else ArrowPart(file, named, types_known)
        for file, named in zip(files, values, strict=True)
    )
