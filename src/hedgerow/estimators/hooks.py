"""Support for the callbacks of scikit-learn 1.9 and later.

Such a callback is an object with four methods, which scikit-learn calls hooks:
``setup(estimator, context)`` and ``teardown(estimator, context)`` run around a fit,
``on_fit_task_begin`` and ``on_fit_task_end`` around each of its tasks.  Training stops if
``on_fit_task_end`` returns True.  ``sklearn.callback.ProgressBar`` is an example.  Set such
callbacks with ``set_callbacks``, as for other estimators, or pass them as ``callbacks``
together with plain callables.

Tasks of a fit::

    fit                 X, y, metadata={"sample_weight": ...} if there are weights
      |-- round 0       its end: fitted_estimator, as if the fit had stopped there
      |-- round 1       (fitted_estimator is made only if a hook has this parameter)
      ...

The task of a round ends before another callback or the time budget may stop training, so
one more task may begin after the last round.  Rounds restored from a checkpoint are not
tasks of the fit.
"""

from __future__ import annotations

import functools
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal, Self, TypeVar, cast

from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from hedgerow.boosting.loop.callbacks import Callback, Round
from hedgerow.errors import ParameterError, brief
from hedgerow.estimators.arguments import check_arguments
from hedgerow.estimators.snapshots import snapshot
from hedgerow.model.model import Model

HOOKS = ("setup", "on_fit_task_begin", "on_fit_task_end", "teardown")

_Fit = TypeVar("_Fit", bound=Callable[..., Any])


def has_hooks(callback: object) -> bool:
    """Return whether a callback is a scikit-learn callback."""
    return not isinstance(callback, type) and any(hasattr(callback, name) for name in HOOKS[1:3])


@functools.cache
def _scikit_learn_has_callbacks(estimator: object = None) -> bool:
    return importlib.util.find_spec("sklearn.callback") is not None


