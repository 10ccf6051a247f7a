"""All losses of single rows in plain NumPy, with valid targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.objectives import make_objective


@dataclass(frozen=True)
class Case:
    """The definition of a loss.

    ``loss(y, raw)`` is the loss of a row up to a constant.  ``draw(rng, n)`` draws targets.
    ``exact`` tells whether h is the second derivative.
    """

    name: str
    loss: Callable[[Any, Any], Any]
    draw: Callable[[np.random.Generator, int], np.ndarray]
    parameters: dict[str, Any] = field(default_factory=dict)
    exact: bool = True
    outside: tuple[float, ...] = ()
    interval: str = ""

    @property
    def objective(self):
        return make_objective(self.name, parameters=self.parameters)

    @property
    def id(self) -> str:
        values = "-".join(f"{value:g}" for value in self.parameters.values())
        return f"{self.name}-{values}" if values else self.name


def numbers(rng, n):
    return rng.normal(2.0, 3.0, n)


def counts(rng, n):
    return rng.poisson(1.5, n).astype(float)


def amounts(rng, n):
    return rng.gamma(2.0, 3.0, n) + 1e-3


def some_amounts(rng, n):
    return np.where(rng.random(n) < 0.5, 0.0, amounts(rng, n))


def shares(rng, n):
    return np.clip(rng.uniform(-0.2, 1.2, n), 0.0, 1.0)


def labels(rng, n):
    y = rng.integers(0, 2, n).astype(float)
    y[:2] = 0.0, 1.0
    return y


def probability(raw):
    return 1.0 / (1.0 + np.exp(-raw))


def huber_of(delta):
    def loss(y, raw):
        r = np.abs(raw - y)
        return np.where(r <= delta, r * r / 2, delta * (r - delta / 2))

    return loss


def focal_of(gamma, alpha):
    def loss(y, raw):
        p = np.where(y > 0, probability(raw), probability(-raw))
        a = 1.0 if alpha is None else np.where(y > 0, alpha, 1 - alpha)
        return -a * (1 - p) ** gamma * np.log(p)

    return loss


def tweedie_of(p):
    return lambda y, raw: -y * np.exp((1 - p) * raw) / (1 - p) + np.exp((2 - p) * raw) / (2 - p)


CASES = (
    Case("huber", huber_of(1.0), numbers, exact=False),
    Case("huber", huber_of(2.5), numbers, {"delta": 2.5}, exact=False),
    Case("pseudo_huber", lambda y, r: np.sqrt(1 + (r - y) ** 2), numbers, exact=False),
    Case(
        "pseudo_huber",
        lambda y, r: 9.0 * np.sqrt(1 + ((r - y) / 3.0) ** 2),
        numbers,
        {"delta": 3.0},
        exact=False,
    ),
    Case("fair", lambda y, r: np.abs(r - y) - np.log1p(np.abs(r - y)), numbers, exact=False),
    Case("fair", lambda y, r: 2.5 * np.abs(r - y) - 6.25 * np.log1p(np.abs(r - y) / 2.5), numbers,
         {"delta": 2.5}, exact=False),
    Case("log_cosh", lambda y, r: np.log(np.cosh(r - y)), numbers, exact=False),
    Case("expectile", lambda y, r: np.where(r > y, 0.2, 0.8) * (r - y) ** 2, numbers,
         {"expectile": 0.8}),
    Case("mape", lambda y, r: np.abs(r - y) / np.abs(y), amounts, exact=False,
         outside=(0.0, 1e-200), interval=r"\[1e-100, 1e\+100\]"),
    Case("squared_log_error", lambda y, r: (r - np.log1p(y)) ** 2 / 2, amounts,
         outside=(-1.0, -2.0), interval=r"\(-1, 1e\+100\]"),
    Case("poisson", lambda y, r: np.exp(r) - y * r, counts, outside=(-1.0,),
         interval=r"\[0, 1e\+100\]"),
    Case("gamma", lambda y, r: y * np.exp(-r) + r, amounts, outside=(0.0, -1.0),
         interval=r"\[1e-100, 1e\+100\]"),
    Case("tweedie", tweedie_of(1.5), some_amounts, outside=(-0.5,), interval=r"\[0, 1e\+100\]"),
    Case("tweedie", tweedie_of(1.2), some_amounts, {"tweedie_power": 1.2}, outside=(-0.5,),
         interval=r"\[0, 1e\+100\]"),
    Case("cross_entropy", lambda y, r: np.logaddexp(0, r) - y * r, shares, outside=(-0.1, 1.01),
         interval=r"\[0, 1\]"),
    Case("focal", focal_of(2.0, None), labels, exact=False, outside=(2.0, 0.5),
         interval="0 or 1"),
    Case("focal", focal_of(1.0, 0.25), labels, {"focal_gamma": 1.0, "focal_alpha": 0.25},
         exact=False, outside=(2.0,), interval="0 or 1"),
    Case("hinge", lambda y, r: np.maximum(0, 1 - (2 * y - 1) * r), labels, exact=False,
         outside=(-1.0,), interval="0 or 1"),
)  # fmt: skip
IDS = [case.id for case in CASES]


def mean_loss(case, y, raw, weight=None):
    """Return the weighted mean of the loss of the case."""
    return np.average(case.loss(y, raw), weights=weight)
