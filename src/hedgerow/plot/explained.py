"""Plots of SHAP values: all rows at once, one row, one column, pairs of columns.

The functions take an explanation (``explain`` of boosters and estimators) with ``values`` of
shape (rows, columns[, outputs]), or (rows, columns, columns[, outputs]) with interactions,
``base_values``, ``data``, ``feature_names``, ``output_names``, ``interactions``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.errors import DataTypeError, ParameterError, brief
from hedgerow.inspection.friedman import Interactions
from hedgerow.plot import style as s
from hedgerow.plot.effects import checked_output
from hedgerow.plot.importance import checked_most

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAR: dict[str, Any] = {"aspect": 40, "pad": 0.02, "fraction": 0.03}
"""Size and place of a colour bar beside points."""

_BINS = 120
"""Number of parts of the axis within which a beeswarm stacks points."""


def values_of_output(
    explanation: Any, output: int | str | None
) -> tuple[FloatArray, FloatArray, str]:
    """Return SHAP values of one output, the base value of each row, and the output's name."""
    names = tuple(explanation.output_names)
    values, base = np.asarray(explanation.values), np.asarray(explanation.base_values)
    if not names:
        if output is not None and not (isinstance(output, int | np.integer) and output == 0):
            raise ParameterError(
                f"the explanation has only one output; got output={brief(output)}."
            )
        return values, np.broadcast_to(base.reshape(-1), len(values)), ""
    if output is None:
        raise ParameterError(
            f"this explanation has {len(names)} outputs: choose one with output, by number or "
            f"name ({', '.join(map(s.short, names[:8]))}{', ...' if len(names) > 8 else ''})."
        )
    (chosen,) = checked_output(output, len(names), names)
    return values[..., chosen], np.broadcast_to(base[..., chosen], len(values)), names[chosen]


def check_explanation(explanation: object) -> None:
    """Raise ``DataTypeError`` unless an object has the attributes of an explanation."""
    if not hasattr(explanation, "base_values") or not hasattr(explanation, "interactions"):
        raise DataTypeError(
            "explanation must be the result of explain, such as booster.explain(X); got "
            f"{brief(explanation)}."
        )


def plain_values(
    explanation: Any, output: int | str | None, what: str
) -> tuple[FloatArray, FloatArray, str]:
    """Return :func:`values_of_output`, or raise for interactions; ``what`` names the plot."""
    check_explanation(explanation)
    if explanation.interactions:
        raise ParameterError(
            f"{what} shows single columns, but this explanation has interactions of pairs: use "
            "plot_interactions, or explain without interactions=True."
        )
    return values_of_output(explanation, output)


def plot_beeswarm(
    explanation: Any, ax: Axes | None = None, *, most: int = 15, output: int | str | None = None
) -> Axes:
    """Plot the SHAP values of all rows, one line of points per column (beeswarm).

    Parameters
    ----------
    explanation : hedgerow.explain.Explanation
    ax : matplotlib Axes, optional
        Default: a new figure of suitable height.
    most : int, default=15
        Maximum number of columns, the most important first.
    output : int or str, optional
        Number or name of the output, if there are several.

    Returns
    -------
    matplotlib.axes.Axes
        The shade of a point is the rank of the row's value in the column.  Points of categories,
        which have no order, are grey; points of missing values are grey and hollow.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ParameterError
        If ``most`` or ``output`` is out of range, or the explanation has interactions.
    """
    most = checked_most(most)
    values, _, output_name = plain_values(explanation, output, "plot_beeswarm")
    columns = s.table_columns(explanation.data, explanation.feature_names)
    order = np.argsort(-np.abs(values).mean(axis=0), kind="stable")[:most]
    ax = s.new_axes("plot_beeswarm", ax, 7.2, 1.2 + 0.36 * len(order))
    low, high = min(0.0, float(values[:, order].min())), max(0.0, float(values[:, order].max()))
    ax.axvline(0.0, color=s.LINE, lw=0.8)
    points = None
    for place, column in enumerate(order.tolist()):
        own = values[:, column]
        y = place + _stacked(own, low, high)
        points = _draw_points(ax, (own, y), s.in_numbers(columns[column])) or points
    s.named_rows(ax, s.short_names(explanation.feature_names[k] for k in order.tolist()))
    s.finish(ax, "x")
    ax.spines["left"].set_visible(False)
    span = (high - low) or 1.0
    ax.set_xlim(low - 0.04 * span, high + 0.04 * span)
    ax.set_xlabel("SHAP value: effect on the raw score", color=s.INK, fontsize=s.MEDIUM)
    if output_name:
        s.title(ax, s.short(output_name))
    if points is not None and len(values) > 1:  # one row has no rank
        s.shade_bar(ax, points, "value of the column", ("low", "high"), **BAR)
    return ax


