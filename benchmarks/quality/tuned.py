"""Compare Hedgerow's defaults with other libraries tuned by Optuna.

::

    python benchmarks/quality/tuned.py                       # skips what is stored
    python benchmarks/quality/tuned.py --tables ecoli glass --libraries lightgbm
    python benchmarks/quality/tuned.py --report              # prints stored results
    python benchmarks/quality/tuned.py --seed 1 --report     # Hedgerow with another seed
    python benchmarks/quality/tuned.py --budgets             # needs an idle machine

A search has 50 trials of Optuna's TPE (Watanabe 2023).  The first trial has the defaults of the
library.  Three-fold cross-validation on the training rows scores a trial, with early stopping on
the held-out rows.  The best trial is trained again on all training rows and predicts the test
rows.  Its number of rounds is 3/2 of the folds' mean, because a fold trains on two thirds of the
rows.  Hedgerow is fitted with its defaults, and, with ``--budgets``, with a ``time_budget`` of a
tenth of the processor seconds of each search.

Each search and each fit has its own process and uses one thread.  A line of
``results/tuned.jsonl`` is the result of one search or fit.  Requires ``optuna``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import models
import numpy as np
import tables
from own_process import run_in_process
from sklearn.model_selection import KFold, StratifiedKFold

import report

RESULTS = Path(__file__).with_name("results") / "tuned.jsonl"
RIVALS = ("lightgbm", "xgboost", "catboost")
MAX_ROWS = 5_000
N_TRIALS = 50
N_FOLDS = 3
MAX_ROUNDS = 1_000
PATIENCE = 30
SHARE = 0.1
"""Hedgerow's time budget as a share of the time of a search."""

Values: TypeAlias = "dict[str, Any]"
Score = Callable[[Any], np.ndarray]


@dataclass(frozen=True)
class Fitted:
    """A fitted model: its prediction function and its best number of rounds."""

    predict: Score
    n_rounds: int


@dataclass(frozen=True)
class Rival:
    """How a library is tuned.

    Attributes
    ----------
    defaults : dict
        Parameters of the first trial.
    draw : callable
        Draw the parameters of a trial.
    make_converter : callable
        Return a function that converts the frames of a problem for the library.
    fit : callable
        ``fit(values, task, n_classes, train, y, test, y_test, n_rounds)``.  Without ``test``, there
        is no early stopping.
    """

    defaults: Values
    draw: Callable[[Any], Values]
    make_converter: Callable[[tables.Problem], Callable[[Any], Any]]
    fit: Callable[..., Fitted]


def _draw_lightgbm(trial: Any) -> Values:
    return {
        "learning_rate": trial.suggest_float("learning_rate", 0.01, 0.3, log=True),
        "num_leaves": trial.suggest_int("num_leaves", 2, 128, log=True),
        "min_data_in_leaf": trial.suggest_int("min_data_in_leaf", 1, 100, log=True),
        "feature_fraction": trial.suggest_float("feature_fraction", 0.3, 1.0),
        "bagging_fraction": trial.suggest_float("bagging_fraction", 0.4, 1.0),
        "lambda_l1": trial.suggest_float("lambda_l1", 1e-4, 10.0, log=True),
        "lambda_l2": trial.suggest_float("lambda_l2", 1e-4, 30.0, log=True),
    }


def _fit_lightgbm(
    values: Values,
    task: str,
    n_classes: int,
    train: Any,
    y: Any,
    test: Any,
    y_test: Any,
    max_rounds: int,
) -> Fitted:
    import lightgbm

    objective = {"regression": "regression", "binary": "binary"}.get(task, "multiclass")
    params = {**values, "bagging_freq": 1, "objective": objective, "num_threads": 1, "seed": 0}
    params |= {"verbosity": -1, "feature_pre_filter": False}
    if task == "multiclass":
        params["num_class"] = n_classes
    train_set = lightgbm.Dataset(train, y)
    if test is None:
        return Fitted(lightgbm.train(params, train_set, max_rounds).predict, max_rounds)
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    test_rows = [train_set.create_valid(test, y_test)]
    model = lightgbm.train(params, train_set, max_rounds, valid_sets=test_rows, callbacks=[stop])
    return Fitted(model.predict, model.best_iteration)


