"""Pictures of SHAP values: all rows at once, one row, one column.

They take an explanation (``explain`` of boosters and estimators): ``values`` of shape (rows,
columns) or (rows, columns, outputs), with interactions (rows, columns, columns[, outputs]),
``base_values``, ``data``, ``feature_names``, ``output_names``, ``interactions``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.errors import ParameterError
from hedgerow.inspection.effects import place_of_name
from hedgerow.plot.effects import MOST_CATEGORIES, checked_output
from hedgerow.plot.importance import checked_most
from hedgerow.plot.style import (
    COLOURS,
    FAINT,
    INK,
    LINE,
    LOWERS,
    MARKS,
    MEDIUM,
    MOST_LINES,
    PALE,
    RAISES,
    SHADES,
    SMALL,
    cell_text,
    finish,
    named_rows,
    new_axes,
    rounded,
    short,
    short_names,
    signed,
    table_columns,
    title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BINS = 120
"""Parts of the axis within which points of a beeswarm are stacked."""


def values_of_output(explanation: Any, output: int | None) -> tuple[FloatArray, float, str]:
    """SHAP values of one output, its base value, and its name.

    Raises
    ------
    ParameterError
        If there are several outputs and none is chosen, or there is no such output.
    """
    names = tuple(explanation.output_names)
    values, base = np.asarray(explanation.values), np.asarray(explanation.base_values)
    if not names:
        if output not in (None, 0):
            raise ParameterError(f"there is one output only; got output={output!r}.")
        return values, float(base.reshape(-1)[0]), ""
    if output is None:
        raise ParameterError(
            f"this explanation is of {len(names)} outputs: choose one by output=0, 1, ... "
            f"({', '.join(map(short, names[:8]))}{', ...' if len(names) > 8 else ''})."
        )
    (chosen,) = checked_output(output, len(names))
    return values[..., chosen], float(base.reshape(-1)[chosen]), names[chosen]


def _plain(explanation: Any, output: int | None, what: str) -> tuple[FloatArray, float, str]:
    if explanation.interactions:
        raise ParameterError(
            f"{what} shows single columns, but this explanation holds interactions of pairs: use "
            "plot_interactions, or explain without interactions=True."
        )
    return values_of_output(explanation, output)


def plot_beeswarm(
    explanation: Any, ax: Axes | None = None, *, most: int = 15, output: int | None = None
) -> Axes:
    """Draw the SHAP values of all rows, a line of points for each column.

    Parameters
    ----------
    explanation : hedgerow.explain.Explanation
    ax : matplotlib Axes, optional
        By default those of a new figure, as high as the lines need.
    most : int, default=15
        Columns at most, the most important first.
    output : int, optional
        The number of the output, where there are several.

    Returns
    -------
    matplotlib.axes.Axes
        The shade of a point is the rank of the row's value among those of the column; of
        categories, which have no order, and of missing values, points are grey, the latter
        hollow.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ParameterError
        If ``most`` or ``output`` is out of range, or it holds interactions.
    """
    most = checked_most(most)
    values, _, output_name = _plain(explanation, output, "plot_beeswarm")
    columns = table_columns(explanation.data, explanation.feature_names)
    order = np.argsort(-np.abs(values).mean(axis=0), kind="stable")[:most]
    ax = new_axes("plot_beeswarm", ax, 7.2, 1.2 + 0.36 * len(order))
    low, high = min(0.0, float(values[:, order].min())), max(0.0, float(values[:, order].max()))
    ax.axvline(0.0, color=LINE, lw=0.8)
    points = None
    for place, column in enumerate(order.tolist()):
        own = values[:, column]
        y = place + _stacked(own, low, high)
        points = _draw_points(ax, (own, y), columns[column]) or points
    named_rows(ax, short_names(explanation.feature_names[k] for k in order.tolist()))
    finish(ax, "x")
    ax.spines["left"].set_visible(False)
    span = (high - low) or 1.0
    ax.set_xlim(low - 0.04 * span, high + 0.04 * span)
    ax.set_xlabel("SHAP value: effect on the raw score", color=INK, fontsize=MEDIUM)
    if output_name:
        title(ax, short(output_name))
    if points is not None:
        _shade_bar(ax, points, "value of the column", ("low", "high"))
    return ax


def _stacked(values: FloatArray, low: float, high: float) -> FloatArray:
    """How far up or down each point stands, so that those of one place lie side by side."""
    span = (high - low) or 1.0
    part = np.minimum(((values - low) / span * _BINS).astype(np.int64), _BINS - 1)
    order = np.argsort(part, kind="stable")
    counts = np.bincount(part, minlength=_BINS)
    rank = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    side = np.where(rank % 2 == 0, 1.0, -1.0) * ((rank + 1) // 2)
    # A few points keep a distance of their own; many share the height of the line.
    step = min(0.09, 0.76 / max(1, int(counts.max())))
    found = np.empty(len(values))
    found[order] = side * step
    return found


def _draw_points(ax: Axes, at: tuple[FloatArray, FloatArray], column: AnyArray) -> Any:
    """Points of one column; those that have shades, if there are any."""
    x, y = at
    size = float(np.clip(4000.0 / max(1, len(x)), 4.0, 18.0))
    many = len(x) > 500
    if column.dtype == object:
        missing = np.array([value is None for value in column], dtype=np.bool_)
        ax.scatter(x[~missing], y[~missing], s=size, color=LINE, lw=0, rasterized=many)
        ranks = None
    else:
        missing = np.isnan(column)
        ranks = _ranks(column[~missing])
    ax.scatter(
        x[missing], y[missing], s=size, facecolors="none", edgecolors=LINE, lw=0.7, rasterized=many
    )
    if ranks is None or len(ranks) == 0:
        return None
    return ax.scatter(
        x[~missing], y[~missing], s=size, c=ranks, cmap=SHADES, vmin=0.0, vmax=1.0, lw=0,
        rasterized=many,
    )  # fmt: skip


def _ranks(values: FloatArray) -> FloatArray:
    """Rank of each value from 0 to 1, equal ones alike."""
    if len(values) == 0:
        return values
    unique, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(unique) == 1:
        return np.full(len(values), 0.5)
    middle = np.cumsum(counts) - (counts + 1) / 2
    return np.asarray((middle / (len(values) - 1))[place.reshape(-1)])


def _shade_bar(ax: Axes, points: Any, label: str, ends: tuple[str, str] | None) -> None:
    bar = ax.figure.colorbar(points, ax=ax, aspect=40, pad=0.02, fraction=0.03)
    bar.outline.set_visible(False)
    bar.set_label(label, color=INK, fontsize=SMALL, labelpad=0 if ends else 4, parse_math=False)
    bar.ax.tick_params(colors=FAINT, labelsize=SMALL, length=0)
    if ends is not None:
        bar.set_ticks([0.0, 1.0], labels=list(ends))


def plot_waterfall(
    explanation: Any,
    row: int = 0,
    ax: Axes | None = None,
    *,
    most: int = 10,
    output: int | None = None,
) -> Axes:
    """Draw how one row comes to its raw score, from the base value at the foot upwards.

    Parameters
    ----------
    explanation : hedgerow.explain.Explanation
    row : int, default=0
        Negative numbers count from the end.
    ax : matplotlib Axes, optional
    most : int, default=10
        Columns at most, those with the largest SHAP values; the others are one step.
    output : int, optional
        The number of the output, where there are several.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ParameterError
        If there is no such row or output, or it holds interactions.
    """
    most = checked_most(most)
    values, base, output_name = _plain(explanation, output, "plot_waterfall")
    whole = isinstance(row, int | np.integer) and not isinstance(row, bool)
    if not whole or not -len(values) <= row < len(values):
        raise ParameterError(f"row must be from 0 to {len(values) - 1}; got {row!r}.")
    row = int(row) % len(values)
    names, steps = _steps(explanation, values[row], row, most)
    ax = new_axes("plot_waterfall", ax, 7.0, 1.3 + 0.34 * len(steps))
    ends = base + np.cumsum(steps[::-1])[::-1]  # the last is added first
    starts = ends - steps
    low, high = float(min(ends.min(), starts.min())), float(max(ends.max(), starts.max()))
    span = (high - low) or max(1e-12, abs(high)) * 0.1
    for place, (start, step) in enumerate(zip(starts, steps, strict=True)):
        _draw_step(ax, place, (float(start), float(step)), span)
        if place > 0:  # to the step above
            ax.plot([start + step] * 2, [place - 0.66, place], color=LINE, lw=0.7, zorder=1)
    ax.set_xlim(low - 0.18 * span, high + 0.18 * span)
    named_rows(ax, names)
    finish(ax, "x")
    ax.spines["left"].set_visible(False)
    ax.axvline(base, color=LINE, lw=0.8, ls=(0, (2, 2)), zorder=0)
    ax.set_xlabel(f"raw score; without any column {rounded(base)}", color=INK, fontsize=MEDIUM)
    of = f" of {short(output_name)}" if output_name else ""
    title(ax, f"row {row}: raw score{of} {rounded(float(ends[0]))}")
    return ax


def _steps(
    explanation: Any, values: FloatArray, row: int, most: int
) -> tuple[list[str], FloatArray]:
    """Names and sizes of the steps, the largest on top, others last."""
    order = np.argsort(-np.abs(values), kind="stable")
    kept, rest = order[:most], order[most:]
    columns = table_columns(explanation.data, explanation.feature_names)
    shown = short_names((explanation.feature_names[k] for k in kept.tolist()), 24)
    names = [
        f"{name} = {cell_text(columns[k][row])}"
        for name, k in zip(shown, kept.tolist(), strict=True)
    ]
    steps = values[kept]
    if len(rest) > 0:
        names.append(f"{len(rest)} other column{'s' if len(rest) > 1 else ''}")
        steps = np.append(steps, values[rest].sum())
    return names, steps


def _draw_step(ax: Axes, place: int, step: tuple[float, float], span: float) -> None:
    """An arrow from where a step begins, with its size behind its point."""
    from matplotlib.patches import Polygon

    start, size = step
    end, half = start + size, 0.32
    head = min(abs(size), 0.018 * span) * (1.0 if size >= 0 else -1.0)
    corners = [
        (start, place - half), (end - head, place - half), (end, place),
        (end - head, place + half), (start, place + half),
    ]  # fmt: skip
    colour = RAISES if size >= 0 else LOWERS
    ax.add_patch(Polygon(corners, closed=True, fc=colour, ec=colour, lw=0.5, zorder=2))
    ax.annotate(
        signed(size), (end, place), xytext=(4 if size >= 0 else -4, 0),
        textcoords="offset points", ha="left" if size >= 0 else "right", va="center",
        fontsize=SMALL, color=INK, zorder=3,
    )  # fmt: skip


def plot_dependence(
    explanation: Any,
    column: str | int,
    ax: Axes | None = None,
    *,
    partner: str | int | None = "auto",
    output: int | None = None,
) -> Axes:
    """Draw the SHAP values of one column by its values, shaded by a second column.

    Parameters
    ----------
    explanation : hedgerow.explain.Explanation
    column : str or int
    ax : matplotlib Axes, optional
    partner : str, int or None, default="auto"
        Column of the shades; None for none.  ``"auto"`` takes the one on whose ranks the
        values depend most among rows that are neighbours in ``column``.
    output : int, optional
        The number of the output, where there are several.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ParameterError
        If there is no such column or output, or it holds interactions.
    """
    values, _, output_name = _plain(explanation, output, "plot_dependence")
    names = tuple(explanation.feature_names)
    place = _checked_place(column, names)
    columns = table_columns(explanation.data, names)
    own, shap = columns[place], values[:, place]
    chosen = strongest_partner(columns, shap, place) if partner == "auto" else partner
    other = None if chosen is None else _checked_place(chosen, names)
    ax = new_axes("plot_dependence", ax, 5.6, 3.8)
    finish(ax, "y")
    ax.axhline(0.0, color=LINE, lw=0.8)
    x, kept = _positions(ax, own)
    points = _shade_points(ax, x, shap[kept], None if other is None else columns[other][kept])
    ax.set_xlabel(short(names[place]), color=INK, fontsize=MEDIUM, parse_math=False)
    ax.set_ylabel("SHAP value", color=INK, fontsize=MEDIUM)
    if output_name:
        title(ax, short(output_name))
    if other is not None:
        label = short(names[other])
        if points is None:
            legend = ax.legend(
                frameon=False, fontsize=SMALL, title=label, title_fontsize=SMALL, markerscale=2.0
            )
            for text in (legend.get_title(), *legend.get_texts()):
                text.set_parse_math(False)
        else:
            _shade_bar(ax, points, label, None)
    return ax


def _checked_place(column: str | int, names: tuple[str, ...]) -> int:
    place = place_of_name(column, names)
    whole = isinstance(place, int | np.integer) and not isinstance(place, bool)
    if not whole or not 0 <= place < len(names):
        raise ParameterError(f"columns are numbered from 0 to {len(names) - 1}; got {column!r}.")
    return int(place)


def strongest_partner(columns: list[AnyArray], shap: FloatArray, place: int) -> int | None:
    """The column with which the SHAP values of another go most, among neighbours in the latter.

    Rows are put in order by the column, and divided into parts of about 50: within a part its
    own value hardly differs, so what the values still depend on is another column.
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
        codes = _ranks(_codes(column))
        strength = sum(_dependence(codes[part], shap[part]) for part in parts)
        if strength > best * (1 + 1e-9):
            best, found = strength, other
    return found


