"""Hedgerow as a model of AutoGluon, beside its own.

::

    pip install autogluon.tabular hedgerow
    python examples/autogluon_model.py          # the leaderboard of a small table

AutoGluon gives each model its folds, metric, threads and time, and stacks and weights what they
predict.  The defaults of Hedgerow choose rounds and kinds of trees on folds of the rows that they
get, so the rows that AutoGluon holds out are used for nothing but its own scores.
"""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pandas as pd
from autogluon.core.constants import BINARY, MULTICLASS, REGRESSION
from autogluon.core.models import AbstractModel
from autogluon.tabular import TabularPredictor

from hedgerow import HedgerowClassifier, HedgerowRegressor


class HedgerowModel(AbstractModel):
    """Model for ``hyperparameters={HedgerowModel: {}}``; the dict holds parameters of Hedgerow."""

    ag_key = "HEDGEROW"
    ag_name = "Hedgerow"
    seed_name = "random_state"

    def _fit(
        self,
        X: pd.DataFrame,
        y: pd.Series,
        time_limit: float | None = None,
        num_cpus: int = 1,
        sample_weight: Any = None,
        **_: Any,
    ) -> None:
        params = {"n_jobs": num_cpus, "time_budget": time_limit} | self._get_model_params()
        kind = HedgerowRegressor if self.problem_type == REGRESSION else HedgerowClassifier
        X = self.preprocess(X)  # as before predictions: a fold may have fewer columns
        self.model = kind(**params).fit(X, y, sample_weight=sample_weight)

    @classmethod
    def supported_problem_types(cls) -> list[str]:
        """Return the tasks of the model."""
        return [BINARY, MULTICLASS, REGRESSION]

    def _get_default_auxiliary_params(self) -> dict[str, Any]:
        # Hedgerow reads categories, missing values and dates as they are.
        types = {"valid_raw_types": ["bool", "int", "float", "category", "datetime"]}
        return super()._get_default_auxiliary_params() | types


def main() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"size": rng.normal(size=600), "city": rng.choice(["Oslo", "Rome"], 600)})
    rows["price"] = rows["size"] * (rows["city"] == "Rome") + rng.normal(size=600) / 5
    with tempfile.TemporaryDirectory() as folder:
        predictor = TabularPredictor("price", path=folder, verbosity=0)
        models: dict[Any, Any] = {HedgerowModel: {}, "GBM": {}, "XGB": {}}
        predictor.fit(rows[:400], hyperparameters=models, num_bag_folds=4, ag_args_ensemble={
            "fold_fitting_strategy": "sequential_local"})  # fmt: skip
        print(predictor.leaderboard(rows[400:])[["model", "score_test", "fit_time"]])


if __name__ == "__main__":
    main()
