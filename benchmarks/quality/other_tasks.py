"""Compare defaults on ranking, counts, amounts, survival times, quantiles and distributions.

::

    python benchmarks/quality/other_tasks.py                            # computes what is missing
    python benchmarks/quality/other_tasks.py --tasks ranking cox --folds 0 1 2
    python benchmarks/quality/other_tasks.py --models hedgerow 'hedgerow{"n_estimators": 100}'
    python benchmarks/quality/other_tasks.py --report --all              # prints stored results

Each library uses the loss of the task, and its defaults otherwise.  A library without this loss is
not in the table of the task.  Lower scores are better: 1 - NDCG@10; mean deviance of Poisson,
gamma and Tweedie (1.5); 1 - Harrell's concordance; pinball loss; negative log likelihood of a
normal distribution.  A fold is a fifth of the rows, by a hash of the row number (for ranking, of
the query).  A line of ``results/other_tasks.jsonl`` is one fit, with one thread.

Real ranking data are rare.  So the tables named ``lists_`` are regression tables: their rows are
dealt out to lists of 12, with grades 0 to 4 by fifths of the target.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import models
import numpy as np
import pandas as pd
import tables
from scipy.stats import rankdata, wilcoxon
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import mean_pinball_loss, mean_tweedie_deviance, ndcg_score

import report

RESULTS = Path(__file__).with_name("results") / "other_tasks.jsonl"
LIST_ROWS, GRADES = 12, 5
FEWEST_PAIRS = 1e-12
POWER = 1.5
LEVELS = {"quantile_10": 0.1, "quantile_50": 0.5, "quantile_90": 0.9}
DEVIANCES = {"poisson": 1.0, "gamma": 2.0, "tweedie": POWER}

Predict: TypeAlias = "Callable[[pd.DataFrame], np.ndarray]"


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a table."""

    X: pd.DataFrame
    y: np.ndarray
    weight: np.ndarray | None = None
    query: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> Rows:
        """Return the rows where ``rows`` is True."""
        weight, query = (None if v is None else v[rows] for v in (self.weight, self.query))
        return Rows(self.X[rows].reset_index(drop=True), self.y[rows], weight, query)


# -- tables -------------------------------------------------------------------


def _load_suite(name: str) -> Rows:
    row = tables.load_index()[name]
    cats = [column for column in row["cat_columns"].split("|") if column]
    frame = pd.read_csv(tables.ROOT / "suite" / f"{name}.csv.gz", dtype=dict.fromkeys(cats, str))
    y = frame.pop("target").to_numpy(dtype=np.float64)
    return Rows(frame, y)


def _load_lists(name: str) -> Rows:
    found = _load_suite(name)
    order = np.random.default_rng(0).permutation(len(found.y))
    query = np.empty(len(order), dtype=np.int64)
    query[order] = np.arange(len(order)) // LIST_ROWS
    grade = rankdata(found.y, method="average") / (len(order) + 1) * GRADES
    by_list = np.argsort(query, kind="stable")
    X = found.X.iloc[by_list].reset_index(drop=True)
    return Rows(X, np.floor(grade)[by_list], None, query[by_list])


def _generate_lists(n_queries: int, noise: float) -> Rows:
    rng = np.random.default_rng(n_queries)
    n = n_queries * LIST_ROWS
    query = np.repeat(np.arange(n_queries), LIST_ROWS)
    X = rng.normal(size=(n, 12)) + 0.7 * rng.normal(size=(n_queries, 12))[query]
    raw = X[:, 0] + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + noise * rng.normal(size=n)
    grade = np.digitize(raw, np.quantile(raw, [0.6, 0.8, 0.92, 0.98]))
    return Rows(make_frame(X), grade.astype(np.float64), None, query)


def load_svm_lists(folder: str, names: list[str]) -> Rows:
    parts, first = [], 0
    for name in names:
        path = tables.ROOT / folder / name
        X, y, *query = load_svmlight_file(str(path), query_id=name.endswith(".gz"))
        if query:
            codes = pd.factorize(query[0])[0]
        else:
            sizes = np.loadtxt(path.with_name(f"{name}.query"), dtype=np.int64)
            codes = np.repeat(np.arange(len(sizes)), sizes)
        parts.append((X.toarray(), y, codes + first))
        first += int(codes.max()) + 1
    width = max(X.shape[1] for X, _, _ in parts)
    X = np.concatenate([np.pad(X, ((0, 0), (0, width - X.shape[1]))) for X, _, _ in parts])
    return Rows(make_frame(X), *(np.concatenate([part[1] for part in parts]), None),
                np.concatenate([part[2] for part in parts]))  # fmt: skip


