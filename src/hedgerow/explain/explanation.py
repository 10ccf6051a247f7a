"""What a model says of some rows, by column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each column adds to the raw scores of some rows.

    Attributes
    ----------
    values : float64, shape (n_rows, n_columns) or (n_rows, n_columns, n_outputs)
        Shapley values.  With interactions (n_rows, n_columns, n_columns) or (n_rows,
        n_columns, n_columns, n_outputs): half of what two columns add together stands at
        each of their two places, what a column adds by itself on the diagonal.
    base_values : float64
        Raw score without knowledge of any column: shape () or (n_outputs,).  With offsets,
        which are added to it, (n_rows,) or (n_rows, n_outputs).
    data : array or data frame
        The rows, as they were given.
    feature_names : tuple of str
    output_names : tuple of str
        Empty for one output.
    interactions : bool
        Whether the values are those of pairs.

    Notes
    -----
    Values and base values of a row add up to its raw score, as ``predict(X, kind="raw")``
    gives it, but for rounding.
    """

    values: FloatArray
    base_values: FloatArray
    data: Any
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...] = ()
    interactions: bool = False

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.values)

    def __repr__(self) -> str:
        what = "interactions" if self.interactions else "values"
        shape = " x ".join(str(size) for size in self.values.shape)
        return f"<Explanation: {what} of {shape}>"

    def importance(self) -> FloatArray:
        """Mean size of the values over the rows.

        Returns
        -------
        float64, shape (n_columns,) or (n_columns, n_outputs)
            For interactions (n_columns, n_columns) or (n_columns, n_columns, n_outputs).
        """
        found: FloatArray = np.abs(self.values).mean(axis=0)
        return found

    def to_frame(self) -> Any:
        """The values as a pandas data frame, one column for each column of the table.

        With several outputs the columns have two levels: output, then column.

        Raises
        ------
        ValueError
            If the values are interactions: take ``values``.
        """
        import pandas as pd

        if self.interactions:
            raise ValueError("interactions have a matrix for each row: take `values`.")
        index = getattr(self.data, "index", None)
        index = index if isinstance(index, pd.Index) else None
        if self.values.ndim == 2:
            return pd.DataFrame(self.values, index=index, columns=list(self.feature_names))
        columns = pd.MultiIndex.from_product([self.output_names, self.feature_names])
        turned = self.values.transpose(0, 2, 1).reshape(len(self.values), -1)
        return pd.DataFrame(turned, index=index, columns=columns)

    def to_shap(self) -> Any:
        """The same as an ``Explanation`` of the package ``shap``, for its plots.

        Raises
        ------
        ImportError
            If ``shap`` is not installed.
        """
        import shap

        base = self.base_values
        if base.ndim < self.values.ndim - (2 if self.interactions else 1):
            base = np.broadcast_to(base, (len(self.values), *base.shape)).copy()
        return shap.Explanation(
            self.values,
            base_values=base,
            data=np.asarray(self.data),
            feature_names=list(self.feature_names),
            output_names=list(self.output_names) or None,
        )


__all__ = ["Explanation"]
