"""Attributes of objects and of packages that are computed on first use, without a lock."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):
    """An attribute that is computed on first use and stored in the object.

    Similar to ``functools.cached_property``, which up to Python 3.11 holds one lock for all
    objects of a class while it computes: a child process forked meanwhile would wait for the
    lock forever.  Here two threads may compute a value at the same time; both get the first one.
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


def imported_once(
    package: str, homes: Mapping[str, Sequence[str]], modules: Sequence[str] = ()
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package, which imports a name on first use and keeps it."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return find
