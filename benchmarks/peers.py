"""Wrap each library with its fastest documented interface.

A peer has three functions of plain arrays: ``fit`` (from the user's arrays to a fitted model,
including binning), ``predict`` (probabilities or values) and ``estimator`` (the scikit-learn class,
for the cost of a call with one row).
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, ClassVar, Protocol

import numpy as np

from settings import Settings


class Peer(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def module(self) -> str: ...

    @property
    def packages(self) -> tuple[str, ...]: ...

    def load(self) -> None:
        """Import the modules that a fit needs."""

    def fit(self, X: np.ndarray, y: np.ndarray, settings: Settings) -> Any: ...

    def predict(self, model: Any, X: np.ndarray, settings: Settings) -> np.ndarray: ...

    def estimator(self, settings: Settings) -> Any: ...


class _EstimatorPeer:
    """A peer whose scikit-learn class is its fastest interface."""

    def load(self) -> None:
        self.estimator(Settings("binary"))

    def fit(self, X: np.ndarray, y: np.ndarray, settings: Settings) -> Any:
        return self.estimator(settings).fit(X, y)

    def predict(self, model: Any, X: np.ndarray, settings: Settings) -> np.ndarray:
        if settings.task == "regression":
            return model.predict(X)
        probability = model.predict_proba(X)
        return probability[:, 1] if settings.task == "binary" else probability

    def estimator(self, settings: Settings) -> Any:
        raise NotImplementedError


class Hedgerow(_EstimatorPeer):
    name = "hedgerow"
    module = "hedgerow"
    packages = ("hedgerow",)

    def estimator(self, settings: Settings) -> Any:
        import hedgerow

        regression = settings.task == "regression"
        kind = hedgerow.HedgerowRegressor if regression else hedgerow.HedgerowClassifier
        return kind(
            n_estimators=settings.trees,
            learning_rate=settings.learning_rate,
            max_leaves=settings.leaves,
            min_samples_leaf=settings.min_rows,
            min_child_weight=settings.min_hessian,
            reg_lambda=settings.l2,
            max_bins=settings.bins,
            early_stopping=False,
            n_jobs=settings.threads,
            random_state=settings.seed,
        )


class HedgerowTrain(Hedgerow):
    """The interface without scikit-learn, like those of LightGBM and XGBoost."""

    name = "hedgerow_train"

    _OBJECTIVES: ClassVar = {
        "binary": "logistic",
        "multiclass": "softmax",
        "regression": "squared_error",
    }

    def load(self) -> None:
        from hedgerow import Dataset, train  # noqa: F401

    def fit(self, X: np.ndarray, y: np.ndarray, settings: Settings) -> Any:
        import hedgerow

        params = {
            "objective": self._OBJECTIVES[settings.task],
            "n_estimators": settings.trees,
            "learning_rate": settings.learning_rate,
            "max_leaves": settings.leaves,
            "min_samples_leaf": settings.min_rows,
            "min_child_weight": settings.min_hessian,
            "reg_lambda": settings.l2,
            "max_bins": settings.bins,
            "early_stopping": False,
            "n_jobs": settings.threads,
            "seed": settings.seed,
        }
        return hedgerow.train(params, hedgerow.Dataset(X, y))

    def predict(self, model: Any, X: np.ndarray, settings: Settings) -> np.ndarray:
        if settings.task == "regression":
            return model.predict(X)
        probability = model.predict(X, kind="probability")
        return probability[:, 1] if settings.task == "binary" else probability


class LightGBM:
    name = "lightgbm"
    module = "lightgbm"
    packages = ("lightgbm",)

    def load(self) -> None:
        import lightgbm  # noqa: F401

    _OBJECTIVES: ClassVar = {
        "binary": "binary",
        "multiclass": "multiclass",
        "regression": "regression",
    }

    def _params(self, settings: Settings) -> dict[str, Any]:
        params: dict[str, Any] = {
            "objective": self._OBJECTIVES[settings.task],
            "num_leaves": settings.leaves,
            "learning_rate": settings.learning_rate,
            "max_bin": settings.bins,
            "min_data_in_leaf": settings.min_rows,
            "min_sum_hessian_in_leaf": settings.min_hessian,
            "tree.lambda_l2": settings.l2,
            "num_threads": settings.threads,
            "seed": settings.seed,
            "verbosity": -1,
        }
        if settings.task == "multiclass":
            params["num_class"] = settings.classes
        return params

    def fit(self, X: np.ndarray, y: np.ndarray, settings: Settings) -> Any:
        import lightgbm

        params = self._params(settings)
        data = lightgbm.Dataset(X, y, params=params)
        return lightgbm.train(params, data, num_boost_round=settings.trees)

    def predict(self, model: Any, X: np.ndarray, settings: Settings) -> np.ndarray:
        return model.predict(X, num_threads=settings.threads)

    def estimator(self, settings: Settings) -> Any:
        import lightgbm

        params = self._params(settings)
        params.pop("objective")
        params.pop("num_class", None)
        kind = lightgbm.LGBMRegressor if settings.task == "regression" else lightgbm.LGBMClassifier
        return kind(n_estimators=settings.trees, **params)


class LightGBMQuantised(LightGBM):
    """LightGBM with quantised gradients, its fastest mode on many rows."""

    name = "lightgbm_quantised"

    def _params(self, settings: Settings) -> dict[str, Any]:
        return {**super()._params(settings), "use_quantized_grad": True}


class XGBoost:
    name = "xgboost"
    module = "xgboost"
    packages: tuple[str, ...] = ("xgboost", "xgboost-cpu")

    def load(self) -> None:
        import xgboost  # noqa: F401

    _OBJECTIVES: ClassVar = {
        "binary": "binary:logistic",
        "multiclass": "multi:softprob",
        "regression": "reg:squarederror",
    }

    def _params(self, settings: Settings) -> dict[str, Any]:
        params: dict[str, Any] = {
            "objective": self._OBJECTIVES[settings.task],
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_leaves": settings.leaves,
            "max_depth": 0,
            "learning_rate": settings.learning_rate,
            "max_bin": settings.bins,
            "min_child_weight": settings.min_hessian,
            "reg_lambda": settings.l2,
            "seed": settings.seed,
            "verbosity": 0,
        }
        if settings.task == "multiclass":
            params["num_class"] = settings.classes
        return params

    def fit(self, X: np.ndarray, y: np.ndarray, settings: Settings) -> Any:
        import xgboost

        data = xgboost.QuantileDMatrix(X, y, max_bin=settings.bins, nthread=settings.threads)
        params = {**self._params(settings), "nthread": settings.threads}
        return xgboost.train(params, data, num_boost_round=settings.trees)

    def predict(self, model: Any, X: np.ndarray, settings: Settings) -> np.ndarray:
        return model.inplace_predict(X)

    def estimator(self, settings: Settings) -> Any:
        import xgboost

        params = self._params(settings)
        params.pop("num_class", None)
        kind = xgboost.XGBRegressor if settings.task == "regression" else xgboost.XGBClassifier
        params["random_state"] = params.pop("seed")
        return kind(n_estimators=settings.trees, n_jobs=settings.threads, **params)


class ScikitLearn(_EstimatorPeer):
    """scikit-learn's histogram boosting.  ``run.py`` sets its threads by ``OMP_NUM_THREADS``."""

    name = "sklearn_hgb"
    module = "sklearn"
    packages = ("scikit-learn",)

    def estimator(self, settings: Settings) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        regression = settings.task == "regression"
        kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
        return kind(
            max_iter=settings.trees,
            learning_rate=settings.learning_rate,
            max_leaf_nodes=settings.leaves,
            max_bins=settings.bins,
            min_samples_leaf=settings.min_rows,
            l2_regularization=settings.l2,
            early_stopping=False,
            random_state=settings.seed,
        )


