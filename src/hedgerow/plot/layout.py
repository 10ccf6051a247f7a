"""Layout of a drawn tree: boxes in inches, without any drawing library.

::

    root ──┬── condition ──┬── value        the tree lies on its side: the root is left,
           │               └── → A          each leaf has a line, the branch of a true
           └── value                        condition is the upper one

    A: condition ──┬── value                subtrees that do not fit continue in a
                   └── value                separate panel with a letter

Glossary
--------
end     node without drawn children: a leaf, or a split at the greatest depth shown
stub    box in place of a subtree that has a separate panel
line    height of an end or stub; the height of a panel is its number of lines
extent  width of a complete subtree

A box is as wide as its longest line of text, and a child is to the right of its parent's box.
So boxes on one path cannot overlap.  Subtrees have separate lines, and a split is at least one
line away from the edges of its subtree, so its box may be two lines high.  No labels overlap, at
any number of leaves.

A tree is cut into panels in two steps.  From the root on, a split that would end beyond the
width of the page becomes a stub.  Then, from the ends on, subtrees with the most lines become
stubs until the panel is no higher than the page.  Stubs are the roots of the next panels, which
are placed side by side if the page is wide enough, and below each other otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Literal, TypeAlias

from hedgerow.plot.labels import LETTERS_OF_PICTURE, Tree, condition, short_cuts, short_number

Label: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""Rows of a box in the large and in the small font."""

BoxKind: TypeAlias = Literal["split", "leaf", "cut", "stub"]
Measure: TypeAlias = Callable[[str, float], float]
"""A function that returns the width in inches of a text in a font size in points."""

FONT_SIZE, SMALL_SIZE = 9.0, 7.5
"""Font sizes in points: for condition and value; for gain, cover and count."""

LINE, GAP, PANEL_GAP, MARGIN = 0.4, 0.42, 0.4, 0.2
"""Inches: height of an end; gaps between parent and child, between panels, and at the edge."""

PADDING = 0.08
ROW, SMALL_ROW = 0.15, 0.125
"""Inches: padding of a box left and right; height of a row of text in each font size."""

PAGE_WIDTH, SLACK, PAGE_LINES = 14.0, 2.0, 40
"""Size of a panel in inches and lines; a subtree that ends within the slack is not cut off."""

_LONGEST_ROW, _LONGEST_NAME = 24, 32
_STUB: BoxKind = "stub"


@dataclass(frozen=True, slots=True)
class Box:
    """Box of one node; ``x`` is its left edge, and ``y`` its middle, counted downwards.

    ``heading`` holds rows in the large font, ``facts`` rows in the small font, and ``mark`` the
    letter of a panel that begins at this node.
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
    """Line from a split to a child, as positions in ``Layout.boxes``."""

    parent: int
    child: int
    takes_missing: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes and lines of a picture, in inches."""

    boxes: list[Box]
    edges: list[Edge]
    n_panels: int
    width: float
    height: float


def lay_out(tree: Tree, measure: Measure, max_depth: int | None = None) -> Layout:
    """Place all nodes of a tree, in as many panels as needed."""
    pages = _Pages(tree, measure, max_depth)
    boxes: list[Box] = []
    edges: list[Edge] = []
    words = (itertools.product(ascii_uppercase, repeat=n) for n in itertools.count(1))
    letters = map("".join, itertools.chain.from_iterable(words))  # A B ... Z AA AB ...
    roots = [(0, "")]
    left, top, bottom = 0.0, MARGIN, MARGIN
    for root, mark in roots:  # the loop extends the list
        stubs = pages.stubs(root)
        panel, links = _place(pages, root, mark, stubs, top)
        width = max(box.x + box.width for box in panel)
        if left > 0.0 and left + width > PAGE_WIDTH:  # no room beside the previous panel
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
    """Labels, widths and lines of all nodes, and the cuts between panels."""

    def __init__(self, tree: Tree, measure: Measure, max_depth: int | None) -> None:
        self.tree, self.measure = tree, measure
        n_nodes, depths, below = len(tree.nodes.feature), tree.depths(), tree.leaves_below()
        self.kinds: list[BoxKind] = []
        self.labels: list[Label] = []
        self.stub_labels: list[Label] = []
        self.width = [0.0] * n_nodes
        cuts = short_cuts(tree)
        self.stub_width = [0.0] * n_nodes
        self.extent = [0.0] * n_nodes
        for node in range(n_nodes):
            cut = max_depth is not None and depths[node] >= max_depth
            kind: BoxKind = "leaf" if tree.is_leaf(node) else "cut" if cut else "split"
            self.kinds.append(kind)
            for labels, shape in ((self.labels, kind), (self.stub_labels, _STUB)):
                labels.append(_label(tree, node, shape, below[node], cuts.get(node, "")))
            if max_depth is None or depths[node] <= max_depth:  # measure only nodes that are drawn
                self.width[node] = self.width_of(*self.labels[node])
                self.stub_width[node] = self.width_of(*self.stub_labels[node])
        for node in reversed(range(n_nodes)):  # children come after their parent
            self.extent[node] = self.width[node]
            if self.kinds[node] == "split":
                widest = max(self.extent[child] for child in tree.children(node))
                self.extent[node] += GAP + widest

    def width_of(self, heading: tuple[str, ...], facts: tuple[str, ...]) -> float:
        sized = [*((row, FONT_SIZE) for row in heading), *((row, SMALL_SIZE) for row in facts)]
        return max(self.measure(row, size) for row, size in sized) + 2 * PADDING

    def start(self, mark: str) -> float:
        """Return the left edge of a panel's root, to the right of its letter."""
        return MARGIN + (self.measure(f"{mark}:", FONT_SIZE + 2) + PADDING if mark else 0.0)

    def stubs(self, root: int) -> set[int]:
        """Return the splits below ``root`` that get a separate panel."""
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
        """Return the nodes below ``root``, parents first, and the stubs at the page's width."""
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
        """Return whether a node and its children, at least as stubs, fit at ``x``."""
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
    """Place one panel: ends on consecutive lines, a split in the middle of its children."""
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


def _label(tree: Tree, node: int, kind: BoxKind, n_leaves: int, cut: str) -> Label:
    """Return the rows of a box in the large and in the small font."""
    size = tree.size_text(node, "cover {}   n={:,}")
    value = tree.value_text(node)
    if kind == "leaf":
        return (value,), (size,)
    if kind == "cut":
        return (f"… {n_leaves:,} leaves: {value}",), (size,)
    if kind == "stub":
        # The letter is not known yet; the facts are wider than any letter.
        return ("→",), (f"{n_leaves:,} leaves   {size}",)
    name, sign, number = condition(tree, node, letters=LETTERS_OF_PICTURE)
    if sign == "<=":
        sign, number = "≤", cut
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 8]}…{name[-7:]}"
    one_row = len(name) + len(number) + 3 <= _LONGEST_ROW
    heading = (f"{name} {sign} {number}",) if one_row else (name, f"{sign} {number}")
    return heading, (f"gain {short_number(tree.nodes.gain[node])}", size)
