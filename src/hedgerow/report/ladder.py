"""The ladder: every method from one tree to histogram boosting, on the same split.

Each step changes one property of an earlier step, so the table of scores shows the history of
the field::

    base rate -> one tree -> pruned tree -> boosting, first order -> shrinkage
    -> stochastic -> Newton -> approximate search -> histograms
    -> leaf-wise growth;  beside them DART and random forest

All boosted trees have eight leaves, or three levels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.argument_types import is_one_of
from hedgerow.arrays import AnyArray, FloatArray, distinct
from hedgerow.cart import CARTClassifier, CARTRegressor
from hedgerow.data import Schema
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.estimators import HedgerowClassifier, HedgerowRegressor
from hedgerow.plot import plot_tree
from hedgerow.plot import style as s
from hedgerow.plot.labels import ModelLike
from hedgerow.report import html as h

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SPLIT_STREAM = 7
_TREES = 100
_FEWEST_TO_CHOOSE = 10
"""Least number of held-out rows for the choice of the pruning parameter.

With fewer rows, ``_MODERATE`` is used, because only test rows could choose a value.
"""
_MODERATE = 0.01
_LEVELS = {"max_leaves": None, "max_depth": 3, "grow_policy": "depthwise"}
_FIRST_ORDER = {
    "n_estimators": _TREES,
    "learning_rate": 1.0,
    "min_samples_leaf": 5,
    "leaf_estimation": "line_search",
    "reg_lambda": 0.0,
    "min_child_weight": 0.0,
    "early_stopping": False,
    "tree_method": "exact",
    **_LEVELS,
}
_SLOW = {**_FIRST_ORDER, "learning_rate": 0.1}
_NEWTON = {**_SLOW, "leaf_estimation": "newton", "reg_lambda": 1.0}
_HISTOGRAMS = {**_NEWTON, "tree_method": "hist"}
_LEAFWISE = {**_HISTOGRAMS, "max_leaves": 8, "max_depth": None, "grow_policy": "leafwise"}
_FOREST = {
    "boosting": "rf",
    "n_estimators": _TREES,
    "subsample": 0.632,
    "max_leaves": 256,
    "min_samples_leaf": 3,
    "reg_lambda": 0.0,
    "min_child_weight": 0.0,
    "early_stopping": False,
}


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Training rows and test rows.

    Attributes
    ----------
    task : {"classification", "regression"}
    X_train, X_test : ndarray of float64, shape (n_rows, n_features)
    y_train, y_test : ndarray of shape (n_rows,)
        Labels or numbers.
    feature_names : tuple of str
    """

    task: str
    X_train: AnyArray
    y_train: AnyArray
    X_test: AnyArray
    y_test: AnyArray
    feature_names: tuple[str, ...]

    @property
    def n_classes(self) -> int:
        """Number of distinct labels among the training rows; 0 for regression."""
        return 0 if self.task == "regression" else len(distinct(self.y_train))


