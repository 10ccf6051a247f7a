"""Custom losses written in Python; a model stores each of them under the name ``custom``.

There are two forms:

* ``function(y, raw)`` or ``function(y, raw, weight)`` of all rows.  It returns two
  arrays, gradient and hessian, like an objective of XGBoost and LightGBM.  With two
  arguments Hedgerow multiplies by the weights; with three the function does.
  For more than two classes raw scores, gradient and hessian have a column for each.
* an object that derives from :class:`hedgerow.objectives.RowLoss`, or has the
  attributes and methods of :class:`hedgerow.objectives.base.Objective`.

A function may have these attributes:

``link``   from raw score to prediction: ``"identity"`` (default), ``"log"`` (the
           prediction is exp(raw)) or ``"logit"``; of classes ``"softmax"`` (default) or
           ``"logit"``, the logistic function of each
``loss``   ``loss(y, raw)``, an array, for learning curves
``n_classes``  number of classes, for :func:`hedgerow.train`; estimators count them

A model file holds no code; it stores the name of the function and the name of the link.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast, get_args

import numpy as np
from scipy.special import expit

from hedgerow.argument_types import is_one_of, name_of_function, parameters_of
from hedgerow.arrays import FloatArray, read_only
from hedgerow.errors import LossError, ParameterError, brief
from hedgerow.objectives.base import LossRows, MeanLoss, check_number
from hedgerow.objectives.catalogue import CUSTOM, Task
from hedgerow.objectives.classes import Softmax
from hedgerow.objectives.derivatives import SMALLEST_HESSIAN
from hedgerow.objectives.global_sums import AllRows, root_of_mean
from hedgerow.objectives.line_search import LeafRows, Slopes
from hedgerow.params import Interval

_LINKED: dict[str, Callable[[FloatArray], Any]] = {
    "identity": lambda raw: raw,
    "log": np.exp,
    "logit": expit,
    "softplus": lambda raw: np.logaddexp(0.0, raw),
    "signed_square": lambda raw: raw * np.abs(raw),
    "softmax": lambda raw: Softmax(n_outputs=len(raw)).predict(raw).T,
}
LINKS = tuple(_LINKED)

_OF_CLASSES = ("logit", "softmax")
_N_CLASSES = Interval(2, 10_000, integer=True)
_MOST = 1e140
"""Largest derivative, so that squares of sums of derivatives are finite."""
_METHODS = ("derivatives", "loss", "losses", "initial_score", "check_target", "leaf_steps")
_OF_SCORES = frozenset(
    {"pred", "preds", "predt", "y_pred", "y_hat", "raw", "score", "scores", "margin", "prediction"}
)
_OF_TARGETS = frozenset(
    {"y", "y_true", "label", "labels", "target", "targets", "dtrain", "train_data", "data"}
)
_OF_WEIGHTS = frozenset({"w", "weight", "weights", "sample_weight", "sample_weights"})


@dataclass(frozen=True)
class Linked(MeanLoss):
    """Name and link of a custom loss; a model file stores only these."""

    label: str  # name of the function or class
    # one of ``LINKS``; softplus and signed square occur in imported models, softmax is for classes
    link: str = "identity"
    # with "classes" there are two or more raw scores, and the link turns them into probabilities,
    # which need not add up to 1
    task: Task = "regression"
    n_outputs: int = 1

    name: ClassVar[str] = CUSTOM

    def __post_init__(self) -> None:
        is_link = is_one_of(self.link, LINKS) and self.task in get_args(Task)
        if not is_link or (self.link == "softmax" and self.task != "classes"):
            known = ", ".join(map(repr, LINKS))
            raise ParameterError(
                f"link of objective {self.label!r} must be one of {known}; got {brief(self.link)}."
            )
        if self.task == "classes" and (self.n_outputs < 2 or self.link not in _OF_CLASSES):
            raise ParameterError(
                f"objective {self.label!r} must have two outputs at least, and the link "
                f"{' or '.join(map(repr, _OF_CLASSES))}; got {self.n_outputs} and {self.link!r}."
            )
        if not isinstance(self.label, str):
            raise ParameterError(f"the name of an objective must be text; got {brief(self.label)}.")

    def predict(self, raw: FloatArray) -> FloatArray:
        if self.n_outputs > 1:
            linked = np.asarray(_LINKED[self.link](raw)) if self.task == "classes" else raw
            return np.ascontiguousarray(linked.T)
        with np.errstate(over="ignore"):
            value = np.asarray(_LINKED[self.link](raw[0]))
        if self.task == "regression":
            return value
        if self.link != "logit":
            raise ParameterError(
                f"objective {self.label!r} has no probabilities: give it an attribute "
                "link='logit' if its raw score is a log-odds, or use decision_function."
            )
        return np.column_stack([1.0 - value, value])

    def _without_code(self, *args: Any, **kwargs: Any) -> Any:
        raise ParameterError(
            f"this model was trained with a custom loss, {self.label!r}, and a model file "
            "holds no code: the model can predict, but not do anything that needs the loss."
        )

    start_of = derivatives = losses = leaf_rule = _without_code


@dataclass(frozen=True)
class OwnGradient(Linked):
    """A function that returns gradient and hessian of all rows."""

    function: Callable[..., Any] = field(kw_only=True)
    weighs: bool = field(kw_only=True)

    rowwise: ClassVar[bool] = False

    def results(
        self, target: FloatArray, raw: FloatArray, weight: FloatArray | None
    ) -> list[FloatArray]:
        """Return gradient and hessian, each of the shape of ``raw``, without weights."""
        several = raw.ndim > 1
        given = [read_only(target), read_only(raw)]
        mass = np.ones(len(target)) if weight is None else weight
        if self.weighs:
            given.append(read_only(mass))
        found = _called(self.label, self.function, *given)
        is_array = isinstance(found, np.ndarray) and found.ndim == 2
        if not (is_array or isinstance(found, tuple | list)) or len(found) != 2:
            each = f", of shape {raw.shape} each" if several else ""
            raise LossError(
                f"objective {self.label!r} must return gradient and hessian{each}; got "
                f"{type(found).__name__}."
            )
        parts = []
        for part, what in zip(found, ("gradient", "hessian"), strict=True):
            array = np.asarray(part)
            if array.shape != raw.shape or array.dtype.kind not in "biuf":
                columns = ": a column for each class" if several else ""
                raise LossError(
                    f"objective {self.label!r} returned a {what} of shape {array.shape} and type "
                    f"{array.dtype}; it must be numbers of shape {raw.shape}{columns}."
                )
            # The function has multiplied by the weights, and the gradient pass does so again.
            own = array.T / mass if self.weighs else array.T.astype(np.float64)
            parts.append(own.T)
        return parts

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        own, several = getattr(self.function, "loss", None), self.n_outputs > 1
        if own is None:
            metric = "eval_metric ('logloss')" if several else "eval_metric"
            raise LossError(
                f"objective {self.label!r} gives derivatives but no loss: give it an attribute "
                f"loss, a function of (y, raw) that returns an array, or set {metric}, or "
                "early_stopping=False."
            )
        scores = read_only(np.ascontiguousarray(raw.T) if several else raw[0])
        found = np.asarray(_called(f"{self.label}.loss", own, read_only(target), scores))
        if found.shape != target.shape or not np.isfinite(found).all():
            raise LossError(
                f"loss of objective {self.label!r} must return {len(target)} finite numbers; got "
                f"an array of shape {found.shape}."
            )
        return found.astype(np.float64)

    def leaf_steps(self, leaves: LeafRows, output: int) -> FloatArray:
        raise ParameterError(
            f"objective {self.label!r} returns derivatives of all rows, but a line search needs "
            "the loss of one row. Use leaf_estimation='newton' or 'gradient'."
        )

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        g[:], h[:] = self.results(rows.target, rows.raw[0], rows.weight)
        _resolve_derivatives(g, h, self.label)

    def initial_score(self, target: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Return the constant at which the gradients add up to 0; 0 if there is none."""
        rows = AllRows(target, np.ones(len(target)) if weight is None else weight)

        def slopes(of: FloatArray, raw: FloatArray) -> Slopes:
            g, h = self.results(target, raw, weight)
            return g, h

        return np.array([root_of_mean(rows, slopes, 0.0)])

    def start_of(self, rows: AllRows) -> FloatArray:
        if rows.communicator.size > 1:
            raise ParameterError(
                f"objective {self.label!r} is a function of all rows, which must be in memory: "
                "write it as the loss of one row, or use arrays."
            )
        return self.initial_score(rows.target, rows.weight)


