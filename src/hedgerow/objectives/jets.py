"""Numbers that carry their first and second derivative, for Numba.

A *jet* is ``(value, first, second)``: a number that depends on the raw score, and its
derivatives with respect to the raw score.  A loss written for plain numbers and compiled for
jets gives its derivatives in one evaluation, to the last bits (forward automatic
differentiation)::

    f(x)      (f,  f' x',  f'' x'**2 + f' x'')
    x y       (x y,  x' y + x y',  x'' y + 2 x' y' + x y'')

Comparisons use only values.  At a kink of ``abs``, ``max`` and ``min`` the derivatives are those
from the right.  So a smooth loss that is written with these functions, such as ``max(raw, 0) -
y * raw + log1p(exp(-abs(raw)))``, has its derivatives there, too.  A loss
with operators or functions that are not in this module is differentiated numerically.

Importing this module registers the type with Numba; only custom losses do so.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, make_attribute_wrapper, models, overload, register_model

from hedgerow.compile.just_in_time import compile_inner


class JetType(types.Type):  # type: ignore[misc]
    """Numba's type of jets."""

    def __init__(self) -> None:
        super().__init__(name="Jet")


JET = JetType()


def _overload(function: Any) -> Any:
    """Register an overload; its annotations may differ from those of the implementation."""
    return overload(function, strict=False)


_PARTS = ("value", "first", "second")


@register_model(JetType)
class _JetModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [(part, types.float64) for part in _PARTS])


for _part in _PARTS:
    make_attribute_wrapper(JetType, _part, _part)


@intrinsic
def jet(typingctx: Any, value: Any, first: Any, second: Any) -> Any:
    """Make a jet from its parts."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        made = cgutils.create_struct_proxy(JET)(context, builder)
        made.value, made.first, made.second = args
        return made._getvalue()  # noqa: SLF001  (no public way)

    return JET(types.float64, types.float64, types.float64), generate


def lift(x: Any) -> Any:
    """Return the jet of a constant, or a jet unchanged."""
    raise TypeError("compiled code only")


@_overload(lift)
def _lift(x: Any) -> Any:
    if isinstance(x, JetType):
        return lambda x: x
    if isinstance(x, types.Number | types.Boolean):
        return lambda x: jet(float(x), 0.0, 0.0)
    return None


def value_of(x: Any) -> Any:
    """Return the value without derivatives."""
    raise TypeError("compiled code only")


@_overload(value_of)
def _value_of(x: Any) -> Any:
    if isinstance(x, JetType):
        return lambda x: x.value
    if isinstance(x, types.Number | types.Boolean):
        return lambda x: x
    return None


def _has_jet(*kinds: Any) -> bool:
    """Return whether all arguments are numbers or jets, and at least one is a jet."""
    known = all(isinstance(kind, JetType | types.Number | types.Boolean) for kind in kinds)
    return known and any(isinstance(kind, JetType) for kind in kinds)


# -- functions of one number ------------------------------------------------------------


def _unary(functions: tuple[Any, ...], rule: Callable[..., Any]) -> None:
    """Register functions of one jet; ``rule(x)`` returns f, f' and f'' at a number."""
    compiled = compile_inner(rule)

    def typed(x: Any) -> Any:
        if not isinstance(x, JetType):
            return None

        def evaluate(x: Any) -> Any:
            f, slope, bend = compiled(x.value)
            return jet(f, slope * x.first, bend * x.first * x.first + slope * x.second)

        return evaluate

    for function in functions:
        _overload(function)(typed)


def _sqrt(x: float) -> tuple[float, float, float]:
    root = math.sqrt(x)
    return root, 0.5 / root, -0.25 / (root * x)


def _tanh(x: float) -> tuple[float, float, float]:
    t = math.tanh(x)
    return t, 1.0 - t * t, -2.0 * t * (1.0 - t * t)


def _arctan(x: float) -> tuple[float, float, float]:
    d = 1.0 / (1.0 + x * x)
    return math.atan(x), d, -2.0 * x * d * d


def _erf(x: float) -> tuple[float, float, float]:
    d = 2.0 / math.sqrt(math.pi) * math.exp(-x * x)
    return math.erf(x), d, -2.0 * x * d


_RULES: tuple[tuple[tuple[Any, ...], Callable[[float], tuple[float, float, float]]], ...] = (
    ((math.exp, np.exp), lambda x: (math.exp(x), math.exp(x), math.exp(x))),
    ((math.expm1, np.expm1), lambda x: (math.expm1(x), math.exp(x), math.exp(x))),
    ((math.log, np.log), lambda x: (math.log(x), 1.0 / x, -1.0 / (x * x))),
    (
        (math.log1p, np.log1p),
        lambda x: (math.log1p(x), 1.0 / (1.0 + x), -1.0 / ((1.0 + x) * (1.0 + x))),
    ),
    ((math.sqrt, np.sqrt), _sqrt),
    ((np.square,), lambda x: (x * x, 2.0 * x, 2.0)),
    ((math.tanh, np.tanh), _tanh),
    ((math.cosh, np.cosh), lambda x: (math.cosh(x), math.sinh(x), math.cosh(x))),
    ((math.sinh, np.sinh), lambda x: (math.sinh(x), math.cosh(x), math.sinh(x))),
    ((math.sin, np.sin), lambda x: (math.sin(x), math.cos(x), -math.sin(x))),
    ((math.cos, np.cos), lambda x: (math.cos(x), -math.sin(x), -math.cos(x))),
    ((math.atan, np.arctan), _arctan),
    ((math.erf,), _erf),
    ((operator.neg, np.negative), lambda x: (-x, -1.0, 0.0)),
    ((operator.pos,), lambda x: (x, 1.0, 0.0)),
)
"""Functions of a number, and a function that returns f, f' and f''."""

