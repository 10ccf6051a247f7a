"""Callbacks and the progress bar of a fit.

A callback is any callable that takes one :class:`Round`.  It is called after each
round and ends the fit by returning True; an exception from it ends the fit and
leaves the estimator unchanged.  While folds choose the settings of the fit, only the bar moves.
"""

from __future__ import annotations

import html
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TextIO, TypeAlias

import numpy as np

from hedgerow.argument_types import is_function, listed, name_of_function
from hedgerow.errors import ParameterError, brief
from hedgerow.model.model import Model
from hedgerow.terminal import RewrittenLine

History: TypeAlias = dict[str, dict[str, list[float]]]
"""``history["validation"]["auc"][i]`` is the score after round ``i + 1``."""


def _no_model() -> Model:
    raise RuntimeError("this Round was made by hand: it has no model, since it has no fit.")


@dataclass(frozen=True, slots=True)
class Round:
    """State of the fit that a callback receives after a round.

    Attributes
    ----------
    round : int
        Number of rounds done: 1 after the first.
    n_rounds : int
        Number of requested rounds (``n_estimators``).
    history : mapping
        ``history["validation"]["loss"]`` holds the scores of all rounds so
        far.  Without validation rows the key is ``"train"``, and the history is
        empty unless there is an ``eval_metric``.
    elapsed : float
        Seconds since the fit began.
    is_last : bool
        Whether the fit ends with this round unless a callback says otherwise: it is the last
        requested round, or early stopping ends the fit.
    model : callable
        ``model()`` assembles the :class:`hedgerow.model.model.Model` that the fit
        would return if it ended now, for :class:`hedgerow.Booster`.  It takes about as long
        as copying all trees.
    """

    round: int
    n_rounds: int
    history: Mapping[str, Mapping[str, Sequence[float]]]
    elapsed: float
    is_last: bool = False
    model: Callable[[], Model] = _no_model


Callback: TypeAlias = Callable[[Round], "bool | None"]

_Line: TypeAlias = tuple[int, int, list[str]]
"""Rounds done, all rounds, and the words beside the bar."""


def read_only(history: History) -> Mapping[str, Mapping[str, Sequence[float]]]:
    """Return the history up to now in a form that callbacks cannot change."""
    found = {
        rows: MappingProxyType({name: tuple(scores) for name, scores in curves.items()})
        for rows, curves in history.items()
    }
    return MappingProxyType(found)


def call_all(callbacks: Sequence[Callback], state: Round) -> bool:
    """Call each callback; return True if one of them returns True, which ends the fit."""
    stop = False
    for callback in callbacks:
        answer = callback(state)
        if answer is not None and not isinstance(answer, (bool, np.bool_)):
            name = name_of_function(callback)
            raise ParameterError(
                f"callback {name!r} returned {brief(answer)}; return True to stop, None to "
                "continue."
            )
        stop = stop or bool(answer)
    return stop


CELLS = 24


class TerminalLine(RewrittenLine):
    """One line of a terminal: ``[####....] 42/100  validation loss 0.3127  1.8 s``."""

    def draw(self, done: int, total: int, words: Sequence[str]) -> None:
        filled = CELLS * done // total
        bar = f"[{'#' * filled}{'.' * (CELLS - filled)}] {done}/{total}"
        self.show("  ".join([bar, *words]))


