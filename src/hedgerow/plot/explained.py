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
from hedgerow.inspection.effects import place_of_name
from hedgerow.params import Interval
from hedgerow.plot import style as s

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR: dict[str, Any] = {"aspect": 40, "pad": 0.02, "fraction": 0.03}
"""Size and place of a colour bar beside points."""

_MOST_CATEGORIES = 12

_BINS = 120
"""Number of parts of the axis within which a beeswarm stacks points."""


def values_of_output(
    explanation: Any, output: int | str | None, what: str = ""
) -> tuple[FloatArray, FloatArray, str]:
    """Return SHAP values of one output, the base value of each row, and the output's name.

    ``what`` names a plot of single columns; without it the explanation must have interactions.
    """
    if not hasattr(explanation, "base_values") or not hasattr(explanation, "interactions"):
        raise DataTypeError(
            "explanation must be the result of explain, such as booster.explain(X); got "
            f"{brief(explanation)}."
        )
    if bool(what) == bool(explanation.interactions):
        raise ParameterError(
            f"{what} shows single columns, but this explanation has interactions of pairs: use "
            "plot_interactions, or explain without interactions=True."
            if what
            else "this explanation has no interactions: explain with interactions=True."
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
    values, _, output_name = values_of_output(explanation, output, "plot_beeswarm")
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
        s.shade_bar(ax, points, "value of the column", ends=("low", "high"), **_BAR)
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
        missing = np.isnan(column)
        ranks = ranks_of(column[~missing])
    ax.scatter(x[missing], y[missing], facecolors="none", edgecolors=s.LINE, lw=0.7, **style)
    if ranks is None or len(ranks) == 0:
        return None
    shades: dict[str, Any] = {"c": ranks, "cmap": s.SHADES, "vmin": 0.0, "vmax": 1.0}
    return ax.scatter(x[~missing], y[~missing], lw=0, **shades, **style)


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
    values, bases, output_name = values_of_output(explanation, output, "plot_waterfall")
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


def plot_dependence(
    explanation: Any,
    column: str | int,
    ax: Axes | None = None,
    *,
    partner: str | int | None = "auto",
    output: int | str | None = None,
) -> Axes:
    """Plot the SHAP values of one column against its values, shaded by a second column.

    Parameters
    ----------
    explanation, ax, output
        As for :func:`plot_beeswarm`.
    column : str or int
        Column of the horizontal axis, by name or position.
    partner : str, int or None, default="auto"
        Column for the shades; None means no shades.  ``"auto"`` chooses the column on whose
        ranks the SHAP values depend most, among rows with similar values of ``column``.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ParameterError
        If there is no such column or output, or the explanation has interactions.
    """
    values, _, output_name = values_of_output(explanation, output, "plot_dependence")
    names = tuple(explanation.feature_names)
    place = _checked_place(column, names)
    given = s.table_columns(explanation.data, names)
    columns = [s.in_numbers(column) for column in given]
    own, shap = columns[place], values[:, place]
    chosen = strongest_partner(columns, shap, place) if partner == "auto" else partner
    other = None if chosen is None else _checked_place(chosen, names)
    ax = s.new_axes("plot_dependence", ax, 5.6, 3.8)
    s.finish(ax, "y")
    ax.axhline(0.0, color=s.LINE, lw=0.8)
    x, kept = _positions(ax, own)
    if (temporal := s.held_temporal(given[place])) is not None:
        s.show_temporal_ticks(ax.xaxis, temporal, float(np.nanmin(own)), float(np.nanmax(own)))
    points = _shade_points(ax, x, shap[kept], None if other is None else columns[other][kept])
    s.name_axes(ax, s.short(names[place]), "SHAP value")
    if output_name:
        s.title(ax, s.short(output_name))
    if other is not None:
        label = s.short(names[other])
        if points is None:
            s.literal_legend(ax, title=label, markerscale=2.0)
        else:
            s.shade_bar(ax, points, label, temporal=s.held_temporal(given[other]), **_BAR)
    return ax


def _checked_place(column: str | int, names: tuple[str, ...]) -> int:
    place = place_of_name(column, names)
    if place not in Interval(0, len(names) - 1, integer=True):
        raise ParameterError(
            f"columns are numbered from 0 to {len(names) - 1}; got {brief(column)}."
        )
    return int(place)


def strongest_partner(columns: list[AnyArray], shap: FloatArray, place: int) -> int | None:
    """Return the column with the largest influence on another's SHAP values.

    Rows are sorted by the column, and divided into parts of about 50.  Within a part the values
    of the column hardly differ, so the remaining variation is due to another column.
    """
    n_rows = len(shap)
    order = np.argsort(_codes(columns[place]), kind="stable")
    n_parts = max(1, n_rows // 50)
    parts = np.array_split(order, n_parts)
    if n_rows < 3:
        return None
    best, found = 0.0, None
    for other, column in enumerate(columns):
        if other == place:
            continue
        codes = ranks_of(_codes(column))
        strength = sum(_dependence(codes[part], shap[part]) for part in parts)
        if strength > best * (1 + 1e-9):
            best, found = strength, other
    return found


def _codes(column: AnyArray) -> FloatArray:
    """Return numbers that sort a column: categories by their text, missing values first."""
    if column.dtype != object:
        low = np.nanmin(column) - 1.0 if not np.isnan(column).all() else 0.0
        return np.where(np.isnan(column), low, column)
    texts = np.array(["" if value is None else f"_{value}" for value in column])
    return np.unique(texts, return_inverse=True)[1].reshape(-1).astype(np.float64)


def _dependence(codes: FloatArray, shap: FloatArray) -> float:
    """Return the absolute covariance with standardised codes."""
    spread = codes.std()
    if len(codes) < 3 or spread < 1e-12:
        return 0.0
    return float(abs(np.sum((codes - codes.mean()) / spread * (shap - shap.mean()))))


def _positions(ax: Axes, own: AnyArray) -> tuple[FloatArray, AnyArray]:
    """Return the x positions of rows, and which rows are shown."""
    rng = np.random.default_rng(0)
    if own.dtype != object:
        present = ~np.isnan(own)
        if present.all() or not present.any():
            return np.where(present, own, 0.0), np.arange(len(own))
        low, high = float(own[present].min()), float(own[present].max())
        span = (high - low) or 1.0
        at = high + 0.08 * span
        jitter = rng.uniform(-0.02, 0.02, len(own)) * span
        ax.axvline(high + 0.04 * span, color=s.PALE, lw=0.8)
        s.note(ax, "missing", at, data=True)
        return np.where(present, own, at + jitter), np.arange(len(own))
    levels, codes, counts = np.unique(_texts(own), return_inverse=True, return_counts=True)
    codes = codes.reshape(-1)
    shown = np.sort(np.argsort(-counts, kind="stable")[:_MOST_CATEGORIES])
    kept = np.flatnonzero(np.isin(codes, shown))
    names = s.short_names(levels[shown].tolist(), 14)
    s.name_categories(ax, names, len(levels) - len(shown))
    return np.searchsorted(shown, codes[kept]) + rng.uniform(-0.25, 0.25, len(kept)), kept


def _texts(column: AnyArray) -> AnyArray:
    return np.array(["missing" if value is None else str(value) for value in column])


def _shade_points(ax: Axes, x: FloatArray, y: FloatArray, shades: AnyArray | None) -> Any:
    """Draw points, shaded by numbers or marked by categories; return the points with shades."""
    size = float(np.clip(6000.0 / max(1, len(x)), 5.0, 20.0))
    style: dict[str, Any] = {"s": size, "lw": 0, "rasterized": len(x) > 500}
    if shades is None:
        ax.scatter(x, y, color=s.COLOURS[0], **style)
        return None
    if shades.dtype == object:
        texts = _texts(shades)
        levels, counts = np.unique(texts, return_counts=True)
        frequent = levels[np.argsort(-counts, kind="stable")[: s.MOST_LINES - 1]]
        others = ~np.isin(texts, frequent)
        for k, level in enumerate(frequent):
            at = texts == level
            look: dict[str, Any] = {
                "color": s.COLOURS[k],
                "marker": s.MARKS[k],
                "label": s.short(level, 14),
            }
            ax.scatter(x[at], y[at], **look, **style)
        if others.any():
            ax.scatter(x[others], y[others], color=s.PALE, label="others", **style)
        return None
    missing = np.isnan(shades)
    ax.scatter(x[missing], y[missing], color=s.PALE, **style)
    present = shades[~missing]
    low, high = np.percentile(present, [2, 98]) if len(present) else (0.0, 1.0)
    return ax.scatter(
        x[~missing], y[~missing], c=present, cmap=s.SHADES, vmin=low, vmax=high, **style
    )


def plot_interactions(
    explanation: Any, ax: Axes | None = None, *, most: int = 12, output: int | str | None = None
) -> Axes:
    """Plot the interactions of pairs of columns as a shaded table.

    Parameters
    ----------
    explanation : hedgerow.explain.Explanation
        With ``interactions=True``; the mean absolute SHAP interaction values of pairs (both
        halves together) are shown.
    ax, output
        As for :func:`plot_beeswarm`.
    most : int, default=12
        Maximum number of columns; columns with the strongest interactions are shown.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ParameterError
        If ``most`` or ``output`` is out of range, or there are no interactions.
    """
    most = s.checked_most(most)
    values, _, output_name = values_of_output(explanation, output)
    # Each of the two entries of a pair holds half of its value.
    table = np.abs(values + np.swapaxes(values, 1, 2)).mean(axis=0)
    np.fill_diagonal(table, 0.0)
    order = np.argsort(-table.max(axis=1), kind="stable")[:most]
    table, shown = (
        table[np.ix_(order, order)],
        s.short_names((explanation.feature_names[k] for k in order), 24),
    )
    n = len(order)
    ax = s.new_axes("plot_interactions", ax, 2.6 + 0.46 * n, 2.2 + 0.42 * n)
    below = np.tril(np.ones((n, n), dtype=np.bool_), -1)
    texts = np.where(below, [[f"{size:.2g}" for size in row] for row in table], "")
    shades = np.ma.masked_where(~below, table)
    mesh = s.draw_cells(ax, shades, texts, shown, s.SMALL - 1.5, float(table.max()) or 1.0)
    ax.set_xlim(-0.5, max(n - 1.5, 0.5))
    ax.set_ylim(n - 0.5, min(0.5, n - 1.5))
    s.shade_bar(ax, mesh, "mean |SHAP interaction value|", aspect=30, pad=0.02, shrink=0.8)
    if output_name:
        s.title(ax, s.short(output_name))
    return ax
