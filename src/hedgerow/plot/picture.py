"""Trees as pictures, drawn with matplotlib.

::

    root ──┬── condition ──┬── value      the tree lies on its side: root left,
           │               └── value      one line per leaf, the branch whose
           └── value                      condition holds above

Sizes follow from the text: a level is as wide as its longest label, a leaf as
high as its two lines, so labels do not overlap at any number of leaves.  On
axes given by the user the letters shrink until the tree fits.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from hedgerow.data.schema import Schema
from hedgerow.plot.labels import ModelLike, Tree, condition, pick_tree, short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FONT_SIZE = 9.0
_LEAF_HEIGHT = 0.36
_LETTER = 0.075
_GAP = 0.62
_MARGIN = 0.25
"""Inches at the font size above: a leaf, a letter, between levels, around."""

_LONGEST_LABEL = 32
_INK, _FAINT, _LINE, _BOX = "#1f2933", "#6b7785", "#a9b4c0", "#f5f7fa"


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where nodes stand, in inches: left edge and width of each level, height of each node."""

    depth: list[int]
    labels: list[str]
    left: list[float]
    width: list[float]
    y: list[float]
    n_leaves: int

    @property
    def size(self) -> tuple[float, float]:
        return (
            self.left[-1] + self.width[-1] + _MARGIN,
            self.n_leaves * _LEAF_HEIGHT + 2 * _MARGIN,
        )


