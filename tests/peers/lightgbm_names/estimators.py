"""Estimators of LightGBM's kind, on those of Hedgerow.

A fit without validation rows, callbacks or a loss of the user's is one of Hedgerow's estimator;
others go through the rounds of :mod:`engine`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import compute_sample_weight
from sklearn.utils.validation import check_is_fitted, column_or_1d

import hedgerow
from hedgerow.errors import DataError, ParameterError
from tests.peers.touched import touch

from .basic import Booster, Dataset, coded
from .callback import record_evaluation
from .engine import train
from .settings import ALIASES, by_name, objective_of, ours


class LGBMModel(BaseEstimator):
    """What all estimators share; parameters are those of ``lightgbm.LGBMModel``."""

    _kind: Any = hedgerow.HedgerowRegressor
    _default = "regression"

    def __init__(
        self,
        *,
        boosting_type="gbdt",
        num_leaves=31,
        max_depth=-1,
        learning_rate=0.1,
        n_estimators=100,
        subsample_for_bin=200000,
        objective=None,
        class_weight=None,
        min_split_gain=0.0,
        min_child_weight=1e-3,
        min_child_samples=20,
        subsample=1.0,
        subsample_freq=0,
        colsample_bytree=1.0,
        reg_alpha=0.0,
        reg_lambda=0.0,
        random_state=None,
        n_jobs=None,
        importance_type="split",
        **kwargs,
    ):
        self.boosting_type = boosting_type
        self.num_leaves = num_leaves
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.n_estimators = n_estimators
        self.subsample_for_bin = subsample_for_bin
        self.objective = objective
        self.class_weight = class_weight
        self.min_split_gain = min_split_gain
        self.min_child_weight = min_child_weight
        self.min_child_samples = min_child_samples
        self.subsample = subsample
        self.subsample_freq = subsample_freq
        self.colsample_bytree = colsample_bytree
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.importance_type = importance_type
        self._other_params: dict[str, Any] = {}
        self.set_params(**kwargs)

    # -- parameters ------------------------------------------------------------------

    def get_params(self, deep=True):
        found = {name: getattr(self, name) for name in _names_of(type(self))}
        return found | self._other_params

    def set_params(self, **params):
        for name, value in params.items():
            setattr(self, name, value)
            if name not in _names_of(type(self)):
                self._other_params[name] = value
        return self

    def _more_tags(self):
        return {
            "allow_nan": True,
            "X_types": ["2darray", "sparse", "1dlabels"],
            # Here, as there: other parameters are attributes, too.
            "_xfail_checks": {"check_no_attributes_set_in_init": "parameters by other names"},
        }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.one_d_labels = True
        return tags

    def __sklearn_is_fitted__(self):
        return "_model" in vars(self)

    def _params(self) -> dict[str, Any]:
        """Return all parameters but those of the fit."""
        names = set(_names_of(LGBMModel))
        params = {name: value for name, value in self.get_params().items() if name in names}
        for name in ("importance_type", "class_weight", "n_estimators"):
            params.pop(name)
        others = dict(self._other_params)
        for main in ("objective", "eval_at"):
            for alias in ALIASES[main]:
                if alias in others and alias != "objective":
                    _warn_of(alias, main)
                    params[main] = others.pop(alias)
        params |= others
        if params["objective"] is None:
            params["objective"] = self._default
        if isinstance(self.random_state, np.random.RandomState):
            params["random_state"] = int(self.random_state.randint(2**31 - 1))
        elif isinstance(self.random_state, np.random.Generator):
            params["random_state"] = int(self.random_state.integers(2**31 - 1))
        if params["random_state"] is None:
            params.pop("random_state")
        if not any(alias in params for alias in ALIASES["num_iterations"]):
            params["n_estimators"] = self.n_estimators
        return params

    # -- fit -------------------------------------------------------------------------

    def fit(
        self,
        X,
        y,
        sample_weight=None,
        init_score=None,
        group=None,
        eval_set=None,
        eval_names=None,
        eval_sample_weight=None,
        eval_class_weight=None,
        eval_init_score=None,
        eval_group=None,
        eval_metric=None,
        feature_name="auto",
        categorical_feature="auto",
        callbacks=None,
        init_model=None,
    ):
        touch()
        params = self._params()
        y = self._read_y(y)
        weight = self._weighted(self.class_weight, y, sample_weight)
        codes = self._encode(y)
        params = self._with_classes(params)
        own = params["objective"]
        metric = eval_metric
        if callable(own):
            params["objective"] = _OfRows(own)
        simple = eval_set is None and callbacks is None and not callable(own) and group is None
        simple = simple and init_model is None and feature_name == "auto"
        if simple and params["objective"] == self._default_objective():
            self._fit_alone(X, y, weight, init_score, categorical_feature, params)
        else:
            data = Dataset(
                X, codes, None, weight, group, init_score, feature_name, categorical_feature
            )
            sets = self._sets(
                (X, y, data), eval_set, eval_sample_weight, eval_class_weight, eval_init_score,
                eval_group,
            )  # fmt: skip
            self._fit_rounds(params, data, sets, eval_names, metric, callbacks, init_model)
        self.objective_ = own
        self._n_features_in = self._model.n_features_in_
        return self

    def _default_objective(self) -> str:
        return self._default

    def _read_y(self, y: Any) -> Any:
        if y is None:
            raise DataError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        return column_or_1d(y, warn=True)

    def _encode(self, y: Any) -> Any:
        return y

    def _with_classes(self, params: dict[str, Any]) -> dict[str, Any]:
        return params

    def _weighted(self, class_weight: Any, y: Any, weight: Any) -> Any:
        if class_weight is None:
            return weight
        if isinstance(class_weight, dict):  # other classes have weight 1
            by_class = np.array([class_weight.get(label, 1.0) for label in np.asarray(y).tolist()])
        else:
            by_class = compute_sample_weight(class_weight, y)
        return by_class if weight is None else by_class * np.asarray(weight)

    def _fit_alone(
        self, X: Any, y: Any, weight: Any, start: Any, categorical: Any, params: dict[str, Any]
    ) -> None:
        given = by_name(params)
        said = ours(given)
        rounds = given["num_iterations"]
        if isinstance(categorical, list):
            said["categorical_features"] = categorical or None
        elif "categorical_feature" in given:
            said["categorical_features"] = given["categorical_feature"]
        known = self._kind().get_params()
        said = {name: value for name, value in said.items() if name in known}
        if self._kind is hedgerow.HedgerowClassifier:
            said.pop("objective", None)
            if getattr(self, "_several", False):
                said["objective"] = "softmax"
        model = self._kind(n_estimators=rounds, early_stopping=False, **said)
        if isinstance(start, pd.DataFrame | pd.Series):
            start = start.to_numpy()
        levels = None
        if isinstance(X, pd.DataFrame):
            rows = Dataset(X, y, categorical_feature=categorical)
            columns = rows.categories(given.get("categorical_feature"))
            model.set_params(categorical_features=columns)
            X, levels = coded(X, columns, None), rows.pandas_categorical
        self._model = model.fit(X, y, weight, offset=start)
        self._booster = Booster.of(model.booster_, params)
        self._booster.pandas_categorical = levels
        self.evals_result_, self.best_score_ = {}, {}
        self.best_iteration_ = 0

    def _sets(
        self, train_rows: Any, sets: Any, weights: Any, class_weights: Any, starts: Any,
        groups: Any,
    ) -> list[Dataset]:  # fmt: skip
        if sets is None:
            return []
        X, y, data = train_rows
        found = []
        for number, (some, target) in enumerate([sets] if isinstance(sets, tuple) else sets):
            own = np.asarray(target).reshape(-1)
            if some is X and len(own) == len(y) and np.array_equal(own, y):
                found.append(data)
                continue
            weight = _item(weights, number)
            weight = self._weighted(_item(class_weights, number), own, weight)
            found.append(
                Dataset(
                    some,
                    self._codes(own),
                    data,
                    weight,
                    _item(groups, number),
                    _item(starts, number),
                )
            )
        return found

    def _codes(self, y: Any) -> Any:
        return y

    def _fit_rounds(
        self, params: dict[str, Any], data: Dataset, sets: list[Dataset], names: Any,
        metric: Any, callbacks: Any, init_model: Any,
    ) -> None:  # fmt: skip
        listed = metric if isinstance(metric, list) else [metric]
        functions = [_of_estimator(each) for each in listed if callable(each)]
        texts = [each for each in listed if isinstance(each, str)]
        params = dict(params)
        params["metric"] = self._metrics(params, texts)
        history: dict[str, Any] = {}
        given = list(callbacks or [])
        start = init_model._booster if isinstance(init_model, LGBMModel) else init_model
        self._booster = train(
            params, data, valid_sets=sets, valid_names=names, feval=functions or None,
            callbacks=[*given, record_evaluation(history)], init_model=start,
        )  # fmt: skip
        self._model = self._kind()._adopt(self._booster.ours.model, **self._known())
        self.evals_result_ = history
        self._evals_result = history
        self.best_score_ = self._booster.best_score
        self.best_iteration_ = self._booster.best_iteration

    def _metrics(self, params: dict[str, Any], texts: list[str]) -> list[str]:
        """Return metrics of the parameters, or the default one, and those of ``fit``."""
        from .scores import default_metric

        given = by_name(params)
        metric = given.get("metric")
        objective = objective_of(given)
        if objective == "custom":
            objective = self._default_objective()
        if metric in (None, "", []):
            first = default_metric(objective)
        else:
            first = metric.split(",") if isinstance(metric, str) else list(metric)
        return [self._own_metric(name) for name in [*texts, *first]] or ["None"]

    def _own_metric(self, name: str) -> str:
        return name

    def _known(self) -> dict[str, Any]:
        return {}

    # -- use -------------------------------------------------------------------------

    def predict(
        self, X, raw_score=False, start_iteration=0, num_iteration=None, pred_leaf=False,
        pred_contrib=False, validate_features=False, **kwargs,
    ):  # fmt: skip
        plain = not (raw_score or pred_leaf or pred_contrib or start_iteration or num_iteration)
        touch()
        check_is_fitted(self)
        if plain and not self.best_iteration_ and self._booster.ours.objective != "custom":
            if validate_features or not isinstance(X, pd.DataFrame):
                self._check_names(X, validate_features)
            return self._model.predict(self._named(X, validate_features))
        return self._booster.predict(
            X, start_iteration, num_iteration, raw_score, pred_leaf, pred_contrib,
            validate_features=validate_features, **kwargs,
        )  # fmt: skip

    def _check_names(self, X: Any, check: bool) -> None:
        if check and isinstance(X, pd.DataFrame):
            Booster._columns(self._booster.ours, X, True)

    def _named(self, X: Any, check: bool) -> Any:
        if not isinstance(X, pd.DataFrame):
            return X
        X = X if check else Booster._columns(self._booster.ours, X, False)
        levels = self._booster.pandas_categorical
        if not levels:
            return X
        kinds = self._booster.ours.model.schema.kinds
        return coded(X, [j for j, kind in enumerate(kinds) if kind == "category"], levels)

    @property
    def booster_(self):
        check_is_fitted(self)
        return self._booster

    @property
    def n_features_(self):
        check_is_fitted(self)
        return self._n_features_in

    @property
    def n_features_in_(self):
        if not self.__sklearn_is_fitted__():
            raise AttributeError("n_features_in_")
        return self._n_features_in

    @property
    def feature_name_(self):
        check_is_fitted(self)
        return self._booster.feature_name()

    @property
    def feature_names_in_(self):
        if not self.__sklearn_is_fitted__():
            raise AttributeError("feature_names_in_")
        return np.array(self._booster.feature_name())

    @property
    def feature_importances_(self):
        check_is_fitted(self)
        return self._booster.feature_importance(self.importance_type)

    @property
    def n_estimators_(self):
        check_is_fitted(self)
        return self._booster.current_iteration()

    n_iter_ = n_estimators_


class LGBMRegressor(RegressorMixin, LGBMModel):
    """Has the parameters of LightGBM's class of this name."""

    def __sklearn_tags__(self):
        return super().__sklearn_tags__()


