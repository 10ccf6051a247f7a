"""Default against default on rankings, counts and amounts, times, quantiles and distributions.

::

    python benchmarks/quality/other_tasks.py                            # what is missing, a table
    python benchmarks/quality/other_tasks.py --tasks ranking cox --folds 0 1 2
    python benchmarks/quality/other_tasks.py --models hedgerow 'hedgerow{"n_estimators": 100}'
    python benchmarks/quality/other_tasks.py --report --all              # only what is kept

Each library has the loss of the task and its defaults otherwise; one that has no such loss is not
in the table of this task.  Scores, of which less is better: 1 less NDCG@10; mean deviance of
Poisson, gamma and Tweedie (1.5); 1 less Harrell's concordance; pinball loss; negative log
likelihood of a normal distribution.  A fold is a fifth of the rows, by a hash of the row number
(of rankings: of the query).  A line of ``results/other_tasks.jsonl`` is one fit, with one thread.

Real rankings are few: those named ``lists_`` deal the rows of a regression table out to lists of
12, with grades 0 to 4 by fifths of the target.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
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

KEPT = Path(__file__).with_name("results") / "other_tasks.jsonl"
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
        """Those where ``rows`` is True."""
        weight, query = (None if v is None else v[rows] for v in (self.weight, self.query))
        return Rows(self.X[rows].reset_index(drop=True), self.y[rows], weight, query)


# -- tables -------------------------------------------------------------------


def _suite(name: str) -> Rows:
    row = tables.load_index()[name]
    cats = [column for column in row["cat_columns"].split("|") if column]
    frame = pd.read_csv(tables.ROOT / "suite" / f"{name}.csv.gz", dtype=dict.fromkeys(cats, str))
    y = frame.pop("target").to_numpy(dtype=np.float64)
    return Rows(frame, y)


def _lists(name: str) -> Rows:
    found = _suite(name)
    order = np.random.default_rng(0).permutation(len(found.y))
    query = np.empty(len(order), dtype=np.int64)
    query[order] = np.arange(len(order)) // LIST_ROWS
    grade = rankdata(found.y, method="average") / (len(order) + 1) * GRADES
    by_list = np.argsort(query, kind="stable")
    X = found.X.iloc[by_list].reset_index(drop=True)
    return Rows(X, np.floor(grade)[by_list], None, query[by_list])


def _generated_lists(n_queries: int, noise: float) -> Rows:
    rng = np.random.default_rng(n_queries)
    n = n_queries * LIST_ROWS
    query = np.repeat(np.arange(n_queries), LIST_ROWS)
    X = rng.normal(size=(n, 12)) + 0.7 * rng.normal(size=(n_queries, 12))[query]
    raw = X[:, 0] + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + noise * rng.normal(size=n)
    grade = np.digitize(raw, np.quantile(raw, [0.6, 0.8, 0.92, 0.98]))
    return Rows(_frame(X), grade.astype(np.float64), None, query)


def _svm_lists(folder: str, names: list[str]) -> Rows:
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
    return Rows(_frame(X), *(np.concatenate([part[1] for part in parts]), None),
                np.concatenate([part[2] for part in parts]))  # fmt: skip


def _frame(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])


def _times(name: str) -> Rows:
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


def _claims(what: str, n_rows: int) -> Rows:
    frame = pd.read_parquet(tables.ROOT / "fremtpl2" / "data.parquet")
    if what == "gamma":
        frame = frame[(frame["ClaimAmount"] > 0) & (frame["ClaimNb"] > 0)]
    frame = frame.sample(n_rows, random_state=0).reset_index(drop=True)
    number = frame["ClaimNb"].astype(np.float64).clip(upper=4).to_numpy()
    amount = frame["ClaimAmount"].astype(np.float64).clip(upper=100_000).to_numpy()
    years = frame["Exposure"].astype(np.float64).clip(upper=1).to_numpy()
    X = frame.drop(columns=["IDpol", "ClaimNb", "ClaimAmount", "Exposure"])
    for column in X.columns:
        texts = not pd.api.types.is_numeric_dtype(X[column].dtype)
        X[column] = X[column].astype(str if texts else np.float64)
    if what == "gamma":
        return Rows(X, amount / number, number)
    return Rows(X, (number if what == "poisson" else amount) / years, years)


def _bikes() -> Rows:
    problem = tables.load("bike_hour", 0)
    return Rows(problem.X, problem.y)


def _generated_counts(n_rows: int, what: str) -> Rows:
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, 8))
    mean = np.exp(0.4 * X[:, 0] + 0.5 * np.sin(2 * X[:, 1]) + 0.3 * X[:, 2] * (X[:, 3] > 0))
    number = rng.poisson(mean)
    y = rng.gamma(2.0, mean / 2.0) if what == "gamma" else number.astype(np.float64)
    if what == "tweedie":
        y = np.array([rng.gamma(1.5, 1.0, k).sum() for k in number])
    return Rows(_frame(X), y)


_SMALL = ("r_autompg", "r_no2", "r_cps_85_wages", "r_socmob", "r_stock", "r_space_ga", "r_pollen",
          "r_abalone", "r_car_prices", "r_sacramento", "r_bodyfat", "r_wine_white")  # fmt: skip
_TIMES = ("veteran", "gbsg2", "colon", "whas500", "rott2", "TRACE", "Aids2", "actg", "acath",
          "nwtco", "divorce", "Framingham")  # fmt: skip
_Tables: TypeAlias = "dict[str, Callable[[], Rows]]"


def _of(names: tuple[str, ...], read: Callable[[str], Rows], prefix: str = "") -> _Tables:
    return {f"{prefix}{name}": (lambda name=name: read(name)) for name in names}


def _of_size(what: str, n_claims: int) -> _Tables:
    found: _Tables = {
        f"generated_{n}": (lambda n=n: _generated_counts(n, what)) for n in (300, 1_000, 4_000)
    }
    return found | {"claims": lambda: _claims(what, n_claims)}


TABLES: dict[str, _Tables] = {
    "ranking": {
        "mslr_sample": lambda: _svm_lists("mslr_sample", ["train.txt.gz", "test.txt.gz"]),
        "lightgbm_rank": lambda: _svm_lists(
            "lightgbm_examples/lambdarank", ["rank.train", "rank.test"]
        ),
        "generated_60": lambda: _generated_lists(60, 1.0),
        "generated_200": lambda: _generated_lists(200, 0.5),
        "generated_500": lambda: _generated_lists(500, 1.5),
        **_of(("r_no2", "r_socmob", "r_stock", "r_space_ga", "r_pollen", "r_abalone", "r_quake",
               "r_wine_white"), _lists, "lists_"),
    },
    "poisson": {**_of_size("poisson", 20_000), "r_abalone": lambda: _suite("r_abalone"),
                "r_strike": lambda: _suite("r_strike"), "r_sensory": lambda: _suite("r_sensory"),
                "r_wine_white": lambda: _suite("r_wine_white"), "bike_hour": _bikes},
    "gamma": {**_of_size("gamma", 5_000), "r_sacramento": lambda: _suite("r_sacramento"),
              "r_car_prices": lambda: _suite("r_car_prices"),
              "r_cps_85_wages": lambda: _suite("r_cps_85_wages"),
              "r_autompg": lambda: _suite("r_autompg"), "r_stock": lambda: _suite("r_stock")},
    "tweedie": {**_of_size("tweedie", 20_000), "r_strike": lambda: _suite("r_strike"),
                "r_meta": lambda: _suite("r_meta")},
    "cox": _of(_TIMES, _times),
    "aft": _of(_TIMES, _times),
    **{name: _of(_SMALL, _suite) for name in LEVELS},
    "normal": _of(_SMALL, _suite),
}  # fmt: skip


# -- scores -------------------------------------------------------------------


def concordance(y: np.ndarray, risk: np.ndarray) -> float:
    """Harrell's: pairs of an event and a later time, where the larger risk came first."""
    time_, event = np.abs(y), y > 0
    later = event[:, None] & (time_[:, None] < time_[None, :])
    later |= event[:, None] & ~event[None, :] & (time_[:, None] == time_[None, :])
    more = (risk[:, None] > risk[None, :]) + 0.5 * (risk[:, None] == risk[None, :])
    return float(more[later].mean())


