"""Where the nodes of a drawn tree stand: boxes in inches, without any drawing library.

::

    root ──┬── condition ──┬── value        the tree lies on its side: root left,
           │               └── → A          one line per leaf, the branch whose
           └── value                        condition holds above

    A: condition ──┬── value                what does not fit continues in a
                   └── value                panel of its own, under the letter

Glossary
--------
end     node that ends its way: a leaf, or a split at the greatest depth shown
stub    box that stands for a subtree drawn in a panel of its own
line    height of an end or stub; a panel is as high as it has lines
extent  width of a whole subtree

A box is as wide as its longest line of text, and a child stands right of its
parent's box.  So boxes on one way cannot meet; subtrees keep to lines of their
own, and a split, at least one line away from the edges of its subtree, may be
two lines high.  No label overlaps another, at any number of leaves.

Cutting into panels: from the root on, a split that would end beyond the width
of the page becomes a stub; then, from the ends on, subtrees with the most lines
become stubs until the panel is no higher than the page.  Stubs are the roots of
the next panels, which stand beside each other where the page is wide enough and
below otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from hedgerow.plot.divisions import LETTERS_OF_PICTURE
from hedgerow.plot.labels import Tree, condition, short_number

BoxKind: TypeAlias = Literal["split", "leaf", "cut", "stub"]
Measure: TypeAlias = Callable[[str, float], float]
"""Width in inches of a text in a font size in points."""

FONT_SIZE, SMALL_SIZE = 9.0, 7.5
"""Points: condition and value; gain, cover and count."""

LINE, GAP, PANEL_GAP, MARGIN = 0.4, 0.42, 0.4, 0.2
"""Inches: height of an end, between parent and child, between panels, around the picture."""

PADDING = 0.08
ROW, SMALL_ROW = 0.15, 0.125
"""Inches: inside of a box left and right; a row of text in each of the font sizes."""

PAGE_WIDTH, SLACK, PAGE_LINES = 14.0, 2.0, 40
"""Size of a panel in inches and lines; a subtree that ends within the slack is not cut off."""

_LONGEST_ROW, _LONGEST_NAME = 24, 32


@dataclass(frozen=True, slots=True)
class Box:
    """One node as drawn; ``x`` is its left edge, ``y`` its middle, counted downwards.

    ``heading`` rows are in the large font, ``facts`` in the small one; ``mark``
    is the letter of the panel that begins here.
    """

    node: int
    kind: BoxKind
    heading: tuple[str, ...]
    facts: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """From a split to a child; positions in ``Layout.boxes``."""

    parent: int
    child: int
    takes_missing: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """A picture in inches."""

    boxes: list[Box]
    edges: list[Edge]
    n_panels: int
    width: float
    height: float


def lay_out(tree: Tree, measure: Measure, max_depth: int | None = None) -> Layout:
    """Place all nodes of a tree, in as many panels as it takes."""
    pages = _Pages(tree, measure, max_depth)
    boxes: list[Box] = []
    edges: list[Edge] = []
    letters, roots = _letters(), [(0, "")]
    left, top, bottom = 0.0, MARGIN, MARGIN
    for root, mark in roots:  # grows while it is walked
        stubs = pages.stubs(root)
        panel, links = _place(pages, root, mark, stubs, top)
        width = max(box.x + box.width for box in panel)
        if left > 0.0 and left + width > PAGE_WIDTH:  # no room beside the panel before
            panel = [replace(box, y=box.y + bottom - top) for box in panel]
            left, top = 0.0, bottom
        marks = {box.node: next(letters) for box in panel if box.kind == "stub"}
        roots += marks.items()
        first = len(boxes)
        for box in panel:
            heading = (f"→ {marks[box.node]}",) if box.kind == "stub" else box.heading
            boxes.append(replace(box, x=box.x + left, heading=heading))
        edges += [Edge(e.parent + first, e.child + first, e.takes_missing) for e in links]
        left += width + PANEL_GAP
        bottom = max(bottom, max(box.y for box in panel) + LINE / 2 + PANEL_GAP)
    width = max(box.x + box.width for box in boxes) + MARGIN
    return Layout(boxes, edges, len(roots), width, bottom - PANEL_GAP + MARGIN)


class _Pages:
    """Labels, widths and lines of all nodes, and where to cut."""

    def __init__(self, tree: Tree, measure: Measure, max_depth: int | None) -> None:
        self.tree, self.measure = tree, measure
        n_nodes, depths, below = len(tree.nodes.feature), tree.depths(), tree.leaves_below()
        self.kinds: list[BoxKind] = []
        self.labels, self.stub_labels = [], []
        self.width = [0.0] * n_nodes
        self.stub_width = [0.0] * n_nodes
        self.extent = [0.0] * n_nodes
        for node in range(n_nodes):
            cut = max_depth is not None and depths[node] >= max_depth
            kind: BoxKind = "leaf" if tree.is_leaf(node) else "cut" if cut else "split"
            self.kinds.append(kind)
            self.labels.append(_label(tree, node, kind, below[node]))
            self.stub_labels.append(_label(tree, node, "stub", below[node]))
            if max_depth is None or depths[node] <= max_depth:  # measuring takes time
                self.width[node] = self.width_of(*self.labels[node])
                self.stub_width[node] = self.width_of(*self.stub_labels[node])
        for node in reversed(range(n_nodes)):  # children stand behind their parent
            self.extent[node] = self.width[node]
            if self.kinds[node] == "split":
                widest = max(self.extent[child] for child in tree.children(node))
                self.extent[node] += GAP + widest

    def width_of(self, heading: tuple[str, ...], facts: tuple[str, ...]) -> float:
        sized = [*((row, FONT_SIZE) for row in heading), *((row, SMALL_SIZE) for row in facts)]
        return max(self.measure(row, size) for row, size in sized) + 2 * PADDING

    def start(self, mark: str) -> float:
        """Left edge of a panel's root, its letter standing before it."""
        return MARGIN + (self.measure(f"{mark}:", FONT_SIZE + 2) + PADDING if mark else 0.0)

    def stubs(self, root: int) -> set[int]:
        """Splits below ``root`` that get a panel of their own."""
        walk, stubs = self._within_width(root)
        lines = {}
        for node in reversed(walk):
            if node in stubs or self.kinds[node] != "split":
                lines[node] = 1
                continue
            children = sorted(self.tree.children(node), key=lines.__getitem__)
            while sum(lines[child] for child in children) > PAGE_LINES:
                largest = max(children, key=lines.__getitem__)
                stubs.add(largest)
                lines[largest] = 1
            lines[node] = sum(lines[child] for child in children)
        return stubs

    def _within_width(self, root: int) -> tuple[list[int], set[int]]:
        """Nodes below ``root``, parents first, down to those that the page's width cuts off."""
        walk, stubs, todo = [], set(), [(root, MARGIN)]
        while todo:
            node, x = todo.pop()
            walk.append(node)
            if self.kinds[node] != "split":
                continue
            x += self.width[node] + GAP
            for child in self.tree.children(node):
                if self._fits(child, x):
                    todo.append((child, x))
                else:
                    walk.append(child)
                    stubs.add(child)
        return walk, stubs

    def _fits(self, node: int, x: float) -> bool:
        """Whether a node and at least its children, as stubs, find room at ``x``."""
        if self.kinds[node] != "split" or x + self.extent[node] <= PAGE_WIDTH + SLACK:
            return True
        least = max(
            self.stub_width[child] if self.kinds[child] == "split" else self.width[child]
            for child in self.tree.children(node)
        )
        return x + self.width[node] + GAP + least <= PAGE_WIDTH