class LGBMClassifier(ClassifierMixin, LGBMModel):
    """Has the parameters of LightGBM's class of this name."""

    _kind = hedgerow.HedgerowClassifier
    _default = "binary"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        tags.classifier_tags.multi_label = False
        return tags

    def _default_objective(self):
        return "multiclass" if self.n_classes_ > 2 else "binary"

    def _read_y(self, y):
        y = super()._read_y(y)
        from sklearn.utils.multiclass import check_classification_targets

        check_classification_targets(y)
        return y

    def _encode(self, y):
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.n_classes_ = len(self.classes_)
        return codes

    def _codes(self, y):
        place = np.searchsorted(self.classes_, y)
        return np.minimum(place, self.n_classes_ - 1)

    def _with_classes(self, params):
        if params["objective"] == self._default:
            params["objective"] = self._default_objective()
        if self.n_classes_ > 2:
            params = {"num_class": self.n_classes_, **params}
        return params

    def _own_metric(self, name):
        several = objective_of({"objective": self.objective}) if self.objective else ""
        many = self.n_classes_ > 2 or several in ("multiclass", "multiclassova")
        pairs = {
            "logloss": ("binary_logloss", "multi_logloss"),
            "error": ("binary_error", "multi_error"),
        }
        for kind, both in pairs.items():
            if name in both or name == kind:
                return both[many]
        return name

    def _known(self):
        return {"classes_": self.classes_}

    @property
    def objective_(self):
        return self._objective

    @objective_.setter
    def objective_(self, value):
        self._objective = value

    def fit(self, X, y, *args, **kwargs):
        super().fit(X, y, *args, **kwargs)
        if self._objective in ("binary", None) and not callable(self._objective):
            self._objective = self._default_objective()
        return self

    def predict(self, X, raw_score=False, start_iteration=0, num_iteration=None, pred_leaf=False,
                pred_contrib=False, validate_features=False, **kwargs):  # fmt: skip
        found = self.predict_proba(
            X, raw_score, start_iteration, num_iteration, pred_leaf, pred_contrib,
            validate_features, **kwargs,
        )  # fmt: skip
        if callable(self._objective) or raw_score or pred_leaf or pred_contrib:
            return found
        return self.classes_[np.argmax(found, axis=1)]

    def predict_proba(
        self, X, raw_score=False, start_iteration=0, num_iteration=None, pred_leaf=False,
        pred_contrib=False, validate_features=False, **kwargs,
    ):  # fmt: skip
        touch()
        check_is_fitted(self)
        plain = not (raw_score or pred_leaf or pred_contrib or start_iteration or num_iteration)
        if plain and not self.best_iteration_ and self._booster.ours.objective != "custom":
            self._check_names(X, validate_features)
            return self._model.predict_proba(self._named(X, validate_features))
        found = self._booster.predict(
            X, start_iteration, num_iteration, raw_score, pred_leaf, pred_contrib,
            validate_features=validate_features, **kwargs,
        )  # fmt: skip
        if callable(self._objective) or raw_score or pred_leaf or pred_contrib:
            return found
        return found if found.ndim == 2 else np.column_stack([1.0 - found, found])


