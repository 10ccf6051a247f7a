"""``Dataset`` and ``Booster`` of LightGBM's kind."""

from __future__ import annotations

import json
import pickle
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import hedgerow
from hedgerow import ExportError, HedgerowError
from hedgerow.errors import DataError
from tests.peers.touched import touch

from .settings import ALIASES, by_name

LightGBMError = HedgerowError
_MARK = "hedgerow model\n"


class _ConfigAliases:
    """Names of parameters."""

    @staticmethod
    def get(*names: str) -> set[str]:
        return {alias for name in names for alias in ALIASES.get(name, [name])}


class _TempFile:
    """The name of a file that does not stay."""

    def __enter__(self) -> _TempFile:
        import tempfile

        with tempfile.NamedTemporaryFile(prefix="names_", delete=False) as file:
            self.name = file.name
            self.path = Path(self.name)
        return self

    def __exit__(self, *raised: Any) -> None:
        self.path.unlink(missing_ok=True)


def flat(values: Any) -> Any:
    """Return a target, weight or group as one axis."""
    if values is None:
        return None
    if isinstance(values, pd.DataFrame):
        values = values.to_numpy()
    array = np.asarray(values)
    return array.reshape(-1) if array.ndim == 2 and 1 in array.shape else array


class Dataset:
    """Rows with what is known of them; attributes are those of ``lightgbm.Dataset``."""

    def __init__(
        self,
        data: Any,
        label: Any = None,
        reference: Any = None,
        weight: Any = None,
        group: Any = None,
        init_score: Any = None,
        feature_name: Any = "auto",
        categorical_feature: Any = "auto",
        params: Any = None,
        free_raw_data: bool = True,
        position: Any = None,
    ) -> None:
        self.data, self.label, self.reference = data, label, reference
        self.weight, self.group, self.init_score = weight, group, init_score
        self.feature_name, self.categorical_feature = feature_name, categorical_feature
        self.params = dict(params or {})
        self.free_raw_data, self.position = free_raw_data, position
        self.levels: Any = None if reference is None else reference.pandas_categorical
        if isinstance(data, str | Path):
            self._read_file(Path(data))

    @property
    def pandas_categorical(self) -> Any:
        """Levels of the categorical columns of a frame."""
        if not isinstance(self.data, pd.DataFrame):
            return None
        columns = [self.data[name] for name in self.data.columns]
        return [c.cat.categories.tolist() for c in columns if _is_category(c.dtype)]

    def save_binary(self, filename: Any) -> Dataset:
        Path(filename).write_bytes(pickle.dumps(vars(self)))
        return self

    def _read_file(self, path: Path) -> None:
        from sklearn.datasets import load_svmlight_file

        if path.read_bytes()[:1] == b"\x80":
            vars(self).update(pickle.loads(path.read_bytes()))
            return
        X, y = load_svmlight_file(str(path), zero_based=True)
        self.data, self.label = X, y
        position = path.with_name(path.name + ".position")
        if position.is_file() and self.position is None:
            self.position = position.read_text(encoding="utf-8").split()
        query = path.with_name(path.name + ".query")
        if query.is_file():
            self.group = np.loadtxt(query)

    # -- what is known ---------------------------------------------------------------

    def construct(self) -> Dataset:
        if self.reference is not None:
            self.params = {**self.reference.params}
        return self

    def get_label(self) -> Any:
        label = flat(self.label)
        return None if label is None else label.astype(np.float32)

    def get_weight(self) -> Any:
        return flat(self.weight)

    def get_group(self) -> Any:
        return flat(self.group)

    def get_init_score(self) -> Any:
        return self.init_score

    def get_position(self) -> Any:
        return flat(self.position)

    def get_data(self) -> Any:
        return self.data

    def get_params(self) -> dict[str, Any]:
        return self.params

    def get_field(self, name: str) -> Any:
        return getattr(self, f"get_{name}")()

    def set_label(self, label: Any) -> Dataset:
        self.label = label
        return self

    def set_weight(self, weight: Any) -> Dataset:
        self.weight = weight
        return self

    def set_group(self, group: Any) -> Dataset:
        self.group = group
        return self

    def set_init_score(self, init_score: Any) -> Dataset:
        self.init_score = init_score
        return self

    def set_position(self, position: Any) -> Dataset:
        self.position = position
        return self

    def set_feature_name(self, names: Any) -> Dataset:
        self.feature_name = names
        return self

    def set_categorical_feature(self, columns: Any) -> Dataset:
        self.categorical_feature = columns
        return self

    def num_data(self) -> int:
        return int(self.data.shape[0] if hasattr(self.data, "shape") else len(self.data))

    def num_feature(self) -> int:
        return int(self.data.shape[1] if hasattr(self.data, "shape") else len(self.data[0]))

    def create_valid(
        self, data: Any, label: Any = None, weight: Any = None, group: Any = None, **more: Any
    ) -> Dataset:
        return Dataset(data, label, self, weight, group, **more)

    def subset(self, used_indices: Any, params: Any = None) -> Dataset:
        rows = np.sort(np.asarray(used_indices))

        def part(values: Any) -> Any:
            return None if values is None else flat(values)[rows]

        data = self.data
        data = data.iloc[rows] if isinstance(data, pd.DataFrame) else _rows(data)[rows]
        group = self.group
        if group is not None:
            query = np.repeat(np.arange(len(flat(group))), flat(group).astype(int))[rows]
            group = np.unique(query, return_counts=True)[1]
        start = None if self.init_score is None else np.asarray(self.init_score)[rows]
        return Dataset(
            data, part(self.label), self, part(self.weight), group, start, self.feature_name,
            self.categorical_feature, params or self.params, position=part(self.position),
        )  # fmt: skip

    # -- ours ------------------------------------------------------------------------

    def rows(
        self, like: Dataset | None = None, columns: Any = None, binary: bool = False
    ) -> hedgerow.Dataset:
        """Return the rows as Hedgerow's Dataset; of two classes there the second has labels above 0."""
        touch()
        label = flat(self.label)
        if label is None:
            raise DataError("Label should not be None")
        if binary and label.dtype.kind in "biuf":
            label = (label > 0).astype(np.float64)
        names = None if isinstance(self.feature_name, str) else list(self.feature_name)
        if names is not None:
            names = [str(name).replace(" ", "_") for name in names]
        data = self.data
        if isinstance(data, list) and data and isinstance(data[0], np.ndarray):
            data = np.concatenate([np.atleast_2d(part) for part in data])
        chosen = self.categories(columns)
        if isinstance(data, pd.DataFrame):
            data = coded(data, None if isinstance(chosen, str) else chosen, self.levels)
        if names is not None and isinstance(data, pd.DataFrame):
            data, names = data.set_axis(names, axis=1), None
        if like is not None and names is None and not isinstance(data, pd.DataFrame):
            kept = like.feature_name
            names = None if isinstance(kept, str) else [str(n).replace(" ", "_") for n in kept]
        start = self.init_score
        if start is not None:
            start = np.asarray(start, dtype=np.float64)
            n_rows = len(label)
            if start.ndim == 1 and len(start) > n_rows:
                start = start.reshape(-1, n_rows).T
        return hedgerow.Dataset(
            data, label, flat(self.weight), start, qid=self.queries(),
            position=flat(self.position), feature_names=names,
            categorical_features=chosen,
        )  # fmt: skip

    def queries(self) -> Any:
        """Return a number for the query of each row."""
        group = flat(self.group)
        if group is None:
            return None
        return np.repeat(np.arange(len(group)), group.astype(int))

    def categories(self, columns: Any = None) -> Any:
        """Return columns of categories; of a frame also those of a type without order."""
        given = self.categorical_feature if columns is None else columns
        if isinstance(given, str):
            return _categories_of(self.data) if given == "auto" else given
        return list(given) if given is not None else "auto"


