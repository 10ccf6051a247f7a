"""Generate tables with nonlinear effects, interactions and noise, reproducible by a seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_ROWS_AT_ONCE = 100_000
Table = tuple[np.ndarray, np.ndarray]
Chunk = Callable[[np.random.Generator, int, int], Table]


def higgs_like(rows: int, features: int = 28, seed: int = 0) -> Table:
    """Generate two classes that depend on momenta, angles and masses, like collider data.

    A third of the columns are momenta (heavy-tailed), a third angles (uniform),
    a third noisy functions of both ("high-level" columns).  The class depends
    on products and differences, and a fifth of it on chance.

    Returns
    -------
    X : float32 array of shape (rows, features)
    y : float64 array of shape (rows,), 0 or 1
    """
    return _in_chunks(rows, features, seed, _higgs_chunk)


def many_classes(rows: int, features: int = 28, classes: int = 7, seed: int = 0) -> Table:
    """Generate classes of unequal size as bands of a nonlinear score."""
    X, score = _in_chunks(rows, features, seed, _score_chunk)
    shares = np.cumsum(np.linspace(1.0, 3.0, classes))
    edges = np.quantile(score, shares[:-1] / shares[-1])
    return X, np.searchsorted(edges, score).astype(np.float64)


def heavy_tailed(rows: int, features: int = 20, seed: int = 0, tail: str = "student") -> Table:
    """Generate a regression target with outliers: Student t (2 degrees) or log-normal.

    The data are hard for quantised gradients: a few residuals are thousands of times as large as
    the usual one.
    """
    X, score = _in_chunks(rows, features, seed, _score_chunk)
    rng = np.random.default_rng([seed, 1])
    if tail == "student":
        return X, 3.0 * score + rng.standard_t(2.0, rows)
    return X, np.exp(1.2 * score + 1.5 * rng.standard_normal(rows))


def with_missing(X: np.ndarray, share: float = 0.1, seed: int = 0) -> np.ndarray:
    """Return ``X`` with NaN: half of them at random, half where the value is large."""
    rng = np.random.default_rng([seed, 2])
    X = X.copy()
    for column in X.T:
        by_chance = rng.random(len(column)) < share / 2
        large = column > np.quantile(column, 1.0 - share / 2)
        column[by_chance | large] = np.nan
    return X


def _in_chunks(rows: int, features: int, seed: int, chunk: Chunk) -> Table:
    X = np.empty((rows, features), dtype=np.float32)
    y = np.empty(rows)
    for number, start in enumerate(range(0, rows, _ROWS_AT_ONCE)):
        stop = min(start + _ROWS_AT_ONCE, rows)
        rng = np.random.default_rng([seed, 0, number])
        X[start:stop], y[start:stop] = chunk(rng, stop - start, features)
    return X, y


def _columns(rng: np.random.Generator, rows: int, features: int) -> np.ndarray:
    third = max(2, features // 3)
    momenta = rng.gamma(2.0, 0.5, (rows, third))
    angles = rng.uniform(-np.pi, np.pi, (rows, third))
    rest = features - 2 * third
    i, j = np.arange(rest) % third, (np.arange(rest) * 2 + 1) % third
    mass = np.sqrt(
        2.0 * momenta[:, i] * momenta[:, j] * (1.0 - np.cos(angles[:, i] - angles[:, j])) + 1e-9
    )
    mass *= rng.lognormal(0.0, 0.3, mass.shape)
    return np.hstack((momenta, angles, mass))


def _score(X: np.ndarray) -> np.ndarray:
    third = max(2, X.shape[1] // 3)
    p, a, m = X[:, :third], X[:, third : 2 * third], X[:, 2 * third :]
    return (
        1.2 * np.log(p[:, 0] * p[:, 1] + 0.1)
        + np.cos(a[:, 0] - a[:, 1])
        + 0.8 * np.sin(2.0 * a[:, 1]) * (p[:, 0] > 1.0)
        + 0.7 * np.tanh(m[:, 0] - 1.0)
        - 0.5 * np.abs(m[:, -1] - 0.8)
        + 0.4 * (m[:, 0] > m[:, -1])
    )


def _higgs_chunk(rng: np.random.Generator, rows: int, features: int) -> Table:
    X = _columns(rng, rows, features)
    score = _score(X)
    odds = 1.0 / (1.0 + np.exp(-1.5 * (score + 0.3)))
    return X, rng.random(rows) < odds


def _score_chunk(rng: np.random.Generator, rows: int, features: int) -> Table:
    X = _columns(rng, rows, features)
    return X, _score(X) + 0.5 * rng.standard_normal(rows)
