"""scikit-learn's histogram gradient boosting, on Hedgerow's estimators."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import sklearn.ensemble
from sklearn._loss.loss import BaseLoss
from sklearn.base import ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from hedgerow import HedgerowClassifier, HedgerowRegressor
from hedgerow.boosting.validation.stopping import BestRound, Rising

from .sklearn_predictors import predictors_of
from .touched import touch

_LOSSES = {"log_loss": "auto", "absolute_error": "absolute_error"}
_FITTED = ("n_features_in_", "feature_names_in_", "classes_", "n_iter_")


def install() -> None:
    """Let tests import these classes under the names of scikit-learn."""
    sklearn.ensemble.HistGradientBoostingClassifier = HistGradientBoostingClassifier
    sklearn.ensemble.HistGradientBoostingRegressor = HistGradientBoostingRegressor


class HistGradientBoosting:
    """What both estimators share; the constructors are those of scikit-learn's classes."""

    n_iter_: Any = None  # scikit-learn's is a property, which cannot be set

    def _settings(self, X: Any) -> dict[str, Any]:
        early = self.early_stopping
        if early == "auto":
            early = np.shape(X)[0] > 10_000
        cst = self.interaction_cst
        sets = cst if cst is None or isinstance(cst, str) else [_plain(each) for each in cst]
        return {
            "objective": self._objective(),
            "learning_rate": self.learning_rate,
            "n_estimators": self.max_iter,
            "max_leaves": self.max_leaf_nodes,
            "max_depth": self.max_depth,
            "min_samples_leaf": self.min_samples_leaf,
            "reg_lambda": self.l2_regularization,
            "colsample_bynode": self.max_features,
            "max_bins": self.max_bins,
            "categorical_features": self._categorical(),
            "monotone_constraints": _plain(self.monotonic_cst),
            "interaction_constraints": sets,
            "warm_start": self.warm_start,
            "early_stopping": bool(early),
            "eval_metric": self._metric(),
            "patience": self.n_iter_no_change,
            "min_delta": self.tol,
            "train_scores": bool(early),
            "random_state": int(self._random_seed) % 2**31,
            "grow_policy": "leafwise",
            "subsample": 1.0,
            "linear_leaves": False,
            "target_statistics": False,
            "max_cat_to_onehot": 1,
            "max_cat_threshold": 254,
            "cat_smooth": 10.0,
            "cat_l2": 0.0,
            "min_data_per_group": 1,
        }

    def _metric(self) -> Any:
        if self.scoring is None:
            return "accuracy" if isinstance(self, ClassifierMixin) else "r2"
        return None if self.scoring == "loss" else self.scoring

    def _objective(self) -> Any:
        loss = self.loss
        if not isinstance(loss, BaseLoss):
            return _LOSSES.get(loss, loss)

        def gradients(y: Any, raw: Any, weight: Any) -> Any:
            target, scores = np.ascontiguousarray(y), np.ascontiguousarray(raw)
            return loss.gradient_hessian(y_true=target, raw_prediction=scores)

        return gradients

    def _categorical(self) -> Any:
        if isinstance(self.categorical_features, str):
            return "auto" if self.categorical_features == "from_dtype" else None
        return _plain(self.categorical_features)

    def _fit(self, kind: Any, X: Any, y: Any, sample_weight: Any, given: dict[str, Any]) -> Any:
        touch()
        model = self.__dict__.get("_model") if self.warm_start else None
        if model is None:
            rng = check_random_state(self.random_state)
            self._random_seed = rng.randint(np.iinfo(np.uint32).max, dtype="u8")
        X = self._table(X)
        settings = self._settings(X)
        if model is None:
            model = kind()
        if settings["early_stopping"] and given.get("X_val") is None:
            if self.validation_fraction is None:
                given = {"X_val": X, "y_val": y, "sample_weight_val": sample_weight}
            else:
                X, y, sample_weight, given = self._set_aside(X, y, sample_weight)
        model.set_params(**settings, **self._own_settings())
        model.fit(X, y, sample_weight, **given)
        self._model = model
        for name in _FITTED:
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        self._note_scores(bool(settings["early_stopping"]))
        return self

    def _set_aside(self, X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Return the rows that scikit-learn sets aside for this random state."""
        parts = train_test_split(
            X, y, np.ones(len(y)) if weight is None else np.asarray(weight),
            test_size=self.validation_fraction, random_state=self._random_seed,
            stratify=y if isinstance(self, ClassifierMixin) else None,
        )  # fmt: skip
        weights = parts[4:] if weight is not None else (None, None)
        return (
            parts[0],
            parts[2],
            weights[0],
            {"X_val": parts[1], "y_val": parts[3], "sample_weight_val": weights[1]},
        )

    def _table(self, X: Any) -> Any:
        """Return a table whose text columns are numbers, and whose negative categories are missing."""
        if isinstance(X, pd.DataFrame):
            text = [name for name, kind in X.dtypes.items() if str(kind) in ("object", "str")]
            return X.assign(**{name: pd.to_numeric(X[name]) for name in text})
        if isinstance(X, pl.DataFrame):
            return X.with_columns(pl.selectors.string().cast(pl.Float64))
        columns = _plain(self.categorical_features)
        if not isinstance(X, np.ndarray) or not isinstance(columns, list) or X.dtype.kind != "f":
            return X
        if len(columns) == X.shape[1] and all(isinstance(each, bool) for each in columns):
            columns = [j for j, chosen in enumerate(columns) if chosen]
        if not all(type(j) is int and 0 <= j < X.shape[1] for j in columns):
            return X
        X = X.copy()
        for j in columns:
            X[X[:, j] < 0.0, j] = np.nan
        return X

    def _own_settings(self) -> dict[str, Any]:
        return {}

    def _note_scores(self, early: bool) -> None:
        """Scores after each round; of scikit-learn higher is better."""
        self.do_early_stopping_ = early
        scores = {
            rows: -np.array(next(iter(curves.values())))
            for rows, curves in self._model.evals_result_.items()
        }
        self.train_score_ = scores.get("train", np.array([]))
        self.validation_score_ = scores.get("validation", np.array([]))
        if len(self.validation_score_):
            self.n_iter_ = len(self.validation_score_)

    def _should_stop(self, scores: Any) -> bool:
        touch()
        best = BestRound(Rising(), self.n_iter_no_change, self.tol)
        ends = [best.observe(n_rounds, score) for n_rounds, score in enumerate(scores, 1)]
        return bool(ends) and ends[-1]

    @property
    def _preprocessor(self) -> Any:
        """Levels of the categorical columns, where scikit-learn keeps them."""
        schema = self._model.booster_.model.schema
        levels = [np.array(each.levels) for each in schema.columns if each.levels]
        return SimpleNamespace(named_transformers_={"encoder": SimpleNamespace(categories_=levels)})

    @property
    def is_categorical_(self) -> Any:
        found = np.array(self._model.booster_.model.schema.kinds) == "category"
        return found if found.any() else None

    @property
    def n_trees_per_iteration_(self) -> int:
        return self._model.booster_.model.forest.trees_per_round

    @property
    def _predictors(self) -> list[list[Any]]:
        return predictors_of(self._model.booster_.model)

    def _raw_predict(self, X: Any) -> Any:
        return self._model.booster_.raw_scores(X).T

    def predict(self, X: Any) -> Any:
        touch()
        check_is_fitted(self)
        return self._model.predict(self._table(X))

    def staged_predict(self, X: Any) -> Any:
        check_is_fitted(self)
        yield from self._model.staged_predict(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _plain(names: Any) -> Any:
    """Return a set or array as a list."""
    if isinstance(names, set):
        return sorted(names)
    return names.tolist() if isinstance(names, np.ndarray) else names


class HistGradientBoostingClassifier(
    HistGradientBoosting, sklearn.ensemble.HistGradientBoostingClassifier
):
    def fit(self, X, y, sample_weight=None, *, X_val=None, y_val=None, sample_weight_val=None):
        if self.class_weight is not None:  # ours keeps probabilities true, which these are not
            by_class = compute_sample_weight(self.class_weight, y)
            sample_weight = by_class if sample_weight is None else by_class * sample_weight
        given = {"X_val": X_val, "y_val": y_val, "sample_weight_val": sample_weight_val}
        return self._fit(HedgerowClassifier, X, y, sample_weight, given)

    def predict_proba(self, X):
        check_is_fitted(self)
        return self._model.predict_proba(X)

    def decision_function(self, X):
        check_is_fitted(self)
        return self._model.decision_function(X)

    def staged_predict_proba(self, X):
        check_is_fitted(self)
        yield from self._model.staged_predict_proba(X)

    def staged_decision_function(self, X):
        check_is_fitted(self)
        yield from self._model.staged_decision_function(X)


class HistGradientBoostingRegressor(
    HistGradientBoosting, sklearn.ensemble.HistGradientBoostingRegressor
):
    def _own_settings(self) -> dict[str, Any]:
        return {"quantile": self.quantile}

    def fit(self, X, y, sample_weight=None, *, X_val=None, y_val=None, sample_weight_val=None):
        given = {"X_val": X_val, "y_val": y_val, "sample_weight_val": sample_weight_val}
        return self._fit(HedgerowRegressor, X, y, sample_weight, given)
