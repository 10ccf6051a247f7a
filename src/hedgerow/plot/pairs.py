"""A plot of the interactions of pairs of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import ParameterError
from hedgerow.inspection.friedman import Interactions
from hedgerow.plot.effects import checked_output
from hedgerow.plot.explained import values_of_output
from hedgerow.plot.importance import checked_most
from hedgerow.plot.style import FAINT, INK, SHADES, SMALL, finish, new_axes, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_interactions(
    found: Any, ax: Axes | None = None, *, most: int = 12, output: int | None = None
) -> Axes:
    """Plot the interactions of pairs of columns as a shaded table.

    Parameters
    ----------
    found : hedgerow.explain.Explanation or hedgerow.inspection.Interactions
        An explanation with ``interactions=True``: mean absolute SHAP interaction values of
        pairs (both halves together).  For Friedman's H the strength: the standard deviation
        of the interaction.
    ax : matplotlib Axes, optional
    most : int, default=12
        Maximum number of columns; columns with the strongest interactions are shown.
    output : int, optional
        Number of the output, if there are several.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ParameterError
        If ``most`` or ``output`` is out of range, or there are no interactions.
    """
    most = checked_most(most)
    table, names, unit = _table_of_pairs(found, output)
    np.fill_diagonal(table, 0.0)
    order = np.argsort(-table.max(axis=1), kind="stable")[:most]
    table, shown = table[np.ix_(order, order)], short_names((names[k] for k in order), 24)
    n = len(order)
    ax = new_axes("plot_interactions", ax, 2.6 + 0.46 * n, 2.2 + 0.42 * n)
    below = np.tril(np.ones((n, n), dtype=np.bool_), -1)
    mesh = ax.imshow(
        np.ma.masked_where(~below, table), cmap=SHADES, vmin=0.0, vmax=float(table.max()) or 1.0
    )
    for i, j in zip(*np.nonzero(below), strict=True):
        dark = table[i, j] < 0.55 * table.max()
        text = f"{table[i, j]:.2g}" if table[i, j] > 0.0 else "0"
        ax.text(
            j, i, text, ha="center", va="center", fontsize=SMALL - 1.5,
            color="white" if dark else INK,
        )  # fmt: skip
    finish(ax)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.set_xticks(range(n), shown, rotation=90, parse_math=False, fontsize=SMALL)
    ax.set_yticks(range(n), shown, parse_math=False, fontsize=SMALL)
    ax.set_xlim(-0.5, max(n - 1.5, 0.5))
    ax.set_ylim(n - 0.5, min(0.5, n - 1.5))
    ax.tick_params(length=0)
    bar = ax.figure.colorbar(mesh, ax=ax, aspect=30, pad=0.02, shrink=0.8)
    bar.outline.set_visible(False)
    bar.set_label(unit, color=INK, fontsize=SMALL)
    bar.ax.tick_params(colors=FAINT, labelsize=SMALL)
    return ax


def _table_of_pairs(found: Any, output: int | None) -> tuple[FloatArray, tuple[str, ...], str]:
    if isinstance(found, Interactions):
        n = len(found.names)
        strength = found.strength.reshape(n, n, -1)
        (chosen,) = checked_output(0 if strength.shape[2] == 1 else output or 0, strength.shape[2])
        return strength[..., chosen].copy(), found.names, "strength of the interaction"
    if not found.interactions:
        raise ParameterError(
            "this explanation has no interactions: explain with interactions=True, or pass the "
            "result of the model's interactions()."
        )
    values, _, _ = values_of_output(found, output)
    # Each of the two entries of a pair holds half of its value.
    sizes = np.abs(values + np.swapaxes(values, 1, 2)).mean(axis=0)
    return sizes, tuple(found.feature_names), "mean |SHAP interaction value|"
