"""Metrics equal scikit-learn's; weights act like repeated rows; errors are helpful."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import huber, pseudo_huber
from sklearn import metrics as reference

from hedgerow import Dataset, train
from hedgerow.errors import DataError, LossError, ParameterError
from hedgerow.metrics import ALIASES, METRICS, Metric, evaluate, make_metrics
from hedgerow.metrics.catalogue import WITH_PARAMETER
from hedgerow.objectives import make_objective

RNG = np.random.default_rng(0)
N = 60
NUMBERS = RNG.normal(size=N)
GUESS = NUMBERS + RNG.normal(size=N)
LABELS = RNG.integers(0, 2, N).astype(float)
P = np.round(RNG.uniform(0.05, 0.95, N), 1)  # with ties
PROBABILITY = np.column_stack([1 - P, P])
THREE = RNG.integers(0, 3, N).astype(float)
RAW3 = RNG.normal(size=(3, N))
SOFT = RNG.dirichlet([2.0, 2.0, 2.0], size=N).round(2) + 0.001
SOFT = SOFT / SOFT.sum(axis=1, keepdims=True)
COUNTS = RNG.poisson(2.0, N) + 1.0
RATES = COUNTS * np.exp(RNG.normal(size=N))
SHARES, SAID = RNG.uniform(size=N), RNG.uniform(size=N)
TIMES = np.where(RNG.random(N) < 0.7, 1.0, -1.0) * np.ceil(RNG.exponential(20.0, N))
RISK = np.round(RNG.normal(size=N), 1)
WEIGHT = RNG.integers(1, 5, N).astype(float)
ABSENT = np.where(np.arange(N) % 4 == 0, 0.0, WEIGHT)


def mean_of(values):
    return lambda y, p, w: np.average(values(y, p), weights=w)


def of_classes(score, **settings):
    return lambda y, p, w: score(y, p.argmax(1), sample_weight=w, **settings)


def second(score):
    """Return a score of class 1, or the mean over the classes."""

    def mean(y, p, w, by_weight=False):
        if p.shape[1] == 2:
            return score(y, p[:, 1], w)
        mass = [np.sum((np.ones(len(y)) if w is None else w)[y == k]) for k in range(p.shape[1])]
        scores = [score((y == k).astype(float), p[:, k], w) for k in range(p.shape[1])]
        return np.average(scores, weights=mass if by_weight else None)

    return mean


def area(y, p, w):
    return reference.roc_auc_score(y, p, sample_weight=w)


def interpolated(y, p, w):
    """Return the area under the PR curve by many small steps between thresholds."""
    w = np.ones(len(y)) if w is None else w
    points = [(0.0, 0.0)] + [
        (w[(p >= cut) & (y == 1)].sum(), w[(p >= cut) & (y == 0)].sum())
        for cut in np.unique(p)[::-1]
    ]
    total, found = points[-1][0], 0.0
    for (a, b), (c, d) in itertools.pairwise(points):
        t = (np.arange(20_000) + 0.5) / 20_000
        inside, outside = a + t * (c - a), b + t * (d - b)
        found += (inside / (inside + outside)).mean() * (c - a) / total
    return found


def distance(y, p, w):
    return max(np.abs(np.subtract(*reference.roc_curve(y, p, sample_weight=w)[:2])))


def pair_area_of_raw(y, raw, w):
    w = np.ones(len(y)) if w is None else w
    scores = []
    for i, j in itertools.combinations(range(len(raw)), 2):
        rows = (y == i) | (y == j)
        scores.append(area(y[rows] == i, (raw[i] - raw[j])[rows], w[rows]))
    return np.mean(scores)


def margins(y, raw, w):
    scores = raw[0] if len(raw) == 1 else raw.T
    return reference.hinge_loss(y, scores, sample_weight=w)


def brier(y, p, w):
    return np.average((p[:, 1] - y) ** 2, weights=w) if p.shape[1] == 2 else np.average(
        ((p - np.eye(p.shape[1])[y.astype(int)]) ** 2).sum(axis=1), weights=w
    )  # fmt: skip


def calibration(y, p, w):
    """Return the calibration error, bin by bin."""
    w = np.ones(len(y)) if w is None else w
    said = p[:, 1] if p.shape[1] == 2 else p.max(axis=1)
    right = y if p.shape[1] == 2 else (p.argmax(axis=1) == y)
    found = 0.0
    for k in range(10):
        rows = (np.floor(said * 10) == k) | ((k == 9) & (said == 1.0))
        if rows.any():
            gap = np.average(said[rows], weights=w[rows]) - np.average(right[rows], weights=w[rows])
            found += w[rows].sum() * abs(gap) / w.sum()
    return found


def top_two_accuracy(y, p, w):
    return reference.top_k_accuracy_score(y, p, k=2, sample_weight=w)


def tweedie(y, p, sample_weight):
    return reference.mean_tweedie_deviance(y, p, sample_weight=sample_weight, power=1.5)


def parts(kind, **settings):
    score = getattr(reference, f"{kind}_score")
    return of_classes(score, zero_division=0.0, **settings)


REFERENCE = {
    "rmse": lambda y, p, w: reference.root_mean_squared_error(y, p, sample_weight=w),
    "mse": lambda y, p, w: reference.mean_squared_error(y, p, sample_weight=w),
    "mae": lambda y, p, w: reference.mean_absolute_error(y, p, sample_weight=w),
    "r2": lambda y, p, w: reference.r2_score(y, p, sample_weight=w),
    "mape": lambda y, p, w: reference.mean_absolute_percentage_error(y, p, sample_weight=w),
    "smape": mean_of(lambda y, p: 2 * np.abs(y - p) / (np.abs(y) + np.abs(p))),
    "msle": lambda y, p, w: reference.mean_squared_log_error(y, p, sample_weight=w),
    "rmsle": lambda y, p, w: reference.root_mean_squared_log_error(y, p, sample_weight=w),
    "median_error": lambda y, p, w: reference.median_absolute_error(
        *((y, p) if w is None else (y.repeat(w.astype(int)), p.repeat(w.astype(int))))
    ),
    "max_error": lambda y, p, w: reference.max_error(y, p),
    "log_cosh": mean_of(lambda y, p: np.log(np.cosh(y - p))),
    "poisson_deviance": lambda y, p, w: reference.mean_poisson_deviance(y, p, sample_weight=w),
    "poisson": mean_of(lambda y, p: p - y * np.log(p)),
    "poisson_nloglik": mean_of(lambda y, p: -stats.poisson.logpmf(y, p)),
    "gamma_deviance": lambda y, p, w: reference.mean_gamma_deviance(y, p, sample_weight=w),
    "gamma_nloglik": mean_of(lambda y, p: -stats.expon.logpdf(y, scale=p)),
    "tweedie_deviance": lambda y, p, w: tweedie(y, p, w),
    "tweedie_nloglik": mean_of(lambda y, p: p**0.5 / 0.5 + y * p**-0.5 / 0.5),
    "cross_entropy": mean_of(lambda y, p: -y * np.log(p) - (1 - y) * np.log(1 - p)),
    "kldiv": mean_of(lambda y, p: y * np.log(y / p) + (1 - y) * np.log((1 - y) / (1 - p))),
    "pinball": lambda y, p, w: reference.mean_pinball_loss(y, p, sample_weight=w, alpha=0.5),
    "expectile": lambda y, p, w: reference.mean_squared_error(y, p, sample_weight=w) / 2,
    "huber": lambda y, p, w: np.average(huber(1.0, p - y), weights=w),
    "pseudo_huber": mean_of(lambda y, p: pseudo_huber(1.0, p - y)),
    "fair": mean_of(lambda y, p: np.abs(y - p) - np.log1p(np.abs(y - p))),
    "logloss": lambda y, p, w: reference.log_loss(y, p, sample_weight=w),
    "accuracy": of_classes(reference.accuracy_score),
    "error": of_classes(reference.zero_one_loss),
    "error_at": of_classes(reference.zero_one_loss),
    "balanced_accuracy": of_classes(reference.balanced_accuracy_score),
    "mcc": of_classes(reference.matthews_corrcoef),
    "kappa": of_classes(reference.cohen_kappa_score),
    "brier": brier,
    "hinge": margins,
    "calibration_error": calibration,
    "auc": functools.partial(second(area), by_weight=True),
    "auc_ovr": second(area),
    "auc_mu": pair_area_of_raw,
    "average_precision": lambda y, p, w: reference.average_precision_score(
        y, p[:, 1] if p.shape[1] == 2 else p, sample_weight=w
    ),
    "aucpr": second(interpolated),
    "ks": second(distance),
    "top_k_accuracy": top_two_accuracy,
    "top_k_error": lambda y, p, w: 1 - top_two_accuracy(y, p, w),
    "concordance": lambda y, p, w: harrell(y, p, w),
    **{kind: parts(kind) for kind in ("precision", "recall", "f1")},
    **{
        f"{kind}_{how}": parts(kind, average=how)
        for kind in ("precision", "recall", "f1")
        for how in ("macro", "micro", "weighted")
    },
}


OF_RATES = (
    *("mape", "smape", "msle", "rmsle", "poisson_deviance", "gamma_deviance", "poisson"),
    *("tweedie_deviance", "poisson_nloglik", "gamma_nloglik", "tweedie_nloglik"),
)
OF_SHARES = ("cross_entropy", "kldiv")
OF_RAW = ("hinge", "auc_mu")


def harrell(y, risk, weight):
    """Return the concordance, pair by pair."""
    weight = np.ones(len(y)) if weight is None else weight
    right = total = 0.0
    for i in np.flatnonzero(y > 0):
        for j in range(len(y)):
            if y[i] < abs(y[j]) or (y[i] == -y[j]):
                pair = weight[i] * weight[j]
                total += pair
                right += pair * (1.0 if risk[i] > risk[j] else 0.5 if risk[i] == risk[j] else 0.0)
    return right / total


def data_for(name: str, task: str) -> tuple[np.ndarray, np.ndarray]:
    """Return targets and the predictions for the metric."""
    if name in OF_RATES:
        return COUNTS, RATES
    if name in OF_SHARES:
        return SHARES, SAID
    if task == "survival":
        return TIMES, RISK
    if task == "regression":
        return NUMBERS, GUESS
    if task == "classes":
        return THREE, RAW3 if name in OF_RAW else SOFT
    return LABELS, GUESS[None] if name in OF_RAW else PROBABILITY


ALL = [(name, task) for name, metric in METRICS.items() for task in metric.tasks]


@pytest.mark.parametrize(("name", "task"), ALL)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
def test_metric_equals_its_definition(name, task, weight) -> None:
    y, prediction = data_for(name, task)
    score = METRICS[name].function(y, prediction, weight)
    assert type(score) is float
    close = 1e-7 if name == "aucpr" else 1e-12
    assert score == pytest.approx(REFERENCE[name](y, prediction, weight), rel=close)


def score_rows(name, rows, y, prediction):
    return y[rows], prediction[:, rows] if name in OF_RAW else prediction[rows]


def add_absurd_rows(name, y, prediction):
    """Add rows of weight 0 with values that no metric can use (classes stay valid)."""
    y, prediction = y.copy(), prediction.copy()
    if name in OF_RAW:
        prediction[:, ABSENT == 0] = 1e300
    elif prediction.ndim == 2:
        prediction[ABSENT == 0] = np.nan
        prediction[np.flatnonzero(ABSENT == 0)[0], 1] = 1.0
    else:
        prediction[ABSENT == 0], y[ABSENT == 0] = -np.inf, np.nan
    return y, prediction


@pytest.mark.parametrize(("name", "task"), ALL)
def test_rows_of_weight_zero_are_absent(name, task) -> None:
    y, prediction = data_for(name, task)
    rows = ABSENT > 0.0
    metric, left = METRICS[name], score_rows(name, rows, y, prediction)
    expected = metric.function(*left, ABSENT[rows])
    assert metric.function(y, prediction, ABSENT) == expected
    assert metric.function(*add_absurd_rows(name, y, prediction), ABSENT) == expected
    close = 1e-7 if name == "aucpr" else 1e-12
    assert expected == pytest.approx(REFERENCE[name](*left, ABSENT[rows]), rel=close)
    if task == "two classes" and name in ("auc", "average_precision", "aucpr", "ks"):
        with pytest.raises(DataError, match="all 45 rows have class index 1"):
            metric.function(rows.astype(float), prediction, ABSENT)
    with pytest.raises(DataError, match=f"metric '{name}' needs a row with a weight above 0"):
        metric.function(*data_for(name, task), np.zeros(N))


@pytest.mark.parametrize(("name", "task"), ALL)
def test_the_order_of_rows_has_no_part(name, task) -> None:
    y, prediction = data_for(name, task)
    order = np.random.default_rng(1).permutation(N)
    mixed = prediction[..., order] if name in OF_RAW else prediction[order]
    found = METRICS[name].function(y[order], mixed, WEIGHT[order])
    assert found == pytest.approx(METRICS[name].function(y, prediction, WEIGHT), rel=1e-13)


@pytest.mark.parametrize(("name", "task"), ALL)
def test_direction_is_that_of_a_perfect_prediction(name, task) -> None:
    y, prediction = data_for(name, task)
    perfect = y
    if task in ("two classes", "classes"):
        perfect = np.eye(2 if task == "two classes" else 3)[y.astype(int)]
        if name in OF_RAW:
            perfect = np.full((1, N), 9.0) * (2 * y - 1) if task == "two classes" else 9 * perfect.T
    if name == "concordance":
        perfect = -np.abs(y)
    metric = METRICS[name]
    assert metric.improves(metric.function(y, perfect, None), metric.function(y, prediction, None))


@pytest.mark.parametrize("name", [name for name, m in METRICS.items() if m.sums is not None])
def test_sums_of_parts_are_the_score_of_all_rows(name) -> None:
    metric = METRICS[name]
    y, prediction = data_for(name, metric.tasks[0])
    center = float(np.average(y, weights=WEIGHT))
    above = below = None
    for rows in np.array_split(np.arange(N), 3):
        part = prediction[:, rows] if name in OF_RAW else prediction[rows]
        one, other = metric.sums.sums(y[rows], part, WEIGHT[rows], center)
        above, below = (one, other) if above is None else (above + one, below + other)
    whole = metric.function(y, prediction, WEIGHT)
    assert metric.sums.finish(above, below) == pytest.approx(whole, rel=1e-15)


@pytest.mark.parametrize(
    ("objective", "parameters", "name", "same"),
    [
        ("quantile", {"quantile": 0.8}, "pinball", lambda y, p: reference.mean_pinball_loss(
            y, p, alpha=0.8)),
        ("tweedie", {"tweedie_power": 1.2}, "tweedie_deviance",
         lambda y, p: reference.mean_tweedie_deviance(y, p, power=1.2)),
        ("huber", {"delta": 0.3}, "huber", lambda y, p: huber(0.3, p - y).mean()),
        ("fair", {"delta": 0.3}, "fair",
         lambda y, p: np.mean(0.3 * (np.abs(y - p) - 0.3 * np.log1p(np.abs(y - p) / 0.3)))),
        ("expectile", {"expectile": 0.8}, "expectile",
         lambda y, p: np.mean(np.where(p > y, 0.2, 0.8) * (p - y) ** 2)),
    ],
)  # fmt: skip
def test_metrics_take_the_parameter_of_the_loss(objective, parameters, name, same) -> None:
    objective = make_objective(objective, parameters=parameters)
    (metric,) = make_metrics(name, objective)
    assert metric.function(COUNTS, RATES, None) == pytest.approx(same(COUNTS, RATES), rel=1e-12)
    assert metric.function(COUNTS, RATES, None) != METRICS[name].function(COUNTS, RATES, None)
    # A loss is half the deviance, a pinball, a Huber, a Fair or an expectile loss.
    raw = np.log(RATES)[None] if name == "tweedie_deviance" else RATES[None]
    half = 0.5 if name == "tweedie_deviance" else 1.0
    found = objective.loss(COUNTS, raw, WEIGHT)
    assert found == pytest.approx(half * metric.function(COUNTS, RATES, WEIGHT), rel=1e-12)


@pytest.mark.parametrize("name", ["poisson_deviance", "gamma_deviance", "tweedie_deviance"])
def test_deviances_need_positive_predictions(name) -> None:
    with pytest.raises(DataError, match=r"positive predictions.*row 3 has 0\.0"):
        METRICS[name].function(COUNTS, np.where(np.arange(N) == 3, 0.0, RATES), None)
    with pytest.raises(DataError, match="row 2"):
        METRICS[name].function(np.where(np.arange(N) == 2, -1.0, COUNTS), RATES, None)


def test_concordance_needs_pairs() -> None:
    with pytest.raises(DataError, match="needs an event before"):
        METRICS["concordance"].function(-np.abs(TIMES), RISK, None)


def test_default_is_the_loss_of_the_objective() -> None:
    objective = make_objective("softmax", 3)
    (metric,) = make_metrics(None, objective)
    assert metric.name == "loss"
    found = evaluate([metric], objective, THREE, RAW3, WEIGHT)
    assert found == {"loss": objective.loss(THREE, RAW3, WEIGHT)}
    logloss = evaluate(make_metrics("logloss", objective), objective, THREE, RAW3, WEIGHT)
    assert logloss["logloss"] == pytest.approx(found["loss"], rel=1e-12)


@pytest.mark.parametrize(
    ("eval_metric", "words"),
    [
        ("rsme", ["unknown eval_metric 'rsme'", "Did you mean 'rmse'?"]),
        ("auc", ["'auc' is for two classes", "this model is for regression", "'mae'"]),
        (["mae", "mae"], ["'mae' is given twice"]),
        ([], ["eval_metric must be"]),
        (3, ["eval_metric must be"]),
        ([3], ["unknown eval_metric 3"]),
    ],
)
def test_wrong_metric_is_named_with_a_hint(eval_metric, words) -> None:
    with pytest.raises(ParameterError) as error:
        make_metrics(eval_metric, make_objective("squared_error"))
    for word in words:
        assert word in str(error.value)


def largest_error(y, prediction, weight):
    return np.abs(y - prediction).max()


def test_custom_metric_gets_read_only_views() -> None:
    objective = make_objective("squared_error")

    def spoiler(y, prediction, weight):
        y[0] = 7.0

    assert evaluate(
        make_metrics(largest_error, objective), objective, NUMBERS, GUESS[None], None
    ) == {"largest_error": np.abs(NUMBERS - GUESS).max()}
    with pytest.raises(LossError, match="read-only"):
        evaluate(make_metrics(spoiler, objective), objective, NUMBERS, GUESS[None], WEIGHT)


def test_custom_metric_says_whether_higher_is_better() -> None:
    def skill(y, prediction, weight):
        return 1.0

    objective = make_objective("squared_error")
    assert not make_metrics(skill, objective)[0].higher_is_better
    skill.higher_is_better = True
    assert make_metrics([skill, "mae"], objective)[0].higher_is_better


def test_custom_metric_that_raises_is_named() -> None:
    metric = Metric("mine", lambda y, p, w: 1 / 0)
    with pytest.raises(LossError, match="'mine' raised ZeroDivisionError") as error:
        evaluate([metric], make_objective("squared_error"), NUMBERS, GUESS[None], None)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def rows_of_table() -> list[str]:
    """Return a line of Markdown for each metric, for ``docs/metrics.md``."""
    others: dict[str, list[str]] = {}
    for alias, name in ALIASES.items():
        others.setdefault(name, []).append(f"`{alias}`")
    others["error_at"] = ["`error@t`"]
    lines = []
    for name, metric in METRICS.items():
        shown = f"`{name}`"
        if name in WITH_PARAMETER:
            shown += f", `{name}@{WITH_PARAMETER[name].default:g}`"
        better = "higher" if metric.higher_is_better else "lower"
        also = ", ".join(others.get(name, []))
        lines.append(f"| {shown} | {', '.join(metric.tasks)} | {better} | {metric.what} | {also} |")
    return lines


def test_the_page_has_the_table_of_all_metrics() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
    if not page.exists():
        pytest.skip("runs in a checkout only")
    start = "| name | for | better | what | also |\n|---|---|---|---|---|\n"
    table = page.read_text("utf-8").partition(start)[2].partition("\n\n")[0]
    assert table.splitlines() == rows_of_table()


@pytest.mark.parametrize(
    ("returned", "advice"),
    [
        (("mae", 1.0, False), "Return the number alone: the name of the metric is"),
        ([1.0], "Return the number alone"),
        (np.ones(1000), r"an array of shape \(1000,\); .* Return the mean over the rows"),
        (None, r"Does the function return its score\?"),
        ("x" * 1000, r"'x{70,80}\.\.\.; it must return one number"),
        (float("nan"), "nan; it must return one number, not NaN"),
        (True, "True; it must return one number"),
    ],
)
def test_what_a_metric_must_not_return(returned, advice) -> None:
    metric = Metric("own", lambda y, p, w: returned)
    with pytest.raises(LossError, match=f"eval_metric 'own' returned .*{advice}"):
        evaluate([metric], make_objective("squared_error"), NUMBERS, GUESS[None], None)


def test_a_metric_of_one_argument_is_refused_before_the_fit() -> None:
    def own(y_true):
        return 0.0

    data = Dataset(np.arange(60.0)[:, None], np.arange(60.0))
    with pytest.raises(ParameterError, match=r"'own' is called with \(y_true, prediction, weight"):
        train({"n_estimators": 1, "eval_metric": own}, data)


def own_error(y_true, prediction):
    return np.abs(y_true - prediction).mean()


def own_weighted_error(y_true, prediction, *, sample_weight=None):
    return np.average(np.abs(y_true - prediction), weights=sample_weight)


MULTI = functools.partial(reference.f1_score, average="macro")
OVR = functools.partial(reference.roc_auc_score, multi_class="ovr")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("n_classes", "metric", "higher", "same"),
    [
        (0, reference.mean_absolute_error, False, "mae"),
        (0, reference.r2_score, True, "r2"),
        (0, own_error, False, None),
        (0, own_weighted_error, False, "mae"),
        (0, reference.max_error, False, None),
        (2, reference.log_loss, False, "logloss"),
        (2, reference.roc_auc_score, True, "auc"),
        (2, reference.accuracy_score, True, "accuracy"),
        (2, reference.f1_score, True, "f1"),
        (2, reference.matthews_corrcoef, True, "mcc"),
        (2, reference.brier_score_loss, False, "brier"),
        (2, reference.average_precision_score, True, "average_precision"),
        (3, reference.log_loss, False, "logloss"),
        (3, reference.zero_one_loss, False, "error"),
        (3, MULTI, True, "f1_macro"),
        (3, OVR, True, None),
    ],
)
def test_functions_of_two_arguments(n_classes, metric, higher, same, weighted) -> None:
    """Functions of scikit-learn give the scores of the metrics of the same name, and stop well."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] + rng.normal(size=400)
    if n_classes:
        y = np.digitize(y, [0.0, 1.0][: n_classes - 1])
    weight = rng.integers(1, 4, 400) * 1.0 if weighted else None
    train_, valid = (
        Dataset(X[part], y[part], weight=None if weight is None else weight[part])
        for part in (slice(0, 250), slice(250, None))
    )
    params = {"n_estimators": 6, "objective": {0: "squared_error", 2: "logistic"}.get(n_classes)}
    params["objective"] = params["objective"] or "softmax"
    metrics = [metric] if same is None else [metric, same]
    if weighted and metric in (own_error, reference.max_error):
        with pytest.raises(ParameterError, match="takes no weights"):
            train({**params, "eval_metric": metrics}, train_, valid)
        return
    booster = train({**params, "eval_metric": metrics, "patience": 100}, train_, valid)
    own, *other = booster.evals_result["validation"].values()
    np.testing.assert_allclose(own, other[0] if other else own, rtol=1e-9)
    best = np.argmax(own) if higher else np.argmin(own)
    assert booster.best_iteration == best + 1


@pytest.mark.parametrize(
    "name",
    [
        *("poisson_deviance", "gamma_deviance"),
        *("poisson", "poisson_nloglik", "gamma_nloglik", "tweedie_nloglik", "tweedie_deviance"),
        *("msle", "rmsle"),
    ],
)
def test_errors_name_the_requested_metric_and_its_row(name: str) -> None:
    """Several metrics share the function of a row, and rows of weight 0 are left out."""
    y, weight = COUNTS.copy(), np.ones(N)
    y[7], weight[2] = -2.0, 0.0
    (metric,) = make_metrics(name, make_objective("squared_error"))
    with pytest.raises(DataError, match=f"metric '{metric.name}' needs .*, but row 7 has -2.0"):
        metric.function(y, RATES, weight)