def _draw_xgboost(trial: Any) -> Values:
    return {
        "eta": trial.suggest_float("eta", 0.01, 0.3, log=True),
        "max_depth": trial.suggest_int("max_depth", 1, 10),
        "min_child_weight": trial.suggest_float("min_child_weight", 1e-2, 30.0, log=True),
        "subsample": trial.suggest_float("subsample", 0.4, 1.0),
        "colsample_bynode": trial.suggest_float("colsample_bynode", 0.3, 1.0),
        "alpha": trial.suggest_float("alpha", 1e-4, 10.0, log=True),
        "lambda": trial.suggest_float("lambda", 1e-4, 30.0, log=True),
    }


def _fit_xgboost(
    values: Values,
    task: str,
    n_classes: int,
    train: Any,
    y: Any,
    test: Any,
    y_test: Any,
    max_rounds: int,
) -> Fitted:
    import xgboost

    objectives = {"regression": "reg:squarederror", "binary": "binary:logistic"}
    params = {
        **values,
        "objective": objectives.get(task, "multi:softprob"),
        "nthread": 1,
        "seed": 0,
    }
    if task == "multiclass":
        params["num_class"] = n_classes

    def to_matrix(frame: Any, target: Any = None) -> Any:
        return xgboost.DMatrix(frame, target, enable_categorical=True, nthread=1)

    train_set = to_matrix(train, y)
    if test is None:
        model = xgboost.train(params, train_set, max_rounds)
        return Fitted(lambda frame: model.predict(to_matrix(frame)), max_rounds)
    stopped = xgboost.train(
        params, train_set, max_rounds, evals=[(to_matrix(test, y_test), "test")],
        early_stopping_rounds=PATIENCE, verbose_eval=False,
    )  # fmt: skip
    n_rounds = stopped.best_iteration + 1
    return Fitted(
        lambda frame: stopped.predict(to_matrix(frame), iteration_range=(0, n_rounds)), n_rounds
    )


def _draw_catboost(trial: Any) -> Values:
    return {
        "learning_rate": trial.suggest_float("learning_rate", 0.01, 0.3, log=True),
        "depth": trial.suggest_int("depth", 2, 8),
        "l2_leaf_reg": trial.suggest_float("l2_leaf_reg", 0.5, 30.0, log=True),
        "random_strength": trial.suggest_float("random_strength", 1e-2, 10.0, log=True),
        "bagging_temperature": trial.suggest_float("bagging_temperature", 0.0, 2.0),
        "one_hot_max_size": trial.suggest_int("one_hot_max_size", 2, 25, log=True),
    }


def _fit_catboost(
    values: Values,
    task: str,
    n_classes: int,
    train: Any,
    y: Any,
    test: Any,
    y_test: Any,
    max_rounds: int,
) -> Fitted:
    import catboost

    loss = {"regression": "RMSE", "binary": "Logloss"}.get(task, "MultiClass")
    params = {**values, "loss_function": loss, "iterations": max_rounds, "thread_count": 1}
    params |= {"bootstrap_type": "Bayesian", "random_seed": 0, "verbose": False}
    if task == "multiclass":
        params["classes_count"] = n_classes
    estimator = catboost.CatBoostRegressor if task == "regression" else catboost.CatBoostClassifier
    model = estimator(**params, allow_writing_files=False)
    cats = [k for k, dtype in enumerate(train.dtypes) if dtype.kind == "O"]
    stopping = (
        {} if test is None else {"eval_set": (test, y_test), "early_stopping_rounds": PATIENCE}
    )
    model.fit(train, y, cat_features=cats, **stopping)
    predict = models.prediction_method(model, task)
    return Fitted(predict, max_rounds if test is None else model.get_best_iteration() + 1)


def _make_lightgbm_converter(problem: tables.Problem) -> Callable[[Any], Any]:
    """Return a function that gives frames pandas categories and names without punctuation."""
    typed = models.category_encoder(problem)
    names = [f"c{j}" for j in range(problem.X.shape[1])]
    return lambda frame: typed(frame).set_axis(names, axis=1)


def _make_catboost_converter(problem: tables.Problem) -> Callable[[Any], Any]:
    """Return a function that replaces missing categories by a text."""

    def convert(frame: Any) -> Any:
        filled = {name: frame[name].fillna("missing").astype(object) for name in problem.categories}
        return frame.assign(**filled)

    return convert