def ndcg(rows: Rows, scores: np.ndarray) -> float:
    """Mean NDCG@10 of the lists that have something to put in order."""
    found = []
    for query in np.unique(rows.query):
        mine = rows.query == query
        if len(np.unique(rows.y[mine])) > 1:
            found.append(ndcg_score([2 ** rows.y[mine] - 1], [scores[mine]], k=10))
    return float(np.mean(found))


def score(task: str, rows: Rows, prediction: np.ndarray) -> float:
    """Less is better."""
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


def _typed(rows: Rows) -> tuple[list[str], Callable[[pd.DataFrame], Any]]:
    cats = tables.text_columns(rows.X, "")
    problem = tables.Problem("regression", rows.X, rows.y, rows.X, rows.y, cats)
    typed = models.category_encoder(problem)
    names = [f"c{j}" for j in range(rows.X.shape[1])]
    return cats, lambda frame: typed(frame).set_axis(names, axis=1)


def _hedgerow(task: str, rows: Rows, parameters: dict[str, Any]) -> Predict:
    from hedgerow import HedgerowRanker, HedgerowRegressor

    cats, _ = _typed(rows)
    given = {"categorical_features": cats, "n_jobs": 1, **parameters}
    if task == "ranking":
        return HedgerowRanker(**given).fit(rows.X, rows.y, qid=rows.query).predict
    if task in LEVELS:
        given |= {"objective": "quantile", "quantile": LEVELS[task]}
    else:
        given["objective"] = task
    model = HedgerowRegressor(**given).fit(rows.X, rows.y, rows.weight)
    if task != "normal":
        return model.predict

    def distribution(frame: pd.DataFrame) -> np.ndarray:
        found = model.predict_distribution(frame)
        return np.stack([found.mean, found.std**2])

    return distribution


