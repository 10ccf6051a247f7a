"""The report on a model and its test rows as one HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from hedgerow import __version__
from hedgerow.arrays import AnyArray, distinct
from hedgerow.booster import Booster
from hedgerow.data.inputs import brief_value
from hedgerow.data.reading.temporal import text_of_ticks
from hedgerow.data.schema import Column
from hedgerow.inspection import explained_importance
from hedgerow.plot import style as s
from hedgerow.plot.curves import plot_history
from hedgerow.plot.effects import draw_effect
from hedgerow.plot.explained import plot_beeswarm, plot_waterfall
from hedgerow.plot.importance import plot_importance
from hedgerow.report import html as h
from hedgerow.report.findings import STRONG_SHIFT, Findings
from hedgerow.report.predictions import predictions_html

_PANELS = 9
_OF_ENTRY = ("score", "rounds", "weight", "chosen")
_LINES = (
    *("solid", "dashed", "dash-dotted", "dotted", "long dashes", "fine dots", "dash and dots"),
    "grey",
)
_OF_SCORES = (
    '<p class="lead">↑ larger is better, ↓ smaller. The interval comes from 200 resamples of the '
    "rows. The last column is the best score of a constant prediction.</p>"
)
_OF_SURPRISES = (
    '<p class="lead">The rows with the largest loss, counted from 0. They reveal wrong targets, '
    "missing columns and rare cases.</p>"
)
_OF_QUERIES = _OF_SCORES.replace("resamples of the rows", "resamples of the queries")
_NO_SURPRISES = (
    '<p class="lead">No row is listed as surprising, because the loss of a row depends on the '
    "rows that it is compared with.</p>"
)
_OF_DRIFT = (
    '<p class="lead">How differently the splits of a column divide these rows and the training '
    "rows, in units of their standard deviation, minus the value expected by chance. Each node "
    "of the model stores its number of training rows, so no training row is needed.</p>"
)
_OF_PERMUTATIONS = (
    "Increase of the loss when the values of a column are shuffled among the rows; whiskers "
    "are 95% intervals over 5 permutations."
)
_COLUMNS_LISTED = 40
_SHOWN_RAW = ("ranking", "survival")

_STYLE = (
    h.STYLE
    + """
.warnings { background: #fff4e5; border-left: 4px solid #d55e00; padding: .6rem 1rem;
            margin: 1rem 0; overflow-wrap: anywhere; }
.warnings ul { margin: .3rem 0; padding-left: 1.2rem; }
.fine { background: #eef6f1; border-left: 4px solid #009e73; padding: .6rem 1rem; }
.panels { display: grid; gap: .5rem 1rem; align-items: start;
          grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); }