@dataclass(frozen=True, slots=True)
class Rung:
    """One method.

    Attributes
    ----------
    name : str
    what : str
        Its new property, in one sentence.
    make : callable
        Takes a :class:`Split`; returns an estimator, or None for the base rate.
    """

    name: str
    what: str
    make: Callable[[Split], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The result of a step.

    Attributes
    ----------
    rung : Rung
    estimator : fitted estimator, or None for the base rate
    train_score, test_score : float
        Accuracy, or R2.
    train_loss, test_loss : float
        Mean logarithmic loss, or root mean squared error.
    seconds : float
        Time of the fit.
    n_trees, n_leaves : int
    """

    rung: Rung
    estimator: Any
    train_score: float
    test_score: float
    train_loss: float
    test_loss: float
    seconds: float
    n_trees: int
    n_leaves: int


def split_table(
    X: AnyArray,
    y: AnyArray,
    task: str,
    feature_names: Sequence[str],
    test_share: float = 0.2,
    seed: int = 0,
) -> Split:
    """Hold out test rows; return a :class:`Split`.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    task : {"classification", "regression"}
        Whether targets are classes or numbers.
    feature_names : sequence of str
        Names of the columns, for pictures.
    test_share : float, default=0.2
        Share of the rows to hold out.
    seed : int, default=0
        Seed of the drawn rows.
    """
    if not is_one_of(task, ("classification", "regression")):
        raise ParameterError(f"task must be 'classification' or 'regression'; got {brief(task)}.")
    if not 0.0 < test_share < 1.0:
        raise ParameterError(f"test_share must be between 0 and 1; got {brief(test_share)}.")
    if seed < 0:
        raise ParameterError(f"seed must not be negative; got {brief(seed)}.")
    order = np.random.default_rng([_SPLIT_STREAM, seed]).permutation(len(y))
    n_test = max(1, int(test_share * len(y)))
    test, train = np.sort(order[:n_test]), np.sort(order[n_test:])
    split = Split(task, X[train], y[train], X[test], y[test], tuple(feature_names))
    if len(train) < 2 or split.n_classes == 1:
        raise DataError(
            f"{len(train)} rows are left to train on, of {max(split.n_classes, 1)} class: the "
            "ladder needs at least two rows, and two classes for classification."
        )
    return split


def rungs_for(split: Split) -> tuple[Rung, ...]:
    """Return the steps (:class:`Rung`) for the task, in order.

    Parameters
    ----------
    split : Split
        The rows to train and test on.
    """
    boosted = HedgerowRegressor if split.task == "regression" else HedgerowClassifier
    n_features = len(split.feature_names)

    def rung(name: str, what: str, **params: Any) -> Rung:
        return Rung(name, what, lambda _: boosted(**params, random_state=0))

    first = rung(
        "boosting, first order",
        "Each tree fits the negative gradient (for squared loss, the residual); leaves by line "
        "search.",
        **_FIRST_ORDER,
    )
    rungs = [
        Rung("base rate", "The mean, or the share of each class.", lambda _: None),
        Rung("one tree", "CART, grown until its leaves are pure.", _full_tree),
        Rung("pruned tree", "Cost-complexity pruning, with alpha chosen on held-out rows.",
             _pruned_tree),
        first,
        rung("+ shrinkage", "The learning rate is 0.1.", **_SLOW),
        rung("+ stochastic", "Each tree uses half of the rows.", **{**_SLOW, "subsample": 0.5}),
        rung("Newton", "Second derivatives choose splits and leaves, with an L2 penalty; every "
             "value is a candidate (XGBoost's exact).", **_NEWTON),
        rung("approximate search", "Candidates are weighted quantiles in each node.",
             **{**_NEWTON, "tree_method": "approx"}, advanced={"sketch": "local"}),
        rung("histograms", "Candidates are fixed bins; integer sums.", **_HISTOGRAMS),
        rung("leaf-wise", "The leaf with the largest gain is split first.", **_LEAFWISE),
        rung("DART", "Earlier trees are dropped while a tree is grown.",
             **_LEAFWISE, boosting="dart"),
        rung("random forest", "The mean of deep trees, each on its own rows and columns.",
             **_FOREST, colsample_bynode=min(1.0, max(1.0, np.sqrt(n_features)) / n_features)),
    ]  # fmt: skip
    if split.n_classes == 2:
        exponential = {**_SLOW, "objective": "exponential"}
        rungs.insert(3, rung("AdaBoost's loss", "Exponential loss, shrunken.", **exponential))
    return tuple(rungs)


def _full_tree(split: Split) -> Any:
    return (CARTRegressor if split.task == "regression" else CARTClassifier)(random_state=0)


def _pruned_tree(split: Split) -> Any:
    """Return a tree with the best ``ccp_alpha`` on a fifth of the training rows."""
    try:
        inner = split_table(
            split.X_train, split.y_train, split.task, split.feature_names, test_share=0.2, seed=1
        )
    except DataError:  # a rare class occurs in only one part
        inner = split
    if len(inner.y_test) < _FEWEST_TO_CHOOSE:
        inner = split
    if inner is split:
        return _full_tree(split).set_params(ccp_alpha=_MODERATE)
    path = _full_tree(inner).cost_complexity_pruning_path(inner.X_train, inner.y_train)
    alphas = distinct(np.clip(path.ccp_alphas, 0.0, None))
    if len(alphas) > 30:
        alphas = alphas[np.linspace(0, len(alphas) - 1, 30).astype(int)]
    scores = []
    for alpha in alphas:
        tree = _full_tree(inner).set_params(ccp_alpha=float(alpha))
        scores.append(tree.fit(inner.X_train, inner.y_train).score(inner.X_test, inner.y_test))
    # Among equal scores, the largest alpha: the smaller tree.
    best = len(scores) - 1 - int(np.argmax(scores[::-1]))
    return _full_tree(split).set_params(ccp_alpha=float(alphas[best]))


def climb(split: Split, rungs: Sequence[Rung] | None = None) -> Iterator[Result]:
    """Train every step on the split, in order; yield each :class:`Result`.

    Parameters
    ----------
    split : Split
        The rows to train and test on, of :func:`split_table`.
    rungs : sequence of Rung, optional
        Default: those of :func:`rungs_for`.
    """
    for rung in rungs_for(split) if rungs is None else rungs:
        start = time.perf_counter()
        estimator = rung.make(split)
        if estimator is not None:
            estimator.fit(split.X_train, split.y_train)
        seconds = time.perf_counter() - start
        train_score, train_loss = _scores(estimator, split, split.X_train, split.y_train)
        test_score, test_loss = _scores(estimator, split, split.X_test, split.y_test)
        scores = (train_score, test_score, train_loss, test_loss)
        yield Result(rung, estimator, *scores, seconds, *_size(estimator))


def _scores(estimator: Any, split: Split, X: AnyArray, y: AnyArray) -> tuple[float, float]:
    """Return accuracy and mean logarithmic loss, or R2 and root mean squared error."""
    if split.task == "regression":
        predicted = split.y_train.mean() if estimator is None else estimator.predict(X)
        error, spread = np.mean((y - predicted) ** 2), np.var(y)
        return float(1.0 - error / spread) if spread > 0.0 else 0.0, float(np.sqrt(error))
    classes, counts = np.unique(split.y_train, return_counts=True)
    probability: FloatArray
    if estimator is None:
        probability = np.tile(counts / counts.sum(), (len(y), 1))
    else:
        probability = estimator.predict_proba(X)
    right = classes[probability.argmax(axis=1)] == y
    return float(right.mean()), log_loss(classes, y, probability)


def log_loss(classes: AnyArray, y: AnyArray, probability: FloatArray) -> float:
    """Return the mean logarithmic loss, where a class without training rows has probability 0."""
    hit = (probability * (classes == np.asarray(y)[:, None])).sum(axis=1)
    return float(np.abs(np.log(np.maximum(hit, 1e-15)).mean()))


def _size(estimator: Any) -> tuple[int, int]:
    """Return the numbers of trees and leaves of a fitted estimator."""
    if estimator is None:
        return 0, 0
    if hasattr(estimator, "get_n_leaves"):
        return 1, int(estimator.get_n_leaves())
    forest = estimator.booster_.model.forest
    return forest.n_trees, int((forest.feature < 0).sum())


def score_names(task: str) -> tuple[str, str]:
    """Return the names of the two scores of a task."""
    return ("R2", "RMSE") if task == "regression" else ("accuracy", "logloss")


def ladder_header(task: str) -> str:
    """Return the two lines above the table."""
    score, loss = score_names(task)
    parts = "  ".join([f"{'train':>9}{'test':>9}"] * 2)
    below = f"{'rung':22}{parts}{'time':>10}{'trees':>7}{'leaves':>8}"
    return f"{'':22}{score:^18}  {loss:^18}".rstrip() + f"\n{below}"


def ladder_row(result: Result) -> str:
    """Return one line of the table."""
    return (
        f"{result.rung.name:22}{result.train_score:9.3f}{result.test_score:9.3f}  "
        f"{result.train_loss:9.3f}{result.test_loss:9.3f}{result.seconds:8.2f} s"
        f"{result.n_trees:7d}{result.n_leaves:8d}"
    )


def ladder_text(results: Sequence[Result], task: str) -> str:
    """Return the complete table as text.

    Parameters
    ----------
    results : sequence of Result
        What :func:`climb` returned.
    task : {"classification", "regression"}
        The task of the split, which names the scores.
    """
    return "\n".join([ladder_header(task), *map(ladder_row, results)])


def ladder_page(results: Sequence[Result], split: Split, title: str) -> str:
    """Return the results of all steps as self-contained HTML; needs matplotlib.

    Parameters
    ----------
    results : sequence of Result
        What :func:`climb` returned.
    split : Split
        The rows that it trained and tested on.
    title : str
        Name of the table.
    """
    score, loss = score_names(split.task)
    lead = (
        f"{split.task.capitalize()}: {len(split.y_train):,} rows to train on, "
        f"{len(split.y_test):,} to test, {len(split.feature_names)} columns. "
        "Every rung used the same rows."
    )
    parts = [
        f"<h1>The ladder on {h.escaped(title)}</h1>",
        f'<p class="lead">{lead}</p>',
        _table(results, score, loss),
        "<h2>Train and test score</h2>",
        h.inline_plot(
            (9.0, 0.5 + 0.34 * len(results)), lambda ax: _draw_scores(ax, results, score),
            f"{score} of each rung; further right is better.",
        ),
    ]  # fmt: skip
    curves = _curves(results, split)
    if curves:
        parts += [
            "<h2>Test loss, tree by tree</h2>",
            h.inline_plot(
                (9.0, 4.6), lambda ax: _draw_curves(ax, curves, loss),
                f"{loss} on the test rows after each round.",
            ),
        ]  # fmt: skip
    parts += _trees(results, split)
    return h.page_html(f"The ladder on {title}", parts)


def _table(results: Sequence[Result], score: str, loss: str) -> str:
    best_score = max(result.test_score for result in results)
    best_loss = min(result.test_loss for result in results)
    scores = (f"train {score}", f"test {score}", f"train {loss}", f"test {loss}")
    rows, best = [], set()
    for place, result in enumerate(results):
        numbers = (result.train_score, result.test_score, result.train_loss, result.test_loss)
        size = (f"{result.seconds:.2f}", f"{result.n_trees:,}", f"{result.n_leaves:,}")
        texts = [f"{number:.3f}" for number in numbers]
        rows.append((result.rung.name, *texts, *size, result.rung.what))
        best |= {(place, 2)} if result.test_score == best_score else set()
        best |= {(place, 4)} if result.test_loss == best_loss else set()
    head = ("rung", *scores, "seconds", "trees", "leaves", "what is new")
    return h.table_html(head, rows, (8,), best)


def _draw_scores(ax: Axes, results: Sequence[Result], score: str) -> None:
    places = np.arange(len(results))
    train = [result.train_score for result in results]
    test = [result.test_score for result in results]
    ax.hlines(places, train, test, color=s.PALE, linewidth=2, zorder=1)
    ax.scatter(train, places, color="white", edgecolor=s.INK, label="train", zorder=2)
    ax.scatter(test, places, color=s.COLOURS[0], label="test", zorder=3)
    s.finish(ax, "x")
    s.named_rows(ax, [result.rung.name for result in results])
    s.name_axes(ax, score)
    s.literal_legend(ax, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _curves(results: Sequence[Result], split: Split) -> dict[str, FloatArray]:
    """Return the test loss after each round, for steps whose trees are a plain sum."""
    curves = {}
    for result in results:
        booster = getattr(result.estimator, "booster_", None)
        if booster is None or booster.model.training["parameters"]["boosting"] != "gbdt":
            continue
        fitted = result.estimator
        if split.task == "regression":
            staged = fitted.staged_predict(split.X_test)
            curve = np.array([np.sqrt(np.mean((split.y_test - y) ** 2)) for y in staged])
        else:
            staged = fitted.staged_predict_proba(split.X_test)
            curve = np.array([log_loss(fitted.classes_, split.y_test, p) for p in staged])
        if len(curve) > 0:  # without enough rows to split there are no rounds
            curves[result.rung.name] = curve
    return curves


def _draw_curves(ax: Axes, curves: dict[str, FloatArray], loss: str) -> None:
    from matplotlib import colormaps

    colours = colormaps["viridis"](np.linspace(0.0, 0.9, len(curves)))
    styles = ("-", "--", "-.", ":")
    for number, (name, curve) in enumerate(curves.items()):
        rounds = np.arange(1, len(curve) + 1)
        ax.plot(rounds, curve, styles[number % 4], color=colours[number], label=name)
    # A step without shrinkage may diverge: show the range of the other steps.
    low = min(curve.min() for curve in curves.values())
    start = max(curve[0] for curve in curves.values())
    ax.set_ylim(low - 0.05 * (start - low), start + 0.25 * (start - low))
    s.finish(ax, "y")
    s.name_axes(ax, "round", loss)
    s.literal_legend(ax, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _trees(results: Sequence[Result], split: Split) -> list[str]:
    """Return the pruned tree, and the first tree of leaf-wise boosting."""
    parts = []
    names = split.feature_names
    for result in results:
        if result.rung.name == "pruned tree":
            title, tree = f"The pruned tree ({result.n_leaves} leaves)", result.estimator
            parts += _tree(title, tree.drawing(), tree.tree_.schema, names)
        if result.rung.name == "leaf-wise":
            model = result.estimator.booster_.model
            if model.forest.n_trees == 0:  # too few rows to split
                continue
            title = "The first tree of leaf-wise boosting"
            parts += _tree(title, model.forest, model.schema, names)
    return parts


def _tree(title: str, tree: ModelLike, schema: Schema, names: Sequence[str]) -> list[str]:
    # The models were trained on an array: the split has the names.
    columns = [replace(column, name=n) for column, n in zip(schema.columns, names, strict=True)]
    named = replace(schema, columns=tuple(columns), named=True)
    figure = plot_tree(tree, schema=named).get_figure(root=True)
    assert figure is not None
    return [f"<h2>{h.escaped(title)}</h2>", h.inline_figure(figure, "Read from left to right.")]