def make_frame(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])


def _load_times(name: str) -> Rows:
    frame = pd.read_parquet(tables.ROOT / "survival" / f"{name}.parquet")
    event, time_ = frame.pop("event").to_numpy(), frame.pop("time").to_numpy(dtype=np.float64)
    kept = time_ > 0
    frame = frame.drop(columns=["pid"], errors="ignore")
    for column in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[column].dtype):
            texts = frame[column].astype(object)
            frame[column] = texts.where(texts.isna(), texts.astype(str))
        else:
            frame[column] = frame[column].astype(np.float64)
    return Rows(frame, np.where(event == 1, time_, -time_)).take(kept)


def load_claims(task: str, n_rows: int) -> Rows:
    frame = pd.read_parquet(tables.ROOT / "fremtpl2" / "data.parquet")
    if task == "gamma":
        frame = frame[(frame["ClaimAmount"] > 0) & (frame["ClaimNb"] > 0)]
    frame = frame.sample(n_rows, random_state=0).reset_index(drop=True)
    number = frame["ClaimNb"].astype(np.float64).clip(upper=4).to_numpy()
    amount = frame["ClaimAmount"].astype(np.float64).clip(upper=100_000).to_numpy()
    years = frame["Exposure"].astype(np.float64).clip(upper=1).to_numpy()
    X = frame.drop(columns=["IDpol", "ClaimNb", "ClaimAmount", "Exposure"])
    for column in X.columns:
        texts = not pd.api.types.is_numeric_dtype(X[column].dtype)
        X[column] = X[column].astype(str if texts else np.float64)
    if task == "gamma":
        return Rows(X, amount / number, number)
    return Rows(X, (number if task == "poisson" else amount) / years, years)


def _load_bikes() -> Rows:
    problem = tables.load("bike_hour", 0)
    return Rows(problem.X, problem.y)


def _generate_counts(n_rows: int, task: str) -> Rows:
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, 8))
    mean = np.exp(0.4 * X[:, 0] + 0.5 * np.sin(2 * X[:, 1]) + 0.3 * X[:, 2] * (X[:, 3] > 0))
    number = rng.poisson(mean)
    y = rng.gamma(2.0, mean / 2.0) if task == "gamma" else number.astype(np.float64)
    if task == "tweedie":
        y = np.array([rng.gamma(1.5, 1.0, k).sum() for k in number])
    return Rows(make_frame(X), y)


_SMALL = ("r_autompg", "r_no2", "r_cps_85_wages", "r_socmob", "r_stock", "r_space_ga", "r_pollen",
          "r_abalone", "r_car_prices", "r_sacramento", "r_bodyfat", "r_wine_white")  # fmt: skip
_RANKED = ("r_no2", "r_socmob", "r_stock", "r_space_ga", "r_pollen", "r_abalone", "r_quake",
           "r_wine_white")  # fmt: skip
_TIMES = ("veteran", "gbsg2", "colon", "whas500", "rott2", "TRACE", "Aids2", "actg", "acath",
          "nwtco", "divorce", "Framingham")  # fmt: skip
_Tables: TypeAlias = "dict[str, Callable[[], Rows]]"


def _make_loaders(names: tuple[str, ...], read: Callable[[str], Rows], prefix: str = "") -> _Tables:
    return {f"{prefix}{name}": partial(read, name) for name in names}


def _make_amount_loaders(task: str, n_claims: int) -> _Tables:
    counts = {f"generated_{n}": partial(_generate_counts, n, task) for n in (300, 1_000, 4_000)}
    return {**counts, "claims": partial(load_claims, task, n_claims)}