.pair { grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); }
.panels figure { margin: 0; }
.panels figure svg { width: 100%; }
figure.wide svg { min-width: min(34rem, 150vw); }
table.params td { overflow-wrap: anywhere; text-align: left; }
details summary { cursor: pointer; color: #0072b2; }
td, th { vertical-align: top; } td.what { min-width: 9rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .5rem 0; }
dt { color: #52606d; } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 40rem) { body { margin: 1rem auto; } th, td { padding: .25rem .4rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .4rem; } }
@media print { body { max-width: none; margin: 0; font-size: 11pt; }
  figure, tr, .warnings { break-inside: avoid; } h2 { break-after: avoid; }
  figure, .scroll { overflow: visible; } figure.wide svg { min-width: 0; }
  .panels { grid-template-columns: repeat(3, 1fr); } .pair { grid-template-columns: 1fr 1fr; }
  figcaption, td, th { font-size: 9pt; }
  details > * { display: block; } summary { list-style: none; } }
"""
)


def model_page(found: Findings, title: str, *, rows_name: str = "the test rows") -> str:
    """Return findings as a page.

    Parameters
    ----------
    found : Findings
        Result of :func:`hedgerow.report.find`.
    title : str
        Name of the model.
    rows_name : str
        Name of the rows.

    Returns
    -------
    str
        Self-contained HTML: no script, no link.  Needs matplotlib.
    """
    booster = found.booster
    task = found.task if found.classes is None else f"{len(found.classes)} classes"
    if found.y.ndim == 2:
        task = f"{found.y.shape[1]} {'targets' if task == 'regression' else 'labels'}"
    trained = booster.model.training.get("n_rows")
    known = "" if trained is None else f", trained on {trained:,} rows"
    lead = (
        f"{booster.num_trees:,} trees, {booster.num_features} columns, {task}, objective "
        f"{booster.objective}{known}; tested on {len(found.y):,} rows of {rows_name}. Hedgerow "
        f"{__version__}."
    )
    warned = "".join(f"<li>{h.escaped(text)}</li>" for text in found.warnings)
    parts = [
        f"<h1>{h.escaped(title)}</h1>",
        f'<p class="lead">{h.escaped(lead)}</p>',
        f'<div class="warnings"><strong>Warnings</strong><ul>{warned}</ul></div>'
        if warned
        else '<p class="fine">No warnings: no dominating column, no unseen category, no drift.</p>',
        "<h2>Scores</h2>",
        _scores(found),
        *predictions_html(found),
        *_curve(found.booster),
        *_importances(found),
        *_dependence(found),
        *_surprises(found),
        *_drift(found),
        *_model(found.booster),
        *_columns(found),
    ]
    return h.page_html(title, parts, _STYLE)


def _scores(found: Findings) -> str:
    rows = [
        (
            f"{score.name} {'↑' if score.higher_is_better else '↓'}",
            s.rounded(score.value),
            f"{s.rounded(score.low)} … {s.rounded(score.high)}",
            s.rounded(score.constant),
        )
        for score in found.scores
    ]
    head = ("score", "value", "95% interval", "constant")
    return h.table_html(head, rows) + (_OF_SCORES if found.query is None else _OF_QUERIES)


def _curve(booster: Booster) -> list[str]:
    if not any(scores for curves in booster.evals_result.values() for scores in curves.values()):
        return []
    ended = booster.stopped_by
    caption = "Score after each round of training."
    if ended is not None:
        caption += f" It ended by: {ended.replace('_', ' ')}."
    drawn = h.inline_plot(
        (7.0, 3.6), lambda ax: plot_history(booster.model, ax=ax), caption, "wide"
    )
    return ["<h2>Learning curve</h2>", drawn]


def _importances(found: Findings) -> list[str]:
    known = [
        (found.permutation, _OF_PERMUTATIONS),
        (found.booster.importance("gain"), "Share of each column in the total gain."),
    ]
    if found.overview is not None:
        shap = explained_importance(found.overview)
        known.insert(1, (shap, "Mean absolute SHAP value, with 95% intervals."))
    most = 15
    size = (6.0, 1.0 + 0.28 * min(len(found.permutation.names), most + 1))
    drawn = [
        h.inline_plot(size, partial(plot_importance, own, most=most), caption)
        for own, caption in known
        if own.values.any()
    ]
    if not drawn:
        return []
    parts = ["<h2>Importances</h2>", f'<div class="panels pair">{"".join(drawn)}</div>']
    explanation = found.overview
    if explanation is None or (explanation.output_names and found.classes is not None):
        return parts
    output, named = _shown_output(found)
    size = (7.2, 1.2 + 0.36 * min(15, len(explanation.feature_names)))
    draw = partial(plot_beeswarm, explanation, output=output)
    caption = f"SHAP values of the rows{named}, by the value of the column."
    return [*parts, h.inline_plot(size, draw, caption, "wide")]


def _shown_output(found: Findings) -> tuple[int | None, str]:
    """Return the shown output of a model with several outputs, and its name for captions."""
    names = found.booster.output_names
    if not names:
        return None, ""
    # The first target, the middle quantile, or the location of a distribution.
    place = len(names) // 2 if found.task == "quantiles" else 0
    what = "level" if found.task == "quantiles" else "output"
    return place, f" for {what} {s.short(names[place], 40)}"


def _dependence(found: Findings) -> list[str]:
    importances = found.permutation
    used = [importances.names[k] for k in importances.order if importances.total[k] != 0.0]
    if not used:
        return []
    outputs, note = _outputs(found)
    what = "prediction" if found.probability is None else "probability"
    label = f"mean {'score' if found.task in _SHOWN_RAW else what}"
    drawn = []
    for effect in (found.effects[name] for name in used[:_PANELS]):
        figure = h.new_figure(4.4, 3.0)
        axes = figure.add_subplot()
        draw_effect(axes, effect, outputs)
        s.name_axes(axes, y=label)
        values = effect.values.reshape(len(effect.positions), -1)[:, outputs]
        ends = f"from {s.rounded(values.min())} to {s.rounded(values.max())}"
        drawn.append(h.inline_figure(figure, f"{effect.name}: {label} {ends}"))
    return [
        "<h2>Effects of the strongest columns</h2>",
        f'<p class="lead">{note} Grey bars show where the rows are.</p>',
        f'<div class="panels">{"".join(drawn)}</div>',
    ]


def _outputs(found: Findings) -> tuple[list[int], str]:
    """Return the outputs to draw, and a caption."""
    n_outputs = found.effects.effects[0].n_outputs
    what = "Mean score" if found.task in _SHOWN_RAW else "Mean prediction"
    if found.classes is None and n_outputs == 1:
        return [0], f"{what} of the rows, with the column set to each value in turn."
    if found.classes is None:
        what = what if found.probability is None else "Mean probability"
        return _lines_of(n_outputs, found.booster.output_names, f"{what} of each output")
    if n_outputs == 2:
        label = h.escaped(s.short(found.classes.tolist()[1]))
        return [1], f"Mean probability of class {label}, with the column set to each value in turn."
    return _lines_of(n_outputs, found.classes.tolist(), "Mean probability of each class")


def _lines_of(n_outputs: int, names: Sequence[object], what: str) -> tuple[list[int], str]:
    shown = list(range(min(n_outputs, len(s.COLOURS))))
    own = [h.escaped(s.short(names[k], 20)) for k in shown]
    named = ", ".join(f"{name} ({line})" for name, line in zip(own, _LINES, strict=False))
    return shown, f"{what}, with the column set to each value in turn: {named}."


def _surprises(found: Findings) -> list[str]:
    if not found.surprises:
        return [_NO_SURPRISES] if found.task in _SHOWN_RAW else []
    strongest = [found.permutation.names[k] for k in found.permutation.order[:5]]
    names = [name for name in strongest if name in found.X]
    head = ("row", "true", "predicted", "loss", *s.short_names(names, 24))
    rows = []
    for surprise in found.surprises:
        shown = _shown(surprise.predicted)
        if found.probability is not None and found.classes is not None:
            shown = f"{shown} ({found.probability[surprise.row].max():.2f})"
        values = [_shown(found.X[name][surprise.row]) for name in names]
        true, loss = _shown(surprise.target), s.rounded(surprise.loss)
        rows.append((surprise.row, true, shown, loss, *values))
    parts = ["<h2>The most surprising rows</h2>", _OF_SURPRISES, h.table_html(head, rows)]
    if found.explanation is None:
        return parts
    drawn = []
    outputs, size = found.explanation.output_names, len(found.explanation.feature_names)
    for place, surprise in enumerate(found.surprises):
        figure = h.new_figure(6.6, 1.3 + 0.34 * min(11, size))
        axes = figure.add_subplot()
        output, named = _shown_output(found)
        if outputs and found.classes is not None:  # the predicted class
            output = found.classes.tolist().index(surprise.predicted)
        plot_waterfall(found.explanation, place, axes, output=output)
        axes.set_title("", loc="left")
        true, predicted = _shown(surprise.target), _shown(surprise.predicted)
        caption = f"Row {surprise.row}: true {true}, predicted {predicted}"
        caption += "" if found.classes is not None else named
        drawn.append(h.inline_figure(figure, caption, "wide"))
    return [*parts, *drawn]


def _shown(value: object) -> str:
    """Return text for a target or a prediction; several values with commas."""
    parts = value if isinstance(value, tuple) else (value,)
    plain = [part.item() if isinstance(part, np.generic) else part for part in parts[:6]]
    return ", ".join(map(s.cell_text, plain))


def _drift(found: Findings) -> list[str]:
    shown = [(name, shift) for name, shift in found.shifts.items() if shift > 0.0][:10]
    if not shown:
        return []
    names = s.short_names(name for name, _ in shown)
    rows = [
        (name, f"{shift:.3f}", "much" if shift > STRONG_SHIFT else "little")
        for name, (_, shift) in zip(names, shown, strict=True)
    ]
    return [
        "<h2>Drift between training and test</h2>",
        _OF_DRIFT,
        h.table_html(("column", "shift", "that is"), rows),
    ]


def _model(booster: Booster) -> list[str]:
    """Return parameters, and the candidates that the folds compared."""
    training = booster.model.training
    parameters: Mapping[str, Any] = training.get("parameters", {})
    forest = booster.model.forest
    sizes = [int((forest.feature[a:b] < 0).sum()) for a, b in pairwise(forest.tree_start.tolist())]
    facts = {
        "trees": f"{booster.num_trees:,} in {booster.num_rounds:,} rounds",
        "leaves": f"{sum(sizes):,}, at most {max(sizes, default=0)} in a tree",
        "leaves are": "lines" if forest.slopes is not None else "constants",
        "ended by": (booster.stopped_by or "not noted").replace("_", " "),
    }
    items = "".join(f"<dt>{h.escaped(k)}</dt><dd>{h.escaped(v)}</dd>" for k, v in facts.items())
    parts = ["<h2>The model and its parameters</h2>", f"<dl>{items}</dl>"]
    parts += _folds(training.get("folds", {}))
    if parameters:
        rows = [(name, str(value)) for name, value in sorted(parameters.items())]
        table = h.table_html(("parameter", "value"), rows, words=(1,))
        parts.append(f"<details><summary>All parameters</summary>{table}</details>")
    return parts


def _folds(folds: Mapping[str, Any]) -> list[str]:
    tried = folds.get("tried", [])
    if not tried:
        return ["<p>No folds compared parameters: all values were set or are defaults.</p>"]
    rows = []
    for entry in tried:
        given = {name: value for name, value in entry.items() if name not in _OF_ENTRY}
        requested = [f"{name}={brief_value(name, value)}" for name, value in given.items()]
        score = entry["score"]
        rows.append((
            ", ".join(requested) or "as set or automatic",
            "no score" if score is None else f"{score:.6g}",
            entry["rounds"],
            f"{entry['weight']:.0%}" if "weight" in entry else "",
            "best" if entry.get("chosen") else "",
        ))  # fmt: skip
    n_folds, n_tested = folds["folds"]
    text = (
        f"<p>{n_tested} of {n_folds} folds of the training rows compared these settings by "
        "the loss of the held-out rows:</p>"
    )
    return [
        text,
        h.table_html(("settings", "loss", "rounds of the fold", "weight in the model", ""), rows),
    ]


def _columns(found: Findings) -> list[str]:
    """Return the model's facts about each column, and a summary of these rows."""
    columns = found.booster.model.schema.columns
    rows = []
    listed = columns[:_COLUMNS_LISTED]
    for name, column in zip(s.short_names(column.name for column in listed), listed, strict=True):
        values = found.X.get(column.name)
        facts = ("", "") if values is None else _facts_of(column, values)
        rows.append((name, column.temporal or column.kind, *facts))
    more = len(columns) - _COLUMNS_LISTED
    note = f"<p>{more} more columns are not listed.</p>" if more > 0 else ""
    table = h.table_html(("column", "kind", "missing", "values"), rows, words=(1, 3))
    return ["<h2>The data</h2>", table, note]


def _facts_of(column: Column, values: AnyArray) -> tuple[str, str]:
    """Return the share of missing values, and the range or the most frequent of the others."""
    (known,) = s.table_columns({column.name: values}, (column.name,))
    numbers = s.in_numbers(known)
    if numbers.dtype == object:
        texts = [str(value) for value in known if value is not None]
        different, counts = np.unique(np.array(texts, dtype=str), return_counts=True)
        most = different[np.argsort(-counts, kind="stable")[:3]]
        more = f" … ({len(different)} in all)" if len(different) > 3 else ""
        shown = ", ".join(s.short(text, 16) for text in most.tolist())
        return f"{1.0 - len(texts) / len(known):.1%}", f"{shown}{more}"
    share, present = f"{np.isnan(numbers).mean():.1%}", numbers[np.isfinite(numbers)]
    if len(present) == 0:
        return share, "none"
    if column.kind == "category":
        return share, f"{len(distinct(present))} different"
    temporal = s.held_temporal(known)
    ends = np.percentile(present, [0, 50, 100]).tolist()
    texts = [
        s.rounded(end) if temporal is None else text_of_ticks(round(end), temporal) for end in ends
    ]
    return share, " … ".join(texts)
