"""Fitted attributes of one fit, also while another thread fits the same estimator.

A fit replaces all attributes of its estimator in one assignment.  A method that reads several
of them reads a copy of the estimator (:func:`of_one_fit`), because a fit may end between two
reads.  The methods of boosted estimators that predict need no copy: they read one attribute,
``booster_``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

_Method = TypeVar("_Method", bound=Callable[..., Any])
_Estimator = TypeVar("_Estimator")


def snapshot(estimator: _Estimator) -> _Estimator:
    """Return a shallow copy: it keeps its attributes when the estimator is fitted again."""
    found = object.__new__(type(estimator))
    found.__dict__ = dict(vars(estimator))
    return found


def of_one_fit(method: _Method) -> _Method:
    """Decorate a method that reads several fitted attributes: it reads those of one fit."""

    @functools.wraps(method)
    def on_snapshot(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        return method(snapshot(estimator), *args, **kwargs)

    return cast(_Method, on_snapshot)