def _codes(column: AnyArray) -> FloatArray:
    """Numbers that put a column in order: of categories by their text, missing ones first."""
    if column.dtype != object:
        low = np.nanmin(column) - 1.0 if not np.isnan(column).all() else 0.0
        return np.where(np.isnan(column), low, column)
    texts = np.array(["" if value is None else f"_{value}" for value in column])
    return np.unique(texts, return_inverse=True)[1].reshape(-1).astype(np.float64)


def _dependence(codes: FloatArray, shap: FloatArray) -> float:
    """Covariance with standardised codes, without sign."""
    spread = codes.std()
    if len(codes) < 3 or spread < 1e-12:
        return 0.0
    return float(abs(np.sum((codes - codes.mean()) / spread * (shap - shap.mean()))))


def _positions(ax: Axes, own: AnyArray) -> tuple[FloatArray, AnyArray]:
    """Where rows stand on the x axis, and which of them are shown."""
    rng = np.random.default_rng(0)
    if own.dtype != object:
        present = ~np.isnan(own)
        if present.all() or not present.any():
            return np.where(present, own, 0.0), np.arange(len(own))
        low, high = float(own[present].min()), float(own[present].max())
        span = (high - low) or 1.0
        at = high + 0.08 * span
        jitter = rng.uniform(-0.02, 0.02, len(own)) * span
        ax.axvline(high + 0.04 * span, color=PALE, lw=0.8)
        ax.annotate(
            "missing", (at, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 2),
            textcoords="offset points", ha="center", va="bottom", fontsize=SMALL, color=FAINT,
        )  # fmt: skip
        return np.where(present, own, at + jitter), np.arange(len(own))
    texts = np.array(["missing" if value is None else str(value) for value in own], dtype=object)
    levels, codes, counts = np.unique(texts.astype(str), return_inverse=True, return_counts=True)
    codes = codes.reshape(-1)
    shown = np.sort(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES])
    kept = np.flatnonzero(np.isin(codes, shown))
    names = short_names(levels[shown].tolist(), 14)
    steep = len(names) > 5 or max(map(len, names)) > 8
    ax.set_xticks(
        range(len(names)), names, rotation=90 if steep else 0, parse_math=False, fontsize=SMALL
    )
    if len(levels) > len(shown):
        ax.annotate(
            f"{len(levels) - len(shown):,} of {len(levels):,} categories not shown", (1, 1),
            xycoords="axes fraction", xytext=(0, 2), textcoords="offset points", ha="right",
            fontsize=SMALL - 1, color=FAINT,
        )  # fmt: skip
    return np.searchsorted(shown, codes[kept]) + rng.uniform(-0.25, 0.25, len(kept)), kept


