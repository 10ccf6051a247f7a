"""Plots of SHAP values: all rows at once, and one row.

The functions take an explanation (``explain`` of boosters and estimators) with ``values`` of
shape (rows, columns[, outputs]), ``base_values``, ``data``, ``feature_names``, ``output_names``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.errors import DataTypeError, ParameterError, brief
from hedgerow.params import Interval
from hedgerow.plot import style as s

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BINS = 120
"""Number of parts of the axis within which a beeswarm stacks points."""


def values_of_output(
    explanation: Any, output: int | str | None
) -> tuple[FloatArray, FloatArray, str]:
    """Return SHAP values of one output, the base value of each row, and the output's name."""
    if not hasattr(explanation, "base_values") or not hasattr(explanation, "interactions"):
        raise DataTypeError(
            "explanation must be the result of explain, such as booster.explain(X); got "
            f"{brief(explanation)}."
        )
    if explanation.interactions:
        raise ParameterError(
            "the plot shows single columns, but this explanation has interactions of pairs: "
            "explain without interactions=True."
        )
    names = tuple(explanation.output_names)
    values, base = np.asarray(explanation.values), np.asarray(explanation.base_values)
    if not names:
        if output is not None and output not in Interval(0, 0, integer=True):
            raise ParameterError(
                f"the explanation has only one output; got output={brief(output)}."
            )
        return values, np.broadcast_to(base.reshape(-1), len(values)), ""
    if output is None:
        raise ParameterError(
            f"this explanation has {len(names)} outputs: choose one with output, by number or "
            f"name ({', '.join(map(s.short, names[:8]))}{', ...' if len(names) > 8 else ''})."
        )
    (chosen,) = s.checked_output(output, len(names), names)
    return values[..., chosen], np.broadcast_to(base[..., chosen], len(values)), names[chosen]


def plot_beeswarm(
    explanation: Any, ax: Axes | None = None, *, most: int = 15, output: int | str | None = None
) -> Axes:
    """Plot the SHAP values of all rows, one line of points per column (beeswarm).

    Parameters
    ----------
    explanation : hedgerow.explain.Explanation
        What ``explain`` returned for the rows.
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
    ParameterError
        If ``most`` or ``output`` is out of range, or the explanation has interactions.
    """
    most = s.checked_most(most)
    values, _, output_name = values_of_output(explanation, output)
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
    span = (high - low) or 1.0
    ax.set_xlim(low - 0.04 * span, high + 0.04 * span)
    s.name_axes(ax, "SHAP value: effect on the raw score")
    if output_name:
        s.title(ax, s.short(output_name))
    if points is not None and len(values) > 1:  # one row has no rank
        bar = ax.figure.colorbar(points, ax=ax, aspect=40, pad=0.02, fraction=0.03)
        bar.outline.set_visible(False)
        bar.set_label("value of the column", color=s.INK, fontsize=s.SMALL, labelpad=0)
        bar.ax.tick_params(colors=s.FAINT, labelsize=s.SMALL, length=0)
        bar.set_ticks([0.0, 1.0], labels=["low", "high"])
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
    style: dict[str, Any] = {"s": size, "rasterized": len(x) > 500}
    if column.dtype == object:
        missing = np.array([value is None for value in column], dtype=np.bool_)
        ax.scatter(x[~missing], y[~missing], color=s.LINE, lw=0, **style)
        ranks = None
    else:
        from scipy.stats import rankdata  # takes a second to import

        missing = np.isnan(column)
        ranks = rankdata(column[~missing])  # equal for ties
        ranks = (ranks - 1.0) / (len(ranks) - 1.0) if len(ranks) > 1 else 0.5 * ranks
    ax.scatter(x[missing], y[missing], facecolors="none", edgecolors=s.LINE, lw=0.7, **style)
    if ranks is None or len(ranks) == 0:
        return None
    shades: dict[str, Any] = {"c": ranks, "cmap": s.SHADES, "vmin": 0.0, "vmax": 1.0}
    return ax.scatter(x[~missing], y[~missing], lw=0, **shades, **style)


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
    explanation, ax, output
        As for :func:`plot_beeswarm`.
    row : int, default=0
        Negative numbers count from the end.
    most : int, default=10
        Maximum number of columns, by largest SHAP value; the other columns are one step.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ParameterError
        If there is no such row or output, or the explanation has interactions.
    """
    most = s.checked_most(most)
    values, bases, output_name = values_of_output(explanation, output)
    if row not in Interval(-len(values), len(values) - 1, integer=True):
        raise ParameterError(f"row must be from 0 to {len(values) - 1}; got {brief(row)}.")
    row = int(row) % len(values)
    base = float(bases[row])
    order = np.argsort(-np.abs(values[row]), kind="stable")
    kept, others = order[:most].tolist(), order[most:]
    columns = s.table_columns(explanation.data, explanation.feature_names)
    shown = s.short_names((explanation.feature_names[k] for k in kept), 24)
    names = [
        f"{name} = {s.cell_text(columns[k][row])}" for name, k in zip(shown, kept, strict=True)
    ]
    steps = values[row, kept]
    if len(others) > 0:
        names.append(f"{len(others)} other column{'s' if len(others) > 1 else ''}")
        steps = np.append(steps, values[row, others].sum())
    ax = s.new_axes("plot_waterfall", ax, 7.0, 1.3 + 0.34 * len(steps))
    ends = base + np.cumsum(steps[::-1])[::-1]  # the last step is added first
    starts = ends - steps
    low, high = float(min(ends.min(), starts.min())), float(max(ends.max(), starts.max()))
    span = (high - low) or max(1e-12, abs(high)) * 0.1
    for place, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        _draw_arrow(ax, place, start, end, 0.018 * span)
        if place > 0:  # line to the step above
            ax.plot([end] * 2, [place - 0.66, place], color=s.LINE, lw=0.7, zorder=1)
    ax.set_xlim(low - 0.18 * span, high + 0.18 * span)
    s.named_rows(ax, names)
    s.finish(ax, "x")
    ax.axvline(base, color=s.LINE, lw=0.8, ls=(0, (2, 2)), zorder=0)
    s.name_axes(ax, f"raw score; without any column {s.rounded(base)}")
    of = f" of {s.short(output_name)}" if output_name else ""
    s.title(ax, f"row {row}: raw score{of} {s.rounded(float(ends[0]))}")
    return ax


def _draw_arrow(ax: Axes, place: int, start: float, end: float, head: float) -> None:
    """Draw a step as an arrow whose head has at most a length, and its size next to its point."""
    from matplotlib.patches import Polygon

    size, half = end - start, 0.32
    sign = 1 if size >= 0 else -1
    neck = end - sign * min(abs(size), head)
    corners = [
        (start, place - half), (neck, place - half), (end, place), (neck, place + half),
        (start, place + half),
    ]  # fmt: skip
    colour = s.RAISES if size >= 0 else s.LOWERS
    ax.add_patch(Polygon(corners, closed=True, fc=colour, ec=colour, lw=0.5, zorder=2))
    ax.annotate(
        s.signed(size), (end, place), xytext=(4 * sign, 0), textcoords="offset points",
        ha="left" if size >= 0 else "right", va="center", fontsize=s.SMALL, color=s.INK, zorder=3,
    )  # fmt: skip
