"""Common parts of all pages: style, tables, and inline figures."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from hedgerow.errors import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2933; max-width: 68rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p.lead, caption, td.what { color: #52606d; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #e4e7eb; }
th:first-child, td:first-child, th.what, td.what { text-align: left; }
td.best { font-weight: 700; } .scroll { overflow-x: auto; margin: .8rem 0; }
figure { margin: 1rem 0; overflow-x: auto; } figure svg { max-width: 100%; height: auto; }
figcaption { color: #52606d; overflow-wrap: anywhere; }
"""


def new_figure(width: float, height: float) -> Figure:
    """Return a figure without a window and without global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def inline_plot(
    size: tuple[float, float], draw: Callable[[Axes], object], caption: str, kind: str = ""
) -> str:
    """Return a new figure of some width and height on whose axes ``draw`` draws, as inline SVG."""
    figure = new_figure(*size)
    draw(figure.add_subplot())
    return inline_figure(figure, caption, kind)


def inline_figure(figure: Figure, caption: str, kind: str = "") -> str:
    """Return the figure as inline SVG; the same figure gives the same text."""
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "hedgerow"}):
        figure.savefig(text, format="svg", metadata={"Date": None}, bbox_inches="tight")
    drawing = text.getvalue()
    drawing = drawing[drawing.index("<svg") :]  # without the XML head
    label = f'<svg role="img" aria-label="{escaped(caption)}"'
    named = f' class="{kind}"' if kind else ""
    return (
        f"<figure{named}>{drawing.replace('<svg', label, 1)}"
        f"<figcaption>{escaped(caption)}</figcaption></figure>"
    )


def escaped(text: object) -> str:
    """Return a user's text, escaped for HTML."""
    return html.escape(printable(str(text)))


def table_html(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    words: Sequence[int] = (),
    best: Collection[tuple[int, int]] = (),
) -> str:
    """Return a table that scrolls if it is too wide, with columns of words and the best cells."""

    def cell(tag: str, row: int, column: int, text: object) -> str:
        kind = "what" if column in words else "best" if (row, column) in best else ""
        named = f' class="{kind}"' if kind else ""
        return f"<{tag}{named}>{escaped(text)}</{tag}>"

    top = "".join(cell("th", -1, k, text) for k, text in enumerate(head))
    body = "\n".join(
        f"<tr>{''.join(cell('td', place, k, text) for k, text in enumerate(row))}</tr>"
        for place, row in enumerate(rows)
    )
    return (
        f'<div class="scroll"><table><thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody>'
        "</table></div>"
    )


def page_html(title: str, body: Sequence[str], style: str = STYLE) -> str:
    """Return a complete, self-contained page."""
    text = "\n".join(body)
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{escaped(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{style}</style></head>\n<body>\n{text}\n</body></html>\n"
    )
