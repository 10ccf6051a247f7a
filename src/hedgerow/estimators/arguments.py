"""Arguments that an estimator does not have: an error that names the right ones.

Python's own TypeError names the first wrong argument only, and knows nothing of the names
that LightGBM, XGBoost and CatBoost have for the same thing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Self

from hedgerow.errors import UnknownNameError


class NamedArguments:
    """Part of the estimators: checks the names that a constructor is given."""

    def __new__(cls, *_args: Any, **params: Any) -> Self:
        """Refuse names that the constructor of the class does not have, all of them at once."""
        known = parameters_of(cls.__init__)
        wrong = [name for name in params if name not in known]
        if wrong and not _takes_any(cls.__init__):
            from hedgerow.convert.settings.names import unknown_names

            raise UnknownNameError(unknown_names(wrong, known, cls.__name__))
        return super().__new__(cls)


def check_arguments(method: Callable[..., Any], given: Mapping[str, Any], estimator: Any) -> None:
    """Refuse names that a method of an estimator does not have.

    Raises
    ------
    UnknownNameError
        All of them, with what to do.
    """
    known = parameters_of(method)
    wrong = [name for name in given if name not in known]
    if not wrong:
        return
    from hedgerow.convert.settings.names import argument_hint

    parameters = parameters_of(type(estimator).__init__)
    hints = "".join(argument_hint(name, known, parameters) for name in wrong)
    where = f"{type(estimator).__name__}.{method.__name__}"
    raise UnknownNameError(f"{where} has no argument {', '.join(map(repr, wrong))}.{hints}")


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's arguments but ``self``."""
    return tuple(name for name in inspect.signature(function).parameters if name != "self")


def _takes_any(function: Callable[..., Any]) -> bool:
    kinds = {each.kind for each in inspect.signature(function).parameters.values()}
    return inspect.Parameter.VAR_KEYWORD in kinds
