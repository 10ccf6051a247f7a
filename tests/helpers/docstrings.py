"""Entries in the docstrings of estimators, of which classes of a family share many.

``python -m tests.helpers.docstrings`` copies the texts of the first class of each family to the
others, from the root of the repository.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import hedgerow

FAMILIES: list[tuple[list[Any], set[str]]] = [
    (
        [hedgerow.HedgerowClassifier, hedgerow.HedgerowRegressor, hedgerow.HedgerowRanker],
        {"objective", "eval_metric", "y", "sample_weight", "X_val, y_val", "offset"},
    ),
    (
        [hedgerow.CARTClassifier, hedgerow.CARTRegressor],
        {"criterion", "categorical_features", "monotonic_cst", "y", "feature_importances_"},
    ),
]
"""Classes, and the entries whose texts differ between them."""


@dataclass(frozen=True)
class Entry:
    """Names, kind and text of an entry; ``lines`` are its lines of the file, from 0."""

    names: str
    kind: str
    text: str
    section: str
    group: str
    lines: range


def entries(source: list[str], lines: range) -> Iterator[Entry]:
    """Yield the parameters and attributes of the docstring in some lines of a file."""
    section, group = "", ""
    heads: list[tuple[int, str, str]] = []
    margin = min(len(source[k]) - len(source[k].lstrip()) for k in lines[1:] if source[k].strip())
    for k in lines[1:]:
        line = source[k][margin:]
        if not line.strip() or line[0] == " " or line.startswith('"""'):
            continue
        if source[k + 1].strip().startswith("---"):
            section, group = line, ""
        elif line.endswith(":") and section == "Parameters":
            group = line[:-1]
        elif section in ("Parameters", "Attributes") and not line.startswith("---"):
            heads.append((k, section, group))
            continue
        heads.append((k, "", ""))  # the end of an entry
    heads.append((lines[-1], "", ""))
    for (k, section, group), (end, _, _) in pairwise(heads):
        if section:
            while not source[end - 1].strip():
                end -= 1
            names, _, kind = source[k].strip().partition(" : ")
            text = " ".join(line.strip() for line in source[k + 1 : end])
            yield Entry(names, kind, text, section, group, range(k, end))


def entries_of(kind: Any) -> dict[tuple[str, str], Entry]:
    """Return the entries of a class and its method ``fit``, by section and names."""
    path = Path(inspect.getfile(kind))
    source = path.read_text("utf-8").splitlines()
    found = {}
    for node in ast.walk(ast.parse("\n".join(source))):
        if not isinstance(node, ast.ClassDef) or node.name != kind.__name__:
            continue
        fit = next(each for each in node.body if getattr(each, "name", "") == "fit")
        for where, documented in (("", node), ("fit ", fit)):
            text = documented.body[0]
            for entry in entries(source, range(text.lineno - 1, text.end_lineno)):
                found[where + entry.section, entry.names] = entry
    return found


def differences() -> Iterator[tuple[Any, Entry, Any, Entry]]:
    """Yield entries that differ between the first class of a family and another, from below."""
    for (first, *others), own in FAMILIES:
        texts = entries_of(first)
        for other in others:
            for key, entry in reversed(entries_of(other).items()):
                model = texts.get(key)
                if model is None or key[1] in own:
                    continue
                if (model.kind, model.text, model.group) != (entry.kind, entry.text, entry.group):
                    yield first, model, other, entry


def copy_texts() -> None:
    """Give the entries of all classes the texts of the first class of their family."""
    for first, model, other, entry in list(differences()):
        path = Path(inspect.getfile(other))
        source = path.read_text("utf-8").splitlines()
        given = Path(inspect.getfile(first)).read_text("utf-8").splitlines()
        source[entry.lines.start : entry.lines.stop] = given[model.lines.start : model.lines.stop]
        path.write_text("\n".join(source) + "\n", "utf-8")
        print(f"{other.__name__}: {entry.names}")


if __name__ == "__main__":
    copy_texts()
