"""``DMatrix`` of XGBoost's kind."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import hedgerow
from hedgerow.errors import DataError
from tests.peers.touched import touch

_FLOATS = ("label", "weight", "base_margin", "label_lower_bound", "label_upper_bound")


def _values(values: Any, kind: Any = np.float32) -> Any:
    if values is None:
        return None
    if isinstance(values, pd.DataFrame | pd.Series):
        values = values.to_numpy()
    array = np.array(values, dtype=kind)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


class DMatrix:
    """Rows with what is known of them; methods are those of ``xgboost.DMatrix``."""

    def __init__(
        self,
        data: Any,
        label: Any = None,
        *,
        weight: Any = None,
        base_margin: Any = None,
        missing: float | None = None,
        silent: bool = False,
        feature_names: Any = None,
        feature_types: Any = None,
        nthread: int | None = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        enable_categorical: bool = False,
        data_split_mode: Any = None,
        **more: Any,
    ) -> None:
        touch()
        if group is not None and qid is not None:
            raise ValueError("Either one of `group` or `qid` should be None.")
        self.table, self.missing = _table(data, missing, enable_categorical), missing
        self._names, self._types = None, None
        self.info: dict[str, Any] = {}
        self.group: Any = None
        self.feature_weights = feature_weights
        if isinstance(self.table, DMatrix):
            vars(self).update(vars(self.table))
            return
        if isinstance(data, str | Path):
            self.table, label = self.table
        if isinstance(self.table, pd.DataFrame):
            self._names = [str(name) for name in self.table.columns]
            self._types = [_type_of(kind) for kind in self.table.dtypes]
        if feature_names is not None:
            self.feature_names = feature_names
        if feature_types is not None:
            self.feature_types = feature_types
        self.set_info(
            label=label, weight=weight, base_margin=base_margin, group=group, qid=qid,
            label_lower_bound=label_lower_bound, label_upper_bound=label_upper_bound,
        )  # fmt: skip

    # -- what is known ---------------------------------------------------------------

    def set_info(
        self, *, label: Any = None, weight: Any = None, base_margin: Any = None,
        group: Any = None, qid: Any = None, label_lower_bound: Any = None,
        label_upper_bound: Any = None, feature_names: Any = None, feature_types: Any = None,
        feature_weights: Any = None,
    ) -> None:  # fmt: skip
        given = {
            "label": label, "weight": weight, "base_margin": base_margin,
            "label_lower_bound": label_lower_bound, "label_upper_bound": label_upper_bound,
        }  # fmt: skip
        for name, values in given.items():
            if values is not None:
                self.info[name] = _values(values)
        if feature_weights is not None:
            self.feature_weights = feature_weights
        if group is not None:
            self.group = np.asarray(group, dtype=np.int64)
        if qid is not None:
            query = np.asarray(qid)
            if (np.diff(query) < 0).any():
                raise DataError("`qid` must be sorted in non-decreasing order along with data.")
            self.group = np.unique(query, return_counts=True)[1]
        if feature_names is not None:
            self.feature_names = feature_names
        if feature_types is not None:
            self.feature_types = feature_types

    def set_label(self, label: Any) -> None:
        self.set_info(label=label)

    def set_weight(self, weight: Any) -> None:
        self.set_info(weight=weight)

    def set_base_margin(self, margin: Any) -> None:
        self.set_info(base_margin=margin)

    def set_group(self, group: Any) -> None:
        self.set_info(group=group)

    def set_float_info(self, field: str, data: Any) -> None:
        self.info[field] = _values(data)

    set_float_info_npy2d = set_float_info

    def set_uint_info(self, field: str, data: Any) -> None:
        if field == "group":
            self.set_info(group=data)

    def get_float_info(self, field: str) -> Any:
        found = self.info.get(field)
        return np.array([], dtype=np.float32) if found is None else np.asarray(found)

    def get_uint_info(self, field: str) -> Any:
        if field == "group_ptr" and self.group is not None:
            return np.concatenate([[0], np.cumsum(self.group)]).astype(np.uint32)
        return np.array([], dtype=np.uint32)

    def get_label(self) -> Any:
        return self.get_float_info("label")

    def get_weight(self) -> Any:
        return self.get_float_info("weight")

    def get_base_margin(self) -> Any:
        return self.get_float_info("base_margin")

    def get_group(self) -> Any:
        return self.get_uint_info("group_ptr")

    def get_data(self) -> Any:
        dense = np.array(self._numbers(), dtype=np.float32)
        kept = ~np.isnan(dense)
        rows, columns = np.nonzero(kept)
        return sparse.csr_matrix((dense[kept], (rows, columns)), shape=dense.shape)

    def save_binary(self, fname: Any, silent: bool = True) -> None:
        Path(fname).write_bytes(pickle.dumps(self))

    def num_row(self) -> int:
        return int(self.table.shape[0])

    def num_col(self) -> int:
        return int(self.table.shape[1])

    def num_nonmissing(self) -> int:
        return int((~pd.isna(np.asarray(self.table, dtype=object))).sum())

    def _numbers(self) -> Any:
        if isinstance(self.table, pd.DataFrame):
            return self.table.apply(lambda c: c.cat.codes if _is_category(c.dtype) else c)
        return self.table

    @property
    def feature_names(self) -> Any:
        return self._names

    @feature_names.setter
    def feature_names(self, names: Any) -> None:
        if names is None:
            self._names = None
            return
        names = [names] if isinstance(names, str) else [str(name) for name in names]
        if len(set(names)) != len(names):
            raise ValueError("feature_names must be unique.")
        if len(names) != self.num_col() and self.num_col() != 0:
            raise ValueError(
                "feature names must have the same length as the number of data columns"
            )
        if any(mark in name for name in names for mark in ("[", "]", "<")):
            raise ValueError("feature_names must be string, and may not contain [, ] or <")
        self._names = names

    @property
    def feature_types(self) -> Any:
        return self._types

    @feature_types.setter
    def feature_types(self, types: Any) -> None:
        if types is None:
            self._types = None
            return
        types = [types] * self.num_col() if isinstance(types, str) else list(types)
        if len(types) != self.num_col():
            raise ValueError("feature types must have the same length as the number of columns")
        self._types = types

    def slice(self, rindex: Any, allow_groups: bool = False) -> DMatrix:
        if self.group is not None and not allow_groups:
            raise ValueError("slice does not support group structure")
        rows = np.asarray(rindex)
        table = self.table
        part = table.iloc[rows] if isinstance(table, pd.DataFrame) else table[rows]
        found = DMatrix(part, enable_categorical=True)
        found.info = {name: values[rows] for name, values in self.info.items() if len(values)}
        found._names, found._types = self._names, self._types
        if self.group is not None:
            query = np.repeat(np.arange(len(self.group)), self.group)[rows]
            found.group = np.unique(query, return_counts=True)[1]
        return found

    # -- ours ------------------------------------------------------------------------

    def rows(self, survival: bool = False, positive: float = 1.0) -> hedgerow.Dataset:
        """Return the rows as Hedgerow's Dataset; those with label 1 count ``positive`` times."""
        touch()
        label: Any = self.info.get("label")
        if survival and "label_lower_bound" in self.info:
            upper = self.info.get("label_upper_bound", self.info["label_lower_bound"])
            lower = np.maximum(self.info["label_lower_bound"], 0.0)  # no end below
            label = {"lower": lower, "upper": upper}
        if label is None:
            raise DataError("labels are missing: give a label")
        margin = self.info.get("base_margin")
        weight = self.info.get("weight")
        if positive != 1.0:
            own = np.where(np.asarray(label) == 1.0, positive, 1.0)
            weight = own if weight is None else own * weight
        if weight is not None and self.group is not None and len(weight) == len(self.group):
            weight = np.repeat(weight, self.group)
        return hedgerow.Dataset(
            self.features(), label, weight, self._margin(margin), qid=self.queries(),
            feature_names=None if isinstance(self.table, pd.DataFrame) else self._names,
            categorical_features=self._categories(),
        )  # fmt: skip

    def _margin(self, margin: Any) -> Any:
        if margin is None:
            return None
        if margin.ndim == 1 and len(margin) > self.num_row():
            margin = margin.reshape(self.num_row(), -1)
        return margin.astype(np.float64)

    def features(self) -> Any:
        """Return the table, with the names that it goes by."""
        if isinstance(self.table, pd.DataFrame) and self._names is not None:
            return self.table.set_axis(self._names, axis=1)
        return self.table

    def queries(self) -> Any:
        """Return a number for the query of each row."""
        if self.group is None:
            return None
        if int(self.group.sum()) != self.num_row():
            raise DataError("Invalid group structure: number of rows obtained from groups differs")
        return np.repeat(np.arange(len(self.group)), self.group)

    def _categories(self) -> Any:
        if self._types is None or isinstance(self.table, pd.DataFrame):
            return "auto"
        return [number for number, kind in enumerate(self._types) if kind == "c"] or None


