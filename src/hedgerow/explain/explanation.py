"""Explanations: the contributions of columns to predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.cuda.arrays import on_host
from hedgerow.data.reading.frames import FrameLibrary, make_frame
from hedgerow.data.sparse import is_sparse
from hedgerow.errors import DataError, ParameterError


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The contribution of each column to the raw scores of some rows.

    Attributes
    ----------
    values : float64, shape (n_rows, n_columns) or (n_rows, n_columns, n_outputs)
        Shapley values.  With interactions, the shape is (n_rows, n_columns, n_columns) or
        (n_rows, n_columns, n_columns, n_outputs): each of the two positions of a pair holds half
        of its joint contribution, and the diagonal holds the columns' own contributions.
    base_values : float64
        Expected raw score when no column is known, shape () or (n_outputs,).  Offsets are added;
        the shape is then (n_rows,) or (n_rows, n_outputs).
    data : array or data frame
        The explained rows, as passed by the user.
    feature_names : tuple of str
    output_names : tuple of str
        Empty for one output.
    interactions : bool
        Whether the values are for pairs of columns.

    Notes
    -----
    Values and base values of a row add up to its raw score, ``predict(X, kind="raw")``,
    within rounding.
    """

    values: FloatArray
    base_values: FloatArray
    data: Any
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...] = ()
    interactions: bool = False

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.values)

    def __repr__(self) -> str:
        what = "interactions" if self.interactions else "values"
        shape = " x ".join(str(size) for size in self.values.shape)
        return f"<Explanation: {what} of {shape}>"

    def importance(self) -> FloatArray:
        """Return the mean absolute value over the rows.

        Returns
        -------
        float64, shape (n_columns,) or (n_columns, n_outputs)
            For interactions (n_columns, n_columns) or (n_columns, n_columns, n_outputs).
        """
        found: FloatArray = np.abs(self.values).mean(axis=0)
        return found

    def to_frame(self, backend: FrameLibrary = "pandas", prefix: str = "") -> Any:
        """Return the values as a data frame, with one row per row.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default="pandas"
            Library of the frame, which must be installed; None returns a dict of lists.
        prefix : str, default=""
            Prefix of the names of values.

        Returns
        -------
        data frame
            The columns of :meth:`columns`.  A pandas frame keeps the index of ``data`` if ``data``
            is a pandas frame.

        Raises
        ------
        DataError
            As for :meth:`columns`.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> data = Dataset({"size": [1.0, 2.0, 4.0]}, [0.0, 0.0, 3.0])
        >>> params = {"n_estimators": 1, "min_samples_leaf": 1, "learning_rate": 1.0}
        >>> booster = train(params | {"reg_lambda": 0.0, "early_stopping": False}, data)
        >>> booster.explain({"size": [1.0, 5.0]}).to_frame(None)
        {'size': [-1.0, 2.0], 'base_value': [1.0, 1.0]}
        """
        named = self.columns(prefix)
        if backend == "pandas":
            import pandas as pd

            index = getattr(self.data, "index", None)
            return pd.DataFrame(named, index=index if isinstance(index, pd.Index) else None)
        return make_frame({name: column.tolist() for name, column in named.items()}, backend)

    def columns(self, prefix: str = "") -> dict[str, AnyArray]:
        """Return values and base values as named columns.

        Parameters
        ----------
        prefix : str, default=""
            Prefix of the names of values.

        Returns
        -------
        dict of float64, shape (n_rows,)
            ``NAME`` for each column of the model, and ``base_value``.  With several outputs, one
            set for each, named ``NAME|OUTPUT``.  With interactions, ``NAME`` is a column's own
            contribution, and ``NAME x OTHER`` the joint contribution of a pair, listed once.

        Raises
        ------
        DataError
            If two columns would have the same name.
        """
        found: dict[str, AnyArray] = {}
        for name, column in self._named(prefix):
            if name in found:
                raise DataError(
                    f"two columns of the frame would be called {name!r}: rename columns of the "
                    "data, or use a prefix."
                )
            found[name] = np.ascontiguousarray(column)
        return found

    def _named(self, prefix: str) -> Iterator[tuple[str, AnyArray]]:
        names = self.feature_names
        for k, end in enumerate([f"|{name}" for name in self.output_names] or [""]):
            values = self.values[..., k] if self.output_names else self.values
            base = self.base_values[..., k] if self.output_names else self.base_values
            for i, name in enumerate(names):
                yield f"{prefix}{name}{end}", values[:, i, i] if self.interactions else values[:, i]
                for j in range(i + 1, len(names) if self.interactions else 0):
                    yield f"{prefix}{name} x {names[j]}{end}", values[:, i, j] + values[:, j, i]
            yield "base_value" + end, np.broadcast_to(base, (len(self),))

    def to_shap(self) -> Any:
        """Convert to an ``Explanation`` of the package ``shap``, for its plots.

        Raises
        ------
        ParameterError
            If ``shap`` is not installed.
        """
        try:
            import shap
        except ImportError as error:
            raise ParameterError("to_shap needs the package shap: pip install shap.") from error
        base = self.base_values
        if base.ndim < self.values.ndim - (2 if self.interactions else 1):
            base = np.broadcast_to(base, (len(self), *base.shape)).copy()
        return shap.Explanation(
            self.values,
            base_values=base,
            data=self._rows(),
            feature_names=list(self.feature_names),
            output_names=list(self.output_names) or None,
        )

    def _rows(self) -> AnyArray:
        """Return the rows as an array of numbers or objects, with columns in the model's order."""
        data = on_host(self.data)
        if is_sparse(data):
            return np.asarray(data.toarray())
        known = getattr(data, "columns", data if isinstance(data, dict) else ())
        if all(name in known for name in self.feature_names):
            columns = [np.asarray(on_host(data[name])) for name in self.feature_names]
            numbers = all(column.dtype.kind in "biuf" for column in columns)
            return np.stack(columns, axis=1, dtype=None if numbers else object)
        return np.asarray(data)