class LGBMRanker(LGBMModel):
    """Has the parameters of LightGBM's class of this name."""

    _kind = hedgerow.HedgerowRanker
    _default = "lambdarank"

    def fit(self, X, y, sample_weight=None, init_score=None, group=None, eval_set=None,
            eval_names=None, eval_sample_weight=None, eval_init_score=None, eval_group=None,
            eval_metric=None, eval_at=(1, 2, 3, 4, 5), feature_name="auto",
            categorical_feature="auto", callbacks=None, init_model=None):  # fmt: skip
        if group is None:
            raise ParameterError("Should set group for ranking task")
        if eval_set is not None and eval_group is None:
            raise ParameterError("Eval_group cannot be None when eval_set is not None")
        self._eval_at = list(eval_at) if isinstance(eval_at, tuple | list) else [eval_at]
        return super().fit(
            X, y, sample_weight, init_score, np.asarray(group).astype(int), eval_set, eval_names,
            eval_sample_weight, None, eval_init_score, eval_group, eval_metric, feature_name,
            categorical_feature, callbacks, init_model,
        )  # fmt: skip

    def _with_classes(self, params):
        params.setdefault("eval_at", self._eval_at)
        return params

    def _metrics(self, params, texts):
        given = by_name(params)
        if given.get("metric") in (None, "", []) and not texts:
            return ["ndcg"]
        return super()._metrics(params, texts) if given.get("metric") else texts