def has_missing(data: Any) -> bool:
    """Return whether a value is missing."""
    if sparse.issparse(data):
        return bool(np.isnan(data.data).any())
    return bool(pd.isna(np.asarray(data, dtype=object)).any())


def _categories_of(data: Any) -> Any:
    if not isinstance(data, pd.DataFrame):
        return "auto"
    return [
        name
        for name, kind in data.dtypes.items()
        if isinstance(kind, pd.CategoricalDtype) and not kind.ordered
    ]


def _is_category(kind: Any) -> bool:
    return isinstance(kind, pd.CategoricalDtype)


def coded(data: pd.DataFrame, chosen: Any, levels: Any) -> pd.DataFrame:
    """Return a frame whose categories that are not among the ``chosen`` columns are numbers.

    Of rows to predict the ``levels`` are those of the training.
    """
    names = [name for name, kind in data.dtypes.items() if _is_category(kind)]
    places = list(data.columns)
    kept = {places[each] if isinstance(each, int) else each for each in chosen or ()}
    found = data.copy()
    for number, name in enumerate(names):
        column = data[name]
        if levels:
            column = column.cat.set_categories(levels[number])
        codes = column.cat.codes.astype(np.float64)
        found[name] = column if name in kept else codes.where(codes >= 0)
    return found