def _place(
    pages: _Pages, root: int, mark: str, stubs: set[int], top: float
) -> tuple[list[Box], list[Edge]]:
    """One panel: ends on consecutive lines, a split in the middle of its children."""
    walk, parents, x, y = [], {}, {root: pages.start(mark)}, {}
    todo, n_lines = [root], 0
    while todo:  # left before right
        node = todo.pop()
        walk.append(node)
        if node in stubs or pages.kinds[node] != "split":
            y[node] = top + (n_lines + 0.5) * LINE
            n_lines += 1
            continue
        for child in reversed(pages.tree.children(node)):
            parents[child] = node
            x[child] = x[node] + pages.width[node] + GAP
            todo.append(child)
    for node in reversed(walk):
        if node not in y:
            y[node] = sum(y[child] for child in pages.tree.children(node)) / 2
    boxes, position = [], {node: i for i, node in enumerate(walk)}
    for node in walk:
        stub = node in stubs
        heading, facts = (pages.stub_labels if stub else pages.labels)[node]
        width = (pages.stub_width if stub else pages.width)[node]
        height = len(heading) * ROW + len(facts) * SMALL_ROW + PADDING
        kind: BoxKind = "stub" if stub else pages.kinds[node]
        begins = mark if node == root else ""
        boxes.append(Box(node, kind, heading, facts, x[node], y[node], width, height, begins))
    edges = []
    for child, parent in parents.items():
        is_left = child == pages.tree.children(parent)[0]
        missing = is_left == bool(pages.tree.nodes.missing_left[parent])
        edges.append(Edge(position[parent], position[child], missing))
    return boxes, edges


def _label(
    tree: Tree, node: int, kind: BoxKind, n_leaves: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Rows of a box in the large and in the small font."""
    size = f"cover {short_number(tree.nodes.cover[node])}   n={int(tree.nodes.count[node]):,}"
    value = tree.value_text(node)
    if kind == "leaf":
        return (value,), (size,)
    if kind == "cut":
        return (f"… {n_leaves:,} leaves: {value}",), (size,)
    if kind == "stub":
        # The letter is not known yet; the facts are wider than any.
        return ("→",), (f"{n_leaves:,} leaves   {size}",)
    name, sign, number = condition(tree, node, digits=6, letters=LETTERS_OF_PICTURE)
    sign = "≤" if sign == "<=" else sign
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 8]}…{name[-7:]}"
    one_row = len(name) + len(number) + 3 <= _LONGEST_ROW
    heading = (f"{name} {sign} {number}",) if one_row else (name, f"{sign} {number}")
    return heading, (f"gain {short_number(tree.nodes.gain[node])}", size)


def _letters() -> itertools.chain[str]:
    """``A B ... Z AA AB ...``."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    words = (itertools.product(alphabet, repeat=n) for n in itertools.count(1))
    return itertools.chain.from_iterable(("".join(word) for word in some) for some in words)