TABLES: dict[str, _Tables] = {
    "ranking": {
        "mslr_sample": lambda: load_svm_lists("mslr_sample", ["train.txt.gz", "test.txt.gz"]),
        "lightgbm_rank": lambda: load_svm_lists(
            "lightgbm_examples/lambdarank", ["rank.train", "rank.test"]
        ),
        "generated_60": lambda: _generate_lists(60, 1.0),
        "generated_200": lambda: _generate_lists(200, 0.5),
        "generated_500": lambda: _generate_lists(500, 1.5),
        **_make_loaders(_RANKED, _load_lists, "lists_"),
    },
    "poisson": {
        **_make_amount_loaders("poisson", 20_000),
        **_make_loaders(("r_abalone", "r_strike", "r_sensory", "r_wine_white"), _load_suite),
        "bike_hour": _load_bikes,
    },
    "gamma": {
        **_make_amount_loaders("gamma", 5_000),
        **_make_loaders(
            ("r_sacramento", "r_car_prices", "r_cps_85_wages", "r_autompg", "r_stock"), _load_suite
        ),
    },
    "tweedie": {
        **_make_amount_loaders("tweedie", 20_000),
        **_make_loaders(("r_strike", "r_meta"), _load_suite),
    },
    "cox": _make_loaders(_TIMES, _load_times),
    "aft": _make_loaders(_TIMES, _load_times),
    **{name: _make_loaders(_SMALL, _load_suite) for name in LEVELS},
    "normal": _make_loaders(_SMALL, _load_suite),
}  # fmt: skip


# -- scores -------------------------------------------------------------------


def concordance(y: np.ndarray, risk: np.ndarray) -> float:
    """Return Harrell's concordance: the share of comparable pairs that the risk orders right."""
    time_, event = np.abs(y), y > 0
    later = event[:, None] & (time_[:, None] < time_[None, :])
    later |= event[:, None] & ~event[None, :] & (time_[:, None] == time_[None, :])
    more = (risk[:, None] > risk[None, :]) + 0.5 * (risk[:, None] == risk[None, :])
    return float(more[later].mean())


def ndcg(rows: Rows, scores: np.ndarray) -> float:
    """Return the mean NDCG@10 of the lists with more than one grade."""
    assert rows.query is not None
    found = []
    for query in np.unique(rows.query):
        in_list = rows.query == query
        if len(np.unique(rows.y[in_list])) > 1:
            found.append(ndcg_score([2 ** rows.y[in_list] - 1], [scores[in_list]], k=10))
    return float(np.mean(found))


def score(task: str, rows: Rows, prediction: np.ndarray) -> float:
    """Return the score of the task; lower is better."""
    if task == "ranking":
        return 1.0 - ndcg(rows, prediction)
    if task in ("cox", "aft"):
        return 1.0 - concordance(rows.y, prediction if task == "cox" else -prediction)
    if task in LEVELS:
        return float(mean_pinball_loss(rows.y, prediction, alpha=LEVELS[task]))
    if task == "normal":
        mean, variance = prediction
        z = (rows.y - mean) ** 2 / variance
        return float(np.mean(0.5 * (np.log(2 * np.pi * variance) + z)))
    mean = np.maximum(prediction, 1e-9)
    return float(
        mean_tweedie_deviance(rows.y, mean, sample_weight=rows.weight, power=DEVIANCES[task])
    )


# -- libraries ----------------------------------------------------------------


def _make_converter(rows: Rows) -> tuple[list[str], Callable[[pd.DataFrame], Any]]:
    cats = tables.text_columns(rows.X, "")
    problem = tables.Problem("regression", rows.X, rows.y, rows.X, rows.y, cats)
    typed = models.category_encoder(problem)
    names = [f"c{j}" for j in range(rows.X.shape[1])]
    return cats, lambda frame: typed(frame).set_axis(names, axis=1)


def _fit_hedgerow(task: str, rows: Rows, parameters: dict[str, Any]) -> Predict:
    from hedgerow import HedgerowRanker, HedgerowRegressor

    cats, _ = _make_converter(rows)
    params = {"categorical_features": cats, "n_jobs": 1, **parameters}
    if task == "ranking":
        return HedgerowRanker(**params).fit(rows.X, rows.y, qid=rows.query).predict
    if task in LEVELS:
        params |= {"objective": "quantile", "quantile": LEVELS[task]}
    else:
        params["objective"] = task
    model = HedgerowRegressor(**params).fit(rows.X, rows.y, rows.weight)
    if task != "normal":
        return model.predict

    def distribution(frame: pd.DataFrame) -> np.ndarray:
        found = model.predict_distribution(frame)
        return np.stack([found.mean, found.std**2])

    return distribution


def _fit_lightgbm(task: str, rows: Rows, parameters: dict[str, Any]) -> Predict:
    import lightgbm

    _, convert = _make_converter(rows)
    params = {"n_jobs": 1, "verbosity": -1, **parameters}
    if task == "ranking":
        assert rows.query is not None
        sizes = np.unique(rows.query, return_counts=True)[1]
        ranker = lightgbm.LGBMRanker(**params).fit(convert(rows.X), rows.y, group=sizes)
        return lambda frame: ranker.predict(convert(frame))
    if task in LEVELS:
        params |= {"objective": "quantile", "alpha": LEVELS[task]}
    elif task in DEVIANCES:
        params |= {"objective": task, "tweedie_variance_power": POWER}
    else:
        raise NotImplementedError(task)
    model = lightgbm.LGBMRegressor(**params).fit(convert(rows.X), rows.y, sample_weight=rows.weight)
    return lambda frame: model.predict(convert(frame))


