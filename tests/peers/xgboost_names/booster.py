"""``Booster`` of XGBoost's kind, on :class:`hedgerow.Training`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import hedgerow
from hedgerow.errors import DataError, LossError, ParameterError
from hedgerow.stepwise import CHANGEABLE
from tests.peers.lightgbm_names.losses import CustomLoss, SquaresFrom
from tests.peers.touched import touch

from .data import DMatrix
from .dumps import dumped, frame_of
from .scores import our_metric
from .settings import by_name, metrics_of, ours

_CLASSES = ("logistic", "softmax", "one_vs_all", "cross_entropy")


class Booster:
    """A model, and its training; methods are those of ``xgboost.Booster``."""

    def __init__(self, params: Any = None, cache: Any = None, model_file: Any = None) -> None:
        self.params: dict[str, Any] = {}
        self._metric_names: list[str] = []
        self._attributes: dict[str, str] = {}
        self._training: Any = None
        self._model: hedgerow.Booster | None = None
        self._start: hedgerow.Booster | None = None
        self._trained: Any = None
        self._custom: CustomLoss | None = None
        self._names: Any = None
        self._types: Any = None
        for data in cache or ():
            if not isinstance(data, DMatrix):
                raise TypeError(f"invalid cache item: {type(data).__name__}", cache)
        if cache:
            self._names, self._types = cache[0].feature_names, cache[0].feature_types
        if isinstance(model_file, Booster):
            self._adopt(model_file)
        elif model_file is not None:
            self.load_model(model_file)
        self.set_param(params or {})

    def _adopt(self, other: Booster) -> None:
        self._start = self._model = other.ours if other._has_rounds() else None
        self._attributes = dict(other._attributes)
        self._names, self._types = other._names, other._types
        self.params = dict(other.params)
        self._metric_names = list(other._metric_names)

    def _has_rounds(self) -> bool:
        if self._model is not None:
            return True
        return self._training is not None and self._training.num_rounds > 0

    @property
    def ours(self) -> hedgerow.Booster:
        """The model of Hedgerow."""
        if self._model is None:
            if self._training is None:
                raise DataError("the model has no trees: train it first")
            self._model = self._training.booster()
        return self._model

    # -- parameters ------------------------------------------------------------------

    def set_param(self, params: Any, value: Any = None) -> None:
        if isinstance(params, str):
            params = [(params, value)]
        pairs = list(params.items()) if isinstance(params, dict) else list(params)
        named = []
        for name, each in pairs:
            if name == "eval_metric":
                named += list(each) if isinstance(each, list | tuple) else [each]
                named = [name for name in named if name is not None]
            elif each is not None:
                self.params[name] = each
        if named and any(callable(name) for name in named):
            named = [name for name in named if not callable(name)]
        self._metric_names += [str(name) for name in named if str(name) not in self._metric_names]
        if self._training is not None:
            said, base = ours(by_name(dict(pairs))), ours({})
            changed = {
                name: said[name]
                for name in said
                if name in CHANGEABLE and said[name] != base.get(name, object())
            }
            if "learning_rate" in by_name(dict(pairs)):
                changed["learning_rate"] = float(by_name(dict(pairs))["learning_rate"])
            if changed:
                self._training.set_params(**changed)

    def save_config(self) -> str:
        plain = {name: str(value) for name, value in self.params.items() if not callable(value)}
        objective = str(self.params.get("objective", "reg:squarederror"))
        base = np.zeros(1)
        if self._has_rounds():
            forest = self.ours.model.forest
            base = np.ravel(self.ours.link(forest.base_score[:, None]))
            base = base[1:] if self.ours.objective == "logistic" else base
        return json.dumps({
            "learner": {
                "learner_model_param": {
                    "base_score": json.dumps([float(value) for value in base]),
                    "num_class": str(plain.get("num_class", 0)),
                    "num_target": str(len(self.ours.target_names or "1"))
                    if self._has_rounds()
                    else "1",
                },
                "generic_param": plain,
                "gradient_booster": {
                    "name": plain.get("booster", "gbtree"),
                    "gbtree_train_param": {"tree_method": plain.get("tree_method", "auto")},
                    "gbtree_model_param": {
                        "num_parallel_tree": str(plain.get("num_parallel_tree", 1))
                    },
                    "tree_train_param": {
                        name: str(value) for name, value in by_name(plain).items()
                    },
                },
                "learner_train_param": {"objective": objective},
                "objective": {"name": objective},
                "metrics": [{"name": name} for name in self._metric_names],
            },
            "version": [3, 2, 0],
        })  # fmt: skip

    def load_config(self, config: str) -> None:
        known = json.loads(config)["learner"]
        self.params = dict(known["generic_param"])
        self._metric_names = [metric["name"] for metric in known["metrics"]]

    # -- rounds ----------------------------------------------------------------------

    def _begin(self, dtrain: DMatrix, fobj: Any) -> None:
        given = by_name(self.params)
        label = dtrain.get_label()
        said = ours(given, bool((label != np.round(label)).any()), dtrain.num_col())
        if fobj is not None:
            classes = int(given.get("num_class", 0) or 0)
            several = (label.ndim == 2 and label.shape[1]) or classes
            self._custom = CustomLoss(fobj, dtrain, max(1, int(several)))
            said["objective"] = self._custom
        elif said.get("objective", "squared_error") == "squared_error" and label.ndim == 1:
            base = given.get("base_score")
            if base is not None or "base_margin" in dtrain.info:
                start = 0.0 if "base_margin" in dtrain.info else float(base)
                said["objective"] = SquaresFrom(start)
        self._trained = dtrain
        if self._names is None:
            self._names, self._types = dtrain.feature_names, dtrain.feature_types
        survival = said.get("objective") == "aft"
        rows = dtrain.rows(survival, float(given.get("scale_pos_weight", 1.0)))
        self._training = hedgerow.Training(said, rows, init_model=self._start)

    def update(self, dtrain: DMatrix, iteration: int, fobj: Any = None) -> None:
        touch()
        if not isinstance(dtrain, DMatrix):
            raise TypeError(f"invalid training matrix: {type(dtrain).__name__}")
        self._check(dtrain)
        if self._training is None:
            self._begin(dtrain, fobj)
        if self._custom is not None and fobj is not None:
            self._custom.function = fobj
        self._model = None
        try:
            self._training.update()
        except LossError as error:  # what the function of the user's has raised
            raise (error.__cause__ or error) from None

    def boost(self, dtrain: DMatrix, iteration: int, grad: Any, hess: Any) -> None:
        self.update(dtrain, iteration, lambda preds, data: (grad, hess))

    def eval_set(
        self, evals: Any, iteration: int = 0, feval: Any = None, output_margin: bool = True
    ) -> str:
        touch()
        parts = [f"[{iteration}]"]
        for data, name in evals:
            if not isinstance(data, DMatrix):
                raise TypeError(f"expected DMatrix, got {type(data).__name__}")
            parts += [f"{name}-{metric}:{score!r}" for metric, score in self._scores(data)]
        if feval is not None:
            for data, name in evals:
                found = feval(self.predict(data, output_margin=output_margin), data)
                for metric, score in found if isinstance(found, list) else [found]:
                    parts.append(f"{name}-{metric}:{float(score)!r}")
        return "\t".join(parts)

    def eval(self, data: DMatrix, name: str = "eval", iteration: int = 0) -> str:
        return self.eval_set([(data, name)], iteration)

    def _scores(self, data: DMatrix) -> list[tuple[str, float]]:
        given = by_name(self.params)
        names = metrics_of(given, self._metric_names)
        model = self.ours
        if not names:
            return []
        levels = model.objective == "quantile" and model.model.forest.n_outputs > 1
        metrics = [our_metric(name, model.objective, levels) for name in names]
        said = model.eval(data.rows(model.objective == "aft"), metrics)
        shown = ["quantile" if name.startswith("quantile@") else name for name in names]
        return list(zip(shown, said.values(), strict=True))

    def get_categories(self, export_to_arrow: bool = False) -> None:
        """No categories are shown."""

    def get_split_value_histogram(
        self, feature: str, fmap: Any = "", bins: int | None = None, as_pandas: bool = True
    ) -> Any:
        """Return the upper ends of the bins that have splits, and how many."""
        found = np.empty((0, 2))
        ours = self.ours.feature_names
        theirs = self.feature_names or [f"f{k}" for k in range(len(ours))]
        column = dict(zip(theirs, ours, strict=True)).get(feature, "")
        if column and len(self.ours.split_values(column)):
            values = self.ours.split_values(column)
            most = len(np.unique(values))
            n_bins = most if bins is None else max(min(most, bins), 1)
            counts, edges = np.histogram(values[np.isfinite(values)], n_bins)
            found = np.column_stack([edges[1:], counts])[counts > 0]
        if not as_pandas:
            return found
        import pandas as pd

        return pd.DataFrame(found, columns=["SplitValue", "Count"])

    def reset(self) -> Booster:
        """Keep the model alone."""
        if self._training is not None:
            self._start = self.ours
            self._training.close()
            self._training = None
        return self

    # -- predictions -----------------------------------------------------------------

    def predict(
        self,
        data: DMatrix,
        *,
        output_margin: bool = False,
        pred_leaf: bool = False,
        pred_contribs: bool = False,
        approx_contribs: bool = False,
        pred_interactions: bool = False,
        validate_features: bool = True,
        training: bool = False,
        iteration_range: Any = (0, 0),
        strict_shape: bool = False,
    ) -> Any:
        touch()
        if not isinstance(data, DMatrix):
            raise TypeError(f"Expecting data to be a DMatrix object, got: {type(data)}")
        if validate_features:
            self._check(data)
        margin = data._margin(data.info.get("base_margin"))
        return self._predict(
            self._table(data), margin, output_margin, pred_leaf, pred_contribs, pred_interactions,
            iteration_range, strict_shape,
        )  # fmt: skip

    def _table(self, data: DMatrix) -> Any:
        table, known = data.features(), self.ours.model.schema
        if hasattr(table, "columns"):
            return table.set_axis(list(known.names), axis=1) if known.named else table.to_numpy()
        return table

    def _predict(
        self, X: Any, margin: Any, raw: bool, leaf: bool, contribs: bool, interactions: bool,
        iteration_range: Any, strict: bool,
    ) -> Any:  # fmt: skip
        first, count = self._rounds(iteration_range)
        if contribs or interactions:
            return self._explained(X, margin, interactions, first, count, strict)
        model = self.ours
        objective = model.objective
        kind = "leaf" if leaf else "raw" if raw or objective == "custom" else "value"
        if str(self.params.get("objective")) == "binary:logitraw" and not leaf:
            kind = "raw"
        if kind == "value" and objective in _CLASSES and objective != "cross_entropy":
            kind = "probability"
        found = model.predict(X, kind, first_round=first, n_rounds=count,
                              offset=None if leaf else margin)  # fmt: skip
        requested = str(self.params.get("objective"))
        if model.target_names is not None:
            pass  # a column for each label
        elif kind == "probability" and requested == "multi:softmax":
            found = found.argmax(axis=1)
        elif kind == "probability" and objective == "logistic" and requested != "multi:softprob":
            found = found[:, 1]
        found = np.asarray(found, dtype=np.float32)
        if strict and found.ndim == 1:
            found = found[:, None]
        if strict and leaf:
            found = found.reshape(
                len(found), -1, model.model.forest.outputs_in_turn, model.model.forest.n_parallel
            )
        return found

    def _rounds(self, iteration_range: Any) -> tuple[int, int | None]:
        first, end = (0, 0) if iteration_range is None else iteration_range
        total = self.ours.num_rounds
        if end == 0:
            return first, None
        if end > total:
            raise ParameterError(f"Invalid iteration_range: there are {total} rounds.")
        return first, end - first

    def _explained(
        self, X: Any, margin: Any, interactions: bool, first: int, count: int | None, strict: bool
    ) -> Any:
        model = self.ours
        if count is not None and count < model.num_rounds:
            if first != 0:
                raise ParameterError("contributions of later rounds alone are not in the adapter")
            model = _first(model, count)
        found = model.explain(X, interactions=interactions, offset=margin)
        values, base = np.asarray(found.values), np.asarray(found.base_values, dtype=np.float64)
        n_rows, n_features = len(values), model.num_features
        several = values.ndim == (4 if interactions else 3)
        outputs = values.shape[-1] if several else 1
        values = values.reshape(*values.shape[: 3 if interactions else 2], outputs)
        last = np.broadcast_to(base.reshape(-1, outputs), (n_rows, outputs))
        shape = (n_rows, outputs, *([n_features + 1] * (2 if interactions else 1)))
        whole = np.zeros(shape, dtype=np.float32)
        if interactions:
            whole[:, :, :-1, :-1] = values.transpose(0, 3, 1, 2)
            whole[:, :, -1, -1] = last
        else:
            whole[:, :, :-1] = values.transpose(0, 2, 1)
            whole[:, :, -1] = last
        return whole if several or strict else whole[:, 0]

    def inplace_predict(
        self, data: Any, *, iteration_range: Any = (0, 0), predict_type: str = "value",
        missing: float = np.nan, validate_features: bool = True, base_margin: Any = None,
        strict_shape: bool = False,
    ) -> Any:  # fmt: skip
        rows = DMatrix(data, missing=missing, enable_categorical=True)
        if self._names is not None and rows.feature_names is None:
            rows._names = None
        if validate_features and rows.feature_names is not None:
            self._check(rows)
        if rows.num_col() != self.num_features():
            raise ValueError(
                f"Feature shape mismatch, expected: {self.num_features()}, got {rows.num_col()}"
            )
        margin = None if base_margin is None else np.asarray(base_margin, dtype=np.float64)
        return self._predict(
            self._table(rows), margin, predict_type == "margin", False, False, False,
            iteration_range, strict_shape,
        )  # fmt: skip

    def _check(self, data: DMatrix) -> None:
        if self._names is None or data.feature_names == self._names:
            return
        if data.feature_names is None:
            raise ValueError(
                "training data did have the following fields: " + ", ".join(self._names)
            )
        raise ValueError(f"feature_names mismatch: {self._names} {data.feature_names}")

    # -- what is known ---------------------------------------------------------------

    def num_boosted_rounds(self) -> int:
        if not self._has_rounds():
            return 0
        done = self._training.num_rounds if self._training is not None else self.ours.num_rounds
        return done

    def num_features(self) -> int:
        return self.ours.num_features

    @property
    def feature_names(self) -> Any:
        return self._names

    @feature_names.setter
    def feature_names(self, names: Any) -> None:
        self._names = names

    @property
    def feature_types(self) -> Any:
        return self._types

    @feature_types.setter
    def feature_types(self, types: Any) -> None:
        self._types = types

    @property
    def best_iteration(self) -> int:
        best = self.attr("best_iteration")
        if best is None:
            raise AttributeError("`best_iteration` is only defined when early stopping is used.")
        return int(best)

    @best_iteration.setter
    def best_iteration(self, best: int) -> None:
        self.set_attr(best_iteration=best)

    @property
    def best_score(self) -> float:
        best = self.attr("best_score")
        if best is None:
            raise AttributeError("`best_score` is only defined when early stopping is used.")
        return float(best)

    @best_score.setter
    def best_score(self, best: float) -> None:
        self.set_attr(best_score=best)

    def attr(self, key: str) -> str | None:
        return self._attributes.get(key)

    def attributes(self) -> dict[str, str]:
        return dict(self._attributes)

    def set_attr(self, **kwargs: Any) -> None:
        for key, value in kwargs.items():
            if value is None:
                self._attributes.pop(key, None)
            else:
                self._attributes[key] = str(value)

    def _shown_names(self) -> list[str]:
        names = self._names or [f"f{j}" for j in range(self.num_features())]
        if len(names) != self.num_features():
            raise ValueError(f"{len(names)} feature names for {self.num_features()} features")
        return list(names)

    def get_score(self, fmap: Any = "", importance_type: str = "weight") -> dict[str, float]:
        touch()
        names, model = self._shown_names(), self.ours
        splits = model.feature_importance("split")
        kinds = {"weight": "split", "gain": "gain", "cover": "cover"}
        base = importance_type.removeprefix("total_")
        if base not in kinds:
            raise ValueError(f"unknown importance_type {importance_type!r}")
        found = model.feature_importance(kinds[base]).astype(np.float64)
        if importance_type in ("gain", "cover"):
            found = found / np.maximum(splits, 1)
        return {name: float(found[j]) for j, name in enumerate(names) if splits[j] > 0}

    def get_fscore(self, fmap: Any = "") -> dict[str, float]:
        return self.get_score(fmap)

    def get_dump(self, fmap: Any = "", with_stats: bool = False, dump_format: str = "text") -> Any:
        touch()
        return dumped(self.ours, self._mapped(fmap), with_stats, dump_format)

    def _mapped(self, fmap: Any) -> list[str]:
        if not fmap:
            return self._shown_names()
        if not Path(fmap).is_file():
            raise DataError(f"{fmap}: no such file")
        lines = Path(fmap).read_text(encoding="utf-8").splitlines()
        return [line.split()[1] for line in lines if line.strip()]

    def dump_model(
        self, fout: Any, fmap: Any = "", with_stats: bool = False, dump_format: str = "text"
    ) -> None:
        trees = self.get_dump(fmap, with_stats, dump_format)
        if dump_format == "json":
            text = "[\n" + ",\n".join(trees) + "\n]"
        else:
            text = "".join(f"booster[{number}]:\n{tree}" for number, tree in enumerate(trees))
        Path(fout).write_text(text, encoding="utf-8")

    def trees_to_dataframe(self, fmap: Any = "") -> Any:
        return frame_of(self.ours, self._mapped(fmap))

    # -- files -----------------------------------------------------------------------

    def save_raw(self, raw_format: str = "ubj") -> bytearray:
        touch()
        known = {
            "attributes": self._attributes,
            "params": {k: v for k, v in self.params.items() if isinstance(v, str | int | float)},
            "metrics": self._metric_names,
            "names": self._names,
            "types": self._types,
        }
        model = hedgerow.Booster.from_bytes(self.ours.to_bytes())
        model.set_attributes(xgboost=json.dumps(known))
        return bytearray(model.to_bytes())

    def save_model(self, fname: Any) -> None:
        Path(fname).write_bytes(self.save_raw())

    def load_model(self, fname: Any) -> None:
        touch()
        given = isinstance(fname, bytes | bytearray | memoryview)
        if not given and not Path(fname).is_file():
            raise DataError(f"{fname}: no such file")
        content = bytes(fname) if given else Path(fname).read_bytes()
        if content[:1] in (b"{", b"L") and not content.startswith(b"{L\x00"):
            self._model = hedgerow.from_xgboost(content)
            self._start = self._model
            return
        self._model = hedgerow.Booster.from_bytes(content)
        self._start, self._training = self._model, None
        known = json.loads(self._model.attributes.get("xgboost", "{}"))
        self._attributes = dict(known.get("attributes", {}))
        self.params = known.get("params", {}) | self.params
        self._metric_names = known.get("metrics", [])
        self._names, self._types = known.get("names"), known.get("types")

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        state["_model"] = self.ours if self._has_rounds() else None
        state["_start"], state["_training"], state["_trained"] = state["_model"], None, None
        state["_custom"] = None
        return state

    def __copy__(self) -> Booster:
        return self.__deepcopy__(None)

    def __deepcopy__(self, memo: Any) -> Booster:
        return Booster(model_file=self)

    def copy(self) -> Booster:
        return self.__copy__()

    def __getitem__(self, place: Any) -> Booster:
        if isinstance(place, int):
            place = slice(place, place + 1)
        if isinstance(place, tuple):
            raise TypeError("index must be a round or a slice of them")
        total = self.num_boosted_rounds()
        first = place.start or 0
        end = total if place.stop is None else place.stop
        if end > total or first >= end or (place.step or 1) < 1:
            raise IndexError("Layer index out of range")
        found = Booster(model_file=self)
        if first == 0 and place.step in (None, 1):
            found._model = found._start = _first(self.ours, end)
            return found
        raise ParameterError("later rounds alone are no model here: predict from a first round")

    def __iter__(self) -> Any:
        for number in range(self.num_boosted_rounds()):
            yield self[number]


def _first(model: hedgerow.Booster, count: int) -> hedgerow.Booster:
    return hedgerow.Booster(
        replace(model.model, forest=model.model.forest.first_rounds(count)), model.classes
    )


__all__ = ["Booster"]
