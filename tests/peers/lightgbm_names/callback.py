"""Callbacks of LightGBM's kind."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple


class EarlyStopException(Exception):
    """Ends a training."""

    def __init__(self, best_iteration: int, best_score: Any) -> None:
        super().__init__()
        self.best_iteration, self.best_score = best_iteration, best_score


class CallbackEnv(NamedTuple):
    """What a callback sees."""

    model: Any
    params: dict[str, Any]
    iteration: int
    begin_iteration: int
    end_iteration: int
    evaluation_result_list: Any


def log_evaluation(period: int = 1, show_stdv: bool = True) -> Callable[[CallbackEnv], None]:
    """Print scores now and then."""

    def tell(env: CallbackEnv) -> None:
        if period > 0 and env.evaluation_result_list and (env.iteration + 1) % period == 0:
            print(f"[{env.iteration + 1}]\t{env.evaluation_result_list}")

    tell.order = 10
    return tell


def record_evaluation(eval_result: dict[str, Any]) -> Callable[[CallbackEnv], None]:
    """Keep the scores of all rounds."""
    if not isinstance(eval_result, dict):
        raise TypeError("eval_result should be a dictionary")

    def record(env: CallbackEnv) -> None:
        if env.iteration == env.begin_iteration:
            eval_result.clear()
        for item in env.evaluation_result_list or ():
            if len(item) == 4:
                eval_result.setdefault(item[0], {}).setdefault(item[1], []).append(item[2])
                continue
            rows, metric = item[1].split(" ", maxsplit=1)
            curves = eval_result.setdefault(rows, {})
            curves.setdefault(f"{metric}-mean", []).append(item[2])
            curves.setdefault(f"{metric}-stdv", []).append(item[4])

    record.order = 20
    return record


def reset_parameter(**schedules: Any) -> Callable[[CallbackEnv], None]:
    """Other parameters in each round: lists, or functions of the round."""

    def reset(env: CallbackEnv) -> None:
        at = env.iteration - env.begin_iteration
        for name, schedule in schedules.items():
            if isinstance(schedule, list) and len(schedule) != env.end_iteration - (
                env.begin_iteration
            ):
                raise ValueError(f"Length of list {name!r} has to be equal to 'num_boost_round'.")
        new = {
            name: schedule[at] if isinstance(schedule, list) else schedule(at)
            for name, schedule in schedules.items()
        }
        env.model.reset_parameter(new)

    reset.before_iteration = True
    reset.order = 10
    reset.schedules = schedules
    return reset


class early_stopping:
    """Ends a training once no score has improved for some rounds."""

    order = 30
    before_iteration = False

    def __init__(
        self,
        stopping_rounds: int,
        first_metric_only: bool = False,
        verbose: bool = True,
        min_delta: float | list[float] = 0.0,
    ) -> None:
        if not isinstance(stopping_rounds, int) or isinstance(stopping_rounds, bool):
            name = type(stopping_rounds).__name__
            raise TypeError(f"early_stopping_round should be an integer. Got '{name}'")
        self.stopping_rounds, self.first_metric_only = stopping_rounds, first_metric_only
        self.min_delta = min_delta
        self._best: dict[tuple[str, str], tuple[int, Any, Any]] = {}

    def _delta(self, env: CallbackEnv, metric: str) -> float:
        if not isinstance(self.min_delta, list):
            return float(self.min_delta)
        names = list(dict.fromkeys(item[1].split(" ")[-1] for item in env.evaluation_result_list))
        return float(self.min_delta[names.index(metric)])

    def __call__(self, env: CallbackEnv) -> None:
        if env.iteration == env.begin_iteration:
            self._best.clear()
            if not env.evaluation_result_list:
                raise ValueError(
                    "For early stopping, at least one dataset and eval metric is required for "
                    "evaluation"
                )
            if all(_of_training(item, env) for item in env.evaluation_result_list):
                warnings.warn(
                    "Only training set found, disabling early stopping.", UserWarning, stacklevel=2
                )
        first = env.evaluation_result_list[0][1].split(" ")[-1]
        last = env.iteration == env.end_iteration - 1
        for item in env.evaluation_result_list:
            rows, metric, score, higher = item[:4]
            name = metric.split(" ")[-1]
            known = self._best.get((rows, metric))
            gain = 0.0 if known is None else (score - known[1] if higher else known[1] - score)
            if known is None or gain > self._delta(env, name):
                known = (env.iteration, score, list(env.evaluation_result_list))
                self._best[rows, metric] = known
            if (self.first_metric_only and name != first) or _of_training(item, env):
                continue
            if env.iteration - known[0] >= self.stopping_rounds or last:
                raise EarlyStopException(known[0], known[2])


def _of_training(item: Any, env: CallbackEnv) -> bool:
    if item[0] == "cv_agg":
        return item[1].startswith("train ")
    return item[0] == getattr(env.model, "train_data_name", "training")


__all__ = [
    "CallbackEnv",
    "EarlyStopException",
    "early_stopping",
    "log_evaluation",
    "record_evaluation",
    "reset_parameter",
]
