"""Callbacks of scikit-learn (1.9 and later) in the fits of the estimators.

Such a callback is an object with four methods, which scikit-learn calls hooks:
``setup(estimator, context)`` and ``teardown(estimator, context)`` around a fit,
``on_fit_task_begin`` and ``on_fit_task_end`` around each of its tasks; the last one ends
the fit by returning True.  ``sklearn.callback.ProgressBar`` is one.  They are set by
``set_callbacks``, as for all estimators that know of them, or given as ``callbacks``
beside plain callables.

Tasks of a fit::

    fit                 X, y, metadata={"sample_weight": ...} if there are weights
      |-- round 0       its end: fitted_estimator, as if the fit had stopped there
      |-- round 1       (made only if the signature of a hook asks for it)
      ...

The task of a round ends before it is known whether another callback or the time budget
ends the fit, so after the last end there may be one more begin.  Rounds that an earlier
run has recorded are no tasks of this fit.
"""

from __future__ import annotations

import functools
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, cast

from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from hedgerow.boosting.loop.callbacks import Callback, Round
from hedgerow.errors import ParameterError
from hedgerow.estimators.arguments import check_arguments
from hedgerow.model.model import Model

HOOKS = ("setup", "on_fit_task_begin", "on_fit_task_end", "teardown")

_P = ParamSpec("_P")
_Estimator = TypeVar("_Estimator", bound="FitHooks")
_T = TypeVar("_T")


def has_hooks(callback: object) -> bool:
    """Whether a callback is one of scikit-learn."""
    return not isinstance(callback, type) and any(hasattr(callback, name) for name in HOOKS[1:3])


@functools.cache
def _scikit_learn_has_callbacks(estimator: object = None) -> bool:
    return importlib.util.find_spec("sklearn.callback") is not None


