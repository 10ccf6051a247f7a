"""Define workloads: a table, a task and the size of the trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import real
import synthetic
from settings import Settings

Table = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Workload:
    """A workload, which is a row of the table of results.

    ``make(seed)`` returns all rows.  The last ``test_share`` of a synthetic table, or a random
    ``test_share`` of a real one, are the test rows.
    """

    name: str
    title: str
    make: Callable[[int], Table]
    settings: Settings
    test_share: float = 0.2
    test_rows: int | None = None
    shuffled: bool = False

    def split(self, seed: int) -> tuple[Table, Table]:
        """Return training and test rows for this seed."""
        X, y = self.make(seed)
        n_test = self.test_rows or int(self.test_share * len(y))
        if self.shuffled:
            order = np.random.default_rng([seed, 3]).permutation(len(y))
            X, y = X[order], y[order]
        cut = len(y) - n_test
        return (X[:cut], y[:cut]), (X[cut:], y[cut:])


_BINARY = Settings("binary")


def _higgs(name: str, rows: int, leaves: int = 31, features: int = 28) -> Workload:
    test = max(10_000, rows // 5)
    size = f"{rows // 1_000_000}M" if rows >= 1_000_000 else f"{rows // 1000}k"
    return Workload(
        name,
        f"{size} x {features}, {leaves} leaves",
        lambda seed: synthetic.higgs_like(rows + test, features, seed),
        replace(_BINARY, leaves=leaves),
        test_rows=test,
    )


def _missing(seed: int) -> Table:
    X, y = synthetic.higgs_like(600_000, 28, seed)
    return synthetic.with_missing(X, 0.1, seed), y


def _real(name: str, title: str, make: Callable[[], Table], task: str) -> Workload:
    settings = Settings(task)  # type: ignore[arg-type]
    return Workload(name, title, lambda seed: make(), settings, shuffled=True)


_ALL = (
    _higgs("1m_31", 1_000_000, 31),
    _higgs("1m_255", 1_000_000, 255),
    _higgs("100k", 100_000),
    _higgs("10k", 10_000),
    _higgs("1k", 1_000),
    _higgs("wide", 100_000, features=500),
    Workload(
        "multiclass",
        "100k x 28, 7 classes",
        lambda seed: synthetic.many_classes(120_000, 28, 7, seed),
        Settings("multiclass", classes=7),
        test_rows=20_000,
    ),
    Workload("missing", "500k x 28, 10% missing", _missing, _BINARY, test_rows=100_000),
    Workload(
        "heavy_student",
        "100k x 20, Student t target",
        lambda seed: synthetic.heavy_tailed(150_000, 20, seed, "student"),
        Settings("regression"),
        test_rows=50_000,
    ),
    Workload(
        "heavy_lognormal",
        "100k x 20, log-normal target",
        lambda seed: synthetic.heavy_tailed(150_000, 20, seed, "lognormal"),
        Settings("regression"),
        test_rows=50_000,
    ),
    _real("california", "California housing", real.california, "regression"),
    _real("adult", "Adult, numeric", real.adult, "binary"),
    _real("flights3m", "Flights, 2.4M x 4", real.flights, "regression"),
    _real("fremtpl2", "freMTPL2, numeric", real.fremtpl2, "regression"),
    _real("weather_aus", "Weather, 10% missing", real.weather, "binary"),
)
WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _ALL}
