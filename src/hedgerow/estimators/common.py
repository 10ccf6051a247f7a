"""What boosted estimators and single trees share: names of arguments and columns, seeds, one fit.

Errors for unknown arguments have suggestions: Python's TypeError names only the first, and cannot
translate the names of LightGBM, XGBoost and CatBoost.

A fit replaces all attributes of its estimator in one assignment.  A method that reads several
of them reads a copy of the estimator (:func:`of_one_fit`), because a fit may end between two
reads, in another thread.  The methods of boosted estimators that predict need no copy: they read
one attribute, ``booster_``.
"""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar, cast

import numpy as np

from hedgerow.cuda.arrays import gpu_array, is_cudf
from hedgerow.data import Schema
from hedgerow.data.reading.frames import as_frame
from hedgerow.data.reading.objects import is_named
from hedgerow.data.sparse import is_sparse
from hedgerow.errors import HedgerowWarning, ParameterError, UnknownNameError, brief
from hedgerow.params import Interval

_SEED = Interval(0, 2**63 - 1, integer=True)


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """Convert ``random_state`` to an integer seed; None is 0."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if random_state not in _SEED:
        raise ParameterError(
            f"random_state must be {_SEED}, a numpy.random.RandomState, or None; "
            f"got {brief(random_state)}."
        )
    return int(random_state)


def warn_about_names(X: Any, schema: Schema, name: str, stacklevel: int) -> None:
    """Warn, like scikit-learn, if only one of the training table and X has column names."""
    named = _has_names(X)
    if named and not schema.named:
        text = f"X has feature names, but {name} was fitted without feature names"
    elif schema.named and not named:
        text = f"X does not have valid feature names, but {name} was fitted with feature names"
    else:
        return
    warnings.warn(text, HedgerowWarning, stacklevel=stacklevel + 1)


def _has_names(X: Any) -> bool:
    """Return whether X is a frame whose column names are text."""
    if is_sparse(X):  # the DOK format is a dict, too
        return False
    if is_named(X):
        return True
    if isinstance(X, np.ndarray | list | tuple) or gpu_array(X) is not None:
        return False
    X = X.head(1) if is_cudf(X) and hasattr(X, "head") else X
    frame = as_frame(X)
    return frame is not None and frame.named


_Method = TypeVar("_Method", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type)
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


class _ConstructorSignature:
    """Signature of a class: that of its ``__init__``.

    Before version 3.11.4, ``inspect`` takes an inherited ``__new__`` for the constructor of a class
    without an ``__init__`` of its own.
    """

    def __get__(self, instance: object, owner: Any) -> inspect.Signature:
        signature = inspect.signature(owner.__init__)
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class NamedArguments:
    """Mixin of the estimators that checks the argument names of the constructor."""

    __signature__ = _ConstructorSignature()

    def __new__(cls, *_args: Any, **params: Any) -> Self:
        """Raise an error that lists all unknown arguments."""
        known = parameters_of(cls.__init__)
        wrong = [name for name in params if name not in known]
        kinds = {each.kind for each in inspect.signature(cls.__init__).parameters.values()}
        if wrong and inspect.Parameter.VAR_KEYWORD not in kinds:
            from hedgerow.convert.settings.names import unknown_names

            raise UnknownNameError(unknown_names(wrong, known, cls.__name__))
        return super().__new__(cls)


def with_texts_of(base: type) -> Callable[[_Class], _Class]:
    """Decorate an estimator: its docstring also has the parameters and attributes of its base."""

    def decorate(cls: _Class) -> _Class:
        if cls.__doc__ and base.__doc__:  # python -OO has none
            cls.__doc__ = joined_texts(cls.__doc__, base.__doc__)
        return cls

    return decorate


def joined_texts(own: str, shared: str) -> str:
    """Return a docstring with its own parameters before the group "Stopping" of the shared ones."""
    found, others = sections_of(own), sections_of(shared)
    before, group, after = others["Parameters"].rpartition("Stopping:\n")
    attributes = (found.pop("Attributes", "").strip(), others["Attributes"])
    joined = {
        "": found.pop(""),
        "Parameters": f"{before}{found.pop('Parameters')}{group}{after}",
        "Attributes": "\n".join(filter(None, attributes)) + "\n\n",
        **found,
    }
    return "".join(
        f"{name}\n{'-' * len(name)}\n{text}" if name else text for name, text in joined.items()
    )


def sections_of(text: str) -> dict[str, str]:
    """Return the sections of a docstring by their titles, and what is before them as ``""``."""
    first, *rest = re.split(r"^(\w+)\n-+\n", inspect.cleandoc(text), flags=re.M)
    return {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


def check_arguments(
    method: Callable[..., Any], arguments: Mapping[str, Any], estimator: Any
) -> None:
    """Raise for arguments that a method of an estimator does not have."""
    known = [name for name in parameters_of(method) if name != "others"]
    wrong = [name for name in arguments if name not in known]
    if not wrong:
        return
    from hedgerow.convert.settings.names import argument_hint

    parameters = parameters_of(type(estimator).__init__)
    hints = "".join(argument_hint(name, known, parameters) for name in wrong)
    where = f"{type(estimator).__name__}.{method.__name__}"
    raise UnknownNameError(f"{where} has no argument {', '.join(map(repr, wrong))}.{hints}")


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the argument names of a function, without ``self``."""
    return tuple(name for name in inspect.signature(function).parameters if name != "self")
