"""Plots of effects: partial dependence with the distribution of the data, ICE curves.

A strip at the bottom of each panel shows the distribution of the rows.  Where it has no rows, the
curve is an extrapolation of the trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.inspection.curves import IndividualCurves
from hedgerow.inspection.effects import Effect, JointEffect, PartialDependence
from hedgerow.plot import style as s
from hedgerow.plot.importance import checked_most

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_CATEGORIES = 12
_STRIP = 0.13
"""Height of the strip of rows, as a share of a panel."""

_LARGEST_INT = 2.0**62
"""Positions above this are the end of the integer range, not a cut."""

_UNITS = {"raw": "raw score", "value": "prediction", "probability": "probability"}


@overload
def plot_partial_dependence(
    found: PartialDependence,
    ax: None = None,
    *,
    most: int = 12,
    output: int | str | None = None,
) -> Figure: ...


@overload
def plot_partial_dependence(
    found: Effect,
    ax: Axes | None = None,
    *,
    most: int = 12,
    output: int | str | None = None,
) -> Axes: ...


def plot_partial_dependence(
    found: PartialDependence | Effect,
    ax: Axes | None = None,
    *,
    most: int = 12,
    output: int | str | None = None,
) -> Figure | Axes:
    """Plot effects on a common scale, one panel for each column.

    Parameters
    ----------
    found : PartialDependence or Effect
    ax : matplotlib Axes, optional
        For a single effect; default: a new figure.
    most : int, default=12
        Maximum number of panels: the strongest effects.
    output : int or str, optional
        Number or name of one output, if there are several; default: all of them, up to eight.

    Returns
    -------
    matplotlib.figure.Figure
        For an Effect, the axes.  Numbers range from the first to the last percentile of the
        background.  The diamond on the right is the effect of missing values.  If there are many
        categories, those with the most rows are shown.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ParameterError
        If ``most`` or ``output`` is out of range, or ``ax`` is passed for several effects.

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.datasets import load_pima
    >>> from hedgerow.plot import plot_partial_dependence
    >>> X, y, names, _ = load_pima()
    >>> booster = train({"n_estimators": 20}, Dataset(X, y, feature_names=names))
    >>> figure = plot_partial_dependence(booster.partial_dependence(X), most=4)
    >>> [axes.get_xlabel() for axes in figure.axes][:2]
    ['Glucose', 'BMI']
    """
    most = checked_most(most)
    if isinstance(found, Effect):
        chosen = checked_output(output, found.n_outputs, found.output_names)
        own = s.new_axes("plot_partial_dependence", ax, 4.4, 3.2)
        draw_effect(own, found, chosen)
        own.set_ylabel("effect", color=s.INK, fontsize=s.MEDIUM)
        return own
    if ax is not None:
        raise ParameterError("ax is for a single effect: pass found[name], or leave ax out.")
    plt = s.pyplot("plot_partial_dependence")
    shown = found.strongest(most) if len(found) > most else found
    n_outputs = shown.effects[0].n_outputs if len(shown) else 1
    chosen = checked_output(output, n_outputs, shown.output_names)
    n_columns = min(len(shown), 3)
    n_rows = -(-len(shown) // n_columns)
    figure, panels = plt.subplots(
        n_rows, n_columns, figsize=(0.6 + 3.1 * n_columns, 0.5 + 2.7 * n_rows), squeeze=False,
        sharey=True, layout="constrained",
    )  # fmt: skip
    limits = _limits([_drawn_values(effect, chosen) for effect in shown])
    column_names = s.short_names(effect.name for effect in shown)
    for place, panel in enumerate(panels.flat):
        if place >= len(shown):
            panel.remove()
            continue
        draw_effect(panel, shown.effects[place], chosen, limits, column_names[place])
        if place % n_columns == 0:
            what = "accumulated effect on" if found.is_accumulated else "mean"
            panel.set_ylabel(f"{what} {_UNITS[found.kind]}", color=s.INK, fontsize=s.MEDIUM)
    if found.output_names and len(chosen) > 1:
        handles, _ = panels.flat[0].get_legend_handles_labels()
        names = [s.short(found.output_names[k], 20) for k in chosen]
        figure.legend(
            handles[: len(names)], names, loc="outside upper left", ncols=4, frameon=False,
            fontsize=s.SMALL,
        )  # fmt: skip
    return figure


def checked_output(output: int | str | None, n_outputs: int, names: Sequence[str]) -> list[int]:
    """Return the outputs to draw: one of them, by number or name, or the first eight."""
    if output is None:
        return list(range(min(n_outputs, s.MOST_LINES)))
    if isinstance(output, str) and output in names:
        return [list(names).index(output)]
    is_number = isinstance(output, int | np.integer) and not isinstance(output, bool)
    if not is_number or not 0 <= int(output) < n_outputs:
        known = f", or one of {', '.join(map(repr, names[:8]))}" if names else ""
        raise ParameterError(
            f"output must be a whole number from 0 to {n_outputs - 1}{known}; got {brief(output)}."
            f"{did_you_mean(output, names)}"
        )
    return [int(output)]


def _table(effect: Effect) -> tuple[FloatArray, FloatArray]:
    """Return the values (n, n_outputs), and the value for missing values."""
    n = len(effect.positions)
    return effect.values.reshape(n, -1), np.atleast_1d(effect.missing)


def _drawn_values(effect: Effect, chosen: Sequence[int]) -> FloatArray:
    values, missing = _table(effect)
    drawn = values[_drawn(effect)][:, list(chosen)].reshape(-1)
    return np.append(drawn, missing[list(chosen)]) if effect.missing_rows > 0.0 else drawn


def _drawn(effect: Effect) -> IntArray:
    """Return the positions to draw: categories with the most rows, numbers in range."""
    if effect.kind == "category":
        order = np.argsort(-effect.rows, kind="stable")[:MOST_CATEGORIES]
        return np.sort(order)
    low, high = range_of(effect)
    x = effect.positions.astype(np.float64)
    if not effect.is_exact:
        first = int(np.searchsorted(x, low, side="right")) - 1
        last = int(np.searchsorted(x, high, side="left"))
        return np.arange(max(first, 0), min(last, len(x) - 1) + 1)
    first = int(np.searchsorted(x, low, side="left"))
    last = int(np.searchsorted(x, high, side="left"))
    return np.arange(first, min(last, len(x) - 1) + 1)


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
    low, high = _limits([_drawn_values(effect, chosen)]) if limits is None else limits
    ax.set_ylim(low, high)
    s.finish(ax, "y")
    if effect.kind == "category":
        _draw_categories(ax, effect, chosen)
    else:
        _draw_numbers(ax, effect, chosen)
    shown = s.short(effect.name) if name is None else name
    ax.set_xlabel(shown, color=s.INK, fontsize=s.MEDIUM, parse_math=False)


def _draw_numbers(ax: Axes, effect: Effect, chosen: Sequence[int]) -> None:
    low, high = range_of(effect)
    values, missing = _table(effect)
    x = effect.positions.astype(np.float64)
    positions = _drawn(effect)
    for line, output in enumerate(chosen):
        style: dict[str, Any] = {"color": s.COLOURS[line], "ls": s.DASHES[line], "lw": 1.8}
        own = values[positions, output]
        if effect.is_exact:
            edges = np.concatenate(([low], np.minimum(x[positions], high)))
            ax.stairs(own, edges, baseline=None, label=str(output), **style)
        else:
            ax.plot(x[positions], own, label=str(output), **style)
    _draw_strip(ax, np.linspace(low, high, 31), s.density(effect.quantiles, low, high))
    span = high - low
    right = high + 0.03 * span
    if effect.missing_rows > 0.0:
        at = high + 0.1 * span
        for line, output in enumerate(chosen):
            ax.plot(at, missing[output], "D", color=s.COLOURS[line], ms=5, mec="white", mew=0.6)
        s.note(ax, "missing", at, data=True)
        ax.axvline(high + 0.05 * span, color=s.PALE, lw=0.8)
        right = high + 0.16 * span
    ax.set_xlim(low - 0.03 * span, right)
    if effect.temporal is not None:
        s.show_temporal_ticks(ax.xaxis, effect.temporal, low, high)
        return
    ax.locator_params(axis="x", nbins=5)
    if effect.missing_rows > 0.0:
        ticks = ax.get_xticks()
        ax.set_xticks([tick for tick in ticks if low - 0.03 * span <= tick <= high + 0.02 * span])
        ax.set_xlim(low - 0.03 * span, right)


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
        shift = 0.0 if len(chosen) == 1 else 0.5 * (line / (len(chosen) - 1) - 0.5)
        own = drawn[:, output]
        ax.vlines(x + shift, mean[output], own, color=s.COLOURS[line], lw=2.4 - 0.15 * len(chosen))
        ax.plot(x + shift, own, "o", color=s.COLOURS[line], ms=5, mec="white", mew=0.6,
                label=str(output))  # fmt: skip
        ax.axhline(mean[output], color=s.COLOURS[line], lw=0.7, ls=(0, (2, 2)))
    shares = rows / total if total > 0.0 else np.zeros(len(rows))
    _draw_strip(ax, np.append(x - 0.4, x[-1] + 0.4) if len(x) else np.zeros(1), shares, gap=True)
    steep = max(map(len, names), default=0) > 3 and len(names) > 2
    ax.set_xticks(
        x, names, rotation=90 if steep and len(names) > 5 else 35 if steep else 0, parse_math=False,
        ha="right" if steep and len(names) <= 5 else "center", fontsize=s.SMALL,
    )  # fmt: skip
    ax.set_xlim(-0.6, max(len(names) - 0.4, 0.6))
    left_out = len(effect.levels) - len(positions)
    if left_out > 0:
        s.note(ax, f"{left_out:,} of {len(effect.levels):,} categories not shown")


def _draw_strip(ax: Axes, edges: FloatArray, shares: FloatArray, *, gap: bool = False) -> None:
    """Draw bars at the bottom of a panel, with the shares of rows as heights."""
    if not shares.any():
        return
    low, high = ax.get_ylim()
    heights = shares / shares.max() * _STRIP * (high - low)
    left, width = edges[:-1], np.diff(edges)
    if gap:
        width = np.full(len(left), 0.8)
    ax.bar(left, heights, width, bottom=low, align="edge", color=s.PALE, lw=0, zorder=0.8)


def plot_curves(curves: IndividualCurves, ax: Axes | None = None, *, output: int | str = 0) -> Axes:
    """Plot the curve of each row, and their mean; dots are the actual rows.

    Parameters
    ----------
    curves : IndividualCurves
    ax : matplotlib Axes, optional
    output : int or str, default=0
        Number or name of the output, if there are several.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError, ParameterError

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.datasets import load_pima
    >>> from hedgerow.plot import plot_curves
    >>> X, y, names, _ = load_pima()
    >>> booster = train({"n_estimators": 20}, Dataset(X, y, feature_names=names))
    >>> plot_curves(booster.individual_curves(X[:50], "BMI")).get_xlabel()
    'BMI'
    """
    (chosen,) = checked_output(output, curves.effect.n_outputs, curves.effect.output_names)
    ax = s.new_axes("plot_curves", ax, 5.2, 3.8)
    effect = curves.effect.output(chosen)
    values = curves.values if curves.values.ndim == 2 else curves.values[..., chosen]
    places = _drawn(effect)
    x = effect.positions.astype(np.float64)
    low, high = (0.0, 0.0) if effect.kind == "category" else range_of(effect)
    if effect.kind != "category" and effect.is_exact:
        edges = np.concatenate(([low], np.minimum(x[places], high)))
        xs, ys = np.repeat(edges, 2)[1:-1], np.repeat(values[:, places], 2, axis=1)
    else:
        xs, ys = (
            x[places] if effect.kind != "category" else np.arange(len(places)),
            values[:, places],
        )
    ax.set_ylim(*_limits([ys.reshape(-1)]))
    s.finish(ax, "y")
    faint = float(np.clip(12.0 / max(1, len(values)), 0.05, 0.5))
    ax.plot(xs, ys.T, color=s.LINE, lw=0.8, alpha=faint, rasterized=len(values) > 200)
    if effect.kind == "category":
        names = s.short_names((effect.levels[k] for k in places), 14)
        ax.set_xticks(xs, names, rotation=35, ha="right", parse_math=False, fontsize=s.SMALL)
        mean = effect.values[places]
    else:
        _draw_own(ax, curves, values, (low, high))
        _draw_strip(ax, np.linspace(low, high, 31), s.density(effect.quantiles, low, high))
        ax.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
        if effect.temporal is not None:
            s.show_temporal_ticks(ax.xaxis, effect.temporal, low, high)
        mean = np.repeat(effect.values[places], 2) if effect.is_exact else effect.values[places]
    ax.plot(xs, mean, color=s.COLOURS[0], lw=2.2, label="mean")
    ax.legend(frameon=False, fontsize=s.SMALL)
    ax.set_xlabel(s.short(effect.name), color=s.INK, fontsize=s.MEDIUM, parse_math=False)
    ax.set_ylabel(_UNITS[curves.kind], color=s.INK, fontsize=s.MEDIUM)
    return ax


def _draw_own(
    ax: Axes, curves: IndividualCurves, values: FloatArray, ends: tuple[float, float]
) -> None:
    """Draw a dot on each curve, at the row's own value."""
    own = np.asarray(curves.own, dtype=np.float64)
    x = curves.effect.positions.astype(np.float64)
    inside = np.flatnonzero((own >= ends[0]) & (own <= ends[1]))
    if curves.effect.is_exact:
        cells = np.searchsorted(x[:-1], own[inside], side="left")
        at = values[inside, cells]
    else:
        at = np.array([np.interp(own[row], x, values[row]) for row in inside])
    ax.plot(own[inside], at, "o", ms=2.6, color=s.FAINT, mew=0, alpha=0.7)