def _rows(data: Any) -> Any:
    return data.tocsr() if sparse.issparse(data) else np.asarray(data)


class Booster:
    """A model; methods are those of ``lightgbm.Booster``."""

    def __init__(
        self,
        params: Any = None,
        train_set: Any = None,
        model_file: Any = None,
        model_str: str | None = None,
    ) -> None:
        self.params: dict[str, Any] = dict(params or {})
        self.best_iteration = 0
        self.best_score: dict[str, Any] = {}
        self.train_data_name = "training"
        self.train_set = None
        self.pandas_categorical = None
        self._training: Any = None
        self._given: Any = None
        if model_file is not None:
            self.model_from_string(Path(model_file).read_text(encoding="utf-8"))
        elif model_str is not None:
            self.model_from_string(model_str)
        elif train_set is not None:
            self._begin(train_set)
        else:
            raise TypeError(
                "Need at least one training dataset or model file or model string to create "
                "Booster instance"
            )
        if params and (model_file is not None or model_str is not None):
            warnings.warn("Ignoring params argument", UserWarning, stacklevel=2)

    @classmethod
    def of(cls, model: hedgerow.Booster, params: Any = None) -> Booster:
        """Return a model that is there."""
        found = cls.__new__(cls)
        found.params, found.best_iteration, found.best_score = dict(params or {}), 0, {}
        found.train_data_name, found.train_set, found._training = "training", None, None
        found.pandas_categorical, found._given = None, model
        return found

    def _begin(self, train_set: Dataset) -> None:
        from .engine import Rounds

        if not isinstance(train_set, Dataset):
            name = type(train_set).__name__
            raise TypeError(f"Training data should be Dataset instance, met {name}")
        self.train_set = train_set
        self.params = {**train_set.params, **self.params}
        self._training = Rounds(self.params, train_set, {}, None)

    @property
    def ours(self) -> hedgerow.Booster:
        """The model of Hedgerow."""
        return self._given if self._training is None else self._training.booster()

    # -- rounds ----------------------------------------------------------------------

    def add_valid(self, data: Dataset, name: str) -> Booster:
        self._training.add(name, data)
        return self

    def update(self, train_set: Any = None, fobj: Any = None) -> bool:
        self._training.update(fobj)
        return False

    def reset_parameter(self, params: dict[str, Any]) -> Booster:
        self._training.reset(params)
        self.params.update(params)
        return self

    def eval_train(self, feval: Any = None) -> list[Any]:
        return self._training.scores_of("training", feval)

    def eval_valid(self, feval: Any = None) -> list[Any]:
        return self._training.scores_of(None, feval)

    def eval(self, data: Dataset, name: str, feval: Any = None) -> list[Any]:
        return self._training.score(data, name, feval)

    def free_dataset(self) -> Booster:
        self.train_set = None
        return self

    def freeze(self) -> None:
        """Keep the model alone."""
        model, training = without_stumps(self.ours), self._training
        if 0 < self.best_iteration < model.num_rounds:  # as it is written and read there
            model = self._first(model, self.best_iteration)
        self._given = model
        self._training = None
        training.close()

    # -- use -------------------------------------------------------------------------

    def predict(
        self,
        data: Any,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        raw_score: bool = False,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        data_has_header: bool = False,
        validate_features: bool = False,
        **kwargs: Any,
    ) -> Any:
        touch()
        if isinstance(data, Dataset):
            raise TypeError("Cannot use Dataset instance for prediction, please use raw data")
        model = self.ours
        if isinstance(data, pd.DataFrame):
            data = self._columns(model, data, validate_features)
            if self.pandas_categorical:
                kinds = model.model.schema.kinds
                chosen = [j for j, kind in enumerate(kinds) if kind == "category"]
                data = coded(data, chosen, self.pandas_categorical)
        count = self._count(model, start_iteration, num_iteration)
        if start_iteration >= model.num_rounds:
            start_iteration, count = model.num_rounds, 0
        if pred_contrib:
            found = self._contributions(model, data, start_iteration, count)
            return _sparse_like(data, found, model) if sparse.issparse(data) else found
        kind = "leaf" if pred_leaf else "raw" if raw_score or self._is_custom(model) else "value"
        if kind == "value" and model.objective in ("logistic", "softmax", "one_vs_all"):
            kind = "probability"
        start_iteration = max(0, start_iteration)
        found = model.predict(data, kind, first_round=start_iteration, n_rounds=count)
        if start_iteration > 0 and kind != "leaf":  # there the first tree holds the base score
            raw = model.raw_scores(data, first_round=start_iteration, n_rounds=count)
            raw = raw - model.model.forest.base_score[:, None]
            found = model.link(raw) if kind != "raw" else raw[0] if len(raw) == 1 else raw.T
        if kind == "probability" and model.objective == "logistic":
            return np.ascontiguousarray(found[:, 1])
        return found

    def _is_custom(self, model: hedgerow.Booster) -> bool:
        return model.objective == "custom"

    @staticmethod
    def _columns(model: hedgerow.Booster, data: pd.DataFrame, check: bool) -> pd.DataFrame:
        """Return a frame whose columns are found by place, unless names are to be checked."""
        known = list(model.feature_names)
        if check:
            for place, (ours, theirs) in enumerate(zip(known, data.columns, strict=False)):
                if ours != theirs:
                    raise DataError(f"Expected '{ours}' at position {place} but found '{theirs}'")
        if len(known) != data.shape[1] or list(data.columns) == known:
            return data
        return data.set_axis(known, axis=1)

    def _count(self, model: hedgerow.Booster, start: int, num_iteration: int | None) -> int | None:
        if num_iteration is None:
            num_iteration = self.best_iteration if start <= 0 else -1
        if num_iteration <= 0:
            return None
        return max(0, min(int(num_iteration), model.num_rounds - start))

    @staticmethod
    def _first(model: hedgerow.Booster, count: int) -> hedgerow.Booster:
        if count == model.num_rounds:
            return model
        return hedgerow.Booster(
            replace(model.model, forest=model.model.forest.first_rounds(count)), model.classes
        )

    def _contributions(
        self, model: hedgerow.Booster, data: Any, start: int, count: int | None
    ) -> Any:
        """Of the rounds from ``start`` on."""
        end = model.num_rounds if count is None else start + count
        found = contributions(self._first(model, end), data)
        if start <= 0:
            return found
        return found - contributions(self._first(model, start), data)

    def refit(
        self, data: Any, label: Any, decay_rate: float = 0.9, weight: Any = None, **more: Any
    ) -> Booster:
        touch()
        if isinstance(data, pd.DataFrame):
            data = self._columns(self.ours, data, bool(more.get("validate_features")))
        group = more.get("group")
        query = None if group is None else np.repeat(np.arange(len(group)), group)
        model = self.ours.refit(data, flat(label), flat(weight), decay_rate, qid=query)
        found = Booster.of(model, self.params)
        found.train_set = Dataset(data, label, weight=weight, params=more.get("dataset_params"))
        return found

    # -- what is known ---------------------------------------------------------------

    def num_trees(self) -> int:
        return self.ours.num_trees

    def current_iteration(self) -> int:
        return self._training.n_done if self._training is not None else self.ours.num_rounds

    def num_model_per_iteration(self) -> int:
        return self.ours.model.forest.trees_per_round

    def num_feature(self) -> int:
        return self.ours.num_features

    def feature_name(self) -> list[str]:
        model = self.ours
        if not model.model.schema.named:
            return [f"Column_{j}" for j in range(model.num_features)]
        return list(model.feature_names)

    def feature_importance(
        self, importance_type: str = "split", iteration: int | None = None
    ) -> Any:
        touch()
        found = self.ours.feature_importance(importance_type)
        return found.astype(np.int32) if importance_type == "split" else found

    def get_leaf_output(self, tree_id: int, leaf_id: int) -> float:
        forest = self.ours.model.forest.tree(tree_id)
        return float(forest.value[forest.feature < 0][leaf_id])

    # -- files -----------------------------------------------------------------------

    def model_to_string(
        self, num_iteration: int | None = None, start_iteration: int = 0, **more: Any
    ) -> str:
        """Return the text of LightGBM's own format, where it can hold the model."""
        touch()
        model = self.ours
        count = self._count(model, start_iteration, num_iteration)
        if count is not None and count < model.num_rounds:
            model = self._first(model, count)
        known = {"best": self.best_iteration, "params": _plain(self.params)}
        try:
            text = str(model.export(None, "lightgbm"))
        except (ExportError, HedgerowError, TypeError):
            text = ""
        known["file"], known["levels"] = model.to_bytes().hex(), _plain_levels(self)
        given = by_name(self.params) | {"num_iterations": model.num_rounds}
        listed = "".join(f"[{name}: {value}]\n" for name, value in given.items())
        text = f"{text}\nparameters:\n{listed}end of parameters\n"
        return f"{text}\n{_MARK}{json.dumps(known)}"

    def save_model(
        self,
        filename: Any,
        num_iteration: int | None = None,
        start_iteration: int = 0,
        **more: Any,
    ) -> Booster:
        Path(filename).write_text(
            self.model_to_string(num_iteration, start_iteration), encoding="utf-8"
        )
        return self

    def model_from_string(self, model_str: str) -> Booster:
        touch()
        self._training, self.train_set = None, None
        self.train_data_name = "training"
        if _MARK not in model_str:
            self._given = hedgerow.from_lightgbm(model_str)
            self.best_iteration, self.best_score, self.params = 0, {}, {}
            return self
        known = json.loads(model_str.partition(_MARK)[2])
        self._given = hedgerow.Booster.from_bytes(bytes.fromhex(known["file"]))
        self.best_iteration, self.best_score = known["best"], {}
        self.params, self.pandas_categorical = known["params"], known["levels"]
        return self

    def dump_model(
        self,
        num_iteration: int | None = None,
        start_iteration: int = 0,
        importance_type: str = "split",
        object_hook: Any = None,
    ) -> dict[str, Any]:
        from .dump import dumped

        touch()
        model = self.ours
        count = self._count(model, 0, num_iteration)
        if count is not None and count < model.num_rounds:
            model = self._first(model, count)
        found = dumped(model, self.feature_name())
        return json.loads(json.dumps(found), object_hook=object_hook) if object_hook else found

    def trees_to_dataframe(self) -> pd.DataFrame:
        from .dump import frame_of

        return frame_of(self.dump_model())

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        state["_given"], state["_training"], state["train_set"] = self.ours, None, None
        return state

    def __copy__(self) -> Booster:
        return self.__deepcopy__(None)

    def __deepcopy__(self, memo: Any) -> Booster:
        return Booster(model_str=self.model_to_string(num_iteration=-1))

    def _get_loaded_param(self) -> dict[str, Any]:
        return by_name(self.params)