def _shade_points(ax: Axes, x: FloatArray, y: FloatArray, shades: AnyArray | None) -> Any:
    """Points, shaded by numbers or marked by categories; the former, for a bar of shades."""
    size = float(np.clip(6000.0 / max(1, len(x)), 5.0, 20.0))
    style: dict[str, Any] = {"s": size, "lw": 0, "rasterized": len(x) > 500}
    if shades is None:
        ax.scatter(x, y, color=COLOURS[0], **style)
        return None
    if shades.dtype == object:
        texts = np.array(["missing" if value is None else str(value) for value in shades])
        levels, counts = np.unique(texts, return_counts=True)
        frequent = levels[np.argsort(-counts, kind="stable")[: MOST_LINES - 1]]
        others = ~np.isin(texts, frequent)
        for k, level in enumerate(frequent):
            at = texts == level
            ax.scatter(
                x[at], y[at], color=COLOURS[k], marker=MARKS[k], label=short(level, 14), **style
            )
        if others.any():
            ax.scatter(x[others], y[others], color=PALE, label="others", **style)
        return None
    missing = np.isnan(shades)
    ax.scatter(x[missing], y[missing], color=PALE, **style)
    present = shades[~missing]
    low, high = np.percentile(present, [2, 98]) if len(present) else (0.0, 1.0)
    return ax.scatter(
        x[~missing], y[~missing], c=present, cmap=SHADES, vmin=low, vmax=high, **style
    )
