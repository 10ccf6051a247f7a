"""Layout of a drawn tree: boxes in inches, without any drawing library.

::

    root ──┬── condition ──┬── value        the tree lies on its side: the root is left,
           │               └── value        each end has a line, the branch of a true
           └── value                        condition is the upper one

An end is a leaf, or a split at the greatest depth shown.  A box is as wide as its longest line of
text, and a child is to the right of its parent's box, so boxes on one path cannot overlap.
Subtrees have separate lines, and a split is at least one line away from the edges of its subtree,
so its box may be two lines high.  No labels overlap, at any number of leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from hedgerow.plot.labels import LETTERS_OF_PICTURE, Tree, condition, short_cuts, short_number

BoxKind: TypeAlias = Literal["split", "leaf", "cut"]
Measure: TypeAlias = Callable[[str, float], float]
"""A function that returns the width in inches of a text in a font size in points."""

FONT_SIZE, SMALL_SIZE = 9.0, 7.5
"""Font sizes in points: for condition and value; for gain, cover and count."""

LINE, GAP, MARGIN = 0.4, 0.42, 0.2
"""Inches: height of an end; gaps between parent and child, and at the edge."""

PADDING = 0.08
ROW, SMALL_ROW = 0.15, 0.125
"""Inches: padding of a box left and right; height of a row of text in each font size."""

_LONGEST_ROW, _LONGEST_NAME = 24, 32


@dataclass(frozen=True, slots=True)
class Box:
    """Box of one node; ``x`` is its left edge, and ``y`` its middle, counted downwards."""

    node: int
    kind: BoxKind
    heading: tuple[str, ...]  # rows in the large font
    facts: tuple[str, ...]  # rows in the small font
    x: float
    y: float
    width: float
    height: float
    parent: int  # position in ``Layout.boxes``; -1 for the root
    takes_missing: bool  # whether missing values come to it from its parent


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes of a picture, parents before children, in inches."""

    boxes: list[Box]
    width: float
    height: float


def lay_out(tree: Tree, measure: Measure, max_depth: int | None = None) -> Layout:
    """Place all nodes of a tree: ends on consecutive lines, a split amid its children."""
    depths, below, cuts = tree.depths(), tree.leaves_below(), short_cuts(tree)
    boxes: list[Box] = []
    middles: list[float] = []
    todo, n_ends = [(0, -1)], 0
    while todo:  # left before right
        node, parent = todo.pop()
        x, takes_missing, y = MARGIN, False, 0.0
        if parent >= 0:
            above = boxes[parent]
            x = above.x + above.width + GAP
            is_left = node == tree.children(above.node)[0]
            takes_missing = is_left == bool(tree.nodes.missing_left[above.node])
        cut = max_depth is not None and depths[node] >= max_depth
        kind: BoxKind = "leaf" if tree.is_leaf(node) else "cut" if cut else "split"
        if kind == "split":
            todo += [(child, len(boxes)) for child in reversed(tree.children(node))]
        else:
            y = MARGIN + (n_ends + 0.5) * LINE
            n_ends += 1
        heading, facts = _label(tree, node, kind, below[node], cuts.get(node, ""))
        sized = [*((row, FONT_SIZE) for row in heading), *((row, SMALL_SIZE) for row in facts)]
        width = max(measure(row, size) for row, size in sized) + 2 * PADDING
        height = len(heading) * ROW + len(facts) * SMALL_ROW + PADDING
        boxes.append(Box(node, kind, heading, facts, x, y, width, height, parent, takes_missing))
        middles.append(y)
    for place in range(len(boxes) - 1, 0, -1):  # children come after their parent
        middles[boxes[place].parent] += middles[place] / 2
    placed = [replace(box, y=y) for box, y in zip(boxes, middles, strict=True)]
    width = max(box.x + box.width for box in boxes)
    return Layout(placed, width + MARGIN, n_ends * LINE + 2 * MARGIN)


def _label(
    tree: Tree, node: int, kind: BoxKind, n_leaves: int, cut: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the rows of a box in the large and in the small font."""
    size = tree.size_text(node, "cover {}   n={:,}")
    value = tree.value_text(node)
    if kind == "leaf":
        return (value,), (size,)
    if kind == "cut":
        return (f"… {n_leaves:,} leaves: {value}",), (size,)
    name, sign, number = condition(tree, node, letters=LETTERS_OF_PICTURE)
    if sign == "<=":
        sign, number = "≤", cut
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 8]}…{name[-7:]}"
    one_row = len(name) + len(number) + 3 <= _LONGEST_ROW
    heading = (f"{name} {sign} {number}",) if one_row else (name, f"{sign} {number}")
    return heading, (f"gain {short_number(tree.nodes.gain[node])}", size)
