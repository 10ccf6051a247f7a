"""Colours, fonts and axes of all plots.

Colour alone carries no information: signs are part of numbers, lines have dashes, points
markers.  The user's texts are drawn literally, never as formulas.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.data.reading.columns import floats_of_column
from hedgerow.data.reading.frames import columns_by_name
from hedgerow.data.reading.objects import has_zone, read_objects, sort_of
from hedgerow.data.reading.temporal import text_of_ticks
from hedgerow.data.schema import Temporal
from hedgerow.errors import ParameterError, brief, did_you_mean, shown_name
from hedgerow.params import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

INK, FAINT, LINE, GRID, PALE = "#1f2933", "#4b5763", "#8d99a5", "#e4e7eb", "#cbd2d9"
RAISES, LOWERS = "#d55e00", "#0072b2"
"""Colours of increases and decreases of a prediction."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1f2933", "#8d99a5")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)), "-")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Colour, dashes and mark of each line if a plot has several lines."""

MOST_LINES = len(COLOURS)
LETTERS = 32
_MOST_WHOLE = 1e15
"""Magnitude below which the whole part of a value is shown in full."""
SHADES = "cividis"
"""Colours of an ordered scale."""

SMALL, MEDIUM, TITLE = 8.0, 9.0, 11.0
"""Font sizes in points."""


_MOST_TICKS = 5
_COUNT = Interval(1, np.inf, integer=True)
_UNITS = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1_000, 1)
"""Days, hours, minutes, seconds, milliseconds and microseconds."""


def pyplot(what: str) -> Any:
    """Import ``matplotlib.pyplot``, or raise ``ImportError`` with what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f"{what} needs matplotlib: pip install 'hedgerow[plot]'.") from error
    return plt


def checked_most(most: object, name: str = "most") -> int:
    """Return a maximum number of things to draw; raise unless it is a whole number above 0."""
    if most not in _COUNT:
        raise ParameterError(f"{name} must be {_COUNT}; got {brief(most)}.")
    return int(most)  # type: ignore[call-overload]


def checked_output(output: Any, n_outputs: int, names: Sequence[str]) -> list[int]:
    """Return the outputs to draw: one of them, by number or name, or the first eight."""
    if output is None:
        return list(range(min(n_outputs, MOST_LINES)))
    if isinstance(output, str) and output in names:
        return [list(names).index(output)]
    if output in Interval(0, n_outputs - 1, integer=True):
        return [int(output)]
    known = f", or one of {', '.join(map(repr, names[:8]))}" if names else ""
    raise ParameterError(
        f"output must be a whole number from 0 to {n_outputs - 1}{known}; got {brief(output)}."
        f"{did_you_mean(output, names)}"
    )


def new_axes(what: str, ax: Axes | None, width: float, height: float) -> Axes:
    """Return ``ax``, or the axes of a new figure of a size in inches."""
    plt = pyplot(what)
    check_axes(ax)
    if ax is None:
        ax = plt.subplots(figsize=(width, height), layout="constrained")[1]
    return ax


def check_axes(ax: object) -> None:
    """Raise ``ParameterError`` unless ``ax`` is None or one axes of matplotlib."""
    from matplotlib.axes import Axes

    if ax is not None and not isinstance(ax, Axes):
        raise ParameterError(
            f"ax must be axes of matplotlib, such as plt.subplots()[1], or None; got {brief(ax)}."
        )