class NotebookBar:
    """An output of a notebook cell, which is replaced by ``IPython.display.display``."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None

    def draw(self, done: int, total: int, words: Sequence[str]) -> None:
        plain = "  ".join([f"{done}/{total}", *words])
        shown = {
            "text/plain": plain,
            "text/html": f'<progress value="{done}" max="{total}"></progress> {html.escape(plain)}',
        }
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def end(self) -> None:
        """Keep the last state."""


def find_display(stream: TextIO | None = None) -> TerminalLine | NotebookBar | None:
    """Return the display of this process, or None if nobody would see it: a file, a pipe, a log."""
    # In a notebook, IPython runs the program and is loaded already; nothing here loads it.
    if stream is None:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        if getattr(shell, "kernel", None) is not None:  # IPython in a terminal has no kernel
            from IPython.display import display

            return NotebookBar(display)
        stream = sys.stderr
    # Standard error is None in a process without a console.
    return TerminalLine(stream) if stream is not None and stream.isatty() else None


_REASONS = {
    "early_stopping": "stopped early",
    "callback": "stopped by a callback",
    "time_budget": "stopped by the time budget",
    "interrupt": "interrupted",
}
"""Texts for the reasons in ``stopped_by`` of a training record."""


class ProgressBar:
    """A callback that draws the progress of a fit.

    Parameters
    ----------
    stream : text file, optional
        Default: the notebook if there is one, else standard error.
    """

    SECONDS_BETWEEN = 0.1

    def __init__(self, stream: TextIO | None = None) -> None:
        self._display = find_display(stream)
        self._drawn = -math.inf  # time of the last drawing
        self._line: _Line | None = None  # if it waits to be drawn
        self._latest: Round | None = None
        self._of_folds: list[str] = []

    def __call__(self, state: Round) -> None:
        """Redraw the bar, at most ten times a second."""
        self._latest = state
        self._draw(self._line_of(state, state.round), state.round == state.n_rounds)

    def show_folds(
        self, trial: str, rounds: tuple[int, int], metric: str, score: float, best: float,
        elapsed: float,
    ) -> None:  # fmt: skip
        """Redraw the bar while folds choose, at most ten times a second; ``best`` so far."""
        self._of_folds = [f"best {metric} of folds {best:.5g}"]
        words = [f"choosing on {trial}", f"{metric} {score:.5g}", *self._of_folds]
        self._draw((*rounds, [*words, f"{elapsed:.1f} s"]))

    def tell(self, record: Mapping[str, Any]) -> None:
        """Show why the fit of this record ended before its last round, and its best round."""
        state = self._latest
        if state is None:
            return
        words = [_REASONS[reason]] if (reason := record.get("stopped_by")) in _REASONS else []
        shown = min(record.get("best_round") or state.round, state.round)
        if shown < state.round:
            words.append(f"best round {shown}")
        if words:
            done, total, parts = self._line_of(state, shown)
            self._line = done, total, [", ".join(words), *parts]

    def close(self) -> None:
        """Draw the last state and end the line."""
        if self._display is not None and (self._line is not None or self._drawn > -math.inf):
            if self._line is not None:
                self._display.draw(*self._line)
            self._display.end()

    def _draw(self, line: _Line, is_last: bool = False) -> None:
        self._line, now = line, time.monotonic()
        if self._display is not None and (is_last or now - self._drawn >= self.SECONDS_BETWEEN):
            self._display.draw(*line)
            self._drawn, self._line = now, None

    def _line_of(self, state: Round, shown: int) -> _Line:
        """Return the bar after a round of the model, with the scores of the round ``shown``."""
        words = [
            f"{rows} {name} {scores[shown - state.round - 1]:.5g}"
            for rows, curves in state.history.items()
            for name, scores in curves.items()
            if rows != "cv" and len(scores) > state.round - shown
        ]
        return state.round, state.n_rounds, [*words, *self._of_folds, f"{state.elapsed:.1f} s"]


def with_bar(
    callbacks: Callback | Sequence[Callback] | None, progress: bool
) -> tuple[tuple[Callback, ...], ProgressBar | None]:
    """Return checked callbacks with a progress bar, if there is to be one, and the bar."""
    given = [callbacks] if callable(callbacks) else listed(() if callbacks is None else callbacks)
    for item in (callbacks,) if given is None else given:
        library = type(item).__module__.partition(".")[0]
        if library in ("lightgbm", "xgboost", "catboost"):  # users may bring theirs along
            raise ParameterError(
                f"callbacks has a {type(item).__name__} of {library}, which does not take a Round: "
                "early stopping is the parameter patience, and evals_result holds the scores of "
                "all rounds."
            )
    if given is None or not all(map(is_function, given)):
        raise ParameterError(
            "callbacks must be None, a callable or a sequence of callables "
            f"(each takes one hedgerow.boosting.loop.callbacks.Round); got {brief(callbacks)}. "
            "Callbacks of scikit-learn are for estimators."
        )
    if not progress:
        return tuple(given), None
    bar = ProgressBar()
    return (*given, bar), bar