def plot_joint_dependence(
    joint: JointEffect, ax: Axes | None = None, *, output: int | str = 0
) -> Axes:
    """Plot the joint effect of two columns as a map.

    Parameters
    ----------
    joint : JointEffect
    ax : matplotlib Axes, optional
    output : int or str, default=0
        Number or name of the output, if there are several.

    Returns
    -------
    matplotlib.axes.Axes
        Missing values are not shown.

    Raises
    ------
    ImportError, ParameterError
    """
    values = joint.present
    n_outputs = 1 if values.ndim == 2 else values.shape[2]
    (chosen,) = checked_output(output, n_outputs, joint.first.output_names)
    values = values if values.ndim == 2 else values[..., chosen]
    ax = s.new_axes("plot_joint_dependence", ax, 5.6, 4.4)
    first, at_first = _edges(joint.first)
    second, at_second = _edges(joint.second)
    mesh = ax.pcolormesh(
        first, second, values[at_first][:, at_second].T, cmap="cividis", rasterized=True
    )
    s.shade_bar(ax, mesh, f"mean {_UNITS[joint.kind]}")
    s.finish(ax)
    for effect, axis, places, edges in (
        (joint.first, ax.xaxis, at_first, first),
        (joint.second, ax.yaxis, at_second, second),
    ):
        axis.set_label_text(s.short(effect.name), color=s.INK, fontsize=s.MEDIUM, parse_math=False)
        if effect.kind == "category":
            names = s.short_names((effect.levels[k] for k in places), 14)
            axis.set_ticks(range(len(names)), names, parse_math=False, fontsize=s.SMALL)
        elif effect.temporal is not None:
            s.show_temporal_ticks(axis, effect.temporal, float(edges[0]), float(edges[-1]))
    if joint.first.kind == "category":
        ax.tick_params(axis="x", rotation=90)
    return ax


def _edges(effect: Effect) -> tuple[FloatArray, IntArray]:
    """Return the edges of the cells of one axis, and the positions that they show."""
    positions = _drawn(effect)
    if effect.kind == "category":
        return np.arange(len(positions) + 1, dtype=np.float64) - 0.5, positions
    low, high = range_of(effect)
    x = effect.positions.astype(np.float64)[positions]
    if effect.is_exact:
        edges: FloatArray = np.concatenate((np.array([low]), np.minimum(x, high)))
        return edges, positions
    if len(x) < 2:
        return np.array([low, high]), positions
    between: FloatArray = np.concatenate((x[:1], (x[1:] + x[:-1]) / 2, x[-1:]))
    return between, positions