_XGBOOST_OBJECTIVES = {"poisson": "count:poisson", "gamma": "reg:gamma", "tweedie": "reg:tweedie"}


def _fit_xgboost(task: str, rows: Rows, parameters: dict[str, Any]) -> Predict:
    import xgboost

    _, convert = _make_converter(rows)
    params: dict[str, Any] = {"n_jobs": 1, "enable_categorical": True, **parameters}
    if task == "ranking":
        ranker = xgboost.XGBRanker(**params).fit(convert(rows.X), rows.y, qid=rows.query)
        return lambda frame: ranker.predict(convert(frame))
    if task == "aft":
        seen = xgboost.DMatrix(convert(rows.X), enable_categorical=True, nthread=1)
        seen.set_float_info("label_lower_bound", np.abs(rows.y))
        seen.set_float_info("label_upper_bound", np.where(rows.y > 0, rows.y, np.inf))
        booster = xgboost.train({"objective": "survival:aft", "nthread": 1}, seen, 100)
        return lambda frame: booster.predict(
            xgboost.DMatrix(convert(frame), enable_categorical=True, nthread=1)
        )
    if task in LEVELS:
        params |= {"objective": "reg:quantileerror", "quantile_alpha": LEVELS[task]}
    elif task == "cox":
        params["objective"] = "survival:cox"
    elif task in DEVIANCES:
        params |= {"objective": _XGBOOST_OBJECTIVES[task]}
        params |= {"tweedie_variance_power": POWER} if task == "tweedie" else {}
    else:
        raise NotImplementedError(task)
    model = xgboost.XGBRegressor(**params).fit(convert(rows.X), rows.y, sample_weight=rows.weight)
    return lambda frame: model.predict(convert(frame))


