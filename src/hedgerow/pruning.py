"""Pruning of Optuna trials, as a callback of a fit."""

from __future__ import annotations

from typing import Any

from hedgerow.boosting.loop.callbacks import Round
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.metrics.catalogue import METRICS


class OptunaPruning:
    """Report the score of each round to a trial, and end the fit if the trial is pruned.

    Pass it as ``callbacks`` to an estimator, or to :func:`hedgerow.train`.  The fit needs
    validation rows.  A pruned fit raises ``optuna.TrialPruned``, which Optuna expects, and leaves
    the estimator unchanged.

    Parameters
    ----------
    trial : optuna.trial.Trial
        What Optuna gives to the function that it optimises.
    metric : str, optional
        Name of the score; default: the only one, or the first of several.
    rows : str, default="validation"
        Name in ``evals_result_`` of the rows to score.
    every : int, default=1
        Number of rounds between two reports.

    Raises
    ------
    ParameterError
        During the fit, if there is no such score, or if the study would minimise an ``"auc"``.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow import HedgerowRegressor
    >>> from hedgerow.pruning import OptunaPruning
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> y = X[:, 0]
    >>> def objective(trial):
    ...     rate = trial.suggest_float("learning_rate", 0.01, 0.3, log=True)
    ...     model = HedgerowRegressor(
    ...         n_estimators=50, learning_rate=rate, early_stopping=True, eval_metric="rmse",
    ...         callbacks=OptunaPruning(trial),
    ...     ).fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    ...     return min(model.evals_result_["validation"]["rmse"])
    >>> # study = optuna.create_study(pruner=optuna.pruners.MedianPruner())
    >>> # study.optimize(objective, n_trials=20)
    """

    def __init__(
        self, trial: Any, metric: str | None = None, *, rows: str = "validation", every: int = 1
    ) -> None:
        if every < 1:
            raise ParameterError(f"every must be 1 or more; got {brief(every)}.")
        self._trial, self._metric, self._rows, self._every = trial, metric, rows, every
        self._checked = False

    def __call__(self, state: Round) -> None:
        """Report a round."""
        name, scores = self._scores(state)
        if not self._checked:
            self._check_direction(name)
            self._checked = True
        if state.round % self._every and not state.is_last:
            return
        self._trial.report(scores[-1], step=state.round)
        if self._trial.should_prune():
            from optuna import TrialPruned

            raise TrialPruned(f"pruned after round {state.round}: {name} is {scores[-1]:.6g}.")

    def _scores(self, state: Round) -> tuple[str, Any]:
        curves = state.history.get(self._rows)
        if not curves:
            known = ", ".join(map(repr, state.history)) or "none"
            raise ParameterError(
                f"OptunaPruning needs scores of {self._rows!r} rows, but the fit has {known}: give "
                "the fit X_val and y_val, or early_stopping=True."
            )
        name = next(iter(curves)) if self._metric is None else self._metric
        if name not in curves:
            raise ParameterError(
                f"the fit has no score {name!r}; it has {', '.join(map(repr, curves))}."
                f"{did_you_mean(name, list(curves))}"
            )
        return name, curves[name]

    def _check_direction(self, name: str) -> None:
        metric = METRICS.get(name)
        if metric is None and name != "loss":
            return  # a user-defined metric: its direction is not known
        higher = metric is not None and metric.higher_is_better
        wanted = "MAXIMIZE" if higher else "MINIMIZE"
        if self._trial.study.direction.name != wanted:
            raise ParameterError(
                f"{name!r} is better the {'higher' if higher else 'lower'} it is: create the study "
                f"with direction='{wanted.lower()}'."
            )