class QuantileDMatrix(DMatrix):
    """Rows that are binned at once; here they are binned by the training."""

    def __init__(self, data: Any, label: Any = None, *, ref: Any = None, max_bin: Any = None,
                 max_quantile_batches: Any = None, **more: Any) -> None:  # fmt: skip
        super().__init__(data, label, **more)
        self.ref, self.max_bin = ref, max_bin


def _type_of(kind: Any) -> str:
    if _is_category(kind):
        return "c"
    text = str(kind).lower()
    return "int" if "int" in text else "i" if "bool" in text else "float"


def _is_category(kind: Any) -> bool:
    return isinstance(kind, pd.CategoricalDtype)


def _table(data: Any, missing: Any, categorical: bool) -> Any:
    """Return a dense table, or a frame; absent values of a sparse one are missing."""
    if isinstance(data, str | Path):
        return _from_file(str(data))
    if sparse.issparse(data):
        coo = data.tocoo()
        dense = np.full(data.shape, np.nan, dtype=np.float64)
        dense[coo.row, coo.col] = coo.data
        return _without(dense, missing)
    if isinstance(data, pd.Series):
        data = data.to_frame()
    if isinstance(data, pd.DataFrame):
        kinds = data.dtypes
        if not categorical and any(_is_category(kind) for kind in kinds):
            raise ValueError(
                "DataFrame.dtypes for data must be int, float, bool or category. When categorical "
                "type is supplied, the experimental DMatrix parameter `enable_categorical` must "
                "be set to `True`."
            )
        if isinstance(data.columns, pd.MultiIndex):
            data = data.set_axis([" ".join(map(str, name)) for name in data.columns], axis=1)
        if missing is not None and not np.isnan(missing):
            data = data.mask(data == missing)
        return data
    if isinstance(data, list | tuple):
        data = np.array(data, dtype=np.float64)
    if isinstance(data, np.ndarray):
        table = data.reshape(-1, 1) if data.ndim == 1 else data
        if table.ndim != 2:
            raise ValueError(f"Expecting 2 dimensional numpy.ndarray, got: {data.shape}")
        return _without(table, missing)
    if hasattr(data, "to_pandas"):
        return data.to_pandas()
    if hasattr(data, "__array__"):
        return _table(np.asarray(data), missing, categorical)
    raise TypeError(f"Not supported type for data.{type(data)}")


def _without(table: Any, missing: Any) -> Any:
    if missing is None or np.isnan(missing):
        return table
    table = np.array(table, dtype=np.float64)
    table[table == missing] = np.nan
    return table


def _from_file(name: str) -> Any:
    from sklearn.datasets import load_svmlight_file

    path = Path(name.partition("?")[0])
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    if path.read_bytes()[:1] == b"\x80":
        return pickle.loads(path.read_bytes())
    X, y = load_svmlight_file(str(path), zero_based=True)
    return _table(X, None, False), y


__all__ = ["DMatrix", "QuantileDMatrix"]