def _fit_catboost(task: str, rows: Rows, parameters: dict[str, Any]) -> Predict:
    import catboost

    cats, _ = _make_converter(rows)
    losses = {"poisson": "Poisson", "tweedie": f"Tweedie:variance_power={POWER}", "cox": "Cox",
              "aft": "SurvivalAft", "normal": "RMSEWithUncertainty", "ranking": "YetiRank",
              **{name: f"Quantile:alpha={level}" for name, level in LEVELS.items()}}  # fmt: skip
    if task not in losses:
        raise NotImplementedError(task)
    params = {"loss_function": losses[task], "thread_count": 1, "verbose": False, **parameters}

    def convert(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(**{name: frame[name].fillna("missing") for name in cats})

    y = rows.y
    if task == "aft":
        y = np.column_stack([np.abs(y), np.where(y > 0, y, -1.0)])
    pool = catboost.Pool(
        convert(rows.X), y, cat_features=cats, weight=rows.weight, group_id=rows.query
    )
    model = catboost.CatBoost({**params, "allow_writing_files": False}).fit(pool)
    if task == "normal":
        return lambda frame: model.predict(convert(frame), "RMSEWithUncertainty").T
    prediction_type = "Exponent" if task in DEVIANCES or task == "aft" else "RawFormulaVal"
    return lambda frame: model.predict(convert(frame), prediction_type)


LIBRARIES = {"hedgerow": _fit_hedgerow, "lightgbm": _fit_lightgbm, "xgboost": _fit_xgboost,
             "catboost": _fit_catboost}  # fmt: skip


# -- fits and reports ---------------------------------------------------------

Key: TypeAlias = "tuple[str, str, str, int]"


def load_results(path: Path, names: list[str]) -> dict[Key, dict[str, Any]]:
    """Return the stored results of the models' current versions, by model, task, table, fold."""
    versions = {name: models.get_version(name) for name in names}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    return {
        (line["model"], line["task"], line["table"], line["fold"]): line
        for line in found
        if versions.get(line["model"]) == line["version"]
    }


def fit_model(name: str, task: str, rows: Rows, fold: int) -> dict[str, Any]:
    """Fit one model on one fold, and return its result."""
    library, parameters = models.parse(name)
    codes = np.arange(len(rows.y)) if rows.query is None else rows.query
    is_test = tables.assign_folds(int(codes.max()) + 1)[codes] == fold
    train, test = rows.take(~is_test), rows.take(is_test)
    began, cpu_start = time.perf_counter(), time.process_time()
    try:
        predict = LIBRARIES[library](task, train, parameters)
    except NotImplementedError:
        return {"failed": "no such loss"}
    except Exception as error:  # a failure of a library is a result
        return {"failed": f"{type(error).__name__}: {error}"[:200]}
    seconds, elapsed = time.process_time() - cpu_start, time.perf_counter() - began
    prediction = np.asarray(predict(test.X), dtype=np.float64)
    return {"score": score(task, test, prediction), "seconds": seconds, "elapsed": elapsed}


def run(path: Path, names: list[str], tasks: list[str], folds: list[int], only: list[str]) -> None:
    """Compute and store the results that are missing."""
    stored = load_results(path, names)
    versions = {name: models.get_version(name) for name in names}
    path.parent.mkdir(exist_ok=True)
    for task in tasks:
        for table, read in TABLES[task].items():
            keys = [(name, task, table, fold) for name in names for fold in folds]
            missing = [key for key in keys if key not in stored]
            if not missing or (only and table not in only):
                continue
            rows = read()
            for name, _, _, fold in missing:
                line = {"model": name, "version": versions[name], "task": task, "table": table,
                        "fold": fold, **fit_model(name, task, rows, fold)}  # fmt: skip
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                if line.get("failed", "no such loss") != "no such loss":
                    print(f"{name}, {task} {table} {fold}: {line['failed']}", flush=True)


def print_report(path: Path, names: list[str], tasks: list[str], shows_all: bool) -> None:
    """Print ranks for each task, and log ratios of the first model's scores to the others'."""
    found = load_results(path, names)
    title = f"of log({names[0]}'s score / other score), in %"
    print(f"| task | model | tables, folds | mean rank | mean ({title}) | error | median | "
          "better / worse | p | seconds |")  # fmt: skip
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    details = []
    for task in tasks:
        of_task = {k: line for k, line in found.items() if k[1] == task and "score" in line}
        available = [name for name in names if any(key[0] == name for key in of_task)]
        jobs = sorted({key[2:] for key in of_task})
        jobs = [job for job in jobs if all((name, task, *job) in of_task for name in available)]
        if names[0] not in available or not jobs:
            continue
        by_table = defaultdict(list)
        for table, fold in jobs:
            by_table[table].append(fold)

        scores, seconds = (
            np.array([[np.mean([found[n, task, t, f][figure] for f in folds]) for n in available]
                      for t, folds in by_table.items()])
            for figure in ("score", "seconds")
        )  # fmt: skip
        ranks = np.mean([rankdata(row) for row in scores], axis=0)
        details += ["", task, "", *report.by_table(available, list(by_table), scores)]
        for k, name in enumerate(available):
            cells = [task, name, f"{len(by_table)}, {len(jobs)}", f"{ranks[k]:.2f}"]
            cells += _format_differences(task, scores[:, 0], scores[:, k]) if k else [""] * 5
            print("| " + " | ".join([*cells, f"{seconds[:, k].sum():.1f}"]) + " |")
    if shows_all:
        print("\n".join(details))


def _format_differences(task: str, first: np.ndarray, other: np.ndarray) -> list[str]:
    """Format paired differences over the tables: relative ones, but absolute log likelihoods."""
    gain = first - other if task == "normal" else np.log(first / other)
    gain = np.clip(gain, -1.0, 1.0)
    error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
    better, worse = (gain < -report.TIE).sum(), (gain > report.TIE).sum()
    p = wilcoxon(gain).pvalue if np.any(gain) else 1.0
    return [f"{100 * gain.mean():+.1f}", f"{100 * error:.1f}", f"{100 * np.median(gain):+.1f}",
            f"{better} / {worse}", f"{p:.2g}"]  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--models", nargs="+", type=models.check_name, default=list(LIBRARIES))
    parser.add_argument("--tasks", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--tables", nargs="+", default=[], help="default: all tables of the task")
    parser.add_argument("--folds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of the results")
    parser.add_argument("--report", action="store_true", help="only print stored results")
    parser.add_argument("--all", action="store_true", help="also print every score")
    return parser


def main() -> None:
    options = build_parser().parse_args()
    warnings.filterwarnings("ignore")
    if not options.report:
        run(options.results, options.models, options.tasks, options.folds, options.tables)
    print_report(options.results, options.models, options.tasks, options.all)


if __name__ == "__main__":
    main()