def _stacked(values: FloatArray, low: float, high: float) -> FloatArray:
    """Return vertical offsets, so that points with nearly equal values do not overlap."""
    span = (high - low) or 1.0
    part = np.minimum(((values - low) / span * _BINS).astype(np.int64), _BINS - 1)
    order = np.argsort(part, kind="stable")
    counts = np.bincount(part, minlength=_BINS)
    rank = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    side = np.where(rank % 2 == 0, 1.0, -1.0) * ((rank + 1) // 2)
    # A few points have a fixed distance; many share the height of the line.
    step = min(0.09, 0.76 / max(1, int(counts.max())))
    found = np.empty(len(values))
    found[order] = side * step
    return found


def _draw_points(ax: Axes, at: tuple[FloatArray, FloatArray], column: AnyArray) -> Any:
    """Draw the points of one column; return the points with shades, if any."""
    x, y = at
    size = float(np.clip(4000.0 / max(1, len(x)), 4.0, 18.0))
    many = len(x) > 500
    if column.dtype == object:
        missing = np.array([value is None for value in column], dtype=np.bool_)
        ax.scatter(x[~missing], y[~missing], s=size, color=s.LINE, lw=0, rasterized=many)
        ranks = None
    else:
        missing = np.isnan(column)
        ranks = ranks_of(column[~missing])
    ax.scatter(
        x[missing],
        y[missing],
        s=size,
        facecolors="none",
        edgecolors=s.LINE,
        lw=0.7,
        rasterized=many,
    )
    if ranks is None or len(ranks) == 0:
        return None
    return ax.scatter(
        x[~missing], y[~missing], s=size, c=ranks, cmap=s.SHADES, vmin=0.0, vmax=1.0, lw=0,
        rasterized=many,
    )  # fmt: skip


def ranks_of(values: FloatArray) -> FloatArray:
    """Return the rank of each value from 0 to 1, with equal ranks for ties."""
    if len(values) < 2:
        return np.full(len(values), 0.5)
    from scipy.stats import rankdata  # takes a second to import

    return np.asarray((rankdata(values) - 1.0) / (len(values) - 1.0))


def plot_waterfall(
    explanation: Any,
    row: int = 0,
    ax: Axes | None = None,
    *,
    most: int = 10,
    output: int | str | None = None,
) -> Axes:
    """Plot how one row gets its raw score, upwards from the base value (waterfall).

    Parameters
    ----------
    explanation : hedgerow.explain.Explanation
    row : int, default=0
        Negative numbers count from the end.
    ax : matplotlib Axes, optional
    most : int, default=10
        Maximum number of columns, by largest SHAP value; the other columns are one step.
    output : int or str, optional
        Number or name of the output, if there are several.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ParameterError
        If there is no such row or output, or the explanation has interactions.
    """
    most = checked_most(most)
    values, bases, output_name = plain_values(explanation, output, "plot_waterfall")
    is_whole = isinstance(row, int | np.integer) and not isinstance(row, bool)
    if not is_whole or not -len(values) <= row < len(values):
        raise ParameterError(f"row must be from 0 to {len(values) - 1}; got {brief(row)}.")
    row = int(row) % len(values)
    base = float(bases[row])
    names, steps = _steps(explanation, values[row], row, most)
    ax = s.new_axes("plot_waterfall", ax, 7.0, 1.3 + 0.34 * len(steps))
    ends = base + np.cumsum(steps[::-1])[::-1]  # the last step is added first
    starts = ends - steps
    low, high = float(min(ends.min(), starts.min())), float(max(ends.max(), starts.max()))
    span = (high - low) or max(1e-12, abs(high)) * 0.1
    for place, (start, step) in enumerate(zip(starts, steps, strict=True)):
        _draw_step(ax, place, (float(start), float(step)), span)
        if place > 0:  # line to the step above
            ax.plot([start + step] * 2, [place - 0.66, place], color=s.LINE, lw=0.7, zorder=1)
    ax.set_xlim(low - 0.18 * span, high + 0.18 * span)
    s.named_rows(ax, names)
    s.finish(ax, "x")
    ax.spines["left"].set_visible(False)
    ax.axvline(base, color=s.LINE, lw=0.8, ls=(0, (2, 2)), zorder=0)
    ax.set_xlabel(
        f"raw score; without any column {s.rounded(base)}", color=s.INK, fontsize=s.MEDIUM
    )
    of = f" of {s.short(output_name)}" if output_name else ""
    s.title(ax, f"row {row}: raw score{of} {s.rounded(float(ends[0]))}")
    return ax


def _steps(
    explanation: Any, values: FloatArray, row: int, most: int
) -> tuple[list[str], FloatArray]:
    """Return names and sizes of the steps, the largest on top, others last."""
    order = np.argsort(-np.abs(values), kind="stable")
    kept, others = order[:most], order[most:]
    columns = s.table_columns(explanation.data, explanation.feature_names)
    shown = s.short_names((explanation.feature_names[k] for k in kept.tolist()), 24)
    names = [
        f"{name} = {s.cell_text(columns[k][row])}"
        for name, k in zip(shown, kept.tolist(), strict=True)
    ]
    steps = values[kept]
    if len(others) > 0:
        names.append(f"{len(others)} other column{'s' if len(others) > 1 else ''}")
        steps = np.append(steps, values[others].sum())
    return names, steps


def _draw_step(ax: Axes, place: int, step: tuple[float, float], span: float) -> None:
    """Draw an arrow for a step, with its size next to its point."""
    from matplotlib.patches import Polygon

    start, size = step
    end, half = start + size, 0.32
    head = min(abs(size), 0.018 * span) * (1.0 if size >= 0 else -1.0)
    corners = [
        (start, place - half), (end - head, place - half), (end, place),
        (end - head, place + half), (start, place + half),
    ]  # fmt: skip
    colour = s.RAISES if size >= 0 else s.LOWERS
    ax.add_patch(Polygon(corners, closed=True, fc=colour, ec=colour, lw=0.5, zorder=2))
    ax.annotate(
        s.signed(size), (end, place), xytext=(4 if size >= 0 else -4, 0),
        textcoords="offset points", ha="left" if size >= 0 else "right", va="center",
        fontsize=s.SMALL, color=s.INK, zorder=3,
    )  # fmt: skip


def plot_interactions(
    found: Any, ax: Axes | None = None, *, most: int = 12, output: int | str | None = None
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
    output : int or str, optional
        Number or name of the output, if there are several.

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
    table, shown = table[np.ix_(order, order)], s.short_names((names[k] for k in order), 24)
    n = len(order)
    ax = s.new_axes("plot_interactions", ax, 2.6 + 0.46 * n, 2.2 + 0.42 * n)
    below = np.tril(np.ones((n, n), dtype=np.bool_), -1)
    texts = np.where(below, [[f"{size:.2g}" for size in row] for row in table], "")
    shades = np.ma.masked_where(~below, table)
    mesh = s.draw_cells(ax, shades, texts, shown, s.SMALL - 1.5, float(table.max()) or 1.0)
    ax.set_xlim(-0.5, max(n - 1.5, 0.5))
    ax.set_ylim(n - 0.5, min(0.5, n - 1.5))
    s.shade_bar(ax, mesh, unit, aspect=30, pad=0.02, shrink=0.8)
    return ax


def _table_of_pairs(
    found: Any, output: int | str | None
) -> tuple[FloatArray, tuple[str, ...], str]:
    if isinstance(found, Interactions):
        n = len(found.names)
        strength = found.strength.reshape(n, n, -1)
        n_outputs = strength.shape[2]
        (chosen,) = checked_output(
            0 if n_outputs == 1 else output or 0, n_outputs, found.output_names
        )
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
