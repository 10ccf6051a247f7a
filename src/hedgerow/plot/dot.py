"""Trees as Graphviz source text; Graphviz draws them."""

from __future__ import annotations

from typing import SupportsIndex

from hedgerow.data.schema import Schema
from hedgerow.plot.divisions import LETTERS_OF_TEXT
from hedgerow.plot.labels import ModelLike, Tree, checked_depth, condition, pick_tree, short_number

_HEAD = """digraph tree {
  graph [rankdir=LR, ordering=out, nodesep=0.1, ranksep=0.4, fontname="Helvetica"]
  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", fontsize=10]
  edge [fontname="Helvetica", fontsize=9]"""


def tree_dot(
    model: ModelLike,
    tree: SupportsIndex = 0,
    max_depth: SupportsIndex | None = None,
    *,
    schema: Schema | None = None,
) -> str:
    r"""Return a tree in the DOT language of Graphviz.

    Parameters
    ----------
    model : Model or Forest
    tree : int, default=0
        Number of the tree; negative numbers count from the end.
    max_depth : int, optional
        Deeper splits are summarised in one dashed box.
    schema : Schema, optional
        Columns; needed only with a forest.

    Returns
    -------
    str
        Text for ``dot -Tsvg``, ``graphviz.Source`` or any viewer of DOT files.  A split shows
        its condition (exact, but long sets of categories are shortened), gain, cover and
        number of rows.  A leaf shows its value, cover and number of rows.  The upper branch is
        for a true condition.  Missing values follow the bold edge, whose label says so.

    Raises
    ------
    IndexError
        If there is no such tree.
    ParameterError
        If ``max_depth`` is not a whole number >= 0.

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.plot import tree_dot
    >>> params = {"n_estimators": 1, "learning_rate": 1.0, "min_samples_leaf": 1}
    >>> params |= {"reg_lambda": 0.0, "early_stopping": False}
    >>> booster = train(params, Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0]))
    >>> for line in tree_dot(booster.model).splitlines()[5:8]:
    ...     print(line)
      0 [label="x0 <= 3.0\ngain=3\ncover=3 n=3"]
      0 -> 1 [label="yes, missing", style=bold]
      0 -> 2 [label="no"]
    """
    chosen, max_depth = pick_tree(model, schema, tree), checked_depth(max_depth)
    lines = [_HEAD, f"  label={_quoted(chosen.title())}"]
    depths, below = chosen.depths(), chosen.leaves_below()
    for node in range(len(chosen.nodes.feature)):
        if max_depth is not None and depths[node] > max_depth:
            continue
        size, value = chosen.size_text(node), chosen.value_text(node)
        if chosen.is_leaf(node):
            colour = "#fbe3d9" if chosen.nodes.value[node] > 0 else "#dbe9f6"
            label = _quoted(f"{value}\n{size}")
            lines.append(f'  {node} [label={label}, fillcolor="{colour}"]')
        elif depths[node] == max_depth:
            label = _quoted(f"… {below[node]} leaves: {value}\n{size}")
            lines.append(f'  {node} [label={label}, style="rounded,dashed"]')
        else:
            gain = short_number(chosen.nodes.gain[node])
            what = " ".join(condition(chosen, node, letters=LETTERS_OF_TEXT))
            label = _quoted(f"{what}\ngain={gain}\n{size}")
            lines.append(f"  {node} [label={label}]")
            lines += _edges(chosen, node)
    return "\n".join([*lines, "}", ""])


def _edges(tree: Tree, node: int) -> list[str]:
    """Return the two edges of a split; the edge of missing values is bold and labelled.

    The label also names values that are not a level if they follow the other edge.
    """
    missing_left, division = bool(tree.nodes.missing_left[node]), tree.division(node)
    other = "" if division is None else division.other_way(missing_left)
    edges = []
    for child, side, answer in zip(
        tree.children(node), ("left", "right"), ("yes", "no"), strict=True
    ):
        takes_missing = (side == "left") == missing_left
        words = [answer, *["missing"] * takes_missing, *["other"] * (other == side)]
        style = ", style=bold" * takes_missing
        edges.append(f'  {node} -> {child} [label="{", ".join(words)}"{style}]')
    return edges


def _quoted(text: str) -> str:
    """Return a DOT string that shows ``text`` literally.

    Backslashes start escapes in labels, and ``&`` starts an HTML entity.
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped.replace("&", "&amp;")}"'