def plot_tree(
    model: ModelLike,
    tree: SupportsIndex = 0,
    ax: Axes | None = None,
    *,
    schema: Schema | None = None,
) -> Axes:
    """Draw a tree with matplotlib.

    Parameters
    ----------
    model : Model or Forest
    tree : int, default=0
        Number of the tree; negative numbers count from the end.
    ax : matplotlib Axes, optional
        Where to draw; without it a new figure as large as the tree needs.
    schema : Schema, optional
        Columns; needed beside a forest only.

    Returns
    -------
    matplotlib.axes.Axes
        Thresholds are rounded to six digits. The width of a line shows the
        share of training rows; a dot marks the way of missing values.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plot_tree needs matplotlib: pip install 'hedgerow[plot]'. "
            "Without it there are tree_text and tree_dot."
        ) from error
    chosen = pick_tree(model, schema, tree)
    layout = _lay_out(chosen)
    width, height = layout.size
    if ax is None:
        # The title and its line of explanation stand above the axes.
        _, ax = plt.subplots(figsize=(max(width, 4.5), height + 0.6), layout="constrained")
        scale = 1.0
    else:
        box, dpi = ax.get_window_extent(), ax.figure.dpi
        scale = min(1.0, box.width / dpi / width, box.height / dpi / height)
    ax.set(xlim=(0, width), ylim=(height, 0))
    ax.set_axis_off()
    _draw_edges(ax, chosen, layout, scale)
    _draw_nodes(ax, chosen, layout, scale)
    ax.set_title(chosen.title(), loc="left", fontsize=_FONT_SIZE + 2, color=_INK, pad=20)
    legend = "condition true: upper branch    ● missing values    line width: rows"
    place: dict[str, Any] = {
        "xy": (0, 1),
        "xycoords": "axes fraction",
        "textcoords": "offset points",
    }
    ax.annotate(legend, xytext=(0, 6), **place, fontsize=_FONT_SIZE - 1, color=_FAINT)
    return ax


def _lay_out(tree: Tree) -> _Layout:
    """Leaves on consecutive lines, a split in the middle of its children."""
    depth = tree.depths()
    labels = [_label(tree, node) for node in range(len(depth))]
    y, n_leaves, todo = [0.0] * len(depth), 0, [0]
    while todo:  # left before right
        node = todo.pop()
        if tree.is_leaf(node):
            y[node] = _MARGIN + (n_leaves + 0.5) * _LEAF_HEIGHT
            n_leaves += 1
        else:
            todo += reversed(tree.children(node))
    for node in reversed(range(len(depth))):  # children stand behind their parent
        if not tree.is_leaf(node):
            y[node] = sum(y[child] for child in tree.children(node)) / 2
    width = [0.0] * (max(depth) + 1)
    for node, level in enumerate(depth):
        longest = max(_letters(line) for line in labels[node].split("\n"))
        width[level] = max(width[level], longest * _LETTER + 0.2)
    left = (_MARGIN + np.cumsum([0.0, *(w + _GAP for w in width[:-1])])).tolist()
    return _Layout(depth, labels, left, width, y, n_leaves)


def _label(tree: Tree, node: int) -> str:
    size = f"n={int(tree.nodes.count[node]):,}"
    if tree.is_leaf(node):
        return f"{short_number(tree.nodes.value[node])}   {size}"
    name, _, number = condition(tree, node, digits=6).rpartition(" <= ")
    if len(name) + len(number) > _LONGEST_LABEL:
        name = name[: max(8, _LONGEST_LABEL - len(number))] + "…"
    return f"{name} ≤ {number}\ngain {short_number(tree.nodes.gain[node])}   {size}"


def _letters(text: str) -> int:
    """Width in letters; those of East Asian scripts are two wide."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _draw_edges(ax: Axes, tree: Tree, layout: _Layout, scale: float) -> None:
    """An S-shaped line from each split to each child, as wide as its share of rows."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    total = max(1, int(tree.nodes.count[0]))
    for node in np.flatnonzero(tree.nodes.feature >= 0).tolist():
        level = layout.depth[node]
        start = layout.left[level] + layout.width[level]
        end = layout.left[level + 1]
        middle = (start + end) / 2
        for side, child in enumerate(tree.children(node)):
            above, below = layout.y[node], layout.y[child]
            points = [(start, above), (middle, above), (middle, below), (end, below)]
            share = min(1.0, int(tree.nodes.count[child]) / total)
            width = (0.8 + 4.2 * share**0.5) * scale
            ax.add_patch(PathPatch(Path(points, codes), fill=False, lw=width, ec=_LINE))
            if (side == 0) == bool(tree.nodes.missing_left[node]):
                at = _bezier(points, 0.72)
                ax.plot(*at, "o", ms=4.5 * scale, mfc=_INK, mec="white", mew=0.7 * scale, zorder=3)


def _bezier(points: list[tuple[float, float]], t: float) -> tuple[float, float]:
    """Point of a cubic Bezier curve."""
    weights = np.array([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3])
    x, y = weights @ np.array(points)
    return float(x), float(y)


def _draw_nodes(ax: Axes, tree: Tree, layout: _Layout, scale: float) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import FancyBboxPatch

    leaves = tree.nodes.feature < 0
    largest = float(np.abs(tree.nodes.value[leaves]).max()) or 1.0
    colours = colormaps["RdBu_r"]
    for node, label in enumerate(layout.labels):
        level, is_leaf = layout.depth[node], tree.is_leaf(node)
        # Half of the map's range: pale enough for dark letters.
        share = float(tree.nodes.value[node]) / largest
        fill = colours(0.5 + 0.25 * share) if is_leaf else _BOX
        width = layout.width[level] if not is_leaf else _letters(label) * _LETTER + 0.2
        height = _LEAF_HEIGHT * (0.72 if is_leaf else 0.9)
        x, y = layout.left[level], layout.y[node]
        style: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.06", "lw": 0.7 * scale}
        corner = (x, y - height / 2)
        ax.add_patch(FancyBboxPatch(corner, width, height, fc=fill, ec=_LINE, zorder=2, **style))
        _write(ax, (x + 0.1, y), label, scale, bold=is_leaf)


def _write(ax: Axes, at: tuple[float, float], label: str, scale: float, *, bold: bool) -> None:
    """First line in ink, second one fainter and smaller."""
    first, _, second = label.partition("\n")
    x, y = at
    common: dict[str, Any] = {"ha": "left", "va": "center", "zorder": 4, "parse_math": False}
    size = _FONT_SIZE * scale
    if not second:
        ax.text(x, y, first, fontsize=size, color=_INK, **common)
        return
    ax.text(x, y - 0.068, first, fontsize=size, color=_INK, **common)
    ax.text(x, y + 0.085, second, fontsize=0.75 * size, color=_FAINT, **common)