def _names_of(kind: Any) -> list[str]:
    import inspect

    found = []
    for each in kind.__mro__:
        init = each.__dict__.get("__init__")
        if init is None or not issubclass(each, LGBMModel):
            continue
        for name, parameter in inspect.signature(init).parameters.items():
            if name != "self" and parameter.kind is parameter.KEYWORD_ONLY:
                found.append(name)
    return sorted(set(found))


def _warn_of(alias: str, main: str) -> None:
    warnings.warn(
        f"Found '{alias}' in params. Will use it instead of '{main}' argument",
        UserWarning,
        stacklevel=4,
    )


def _item(values: Any, number: int) -> Any:
    if isinstance(values, dict):
        return values.get(number)
    return None if values is None else values[number]


class _OfRows:
    """A loss ``f(y_true, y_pred[, weight[, group]])`` as one of ``(preds, data)``."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, preds: Any, data: Any) -> Any:
        return self.function(*_arguments(self.function, preds, data))


def _arguments(function: Any, preds: Any, data: Any) -> list[Any]:
    import inspect

    given = [data.get_label(), preds, data.get_weight(), data.get_group()]
    return given[: len(inspect.signature(function).parameters)]


def _of_estimator(function: Any) -> Any:
    """Return a metric ``f(y_true, y_pred[, weight[, group]])`` as one of ``(preds, data)``."""

    def scored(preds: Any, data: Any) -> Any:
        return function(*_arguments(function, preds, data))

    return scored


__all__ = ["LGBMClassifier", "LGBMModel", "LGBMRanker", "LGBMRegressor"]