def finish(ax: Axes, grid: Literal["x", "y"] | None = None) -> None:
    """Apply the common style to axes; ``grid`` is the axis with grid lines."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["bottom", "left"]].set_color(LINE)
    ax.tick_params(colors=FAINT, labelsize=MEDIUM)
    if grid is not None:
        ax.grid(axis=grid, color=GRID, lw=0.8)
    ax.set_axisbelow(True)


def name_axes(ax: Axes, x: str | None = None, y: str | None = None) -> None:
    """Write what the x axis and the y axis show."""
    for axis, text in ((ax.xaxis, x), (ax.yaxis, y)):
        if text is not None:
            axis.set_label_text(text, color=INK, fontsize=MEDIUM, parse_math=False)


def name_categories(ax: Axes, names: Sequence[str], n_left_out: int = 0) -> None:
    """Put names at 0, 1, ... of the x axis, steep if they are long; note how many are not shown."""
    steep = len(names) > 2 and max(map(len, names)) > 3
    slanted = steep and len(names) <= 5
    ax.set_xticks(
        range(len(names)), names, rotation=35 if slanted else 90 if steep else 0, parse_math=False,
        ha="right" if slanted else "center", fontsize=SMALL,
    )  # fmt: skip
    if n_left_out > 0:
        n_shown = len(names) - ("missing" in names)
        note(ax, f"{n_left_out:,} of {n_shown + n_left_out:,} categories not shown")


def title(ax: Axes, text: str) -> None:
    """Write a title above the left edge."""
    ax.set_title(text, loc="left", fontsize=TITLE, color=INK, parse_math=False)


def note(ax: Axes, text: str, x: float = 1.0, *, data: bool = False) -> None:
    """Write a remark above the axes, at their right end or at a number of the x axis."""
    ax.annotate(
        text, (x, 1.0), xycoords=("data" if data else "axes fraction", "axes fraction"),
        xytext=(0, 2), textcoords="offset points", ha="center" if data else "right",
        va="bottom", fontsize=SMALL, color=FAINT,
    )  # fmt: skip


def literal_legend(ax: Axes, **options: Any) -> None:
    """Draw a legend whose texts are not read as formulas."""
    legend = ax.legend(frameon=False, fontsize=SMALL, title_fontsize=SMALL, **options)
    for text in (legend.get_title(), *legend.get_texts()):
        text.set_parse_math(False)


def named_rows(ax: Axes, names: Sequence[str]) -> None:
    """Put names at 0, 1, ... of the y axis, the first on top."""
    ax.set_yticks(range(len(names)), list(names), parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    for label in ax.get_yticklabels():
        label.set_color(INK)


def short(name: object, letters: int = LETTERS) -> str:
    """Return a name without control characters, shortened in the middle."""
    text = shown_name(str(name))
    if len(text) <= letters:
        return text
    end = max(3, letters // 3)
    return f"{text[: letters - end - 1]}…{text[-end:]}"


def short_names(names: Iterable[object], letters: int = LETTERS) -> list[str]:
    """Return shortened names; names that would look alike keep the part that differs."""
    texts = [shown_name(str(name)) for name in names]
    shown = [short(text, letters) for text in texts]
    # First shorten all names with a common prefix together, so that their different parts stay
    # different; then number the names that are still equal.
    for beginnings in ([text.partition("…")[0] for text in shown], shown):
        looks = list(beginnings)
        for alike in {look for k, look in enumerate(looks) if shown.count(shown[k]) > 1}:
            places = [k for k, look in enumerate(looks) if look == alike]
            apart = _distinguishable([texts[k] for k in places], letters)
            for k, text in zip(places, apart, strict=True):
                shown[k] = text
    return [
        f"{text} ({shown[:k].count(text) + 1})" if shown.count(text) > 1 else text
        for k, text in enumerate(shown)
    ]


def _distinguishable(texts: list[str], letters: int) -> list[str]:
    """Return beginning, middle and end of names that share the first and the last."""
    head = _n_shared(texts)
    tail = min(_n_shared([text[::-1] for text in texts]), min(map(len, texts)) - head)
    found = []
    for text in texts:
        end = len(text) - max(0, tail)
        middle = short(text[head:end], max(8, letters - 10)) if end > head else ""
        room = max(2, letters - len(middle) - 2)
        before, after = min(head, room - room // 3), min(max(0, tail), room // 3)
        start = text[:head] if head <= before else f"{text[:before]}…"
        stop = text[end:] if len(text) - end <= after else f"…{text[len(text) - after :]}"
        found.append(f"{start}{middle}{stop}")
    return found


def _n_shared(texts: Sequence[str]) -> int:
    """Return the length of the common prefix of all texts, which first and last in order have."""
    pairs = enumerate(zip(min(texts), max(texts), strict=False))
    return next((k for k, (a, b) in pairs if a != b), min(map(len, texts)))


def rounded(value: float) -> str:
    """Return three significant digits, or a whole number below ten million."""
    is_whole = 999.5 <= abs(value) < 1e7
    return (f"{value:,.0f}" if is_whole else f"{value:.3g}").replace("-", "−")


def signed(value: float) -> str:
    """Return :func:`rounded` with a sign."""
    return f"+{rounded(value)}" if value >= 0 else f"−{rounded(-value)}"


def cell_text(value: object) -> str:
    """Return a table value in a few letters."""
    if value is None or value != value:
        return "missing"
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        number = float(value)
        is_whole = number.is_integer() and abs(number) < _MOST_WHOLE
        is_large = 9999.5 <= abs(number) < _MOST_WHOLE
        return f"{number:.0f}" if is_whole or is_large else f"{number:.4g}"
    return short(value, 20)


def density(quantiles: FloatArray, low: float, high: float, n_bars: int = 30) -> FloatArray:
    """Return the share of rows in each of ``n_bars`` equal parts of a range, from quantiles."""
    if len(quantiles) == 0 or not high > low:
        return np.zeros(n_bars)
    positions = np.linspace(0, len(quantiles) - 1, 1001)
    spread = np.interp(positions, np.arange(len(quantiles)), quantiles)
    counts, _ = np.histogram(spread, bins=n_bars, range=(low, high))
    return counts / 1001


def table_columns(data: Any, names: Sequence[str]) -> list[Any]:
    """Return the columns of a table as arrays: numbers as float64, others as objects."""
    if hasattr(data, "toarray"):  # sparse
        data = data.toarray()
    elif isinstance(data, list | tuple):
        data = np.array(data, dtype=object)
    known = columns_by_name(data, names)
    every = list(known.values())
    return [
        _as_plain(known[name] if name in known else every[place])
        for place, name in enumerate(names)
    ]


def _as_plain(column: AnyArray) -> AnyArray:
    """Return float64 if all values are numbers or missing, else objects with None."""
    if column.dtype.kind in "biuf":
        return column.astype(np.float64)
    if column.dtype.kind in "Mm":
        column = column.astype(f"{column.dtype.kind}8[us]").astype(object)
    absent = ("NAType", "NaTType")
    values = [
        None if value is None or type(value).__name__ in absent or bool(value != value) else value
        for value in column
    ]
    if all(value is None or sort_of(type(value)) == "numbers" for value in values):
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.array(values, dtype=object)


def in_numbers(column: Any) -> Any:
    """Return dates, times and durations as float64 microseconds, other columns as they are."""
    if held_temporal(column) is None:
        return column
    return floats_of_column(read_objects(column, "").plain(""), "int").astype(np.float64)


def held_temporal(column: Any) -> Temporal | None:
    """Return whether a result of :func:`table_columns` holds dates, times or durations."""
    if column.dtype != object:
        return None
    sorts = {
        "zoned dates" if has_zone(value) else sort_of(type(value))
        for value in column.tolist()
        if value is not None
    }
    known = [temporal for temporal in get_args(Temporal) if sorts == {temporal}]
    return known[0] if known else None


def show_temporal_ticks(axis: Axis, temporal: Temporal, low: float, high: float) -> None:
    """Put ticks at full days, hours or other units from ``low`` to ``high``, with their text."""
    from matplotlib.dates import AutoDateLocator
    from matplotlib.ticker import MaxNLocator

    ends = [np.datetime64(round(end), "us").astype(object) for end in (low, high)]
    # Outside the years 1 to 9999, ends are no dates of Python.
    if temporal != "durations" and all(isinstance(end, dt.datetime) for end in ends):
        days = AutoDateLocator(minticks=2, maxticks=_MOST_TICKS).tick_values(*ends)
        places = [1000 * round(day * 86_400_000) for day in days]  # days are not exact in float64
    else:
        unit = next((unit for unit in _UNITS if 2 * unit <= high - low), 1)
        full = MaxNLocator(_MOST_TICKS).tick_values(low / unit, high / unit)
        places = [round(at * unit) for at in full]
    shown = [place for place in places if low <= place <= high]
    texts = [text_of_ticks(place, temporal) for place in shown]
    axis.set_ticks(shown, texts, fontsize=SMALL, rotation=35, ha="right")