def without_stumps(model: hedgerow.Booster) -> hedgerow.Booster:
    """Return the model without rounds at its end that no leaf could be split in, but with one."""
    forest = model.model.forest
    sizes = np.diff(forest.tree_start).reshape(model.num_rounds, -1)
    split = np.flatnonzero((sizes > 1).any(axis=1))
    last = int(split[-1]) + 1 if len(split) else 1
    return Booster._first(model, min(last, model.num_rounds))


def contributions(model: hedgerow.Booster, data: Any) -> Any:
    """Return Shapley values as LightGBM has them: for each output, with the base value last."""
    found = model.explain(data)
    values = np.asarray(found.values)
    base = np.asarray(found.base_values, dtype=np.float64)
    if values.ndim == 2:
        column = np.broadcast_to(base, (len(values),))[:, None]
        return np.concatenate([values, column], axis=1)
    n_rows, _, n_outputs = values.shape
    last = np.broadcast_to(base.reshape(-1, n_outputs), (n_rows, n_outputs))
    whole = np.concatenate([values, last[:, None, :]], axis=1)
    return whole.transpose(0, 2, 1).reshape(n_rows, -1)


def _sparse_like(data: Any, found: Any, model: hedgerow.Booster) -> Any:
    """Return Shapley values of sparse rows: a sparse matrix, or a list of them, one for each output."""
    kind = sparse.csr_matrix if data.format == "csr" else sparse.csc_matrix
    width = model.num_features + 1
    parts = [kind(found[:, at : at + width]) for at in range(0, found.shape[1], width)]
    return parts[0] if len(parts) == 1 else parts


def _plain_levels(booster: Booster) -> Any:
    return booster.pandas_categorical or None


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    kept = {}
    for name, value in params.items():
        try:
            json.dumps(value)
        except TypeError:
            continue
        kept[name] = value
    return kept


__all__ = ["Booster", "Dataset"]
