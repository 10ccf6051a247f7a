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
from typing import Any, Literal, Self

from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from hedgerow.boosting.loop.callbacks import Callback, Round
from hedgerow.errors import ParameterError, brief
from hedgerow.estimators.common import snapshot
from hedgerow.model.model import Model

HOOKS = ("setup", "on_fit_task_begin", "on_fit_task_end", "teardown")


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

    @abstractmethod
    def _fit_rows(self, arguments: Mapping[str, Any]) -> Self:
        """Train on the rows among the arguments of ``fit``."""

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
        hooks: RoundHooks | None = vars(self).get("_round_hooks")
        if hooks is None:
            return self.callbacks
        plain = [callback for callback in _listed(self.callbacks) if not has_hooks(callback)]
        return [*plain, hooks.begin(attributes)]

    @property
    def _has_hooks(self) -> bool:
        """Whether the fit to begin has scikit-learn callbacks, which do not yet surround it."""
        known = vars(self)
        waits = bool(known.get("_skl_callbacks")) or any(map(has_hooks, _listed(self.callbacks)))
        return waits and "_round_hooks" not in known

    def _fit_with_hooks(self, arguments: Mapping[str, Any]) -> Self:
        """Run :meth:`_fit_rows` as a fit of scikit-learn with callbacks."""
        hooked = [callback for callback in _listed(self.callbacks) if has_hooks(callback)]
        before = vars(self).get("_skl_callbacks")
        _check_hooks(hooked)
        # Wrong parameters raise before a bar is drawn; the fit draws the seed of a RandomState.
        checked = snapshot(self)
        checked.__dict__["random_state"] = deepcopy(vars(self).get("random_state"))
        checked._params()  # noqa: SLF001
        from sklearn.callback import with_callbacks

        weight = arguments["sample_weight"]
        metadata = None if weight is None else {"sample_weight": weight}
        data = {"X": arguments["X"], "y": arguments["y"], "metadata": metadata}

        def run(own: Self) -> None:
            n_rounds = own.n_estimators
            context = own._init_callback_context(
                max_subtasks=None if isinstance(n_rounds, str) else n_rounds
            )
            context.call_on_fit_task_begin(estimator=own, **data)
            own.__dict__["_round_hooks"] = RoundHooks(own, context, data)
            own._fit_rows(arguments)
            context.call_on_fit_task_end(estimator=own, reconstruction_attributes=dict, **data)

        # scikit-learn keeps the context of a fit in the estimator, which other threads may fit.
        own = snapshot(self)
        own.__dict__["_skl_callbacks"] = [*(before or []), *hooked]
        with_callbacks(run)(own)
        kept = {"_skl_callbacks": before} if before is not None else {}
        gone = ("_round_hooks", "_skl_callbacks")
        fitted = {name: value for name, value in vars(own).items() if name not in gone}
        self.__dict__ = fitted | kept | self.get_params(deep=False)
        return self


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