TUNED: dict[str, Rival] = {
    "lightgbm": Rival(
        {"learning_rate": 0.1, "num_leaves": 31, "min_data_in_leaf": 20, "feature_fraction": 1.0,
         "bagging_fraction": 1.0, "lambda_l1": 1e-4, "lambda_l2": 1e-4},
        _draw_lightgbm, _make_lightgbm_converter, _fit_lightgbm,
    ),
    "xgboost": Rival(
        {"eta": 0.3, "max_depth": 6, "min_child_weight": 1.0, "subsample": 1.0,
         "colsample_bynode": 1.0, "alpha": 1e-4, "lambda": 1.0},
        _draw_xgboost, _make_lightgbm_converter, _fit_xgboost,
    ),
    "catboost": Rival(
        {"learning_rate": 0.03, "depth": 6, "l2_leaf_reg": 3.0, "random_strength": 1.0,
         "bagging_temperature": 1.0, "one_hot_max_size": 2},
        _draw_catboost, _make_catboost_converter, _fit_catboost,
    ),
}  # fmt: skip


def score(task: str, y: np.ndarray, prediction: np.ndarray) -> float:
    """Return the RMSE, or the log loss of probabilities with one or two dimensions."""
    p = np.asarray(prediction, dtype=np.float64)
    if task == "regression":
        return float(np.sqrt(np.mean((y - p) ** 2)))
    if p.ndim == 1:
        p = np.column_stack([1.0 - p, p])
    return float(-np.mean(np.log(np.clip(p[np.arange(len(y)), y], 1e-15, 1.0))))


def search(library: str, problem: tables.Problem) -> Values:
    """Tune a library on the training rows, and score its best model on the test rows."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rival, task, y = TUNED[library], problem.task, problem.y
    n_classes = 0 if task == "regression" else int(y.max()) + 1
    convert = rival.make_converter(problem)
    X = convert(problem.X)
    splitter = KFold if task == "regression" else StratifiedKFold
    folds = list(splitter(N_FOLDS, shuffle=True, random_state=0).split(X, y))

    def judge(trial: Any) -> float:
        values, found, n_rounds = rival.draw(trial), [], []
        for train, test in folds:
            test_rows = X.iloc[test]
            fitted = rival.fit(
                values, task, n_classes, X.iloc[train], y[train], test_rows, y[test], MAX_ROUNDS
            )
            found.append(score(task, y[test], fitted.predict(test_rows)))
            n_rounds.append(fitted.n_rounds)
        trial.set_user_attr("n_rounds", float(np.mean(n_rounds)))
        return float(np.mean(found))

    began = time.process_time()
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    study.enqueue_trial(rival.defaults)
    study.optimize(judge, n_trials=N_TRIALS)
    best = study.best_trial
    n_rounds = max(1, round(best.user_attrs["n_rounds"] * N_FOLDS / (N_FOLDS - 1)))
    values = rival.draw(optuna.trial.FixedTrial(best.params))
    fitted = rival.fit(values, task, n_classes, X, y, None, None, n_rounds)
    seconds = time.process_time() - began
    found = score(task, problem.y_test, fitted.predict(convert(problem.X_test)))
    return {"score": found, "seconds": seconds, "inner": best.value, "rounds": n_rounds,
            "values": best.params}  # fmt: skip


def fit_hedgerow(given: Values, problem: tables.Problem) -> Values:
    """Fit and score Hedgerow with its defaults, except for the given parameters."""
    warm_up = tables.load("r_abalone", 0)
    models.fit('hedgerow{"n_jobs": 1, "n_estimators": 5}', warm_up)
    began, cpu_start = time.perf_counter(), time.process_time()
    predict = models.fit(f"hedgerow{json.dumps({'n_jobs': 1, **given})}", problem)
    elapsed, seconds = time.perf_counter() - began, time.process_time() - cpu_start
    found = problem.score(predict(problem.X_test))
    return {"score": found, "seconds": seconds, "elapsed": elapsed,
            "budget": given.get("time_budget")}  # fmt: skip


def _run_on_table(call: Callable[..., Values], argument: Any, job: tuple[str, int]) -> Values:
    return call(argument, tables.load(*job))


@cache
def _version(library: str) -> str:
    if library not in TUNED:
        return models.get_version("hedgerow")
    search_settings = f"{N_TRIALS} trials, {N_FOLDS} folds, {PATIENCE} of {MAX_ROUNDS} rounds"
    return f"{version(models.LIBRARIES[library][1])}, optuna {version('optuna')}, {search_settings}"


def _lines(path: Path) -> Iterator[Values]:
    if path.exists():
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def load_results(path: Path, library: str) -> dict[tuple[str, str, int], Values]:
    """Return the stored results of the current version of a library, by model, table and fold."""
    now = _version(library)
    current = [
        line for line in _lines(path) if line["library"] == library and line["version"] == now
    ]
    return {(line["model"], line["table"], line["fold"]): line for line in current}


def seed_name(seed: int) -> str:
    """Return the name of Hedgerow's results with a seed; the default is 0."""
    return f"hedgerow, seed {seed}" if seed else "hedgerow"


