"""Diabetes among Pima women: 768 rows, eight measurements, one yes or no.

Collected by the National Institute of Diabetes and Digestive and Kidney
Diseases (United States); in the public domain.  Smith et al. (1988), "Using
the ADAP learning algorithm to forecast the onset of diabetes mellitus".
"""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray

ZERO_IS_MISSING = ("Glucose", "BloodPressure", "SkinThickness", "Insulin", "BMI")
"""Measurements that cannot be 0 in a living person: 0 stands for "not measured"."""


class Pima(NamedTuple):
    """The table as arrays.

    Attributes
    ----------
    X : ndarray of shape (768, 8)
        Measurements; NaN where the source has an impossible 0.
    y : ndarray of shape (768,)
        1 if diabetes was found within five years, else 0.
    feature_names : tuple of str
    target_name : str
    """

    X: FloatArray
    y: IntArray
    feature_names: tuple[str, ...]
    target_name: str


def load_pima(*, zero_as_missing: bool = True) -> Pima:
    """Load the Pima diabetes table.

    Parameters
    ----------
    zero_as_missing : bool, default=True
        Turn the zeros of :data:`ZERO_IS_MISSING` into NaN.

    Returns
    -------
    Pima
        ``X``, ``y`` and the names of the columns.
    """
    text = files("hedgerow.datasets").joinpath("pima.csv").read_text(encoding="ascii")
    header, *lines = text.splitlines()
    *feature_names, target_name = header.split(",")
    table = np.array([line.split(",") for line in lines], dtype=np.float64)
    X = np.ascontiguousarray(table[:, :-1])
    if zero_as_missing:
        for name in ZERO_IS_MISSING:
            column = X[:, feature_names.index(name)]
            column[column == 0.0] = np.nan
    return Pima(X, table[:, -1].astype(np.int64), tuple(feature_names), target_name)
