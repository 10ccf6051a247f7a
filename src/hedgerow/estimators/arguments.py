"""Errors for unknown arguments of estimators, with suggestions.

Python's TypeError names only the first unknown argument.  It cannot translate the names of
LightGBM, XGBoost and CatBoost.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Self

from hedgerow.errors import UnknownNameError


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
        if wrong and not _takes_any(cls.__init__):
            from hedgerow.convert.settings.names import unknown_names

            raise UnknownNameError(unknown_names(wrong, known, cls.__name__))
        return super().__new__(cls)


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


def _takes_any(function: Callable[..., Any]) -> bool:
    kinds = {each.kind for each in inspect.signature(function).parameters.values()}
    return inspect.Parameter.VAR_KEYWORD in kinds