def run(
    path: Path,
    names: list[str],
    folds: list[int],
    rivals: list[str],
    limit: float,
    seed: int,
    has_budgets: bool,
) -> None:
    """Compute and store the results that are missing, table by table."""
    stored = {library: load_results(path, library) for library in (*rivals, "hedgerow")}

    def load_or_run(
        library: str, model: str, call: Any, argument: Any, job: tuple[str, int]
    ) -> Values:
        if (line := stored[library].get((model, *job))) is not None:
            return line
        found = run_in_process(_run_on_table, (call, argument, job), limit)
        line = {"library": library, "version": _version(library), "model": model,
                "table": job[0], "fold": job[1], **found}  # fmt: skip
        path.parent.mkdir(exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        outcome = found.get("failed") or f"{found['score']:.5g} in {found['seconds']:.1f} s"
        print(f"{job[0]} {job[1]} {model}: {outcome}", flush=True)
        return line

    for job in tables.jobs(names, folds):
        load_or_run("hedgerow", seed_name(seed), fit_hedgerow, {"random_state": seed}, job)
        for library in rivals:
            tuned = load_or_run(library, f"{library}, tuned", search, library, job)
            if "failed" in tuned or not has_budgets:
                continue
            model = f"hedgerow, a tenth of {library}'s time"
            budget = {"time_budget": SHARE * tuned["seconds"]}
            load_or_run("hedgerow", model, fit_hedgerow, budget, job)


def print_report(path: Path, rivals: list[str], seed: int, has_budgets: bool) -> None:
    """Print ranks, distances and paired tests on the tables that all models have."""
    found: dict[tuple[str, str, int], Values] = {}
    for library in (*rivals, "hedgerow"):
        found |= {key: line for key, line in load_results(path, library).items() if "score" in line}
    names = [seed_name(seed), *(f"{library}, tuned" for library in rivals)]
    if has_budgets:
        names += [f"hedgerow, a tenth of {library}'s time" for library in rivals]
    jobs = sorted({key[1:] for key in found})
    jobs = [job for job in jobs if all((name, *job) in found for name in names)]
    by_table: dict[str, list[int]] = {}
    for table, fold in jobs:
        by_table.setdefault(table, []).append(fold)

    def gather(figure: str, aggregate: Callable[[list[float]], float]) -> np.ndarray:
        return np.array([
            [aggregate([found[name, table, fold][figure] for fold in folds]) for name in names]
            for table, folds in by_table.items()
        ])  # fmt: skip

    print(f"{len(by_table)} tables, {len(jobs)} folds\n")
    if by_table:
        scores, seconds = gather("score", lambda v: float(np.mean(v))), gather("seconds", sum)
        print("\n".join(report.summary(names, scores, seconds)))
        print("\n" + "\n".join(report.by_table(names, list(by_table), scores)))


def default_tables() -> list[str]:
    """Return every second table with at most 5,000 rows, ordered by number of values."""
    index = tables.load_index()
    small = [name for name, row in index.items() if int(row["rows"]) <= MAX_ROWS]

    def n_values(name: str) -> int:
        row = index[name]
        n_outputs = float(row["n_classes"] or 0) if row["task"] == "multiclass" else 1
        return int(int(row["rows"]) * int(row["features"]) * n_outputs)

    return sorted(small, key=n_values)[::2]


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--tables", nargs="+", help="default: every second table of up to 5,000 rows"
    )
    parser.add_argument("--folds", nargs="+", type=int, default=[0])
    parser.add_argument("--libraries", nargs="+", default=list(RIVALS), choices=RIVALS)
    parser.add_argument("--seed", type=int, default=0, help="Hedgerow's seed (default 0)")
    parser.add_argument(
        "--budgets", action="store_true", help="also Hedgerow in a tenth of the time of a search"
    )
    parser.add_argument("--limit", type=float, default=3_600.0, help="seconds per search")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of the results")
    parser.add_argument(
        "--report", action="store_true", help="print stored results, compute nothing"
    )
    return parser


def main() -> None:
    options = build_parser().parse_args()
    if not options.report:
        names = options.tables or default_tables()
        run(
            options.results, names, options.folds, options.libraries, options.limit,
            options.seed, options.budgets,
        )  # fmt: skip
    print_report(options.results, options.libraries, options.seed, options.budgets)


if __name__ == "__main__":
    main()