for _functions, _rule in _RULES:
    _unary(_functions, _rule)


# -- functions of two numbers -----------------------------------------------------------


def _binary(functions: tuple[Any, ...], rule: Callable[..., Any]) -> None:
    """Register functions of two jets; ``rule(x, y)`` returns their jet."""
    compiled = compile_inner(rule)

    def typed(x: Any, y: Any) -> Any:
        if not _has_jet(x, y):
            return None

        def evaluate(x: Any, y: Any) -> Any:
            return compiled(lift(x), lift(y))

        return evaluate

    for function in functions:
        _overload(function)(typed)


def _multiply(x: Any, y: Any) -> Any:
    return jet(
        x.value * y.value,
        x.first * y.value + x.value * y.first,
        x.second * y.value + 2.0 * x.first * y.first + x.value * y.second,
    )


def _divide(x: Any, y: Any) -> Any:
    quotient = x.value / y.value
    first = (x.first - quotient * y.first) / y.value
    second = (x.second - 2.0 * first * y.first - quotient * y.second) / y.value
    return jet(quotient, first, second)


def _power(x: Any, y: Any) -> Any:
    power = x.value**y.value
    if y.first == 0.0 and y.second == 0.0:  # a constant exponent: x may be 0 or negative
        n = y.value
        slope = n * x.value ** (n - 1.0) if n != 0.0 else 0.0
        bend = n * (n - 1.0) * x.value ** (n - 2.0) if n != 0.0 and n != 1.0 else 0.0
        return jet(power, slope * x.first, bend * x.first * x.first + slope * x.second)
    log = math.log(x.value)
    rate = y.first * log + y.value * x.first / x.value
    drift = (
        y.second * log
        + 2.0 * y.first * x.first / x.value
        + y.value * (x.second / x.value - (x.first / x.value) ** 2)
    )
    return jet(power, power * rate, power * (rate * rate + drift))


@compile_inner
def _is_above(x: Any, y: Any) -> Any:
    """Whether x is above y, or equal to it, where the raw score is slightly larger."""
    if x.value != y.value:
        return x.value > y.value
    if x.first != y.first:
        return x.first > y.first
    return x.second >= y.second


def _log_add_exp(x: Any, y: Any) -> Any:
    size = abs(x.value - y.value)
    top = max(x.value, y.value)
    p = 1.0 / (1.0 + math.exp(y.value - x.value)) if x.value > y.value else (
        math.exp(x.value - y.value) / (1.0 + math.exp(x.value - y.value))
    )  # fmt: skip
    gap = x.first - y.first
    return jet(
        top + math.log1p(math.exp(-size)),
        p * x.first + (1.0 - p) * y.first,
        p * x.second + (1.0 - p) * y.second + p * (1.0 - p) * gap * gap,
    )


for _operators, _of_two in (
    (
        (operator.add, operator.iadd, np.add),
        lambda x, y: jet(x.value + y.value, x.first + y.first, x.second + y.second),
    ),
    (
        (operator.sub, operator.isub, np.subtract),
        lambda x, y: jet(x.value - y.value, x.first - y.first, x.second - y.second),
    ),
    ((operator.mul, operator.imul, np.multiply), _multiply),
    ((operator.truediv, operator.itruediv, np.divide), _divide),
    ((operator.pow, operator.ipow, math.pow, np.power), _power),
    ((max, np.maximum), lambda x, y: x if _is_above(x, y) else y),
    ((min, np.minimum), lambda x, y: y if _is_above(x, y) else x),
    ((np.logaddexp,), _log_add_exp),
):
    _binary(_operators, _of_two)


def _abs(x: Any) -> Any:
    if not isinstance(x, JetType):
        return None
    return lambda x: max(x, -x)


for _function in (abs, math.fabs, np.abs, np.fabs):
    _overload(_function)(_abs)


def _compare(function: Any) -> None:
    def typed(x: Any, y: Any) -> Any:
        if not _has_jet(x, y):
            return None
        return lambda x, y: function(value_of(x), value_of(y))

    _overload(function)(typed)


for _function in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
    _compare(_function)


@_overload(np.where)
def _where(condition: Any, x: Any, y: Any) -> Any:
    if not (isinstance(condition, types.Boolean) and _has_jet(x, y)):
        return None
    return lambda condition, x, y: lift(x) if condition else lift(y)


@_overload(np.sign)
def _sign(x: Any) -> Any:
    if not isinstance(x, JetType):
        return None
    return lambda x: jet(np.sign(x.value), 0.0, 0.0)
