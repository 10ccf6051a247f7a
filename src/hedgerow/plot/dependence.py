"""SHAP values of one column as a function of its values, with an interacting column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.errors import ParameterError, brief
from hedgerow.inspection.effects import place_of_name
from hedgerow.plot import style as s
from hedgerow.plot.effects import MOST_CATEGORIES
from hedgerow.plot.explained import BAR, plain_values, ranks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    explanation : hedgerow.explain.Explanation
    column : str or int
    ax : matplotlib Axes, optional
    partner : str, int or None, default="auto"
        Column for the shades; None means no shades.  ``"auto"`` chooses the column on whose
        ranks the SHAP values depend most, among rows with similar values of ``column``.
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
        If there is no such column or output, or the explanation has interactions.
    """
    values, _, output_name = plain_values(explanation, output, "plot_dependence")
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
    ax.set_xlabel(s.short(names[place]), color=s.INK, fontsize=s.MEDIUM, parse_math=False)
    ax.set_ylabel("SHAP value", color=s.INK, fontsize=s.MEDIUM)
    if output_name:
        s.title(ax, s.short(output_name))
    if other is not None:
        label = s.short(names[other])
        if points is None:
            s.literal_legend(ax, title=label, markerscale=2.0)
        else:
            s.shade_bar(ax, points, label, **BAR)
    return ax


def _checked_place(column: str | int, names: tuple[str, ...]) -> int:
    place = place_of_name(column, names)
    is_whole = isinstance(place, int | np.integer) and not isinstance(place, bool)
    if not is_whole or not 0 <= place < len(names):
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
    texts = np.array(["missing" if value is None else str(value) for value in own], dtype=object)
    levels, codes, counts = np.unique(texts.astype(str), return_inverse=True, return_counts=True)
    codes = codes.reshape(-1)
    shown = np.sort(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES])
    kept = np.flatnonzero(np.isin(codes, shown))
    names = s.short_names(levels[shown].tolist(), 14)
    steep = len(names) > 5 or max(map(len, names)) > 8
    ax.set_xticks(
        range(len(names)), names, rotation=90 if steep else 0, parse_math=False, fontsize=s.SMALL
    )
    if len(levels) > len(shown):
        s.note(ax, f"{len(levels) - len(shown):,} of {len(levels):,} categories not shown")
    return np.searchsorted(shown, codes[kept]) + rng.uniform(-0.25, 0.25, len(kept)), kept


def _shade_points(ax: Axes, x: FloatArray, y: FloatArray, shades: AnyArray | None) -> Any:
    """Draw points, shaded by numbers or marked by categories; return the points with shades."""
    size = float(np.clip(6000.0 / max(1, len(x)), 5.0, 20.0))
    style: dict[str, Any] = {"s": size, "lw": 0, "rasterized": len(x) > 500}
    if shades is None:
        ax.scatter(x, y, color=s.COLOURS[0], **style)
        return None
    if shades.dtype == object:
        texts = np.array(["missing" if value is None else str(value) for value in shades])
        levels, counts = np.unique(texts, return_counts=True)
        frequent = levels[np.argsort(-counts, kind="stable")[: s.MOST_LINES - 1]]
        others = ~np.isin(texts, frequent)
        for k, level in enumerate(frequent):
            at = texts == level
            ax.scatter(
                x[at],
                y[at],
                color=s.COLOURS[k],
                marker=s.MARKS[k],
                label=s.short(level, 14),
                **style,
            )
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