def _listed(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    return list(callbacks) if isinstance(callbacks, Sequence) else [callbacks]


def plain_callbacks(callbacks: Any) -> Any:
    """Return the callbacks that are not scikit-learn callbacks, unchecked."""
    if not any(map(has_hooks, _listed(callbacks))):
        return callbacks
    return [callback for callback in _listed(callbacks) if not has_hooks(callback)]


class RoundHooks:
    """Reporter of the rounds of a fit to scikit-learn callbacks."""

    def __init__(self, estimator: Any, context: Any, data: Mapping[str, Any]) -> None:
        self._estimator, self._context, self._data = estimator, context, data
        self._round: Any = None
        self._attributes: Callable[[Model], dict[str, Any]] = lambda model: {}

    def begin(self, attributes: Callable[[Model], dict[str, Any]]) -> Callback:
        """Begin the first round, and return a callback for the end of each round."""
        self._attributes = attributes
        self._begin_round()
        return self._end_round

    def _begin_round(self) -> None:
        self._round = self._context.subcontext(task_name="round")
        self._round.call_on_fit_task_begin(estimator=self._estimator, **self._data)

    def _end_round(self, seen: Round) -> bool:
        stop = self._round.call_on_fit_task_end(
            estimator=self._estimator,
            reconstruction_attributes=lambda: self._attributes(seen.model()),
            **self._data,
        )
        if not (stop or seen.is_last):
            self._begin_round()
        return bool(stop)


class FitHooks(BaseEstimator, ABC):
    """Mixin of the estimators for scikit-learn callbacks."""

    callbacks: Any
    n_estimators: int | Literal["auto"]

    @abstractmethod
    def _params(self) -> Any:
        """Return the validated parameters of the trees."""

    @available_if(_scikit_learn_has_callbacks)  # type: ignore[untyped-decorator]
    def set_callbacks(self, *callbacks: Any) -> Self:
        """Set scikit-learn callbacks, which clones and searches share.

        Needs scikit-learn 1.9; see :mod:`hedgerow.estimators.hooks`.

        Parameters
        ----------
        *callbacks : callback objects
            Without arguments, all callbacks are removed.

        Returns
        -------
        self
        """
        # This import loads rich if it is installed, so it is delayed.
        from sklearn.callback import CallbackSupportMixin

        CallbackSupportMixin.set_callbacks(self, *callbacks)
        return self

    def _init_callback_context(self, *args: Any, **kwargs: Any) -> Any:
        """Create the root context of a fit, like scikit-learn's own estimators."""
        from sklearn.callback import CallbackSupportMixin

        return CallbackSupportMixin._init_callback_context(self, *args, **kwargs)  # noqa: SLF001

    def _round_callbacks(self, attributes: Callable[[Model], dict[str, Any]]) -> Any:
        """Return the callbacks of the current fit."""
        plain = plain_callbacks(self.callbacks)
        hooks: RoundHooks | None = vars(self).get("_round_hooks")
        if hooks is None:
            return plain
        return [*_listed(plain), hooks.begin(attributes)]


def _check_hooks(callbacks: Sequence[Any]) -> None:
    if callbacks and not _scikit_learn_has_callbacks():
        raise ParameterError(
            f"callbacks has {brief(callbacks[0])}, a scikit-learn callback, which needs "
            "scikit-learn 1.9 or later: update scikit-learn, or use a callable of one "
            "hedgerow.boosting.loop.callbacks.Round."
        )
    for callback in callbacks:
        missing = [name for name in HOOKS if not callable(getattr(callback, name, None))]
        if missing:
            raise ParameterError(
                f"callbacks has {brief(callback)}, which has some methods of a scikit-learn "
                f"callback, but not {', '.join(missing)}: add these (they may do nothing)."
            )


def _check_params(estimator: FitHooks) -> None:
    """Raise for wrong parameters, but leave a ``RandomState`` as it is: the fit draws its seed."""
    checked = snapshot(estimator)
    checked.__dict__["random_state"] = deepcopy(estimator.__dict__.get("random_state"))
    checked._params()  # noqa: SLF001


def with_hooks(fit: _Fit) -> _Fit:
    """Decorate a ``fit(X, y, sample_weight, ...)`` method to support scikit-learn callbacks."""

    @functools.wraps(fit)
    def fit_with_hooks(estimator: Any, X: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        check_arguments(fit, kwargs, estimator)
        hooked = [callback for callback in _listed(estimator.callbacks) if has_hooks(callback)]
        before = estimator.__dict__.get("_skl_callbacks")
        if not hooked and not before:
            return fit(estimator, X, y, *args, **kwargs)
        _check_hooks(hooked)
        _check_params(estimator)  # before a bar is drawn
        from sklearn.callback import with_callbacks

        weight = args[0] if args else kwargs.get("sample_weight")
        metadata = None if weight is None else {"sample_weight": weight}
        known = {"X": X, "y": y, "metadata": metadata}

        def run(own: Any) -> Any:
            n_rounds = own.n_estimators
            context = own._init_callback_context(  # noqa: SLF001
                max_subtasks=None if isinstance(n_rounds, str) else n_rounds
            )
            context.call_on_fit_task_begin(estimator=own, **known)
            own.__dict__["_round_hooks"] = RoundHooks(own, context, known)
            found = fit(own, X, y, *args, **kwargs)
            context.call_on_fit_task_end(estimator=own, reconstruction_attributes=dict, **known)
            return found

        # scikit-learn keeps the context of a fit in the estimator, which other threads may fit.
        own = snapshot(estimator)
        own.__dict__["_skl_callbacks"] = [*(before or []), *hooked]
        with_callbacks(run)(own)
        kept = {"_skl_callbacks": before} if before is not None else {}
        gone = ("_round_hooks", "_skl_callbacks")
        fitted = {name: value for name, value in vars(own).items() if name not in gone}
        estimator.__dict__ = fitted | kept | estimator.get_params(deep=False)
        return estimator

    return cast(_Fit, fit_with_hooks)