def _lightgbm(task: str, rows: Rows, parameters: dict[str, Any]) -> Predict:
    import lightgbm

    _, convert = _typed(rows)
    given = {"n_jobs": 1, "verbosity": -1, **parameters}
    if task == "ranking":
        sizes = np.unique(rows.query, return_counts=True)[1]
        ranker = lightgbm.LGBMRanker(**given).fit(convert(rows.X), rows.y, group=sizes)
        return lambda frame: ranker.predict(convert(frame))
    if task in LEVELS:
        given |= {"objective": "quantile", "alpha": LEVELS[task]}
    elif task in DEVIANCES:
        given |= {"objective": task, "tweedie_variance_power": POWER}
    else:
        raise NotImplementedError(task)
    model = lightgbm.LGBMRegressor(**given).fit(convert(rows.X), rows.y, sample_weight=rows.weight)
    return lambda frame: model.predict(convert(frame))


_OF_XGBOOST = {"poisson": "count:poisson", "gamma": "reg:gamma", "tweedie": "reg:tweedie"}


def _xgboost(task: str, rows: Rows, parameters: dict[str, Any]) -> Predict:
    import xgboost

    _, convert = _typed(rows)
    given: dict[str, Any] = {"n_jobs": 1, "enable_categorical": True, **parameters}
    if task == "ranking":
        ranker = xgboost.XGBRanker(**given).fit(convert(rows.X), rows.y, qid=rows.query)
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
        given |= {"objective": "reg:quantileerror", "quantile_alpha": LEVELS[task]}
    elif task == "cox":
        given["objective"] = "survival:cox"
    elif task in DEVIANCES:
        given |= {"objective": _OF_XGBOOST[task]}
        given |= {"tweedie_variance_power": POWER} if task == "tweedie" else {}
    else:
        raise NotImplementedError(task)
    model = xgboost.XGBRegressor(**given).fit(convert(rows.X), rows.y, sample_weight=rows.weight)
    return lambda frame: model.predict(convert(frame))


