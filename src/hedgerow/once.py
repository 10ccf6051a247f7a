"""Attributes that are computed when they are first asked for, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):
    """An attribute that is computed at its first use and kept in the object.

    As ``functools.cached_property``, which until Python 3.11 holds a lock that all objects
    of a class share while it computes: a child that is forked meanwhile would wait for it
    for ever.  Here two threads may compute the same value at once; both get the first one.

    Parameters
    ----------
    function : callable
        Gives the same value whenever it is called.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self._name = function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> once[T] | T:
        if instance is None:
            return self
        found: T = instance.__dict__.setdefault(self._name, self._function(instance))
        return found
