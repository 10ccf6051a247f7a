"""Trees as pictures, drawn with matplotlib.

The tree lies on its side, with the root on the left.  :mod:`hedgerow.plot.layout` computes the
position of each box.  This module draws boxes in inches and letters in points.  A figure made for
the tree shows both at full size; on the user's axes both shrink until the tree fits.

Colour alone carries no information: the number of a leaf has a sign, a dot marks the branch of
missing values, and the width of a line shows the share of rows.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from hedgerow.data.schema import Schema
from hedgerow.errors import ParameterError
from hedgerow.plot import layout as lay
from hedgerow.plot import style as s
from hedgerow.plot.labels import ModelLike, Tree, checked_depth, pick_tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BOX = "#f5f7fa"

_HEAD = 0.6
"""Height in inches above the axes, for title and legend."""

_ON_CURVE = np.array([0.28**3, 3 * 0.72 * 0.28**2, 3 * 0.72**2 * 0.28, 0.72**3])
"""Weights of the four points of a cubic Bezier curve at 72% of its way, where the dot is."""

_LARGEST = 600.0
"""Largest side in inches: 60,000 pixels at 100 dots per inch; many programs stop at 65,535."""


def plot_tree(
    model: ModelLike,
    tree: SupportsIndex = 0,
    ax: Axes | None = None,
    *,
    max_depth: SupportsIndex | None = None,
    schema: Schema | None = None,
) -> Axes:
    """Draw a tree with matplotlib.

    A split shows its condition, gain, cover (sum of hessians) and number of rows.  A leaf shows
    its value (its contribution to the raw score, including the learning rate), cover and number
    of rows.  Rows that meet the condition take the upper branch.  A dot marks the branch of
    missing values; categories without training rows take the same branch, unless
    :func:`hedgerow.plot.tree_text` says otherwise.  The width of a line shows the share of
    training rows.

    Parameters
    ----------
    model, tree, schema
        As for :func:`hedgerow.plot.tree_text`.
    ax : matplotlib Axes, optional
        Axes to draw on; the letters shrink until the tree fits.  The default is a new figure
        of the size that the tree needs, with letters of 9 and 7.5 points: about 16 by 13
        inches for 31 leaves.
    max_depth : int, optional
        Deeper splits are summarised in one box.

    Returns
    -------
    matplotlib.axes.Axes
        A threshold of more than 12 letters ends with ``…`` after six digits, or as many as tell
        it from the tree's other thresholds of the column.  Other numbers are rounded to four
        digits.  Names and sets of
        categories longer than 32 letters are shortened; :func:`hedgerow.plot.tree_rules`
        writes them in full.

    Raises
    ------
    IndexError
        If there is no such tree.
    ParameterError
        If ``max_depth`` is not a whole number >= 0, or the tree is too large (about 1,400
        leaves) for one figure.

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.datasets import load_pima
    >>> from hedgerow.plot import plot_tree
    >>> X, y, names, _ = load_pima()
    >>> booster = train({"n_estimators": 2}, Dataset(X, y, feature_names=names))
    >>> axes = plot_tree(booster.model, tree=1, max_depth=3)
    >>> axes.get_title(loc="left")
    'tree 1 of 2'
    >>> axes.figure.savefig("tree.png")  # doctest: +SKIP
    """
    plt = s.pyplot("plot_tree (unlike tree_text)")
    chosen = pick_tree(model, schema, tree)
    layout = lay.lay_out(chosen, functools.cache(_text_width), checked_depth(max_depth))
    width, height, scale = layout.width, layout.height, 1.0
    s.check_axes(ax)
    if ax is None:
        if max(width, height) > _LARGEST:
            raise ParameterError(
                f"tree {chosen.index} has {chosen.leaves_below()[0]:,} leaves, too many for one "
                "picture: limit it with max_depth, pass your own axes as ax, or use tree_text."
            )
        width = max(width, 5.5)  # the legend
        figure = plt.figure(figsize=(width, height + _HEAD))
        # No layout engine: an inch of the drawing is an inch of the figure.
        ax = figure.add_axes((0.0, 0.0, 1.0, height / (height + _HEAD)))
    else:
        box, dpi = ax.get_window_extent(), ax.figure.dpi
        scale = min(1.0, box.width / dpi / width, box.height / dpi / height)
    ax.set(xlim=(0, width), ylim=(height, 0))
    ax.set_axis_off()
    _draw_edges(ax, chosen, layout, scale)
    _draw_boxes(ax, chosen, layout, scale)
    ax.set_title(
        chosen.title(), loc="left", fontsize=lay.FONT_SIZE + 2, color=s.INK, pad=20, x=0.005
    )
    legend = "condition true: upper branch    ● missing values    line width: rows"
    ax.annotate(
        legend, (0.005, 1), xycoords="axes fraction", xytext=(0, 6), textcoords="offset points",
        fontsize=lay.SMALL_SIZE, color=s.FAINT,
    )  # fmt: skip
    return ax


def _text_width(text: str, size: float) -> float:
    """Return the width of a text in the user's font in inches, with a margin for rounding."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    width, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=size), False)
    return 1.06 * float(width) / 72


