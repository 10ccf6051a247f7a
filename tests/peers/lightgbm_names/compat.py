"""``lightgbm.compat``: which libraries are there."""

from __future__ import annotations

import pandas as pd
import sklearn
from sklearn.exceptions import NotFittedError

DASK_INSTALLED = False
DATATABLE_INSTALLED = False
PANDAS_INSTALLED = True
PYARROW_INSTALLED = False
LGBMNotFittedError = NotFittedError
_sklearn_version = sklearn.__version__
pd_DataFrame, pd_Series = pd.DataFrame, pd.Series


class dt_DataTable:
    """The data frame of a library that is not installed."""


__all__: list[str] = []
