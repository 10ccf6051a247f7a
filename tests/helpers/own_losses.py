"""Losses of users in a module, so that estimators with them can be pickled."""

from __future__ import annotations

import math

import numpy as np

from hedgerow.objectives import RowLoss


def squared(y, raw):
    return 0.5 * (raw - y) ** 2


def poisson(y, raw):
    return math.exp(raw) - y * raw


poisson.link = "log"


def logistic(y, raw):
    return np.log1p(np.exp(-abs(raw))) + max(raw, 0.0) - y * raw


logistic.link = "logit"


def huber(y, raw):
    r = abs(raw - y)
    if r <= 1.0:
        return 0.5 * r * r
    return r - 0.5


def smooth(y, raw):
    r = raw - y
    return np.sqrt(1.0 + r * r) + 0.1 * np.tanh(r) ** 2 + np.where(r > 0, r**2, 0.5 * r**2)


def squared_pair(y_true, y_pred):
    return y_pred - y_true, np.ones(len(y_true))


def poisson_pair(y, raw, weight):
    mean = np.exp(raw)
    return (mean - y) * weight, mean * weight


poisson_pair.link = "log"
poisson_pair.loss = lambda y, raw: np.exp(raw) - y * raw


FACTORS = {"half": 0.5, "text": "of no use to Numba"}


def uncompiled(y, raw):
    """A loss that Numba cannot compile, because of its dictionary."""
    return FACTORS["half"] * (raw - y) ** 2


def absolute(y, raw):
    return abs(raw - y)


class Fourth(RowLoss):
    """A loss that subclasses the base class."""

    link = "identity"

    def losses(self, target, raw):
        return (raw[0] - target) ** 4 + (raw[0] - target) ** 2

    def slopes(self, target, raw):
        r = raw - target
        return 4.0 * r**3 + 2.0 * r, 12.0 * r**2 + 2.0