@dataclass(frozen=True)
class OwnClassGradient(OwnGradient):
    """A function that returns gradient and hessian of all rows and classes."""

    coupled: ClassVar[bool] = True

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: FloatArray | None = None
    ) -> None:
        Softmax(n_outputs=self.n_outputs).check_target(target, first_row, origin)

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        gradient, hessian = self.results(rows.target, np.ascontiguousarray(rows.raw.T), rows.weight)
        g[:], h[:] = gradient[:, output], hessian[:, output]
        _resolve_derivatives(g, h, self.label)

    def initial_score(self, target: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Return the logarithms of the class shares; 0 if the link is not softmax."""
        if self.link != "softmax":
            return np.zeros(self.n_outputs)
        return Softmax(n_outputs=self.n_outputs).initial_score(target, weight)


@dataclass(frozen=True)
class OwnObject(Linked):
    """An object that is an objective itself, stored under the name ``custom``."""

    inner: Any = field(kw_only=True)

    def __post_init__(self) -> None:
        Linked.__post_init__(self)
        for name, otherwise in (("second_order", True), ("rowwise", False), ("coupled", False)):
            object.__setattr__(self, name, bool(getattr(self.inner, name, otherwise)))

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: FloatArray | None = None
    ) -> None:
        self.inner.check_target(target, first_row, origin)

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        _called(self.label, self.inner.derivatives, rows, output, g, h)
        _resolve_derivatives(g, h, self.label)

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        return cast(FloatArray, _called(self.label, self.inner.losses, target, raw))

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        return float(_called(self.label, self.inner.loss, target, raw, weight))

    def initial_score(self, target: FloatArray, weight: FloatArray | None) -> FloatArray:
        return self._checked(_called(self.label, self.inner.initial_score, target, weight))

    def _checked(self, start: Any) -> FloatArray:
        found = np.asarray(start)
        if found.shape != (self.n_outputs,) or not np.isfinite(found).all():
            raise LossError(
                f"initial_score of objective {self.label!r} must be {self.n_outputs} finite "
                f"number(s); got {brief(found)}."
            )
        return found.astype(np.float64)

    def start_of(self, rows: AllRows) -> FloatArray:
        return self._checked(_called(self.label, self.inner.start_of, rows))

    def leaf_steps(self, leaves: LeafRows, output: int) -> FloatArray:
        return self.inner.leaf_steps(leaves, output)


def make_own_loss(given: Any, task: Task = "regression", n_outputs: int = 1) -> Linked:
    """Return the objective for a custom function or object."""
    check_form(given)
    label, n_classes = name_of_function(given), getattr(given, "n_classes", n_outputs)
    if task == "classes" or hasattr(given, "n_classes"):
        check_number(n_classes, f"n_classes of objective {label!r}", _N_CLASSES)
        if hasattr(given, "derivatives"):
            raise ParameterError(
                f"objective {label!r}: for more than two classes give a function of (y, raw) that "
                "returns gradient and hessian, an array of shape (n_rows, n_classes) each."
            )
        weighs, link = _check_signature(given, label), getattr(given, "link", "softmax")
        return OwnClassGradient(
            label, link, "classes", int(n_classes), function=given, weighs=weighs
        )
    link = getattr(given, "link", "identity")
    if hasattr(given, "derivatives"):
        missing = [name for name in _METHODS if not hasattr(given, name)]
        if missing:
            raise ParameterError(
                f"objective {label!r} has no {', '.join(missing)}: derive it from "
                "hedgerow.objectives.RowLoss, or write what docs/objectives.md lists."
            )
        return OwnObject(label, link, task, int(given.n_outputs), inner=given)
    weighs = _check_signature(given, label)
    return OwnGradient(label, link, task, 1, function=given, weighs=weighs)


def _check_signature(function: Callable[..., Any], label: str) -> bool:
    """Return whether a function takes weights; raise unless it takes (y, raw[, weight])."""
    parameters = parameters_of(function)
    if parameters is None:
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in parameters if p.kind in positional and p.default is p.empty]
    if (names[:1] and names[0].lower() in _OF_SCORES) or (names[1:2] and names[1] in _OF_TARGETS):
        raise ParameterError(
            f"objective {label!r} takes ({', '.join(names)}), but is called with the targets "
            "first and the raw scores second: write it as a function of (y, raw)."
        )
    if len(names) not in (2, 3) or (len(names) == 3 and names[2].lower() not in _OF_WEIGHTS):
        raise ParameterError(
            f"objective {label!r} takes ({', '.join(names)}); it must take (y, raw), or "
            "(y, raw, weight) if it multiplies gradient and hessian by weights itself."
        )
    return len(names) == 3


def check_form(given: Any) -> None:
    """Raise ``ParameterError`` unless an objective is a name, a function, or an object."""
    is_class = isinstance(given, type)
    if is_class or not (isinstance(given, str) or callable(given) or hasattr(given, "derivatives")):
        hint = f" Give an object of the class, {given.__name__}(...)." if is_class else ""
        raise ParameterError(
            "objective must be a name, a function of (y, raw), or an object with a method "
            f"derivatives; got {brief(given)}.{hint}"
        )


def _called(label: str, function: Callable[..., Any], *given: Any) -> Any:
    """Return the result of a custom function; ``LossError`` if it raises."""
    try:
        with np.errstate(all="ignore"):
            return function(*given)
    except Exception as fault:
        raise LossError(f"objective {label!r} raised {fault!r}.") from fault


def _resolve_derivatives(g: FloatArray, h: FloatArray, label: str) -> None:
    """Raise if a derivative is not finite; replace hessians below the least value by it."""
    for array, what in ((g, "gradient"), (h, "hessian")):
        if not np.abs(array).max(initial=0.0) <= _MOST:
            row = int(np.argmin(np.abs(array) <= _MOST))
            raise LossError(
                f"objective {label!r} has a {what} of {float(array[row])!r} in row {row}; it must "
                f"be finite, within {_MOST:g} of 0."
            ).at(row)
    np.maximum(h, SMALLEST_HESSIAN, out=h)