def _draw_edges(ax: Axes, tree: Tree, layout: lay.Layout, scale: float) -> None:
    """Draw an S-shaped line from each split to each child; its width is the share of rows."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    total = max(1, int(tree.nodes.count[0]))
    for child in layout.boxes[1:]:
        parent = layout.boxes[child.parent]
        start, end = parent.x + parent.width, child.x
        middle = (start + end) / 2
        points = [(start, parent.y), (middle, parent.y), (middle, child.y), (end, child.y)]
        share = min(1.0, int(tree.nodes.count[child.node]) / total)
        width = (0.8 + 4.2 * share**0.5) * scale
        ax.add_patch(PathPatch(Path(points, codes), fill=False, lw=width, ec=s.LINE))
        if child.takes_missing:
            dot: dict[str, Any] = {"mfc": s.INK, "mec": "white", "mew": 0.8 * scale, "zorder": 3}
            ax.plot(*_ON_CURVE @ np.array(points), "o", ms=5.5 * scale, **dot)


def _draw_boxes(ax: Axes, tree: Tree, layout: lay.Layout, scale: float) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import FancyBboxPatch

    leaves = tree.nodes.feature < 0
    largest = float(np.abs(tree.nodes.value[leaves]).max()) or 1.0
    colours = colormaps["RdBu_r"]
    for box in layout.boxes:
        fill: Any = _BOX if box.kind == "split" else "white"
        if box.kind == "leaf":
            # The middle of the colour map is pale enough for dark letters, also in grey.
            fill = colours(0.5 + 0.2 * float(tree.nodes.value[box.node]) / largest)
        patch = FancyBboxPatch(
            (box.x, box.y - box.height / 2), box.width, box.height,
            boxstyle="round,pad=0,rounding_size=0.06", lw=0.8 * scale,
            ls="--" if box.kind == "cut" else "-", fc=fill, ec=s.LINE, zorder=2,
        )  # fmt: skip
        ax.add_patch(patch)
        _write(ax, box, scale)


def _write(ax: Axes, box: lay.Box, scale: float) -> None:
    """Write the heading of a box in ink, and its facts smaller."""
    x, y = box.x + lay.PADDING, box.y - box.height / 2 + lay.PADDING / 2
    colour = s.INK if box.kind == "leaf" else s.FAINT
    large, small = (lay.FONT_SIZE, lay.ROW, s.INK), (lay.SMALL_SIZE, lay.SMALL_ROW, colour)
    for rows, (size, height, shade) in ((box.heading, large), (box.facts, small)):
        for row in rows:
            ax.text(
                x, y + height / 2, row, fontsize=size * scale, color=shade, va="center", zorder=4,
                parse_math=False,
            )  # fmt: skip
            y += height
