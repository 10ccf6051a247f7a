"""Trees as Graphviz source text; drawing it is left to Graphviz."""

from __future__ import annotations

from typing import SupportsIndex

from hedgerow.data.schema import Schema
from hedgerow.plot.labels import ModelLike, condition, pick_tree, short_number

_HEAD = """digraph tree {
  graph [rankdir=LR, nodesep=0.1, ranksep=0.4]
  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", fontsize=10]
  edge [fontname="Helvetica", fontsize=9]"""


def tree_dot(model: ModelLike, tree: SupportsIndex = 0, *, schema: Schema | None = None) -> str:
    """Describe a tree in the DOT language of Graphviz.

    Parameters
    ----------
    model : Model or Forest
    tree : int, default=0
        Number of the tree; negative numbers count from the end.
    schema : Schema, optional
        Columns; needed beside a forest only.

    Returns
    -------
    str
        For ``dot -Tsvg``, ``graphviz.Source`` or any viewer of DOT files. The
        upper branch is the one whose condition holds; missing values take the
        bold edge.
    """
    chosen = pick_tree(model, schema, tree)
    lines = [_HEAD, f"  label={_quoted(chosen.title())}"]
    for node in range(len(chosen.nodes.feature)):
        size = f"n={int(chosen.nodes.count[node])}"
        if chosen.is_leaf(node):
            label = f"{short_number(chosen.nodes.value[node])}\n{size}"
            colour = "#fbe3d9" if chosen.nodes.value[node] > 0 else "#dbe9f6"
            lines.append(f'  {node} [label={_quoted(label)}, fillcolor="{colour}"]')
            continue
        gain = short_number(chosen.nodes.gain[node])
        label = f"{condition(chosen, node)}\ngain={gain} {size}"
        lines.append(f"  {node} [label={_quoted(label)}]")
        for child, answer in zip(chosen.children(node), ("yes", "no"), strict=True):
            takes_missing = (answer == "yes") == bool(chosen.nodes.missing_left[node])
            style = ", style=bold" if takes_missing else ""
            lines.append(f'  {node} -> {child} [label="{answer}"{style}]')
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    """Write a DOT string: backslashes and quotes escaped, line breaks spelt out."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
