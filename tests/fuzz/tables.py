"""Random tables: shapes, kinds of columns, and the containers that hold them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

Draw = Callable[[np.random.Generator, int], np.ndarray]

N_ROWS = (1, 2, 3, 5, 8, 13, 30, 64, 100, 200, 400, 900, 3000)
N_FEATURES = (1, 1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 40, 70, 150)
MOST_CELLS = 30_000


@dataclass(frozen=True)
class DrawnTable:
    """A table in a container.

    ``columns`` are float64, int64 or object (text); ``kinds`` say how each was drawn.
    """

    columns: list[np.ndarray]
    kinds: list[str]
    form: str

    @property
    def n_rows(self) -> int:
        return len(self.columns[0])

    @property
    def n_features(self) -> int:
        return len(self.columns)

    def numbers(self) -> np.ndarray:
        """Return a float64 array (rows, features); text becomes codes, missing values NaN."""
        return np.column_stack([_as_numbers(column) for column in self.columns]).astype(float)

    def make(self, form: str | None = None) -> Any:
        """Return the table in its container, or in another one."""
        return FORMS[form or self.form](self)

    @property
    def is_sparse(self) -> bool:
        return self.form in SPARSE_FORMS

    def take(self, rows: np.ndarray) -> DrawnTable:
        return DrawnTable([column[rows] for column in self.columns], self.kinds, self.form)

    def dense_form(self) -> str:
        """Return a dense container with the values of a sparse table."""
        return {"csr_float32": "float32", "csr_int": "int64"}.get(self.form, "float64")


def _as_numbers(column: np.ndarray) -> np.ndarray:
    if column.dtype != object:
        return column
    values, codes = np.unique([str(value) for value in column], return_inverse=True)
    missing = np.array([value is None for value in column])
    assert len(values) > 0
    return np.where(missing, np.nan, codes)


# -- columns ---------------------------------------------------------------------------


def _mostly_zero(rng: np.random.Generator, n: int) -> np.ndarray:
    values = rng.normal(size=n)
    values[rng.random(n) < rng.choice([0.5, 0.9, 0.99])] = 0.0
    return values


def _with_missing(rng: np.random.Generator, n: int) -> np.ndarray:
    values = rng.normal(size=n)
    values[rng.random(n) < rng.choice([0.05, 0.5, 0.95])] = np.nan
    return values


def _zeros_and_missing(rng: np.random.Generator, n: int) -> np.ndarray:
    values = _mostly_zero(rng, n)
    values[rng.random(n) < 0.1] = np.nan
    return values


def _one_row(rng: np.random.Generator, n: int) -> np.ndarray:
    values = np.zeros(n)
    values[rng.integers(n)] = rng.choice([1.0, -2.5, np.nan])
    return values


def _extreme(rng: np.random.Generator, n: int) -> np.ndarray:
    ends = [np.inf, -np.inf, 1e308, -1e308, 5e-324, -5e-324, 0.0, -0.0, 1.0, np.nan]
    return rng.choice(ends, size=n)


NUMBERS: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "few_values": lambda rng, n: rng.integers(-2, 4, n).astype(float),
    "mostly_zero": _mostly_zero,
    "zero": lambda rng, n: np.zeros(n),
    "minus_zero": lambda rng, n: np.full(n, -0.0),
    "constant": lambda rng, n: np.full(n, rng.choice([1.0, -3.0, 1e300, np.inf])),
    "missing": lambda rng, n: np.full(n, np.nan),
    "with_missing": _with_missing,
    "zeros_and_missing": _zeros_and_missing,
    "one_row": _one_row,
    "indicator": lambda rng, n: (rng.random(n) < rng.choice([0.5, 0.1, 0.01])).astype(float),
    "minus_indicator": lambda rng, n: -(rng.random(n) < 0.2).astype(float),
    "positive": lambda rng, n: np.exp(rng.normal(size=n)),
    "extreme": _extreme,
    "counts": lambda rng, n: rng.poisson(0.5, n).astype(float),
}
SAFE = ("normal", "few_values", "mostly_zero", "zero", "constant", "one_row", "indicator", "counts")


def _one_hot(rng: np.random.Generator, n: int, width: int) -> list[np.ndarray]:
    """Return indicators of one category; some levels may have no row."""
    level = rng.integers(0, width + 1, n)
    return [(level == k).astype(float) for k in range(width)]


def _text(rng: np.random.Generator, n: int) -> np.ndarray:
    n_levels = int(rng.choice([1, 2, 3, 5, 12, 80, 300]))
    values = np.array([f"c{k}" for k in range(n_levels)], dtype=object)[
        rng.integers(n_levels, size=n)
    ]
    if rng.random() < 0.4:
        values[rng.random(n) < rng.choice([0.1, 0.6, 1.0])] = None
    return values


def _integers(rng: np.random.Generator, n: int) -> np.ndarray:
    high = int(rng.choice([1, 2, 10, 2**40, 2**62]))
    return rng.integers(-high, high, n)


# -- containers ------------------------------------------------------------------------


def _numpy(dtype: Any, order: str = "C") -> Callable[[DrawnTable], np.ndarray]:
    def make(table: DrawnTable) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(table.numbers(), dtype=dtype, order=order)

    return make


def _whole(values: np.ndarray) -> np.ndarray:
    return np.clip(np.nan_to_num(values, posinf=9.0, neginf=-9.0), -1e9, 1e9).astype(np.int64)


def _csr(dtype: Any) -> Callable[[DrawnTable], Any]:
    def make(table: DrawnTable) -> Any:
        with np.errstate(all="ignore"):
            return sparse.csr_array(table.numbers().astype(dtype))

    return make


def _explicit(table: DrawnTable) -> Any:
    """Return a CSR matrix with stored zeros and unsorted column indices."""
    values = table.numbers()
    n_rows, n_features = values.shape
    order = np.arange(n_features)[::-1]
    indices = np.tile(order, n_rows)
    starts = np.arange(n_rows + 1) * n_features
    return sparse.csr_matrix((values[:, order].reshape(-1), indices, starts), shape=values.shape)


def _pandas(table: DrawnTable) -> Any:
    import pandas as pd

    columns: dict[str, Any] = {}
    for j, (column, kind) in enumerate(zip(table.columns, table.kinds, strict=True)):
        given: Any = pd.Series(column)
        if kind == "text":
            given = given.astype("category" if j % 2 else "str")
        elif kind in ("few_values", "counts") and j % 2 and np.isfinite(column).all():
            given = given.astype("Int64" if j % 4 == 1 else "float32")
        elif kind == "indicator" and j % 2:
            given = given.astype(bool)
        columns[f"c{j}"] = given
    return pd.DataFrame(columns)


def _polars(table: DrawnTable) -> Any:
    import polars as pl

    columns = {}
    for j, (column, kind) in enumerate(zip(table.columns, table.kinds, strict=True)):
        given = pl.Series(column.tolist(), dtype=pl.String) if kind == "text" else pl.Series(column)
        columns[f"c{j}"] = given.cast(pl.Categorical) if kind == "text" and j % 2 else given
    return pl.DataFrame(columns)


FORMS: dict[str, Callable[[DrawnTable], Any]] = {
    "float64": _numpy(np.float64),
    "float32": _numpy(np.float32),
    "fortran": _numpy(np.float64, "F"),
    "int64": lambda table: _whole(table.numbers()),
    "uint8": lambda table: _whole(table.numbers()).astype(np.uint8),
    "bool": lambda table: _whole(table.numbers()) > 0,
    "list": lambda table: table.numbers().tolist(),
    "csr": _csr(np.float64),
    "csr_float32": _csr(np.float32),
    "csr_int": lambda table: sparse.csr_matrix(_whole(table.numbers())),
    "csc": lambda table: sparse.csc_matrix(table.numbers()),
    "explicit": _explicit,
    "pandas": _pandas,
    "polars": _polars,
    "integers": lambda table: np.column_stack(table.columns),
}
SPARSE_FORMS = ("csr", "csr_float32", "csr_int", "csc", "explicit")
_FRAMES = ("pandas", "polars")
CORE_FORMS = ("float64", "fortran", "csr", "csc", "explicit")
"""Containers of the only value type whose kernels are compiled for ``core``."""

_WEIGHTS = {"float64": 4, "float32": 3, "csr": 6, "csr_float32": 2, "csc": 2, "explicit": 2}


def draw_table(rng: np.random.Generator, core: bool = False, form: str | None = None) -> DrawnTable:
    """Draw a random table, in a given container; ``core`` tables have only numbers."""
    forms = [form] if form else list(CORE_FORMS if core else FORMS)
    chances = np.array([_WEIGHTS.get(form, 1) for form in forms], dtype=float)
    form = str(rng.choice(forms, p=chances / chances.sum()))
    n_features = int(rng.choice(N_FEATURES))
    n_rows = max(1, min(int(rng.choice(N_ROWS)), MOST_CELLS // n_features))
    columns: list[np.ndarray] = []
    kinds: list[str] = []
    pool = SAFE if rng.random() < 0.5 else tuple(NUMBERS)
    emptied = form in SPARSE_FORMS and rng.random() < 0.3
    while len(columns) < n_features:
        kind, found = _draw_column(rng, form, pool, n_rows, n_features - len(columns))
        if emptied and rng.random() < 0.5:
            kind, found = "zero", [np.zeros(n_rows)]
        columns += found
        kinds += [kind] * len(found)
    return DrawnTable(columns, kinds, form)


def _draw_column(
    rng: np.random.Generator, form: str, pool: tuple[str, ...], n_rows: int, n_left: int
) -> tuple[str, list[np.ndarray]]:
    if form == "integers":
        return "integers", [_integers(rng, n_rows)]
    if form in _FRAMES and rng.random() < 0.4:
        return "text", [_text(rng, n_rows)]
    if n_left > 2 and rng.random() < 0.2:
        return "indicator", _one_hot(rng, n_rows, int(rng.integers(2, min(n_left, 20) + 1)))
    kind = str(rng.choice(pool))
    return kind, [NUMBERS[kind](rng, n_rows)]
