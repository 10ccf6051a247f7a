"""Plots of effects: partial dependence with the distribution of the data.

A strip at the bottom of each panel shows the distribution of the rows.  Where it has no rows, the
curve is an extrapolation of the trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.errors import ParameterError
from hedgerow.inspection.effects import Effect, PartialDependence
from hedgerow.plot import style as s

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_CATEGORIES = 12
_STRIP = 0.13
"""Height of the strip of rows, as a share of a panel."""

_LARGEST_INT = 2.0**62
"""Positions above this are the end of the integer range, not a cut."""

_UNITS = {"raw": "raw score", "value": "prediction", "probability": "probability"}


@overload
def plot_partial_dependence(
    found: Effect, ax: Axes | None = None, *, most: int = 12, output: int | str | None = None
) -> Axes: ...
@overload
def plot_partial_dependence(
    found: PartialDependence, ax: None = None, *, most: int = 12, output: int | str | None = None
) -> AnyArray: ...
def plot_partial_dependence(
    found: PartialDependence | Effect,
    ax: Axes | None = None,
    *,
    most: int = 12,
    output: int | str | None = None,
) -> Axes | AnyArray:
    """Plot effects on a common scale, one panel for each column.

    Parameters
    ----------
    found : PartialDependence or Effect
        What ``partial_dependence`` returned, or one effect of it.
    ax : matplotlib Axes, optional
        For a single effect; default: a new figure.
    most : int, default=12
        Maximum number of panels: the strongest effects.
    output : int or str, optional
        Number or name of one output, if there are several; default: all of them, up to eight.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        A panel for each column, ``panels[0].figure`` being their figure; for an Effect, its axes.
        Numbers range from the first to the last percentile of the background.  The diamond on the
        right is the effect of missing values.  If there are many categories, those with the most
        rows are shown.

    Raises
    ------
    ParameterError
        If ``most`` or ``output`` is out of range, or ``ax`` is passed for several effects.

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.datasets import load_pima
    >>> from hedgerow.plot import plot_partial_dependence
    >>> X, y, names, _ = load_pima()
    >>> booster = train({"n_estimators": 20}, Dataset(X, y, feature_names=names))
    >>> panels = plot_partial_dependence(booster.partial_dependence(X), most=4)
    >>> [panel.get_xlabel() for panel in panels][:2]
    ['Glucose', 'BMI']
    """
    most = s.checked_most(most)
    if isinstance(found, Effect):
        chosen = s.checked_output(output, found.n_outputs, found.output_names)
        own = s.new_axes("plot_partial_dependence", ax, 4.4, 3.2)
        draw_effect(own, found, chosen)
        s.name_axes(own, y="effect")
        return own
    if ax is not None:
        raise ParameterError("ax is for a single effect: pass found[name], or leave ax out.")
    plt = s.pyplot("plot_partial_dependence")
    shown = found.strongest(most) if len(found) > most else found
    n_outputs = shown.effects[0].n_outputs if len(shown) else 1
    chosen = s.checked_output(output, n_outputs, shown.output_names)
    n_columns = min(len(shown), 3)
    n_rows = -(-len(shown) // n_columns)
    figure, grid = plt.subplots(
        n_rows, n_columns, figsize=(0.6 + 3.1 * n_columns, 0.5 + 2.7 * n_rows), squeeze=False,
        sharey=True, layout="constrained",
    )  # fmt: skip
    panels: AnyArray = grid.reshape(-1)[: len(shown)]
    for unused in grid.reshape(-1)[len(shown) :]:
        unused.remove()
    limits = _limits([_drawn_values(effect, chosen) for effect in shown])
    names = s.short_names(effect.name for effect in shown)
    for place, (panel, effect) in enumerate(zip(panels, shown, strict=True)):
        draw_effect(panel, effect, chosen, limits, names[place])
        if place % n_columns == 0:
            s.name_axes(panel, y=f"mean {_UNITS[found.kind]}")
    if found.output_names and len(chosen) > 1:
        handles, _ = panels[0].get_legend_handles_labels()
        figure.legend(
            handles[: len(chosen)], [s.short(found.output_names[k], 20) for k in chosen],
            loc="outside upper left", ncols=4, frameon=False, fontsize=s.SMALL,
        )  # fmt: skip
    return panels


def _table(effect: Effect) -> tuple[FloatArray, FloatArray]:
    """Return the values (n, n_outputs), and the value for missing values."""
    return effect.values.reshape(len(effect.positions), -1), np.atleast_1d(effect.missing)


def _drawn_values(effect: Effect, chosen: Sequence[int]) -> FloatArray:
    values, missing = _table(effect)
    drawn = values[_drawn(effect)][:, list(chosen)].reshape(-1)
    return np.append(drawn, missing[list(chosen)]) if effect.missing_rows > 0.0 else drawn


def _drawn(effect: Effect) -> IntArray:
    """Return the positions to draw: categories with the most rows, numbers in range."""
    if effect.kind == "category":
        return np.sort(np.argsort(-effect.rows, kind="stable")[:_MOST_CATEGORIES])
    low, high = range_of(effect)
    x = effect.positions.astype(np.float64)
    first = int(np.searchsorted(x, low, side="left" if effect.is_exact else "right"))
    last = int(np.searchsorted(x, high, side="left"))
    return np.arange(first if effect.is_exact else max(first - 1, 0), min(last, len(x) - 1) + 1)


def range_of(effect: Effect) -> tuple[float, float]:
    """Return the range of numbers: the middle 98% of the rows, or all cuts."""
    for low, high in ((1, -2), (0, -1)):
        if len(effect.quantiles) > 0 and effect.quantiles[low] < effect.quantiles[high]:
            return float(effect.quantiles[low]), float(effect.quantiles[high])
    x = effect.positions.astype(np.float64)
    every = np.append(x[np.isfinite(x) & (np.abs(x) < _LARGEST_INT)], effect.quantiles[:1])
    least, most = (float(every.min()), float(every.max())) if len(every) else (0.0, 0.0)
    margin = 0.1 * (most - least) if most > least else 0.5
    return least - margin, most + margin


def _limits(values: Sequence[FloatArray]) -> tuple[float, float]:
    """Return the limits of the axis, with room for the strip at the bottom."""
    every = np.concatenate([*values, np.zeros(0)])
    every = every[np.isfinite(every)]
    if len(every) == 0:
        return -1.0, 1.0
    low, high = float(every.min()), float(every.max())
    span = (high - low) or max(1.0, abs(high)) * 0.1
    return low - 0.08 * span - _STRIP * 1.25 * span, high + 0.08 * span


def draw_effect(
    ax: Axes,
    effect: Effect,
    chosen: Sequence[int] = (0,),
    limits: tuple[float, float] | None = None,
    name: str | None = None,
) -> None:
    """Draw one effect with the rows at the bottom; ``name`` is the label of its column."""
    ax.set_ylim(*(_limits([_drawn_values(effect, chosen)]) if limits is None else limits))
    s.finish(ax, "y")
    (_draw_categories if effect.kind == "category" else _draw_numbers)(ax, effect, chosen)
    s.name_axes(ax, s.short(effect.name) if name is None else name)


def _draw_numbers(ax: Axes, effect: Effect, chosen: Sequence[int]) -> None:
    values, missing = _table(effect)
    places, (low, high) = _drawn(effect), range_of(effect)
    x = effect.positions.astype(np.float64)[places]
    if effect.is_exact:  # each step has two corners
        x = np.repeat(np.append(low, np.minimum(x, high)), 2)[1:-1]
        places = np.repeat(places, 2)
    for line, output in enumerate(chosen):
        style: dict[str, Any] = {"color": s.COLOURS[line], "ls": s.DASHES[line], "lw": 1.8}
        ax.plot(x, values[places, output], label=str(output), **style)
    span = high - low
    if effect.missing_rows > 0.0:
        at = high + 0.1 * span
        for line, output in enumerate(chosen):
            ax.plot(at, missing[output], "D", color=s.COLOURS[line], ms=5, mec="white", mew=0.6)
        s.note(ax, "missing", at, data=True)
        ax.axvline(high + 0.05 * span, color=s.PALE, lw=0.8)
    margin = 0.03 * span
    right = high + (0.16 * span if effect.missing_rows > 0.0 else margin)
    _draw_strip(ax, np.linspace(low, high, 31), s.density(effect.quantiles, low, high))
    ax.set_xlim(low - margin, right)
    if effect.temporal is not None:
        s.show_temporal_ticks(ax.xaxis, effect.temporal, low, high)
        return  # ticks are only where numbers are
    ax.locator_params(axis="x", nbins=5)
    ax.set_xticks([tick for tick in ax.get_xticks() if low - margin <= tick <= high + margin])
    ax.set_xlim(low - margin, right)


def _draw_categories(ax: Axes, effect: Effect, chosen: Sequence[int]) -> None:
    values, missing = _table(effect)
    positions = _drawn(effect)
    names = s.short_names((effect.levels[k] for k in positions), 14)
    drawn, rows = values[positions], effect.rows[positions]
    if effect.missing_rows > 0.0:
        names.append("missing")
        drawn, rows = np.vstack((drawn, missing)), np.append(rows, effect.missing_rows)
    x = np.arange(len(names))
    total = effect.rows.sum() + effect.missing_rows + effect.unknown_rows
    mean = np.average(values, axis=0, weights=effect.rows if effect.rows.any() else None)
    for line, output in enumerate(chosen):
        at = x if len(chosen) == 1 else x + 0.5 * (line / (len(chosen) - 1) - 0.5)
        own, colour = drawn[:, output], s.COLOURS[line]
        ax.vlines(at, mean[output], own, color=colour, lw=2.4 - 0.15 * len(chosen))
        ax.plot(at, own, "o", color=colour, ms=5, mec="white", mew=0.6, label=str(output))
        ax.axhline(mean[output], color=colour, lw=0.7, ls=(0, (2, 2)))
    shares = rows / total if total > 0.0 else np.zeros(len(rows))
    _draw_strip(ax, np.append(x - 0.4, x[-1] + 0.4) if len(x) else np.zeros(1), shares, gap=True)
    s.name_categories(ax, names, len(effect.levels) - len(positions))
    ax.set_xlim(-0.6, max(len(names) - 0.4, 0.6))


def _draw_strip(ax: Axes, edges: FloatArray, shares: FloatArray, *, gap: bool = False) -> None:
    """Draw bars at the bottom of a panel, with the shares of rows as heights."""
    if not shares.any():
        return
    low, high = ax.get_ylim()
    heights = shares / shares.max() * _STRIP * (high - low)
    width = 0.8 if gap else np.diff(edges)
    ax.bar(edges[:-1], heights, width, bottom=low, align="edge", color=s.PALE, lw=0, zorder=0.8)
