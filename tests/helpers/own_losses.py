"""Losses of users in a module, so that estimators with them can be pickled."""

from __future__ import annotations

import numpy as np

from hedgerow.objectives import RowLoss


def squared_pair(y_true, y_pred):
    return y_pred - y_true, np.ones(len(y_true))


def poisson_pair(y, raw, weight):
    mean = np.exp(raw)
    return (mean - y) * weight, mean * weight


poisson_pair.link = "log"
poisson_pair.loss = lambda y, raw: np.exp(raw) - y * raw


def logistic(y, raw):
    p = 1.0 / (1.0 + np.exp(-raw))
    return p - y, p * (1.0 - p)


logistic.link = "logit"


def absolute(y, raw):
    return np.sign(raw - y), np.zeros(len(y))


class Fourth(RowLoss):
    """A loss that subclasses the base class."""

    link = "identity"

    def losses(self, target, raw):
        return (raw[0] - target) ** 4 + (raw[0] - target) ** 2

    def slopes(self, target, raw):
        r = raw - target
        return 4.0 * r**3 + 2.0 * r, 12.0 * r**2 + 2.0