def _catboost(task: str, rows: Rows, parameters: dict[str, Any]) -> Predict:
    import catboost

    cats, _ = _typed(rows)
    losses = {"poisson": "Poisson", "tweedie": f"Tweedie:variance_power={POWER}", "cox": "Cox",
              "aft": "SurvivalAft", "normal": "RMSEWithUncertainty", "ranking": "YetiRank",
              **{name: f"Quantile:alpha={level}" for name, level in LEVELS.items()}}  # fmt: skip
    if task not in losses:
        raise NotImplementedError(task)
    given = {"loss_function": losses[task], "thread_count": 1, "verbose": False, **parameters}

    def convert(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(**{name: frame[name].fillna("missing") for name in cats})

    y = rows.y
    if task == "aft":
        y = np.column_stack([np.abs(y), np.where(y > 0, y, -1.0)])
    pool = catboost.Pool(
        convert(rows.X), y, cat_features=cats, weight=rows.weight, group_id=rows.query
    )
    model = catboost.CatBoost({**given, "allow_writing_files": False}).fit(pool)
    if task == "normal":
        return lambda frame: model.predict(convert(frame), "RMSEWithUncertainty").T
    kind = "Exponent" if task in DEVIANCES or task == "aft" else "RawFormulaVal"
    return lambda frame: model.predict(convert(frame), kind)


LIBRARIES = {"hedgerow": _hedgerow, "lightgbm": _lightgbm, "xgboost": _xgboost,
             "catboost": _catboost}  # fmt: skip


# -- running and telling ------------------------------------------------------

Key: TypeAlias = "tuple[str, str, str, int]"


def known(path: Path, names: list[str]) -> dict[Key, dict[str, Any]]:
    """What is kept of the models as they are now, by model, task, table and fold."""
    versions = {name: models.get_version(name) for name in names}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    return {
        (line["model"], line["task"], line["table"], line["fold"]): line
        for line in found
        if versions.get(line["model"]) == line["version"]
    }


def fitted(name: str, task: str, rows: Rows, fold: int) -> dict[str, Any]:
    """One fit."""
    library, parameters = models.parse(name)
    codes = np.arange(len(rows.y)) if rows.query is None else rows.query
    unseen = tables.assign_folds(int(codes.max()) + 1)[codes] == fold
    train, test = rows.take(~unseen), rows.take(unseen)
    began, worked = time.perf_counter(), time.process_time()
    try:
        predict = LIBRARIES[library](task, train, parameters)
    except NotImplementedError:
        return {"failed": "no such loss"}
    except Exception as error:  # a library that fails is a result
        return {"failed": f"{type(error).__name__}: {error}"[:200]}
    seconds, elapsed = time.process_time() - worked, time.perf_counter() - began
    prediction = np.asarray(predict(test.X), dtype=np.float64)
    return {"score": score(task, test, prediction), "seconds": seconds, "elapsed": elapsed}


def run(path: Path, names: list[str], tasks: list[str], folds: list[int], only: list[str]) -> None:
    """Do what is not kept yet."""
    there = known(path, names)
    versions = {name: models.get_version(name) for name in names}
    path.parent.mkdir(exist_ok=True)
    for task in tasks:
        for table, read in TABLES[task].items():
            keys = [(name, task, table, fold) for name in names for fold in folds]
            missing = [key for key in keys if key not in there]
            if not missing or (only and table not in only):
                continue
            rows = read()
            for name, _, _, fold in missing:
                line = {"model": name, "version": versions[name], "task": task, "table": table,
                        "fold": fold, **fitted(name, task, rows, fold)}  # fmt: skip
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                if line.get("failed", "no such loss") != "no such loss":
                    print(f"{name}, {task} {table} {fold}: {line['failed']}", flush=True)


def tell(path: Path, names: list[str], tasks: list[str], shows_all: bool) -> None:
    """For each task ranks, and log ratios of the scores to those of the first model."""
    found = known(path, names)
    title = f"of {names[0]}'s score over theirs, in %"
    print(f"| task | model | tables, folds | mean rank | mean ({title}) | error | median | "
          "better / worse | p | seconds |")  # fmt: skip
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    details = []
    for task in tasks:
        of_task = {k: line for k, line in found.items() if k[1] == task and "score" in line}
        have = [name for name in names if any(key[0] == name for key in of_task)]
        jobs = sorted({key[2:] for key in of_task})
        jobs = [job for job in jobs if all((name, task, *job) in of_task for name in have)]
        if names[0] not in have or not jobs:
            continue
        by_table = defaultdict(list)
        for table, fold in jobs:
            by_table[table].append(fold)

        def gather(figure: str, task: str = task, of: Any = None) -> np.ndarray:
            return np.array([
                [np.mean([found[n, task, t, f][figure] for f in folds]) for n in have]  # noqa: B023
                for t, folds in by_table.items()  # noqa: B023
            ])  # fmt: skip

        scores, seconds = gather("score"), gather("seconds")
        ranks = np.mean([rankdata(row) for row in scores], axis=0)
        details += ["", task, "", *report.by_table(have, list(by_table), scores)]
        for k, name in enumerate(have):
            cells = [task, name, f"{len(by_table)}, {len(jobs)}", f"{ranks[k]:.2f}"]
            cells += _compared(task, scores[:, 0], scores[:, k]) if k else ["", "", "", "", ""]
            print("| " + " | ".join([*cells, f"{seconds[:, k].sum():.1f}"]) + " |")
    if shows_all:
        print("\n".join(details))


def _compared(task: str, ours: np.ndarray, theirs: np.ndarray) -> list[str]:
    """Paired differences over the tables: relative ones, of log likelihoods absolute ones."""
    gain = ours - theirs if task == "normal" else np.log(ours / theirs)
    gain = np.clip(gain, -1.0, 1.0)
    error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
    better, worse = (gain < -report.TIE).sum(), (gain > report.TIE).sum()
    p = wilcoxon(gain).pvalue if np.any(gain) else 1.0
    return [f"{100 * gain.mean():+.1f}", f"{100 * error:.1f}", f"{100 * np.median(gain):+.1f}",
            f"{better} / {worse}", f"{p:.2g}"]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--models", nargs="+", default=list(LIBRARIES))
    parser.add_argument("--tasks", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--tables", nargs="+", default=[], help="default: all of the task")
    parser.add_argument("--folds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--kept", type=Path, default=KEPT, help="file of the results")
    parser.add_argument("--report", action="store_true", help="tell what is kept, do nothing")
    parser.add_argument("--all", action="store_true", help="every score as well")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if not options.report:
        run(options.kept, options.models, options.tasks, options.folds, options.tables)
    tell(options.kept, options.models, options.tasks, options.all)


if __name__ == "__main__":
    main()