class CatBoost(_EstimatorPeer):
    """CatBoost with the settings of the others: leaf-wise growth, plain boosting, no sampling."""

    name = "catboost"
    module = "catboost"
    packages = ("catboost",)

    def estimator(self, settings: Settings) -> Any:
        import catboost

        regression = settings.task == "regression"
        kind = catboost.CatBoostRegressor if regression else catboost.CatBoostClassifier
        return kind(
            iterations=settings.trees,
            learning_rate=settings.learning_rate,
            grow_policy="Lossguide",
            max_leaves=settings.leaves,
            depth=16,
            border_count=settings.bins - 1,
            min_data_in_leaf=settings.min_rows,
            l2_leaf_reg=settings.l2,
            boosting_type="Plain",
            bootstrap_type="No",
            random_strength=0,
            boost_from_average=settings.task != "multiclass" or None,
            leaf_estimation_iterations=1,
            thread_count=settings.threads,
            random_seed=settings.seed,
            allow_writing_files=False,
            verbose=False,
        )


class Hessboost(XGBoost):
    """A library with XGBoost's parameters."""

    name = "hessboost"
    module = "hessboost"
    packages: tuple[str, ...] = ("hessboost",)

    def load(self) -> None:
        import hessboost  # noqa: F401

    def fit(self, X: np.ndarray, y: np.ndarray, settings: Settings) -> Any:
        import hessboost

        params = {**self._params(settings), "nthread": settings.threads}
        del params["verbosity"]
        data = hessboost.DMatrix(X, y)
        return hessboost.train(params, data, settings.trees, verbose_eval=False)

    def predict(self, model: Any, X: np.ndarray, settings: Settings) -> np.ndarray:
        import hessboost

        return model.predict(hessboost.DMatrix(X))


class Bonsai(_EstimatorPeer):
    name = "bonsai"
    module = "bonsai"
    packages = ("bonsai-gbt",)

    def estimator(self, settings: Settings) -> Any:
        import bonsai

        regression = settings.task == "regression"
        kind = bonsai.BonsaiRegressor if regression else bonsai.BonsaiClassifier
        tree = {
            "tree.lambda_l2": settings.l2,
            "tree.min_child_hess": settings.min_hessian,
            "tree.min_data_in_leaf": settings.min_rows,
        }
        return kind(
            n_iters=settings.trees,
            learning_rate=settings.learning_rate,
            max_depth=16,
            max_leaves=settings.leaves,
            max_bin=settings.bins,
            n_threads=settings.threads,
            random_seed=settings.seed,
            params=tree,
        )


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Hedgerow(),
        HedgerowTrain(),
        LightGBM(),
        LightGBMQuantised(),
        XGBoost(),
        ScikitLearn(),
        CatBoost(),
        Hessboost(),
        Bonsai(),
    )
}
DEFAULT_PEERS = ("hedgerow", "lightgbm", "xgboost", "sklearn_hgb")


def installed(names: list[str]) -> list[Peer]:
    """Return the named peers that can be imported; report those that cannot."""
    found = []
    for name in names:
        if find_spec(PEERS[name].module) is None:
            print(f"skipped: {name} is not installed")
        else:
            found.append(PEERS[name])
    return found


def peer_version(peer: Peer) -> str:
    for package in peer.packages:
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return str(getattr(import_module(peer.module), "__version__", "?"))