def _listed(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    return list(callbacks) if isinstance(callbacks, Sequence) else [callbacks]


def plain_callbacks(callbacks: Any) -> Any:
    """Those that are not of scikit-learn, still to be checked."""
    if not any(map(has_hooks, _listed(callbacks))):
        return callbacks
    return [callback for callback in _listed(callbacks) if not has_hooks(callback)]


class RoundHooks:
    """Hands the rounds of one fit to the callbacks of scikit-learn.

    Parameters
    ----------
    estimator : FitHooks
    context : sklearn.callback.CallbackContext
        Of the fit.
    given : mapping
        ``X``, ``y`` and ``metadata``.
    """

    def __init__(self, estimator: Any, context: Any, given: Mapping[str, Any]) -> None:
        self._estimator, self._context, self._given = estimator, context, given
        self._round: Any = None
        self._attributes: Callable[[Model], dict[str, Any]] = lambda model: {}

    def begin(self, attributes: Callable[[Model], dict[str, Any]]) -> Callback:
        """The first round begins; the callback of the others.

        Parameters
        ----------
        attributes : callable
            Gives what an estimator of a model has after its fit.
        """
        self._attributes = attributes
        self._begin_round()
        return self._end_round

    def _begin_round(self) -> None:
        self._round = self._context.subcontext(task_name="round")
        self._round.call_on_fit_task_begin(estimator=self._estimator, **self._given)

    def _end_round(self, seen: Round) -> bool:
        stop = self._round.call_on_fit_task_end(
            estimator=self._estimator,
            reconstruction_attributes=lambda: self._attributes(seen.model()),
            **self._given,
        )
        if not (stop or seen.is_last):
            self._begin_round()
        return bool(stop)


class FitHooks(BaseEstimator, ABC):
    """The side of an estimator that callbacks of scikit-learn know; part of its base class."""

    callbacks: Any
    n_estimators: int | Literal["auto"]

    @abstractmethod
    def _params(self) -> Any:
        """Parameters of the trees, validated."""

    @available_if(_scikit_learn_has_callbacks)  # type: ignore[untyped-decorator]
    def set_callbacks(self, *callbacks: Any) -> Self:
        """Set callbacks of scikit-learn, which clones and searches then share.

        Needs scikit-learn 1.9; see :mod:`hedgerow.estimators.hooks`.

        Parameters
        ----------
        *callbacks : callback objects
            None: remove those that were set.

        Returns
        -------
        self
        """
        # Loads rich, if that is installed: not before it is asked for.
        from sklearn.callback import CallbackSupportMixin

        CallbackSupportMixin.set_callbacks(self, *callbacks)
        return self

    def _init_callback_context(self, *args: Any, **kwargs: Any) -> Any:
        """The root context of a fit, as scikit-learn's own estimators make it."""
        from sklearn.callback import CallbackSupportMixin

        return CallbackSupportMixin._init_callback_context(self, *args, **kwargs)  # noqa: SLF001

    def _round_callbacks(self, attributes: Callable[[Model], dict[str, Any]]) -> Any:
        """What is called after each round of the fit that goes on."""
        plain = plain_callbacks(self.callbacks)
        hooks: RoundHooks | None = vars(self).get("_round_hooks")
        if hooks is None:
            return plain
        return [*_listed(plain), hooks.begin(attributes)]


def _check_hooks(callbacks: Sequence[Any]) -> None:
    if callbacks and not _scikit_learn_has_callbacks():
        raise ParameterError(
            f"callbacks has {callbacks[0]!r}, a callback of scikit-learn, which needs scikit-learn "
            "1.9 or later: update it, or give a callable of one "
            "hedgerow.boosting.loop.callbacks.Round."
        )
    for callback in callbacks:
        missing = [name for name in HOOKS if not callable(getattr(callback, name, None))]
        if missing:
            raise ParameterError(
                f"callbacks has {callback!r}, which has some of the methods of a callback of "
                f"scikit-learn, but not {', '.join(missing)}: add these (they may do nothing)."
            )


def with_hooks(
    fit: Callable[Concatenate[_Estimator, Any, Any, _P], _T],
) -> Callable[Concatenate[_Estimator, Any, Any, _P], _T]:
    """Let callbacks of scikit-learn take part in a ``fit(X, y, sample_weight, ...)``."""

    @functools.wraps(fit)
    def told(estimator: _Estimator, X: Any, y: Any, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        check_arguments(fit, kwargs, estimator)
        given = [callback for callback in _listed(estimator.callbacks) if has_hooks(callback)]
        before = estimator.__dict__.get("_skl_callbacks")
        if not given and not before:
            return fit(estimator, X, y, *args, **kwargs)
        _check_hooks(given)
        estimator._params()  # noqa: SLF001  (a wrong number of rounds is told before a bar is drawn)
        from sklearn.callback import with_callbacks

        weight = args[0] if args else kwargs.get("sample_weight")
        metadata = None if weight is None else {"sample_weight": weight}
        known = {"X": X, "y": y, "metadata": metadata}

        def run(estimator: _Estimator) -> _T:
            begin = estimator._init_callback_context  # noqa: SLF001
            asked = estimator.n_estimators
            context = begin(max_subtasks=None if isinstance(asked, str) else asked)
            context.call_on_fit_task_begin(estimator=estimator, **known)
            estimator.__dict__["_round_hooks"] = RoundHooks(estimator, context, known)
            found = fit(estimator, X, y, *args, **kwargs)
            context.call_on_fit_task_end(
                estimator=estimator, reconstruction_attributes=dict, **known
            )
            return found

        estimator.__dict__["_skl_callbacks"] = [*(before or []), *given]
        try:
            return with_callbacks(run)(estimator)
        finally:
            estimator.__dict__.pop("_round_hooks", None)
            estimator.__dict__.pop("_skl_callbacks", None)
            if before is not None:
                estimator.__dict__["_skl_callbacks"] = before

    return cast(Callable[Concatenate[_Estimator, Any, Any, _P], _T], told)


__all__ = ["FitHooks", "has_hooks", "plain_callbacks", "with_hooks"]
