"""Entries in the docstrings of the estimators."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import hedgerow

BOOSTED: list[Any] = [
    hedgerow.HedgerowClassifier,
    hedgerow.HedgerowRegressor,
    hedgerow.HedgerowRanker,
]
TREES: list[Any] = [hedgerow.CARTClassifier, hedgerow.CARTRegressor]


@dataclass(frozen=True)
class Entry:
    """Names, kind and text of an entry, and the section and the group that it is in."""

    names: str
    kind: str
    text: str
    section: str
    group: str


def entries(text: str) -> Iterator[Entry]:
    """Yield the parameters and attributes of a docstring."""
    lines = [*inspect.cleandoc(text).splitlines(), "", ""]
    section, group = "", ""
    heads: list[tuple[int, str, str]] = []
    for k, line in enumerate(lines):
        if not line.strip() or line[0] == " " or line.startswith("---"):
            continue
        if lines[k + 1].startswith("---"):
            section, group = line, ""
        elif line.endswith(":") and section == "Parameters":
            group = line[:-1]
        elif section in ("Parameters", "Attributes"):
            heads.append((k, section, group))
            continue
        heads.append((k, "", ""))  # the end of an entry
    heads.append((len(lines), "", ""))
    for (k, section, group), (end, _, _) in pairwise(heads):
        if section:
            names, _, kind = lines[k].partition(" : ")
            told = " ".join(line.strip() for line in lines[k + 1 : end] if line.strip())
            yield Entry(names, kind, told, section, group)


def described(kind: Any) -> dict[str, Entry]:
    """Return the entry of each parameter of a class."""
    return {
        name: entry
        for entry in entries(kind.__doc__)
        if entry.section == "Parameters"
        for name in entry.names.split(", ")
    }
