"""``train`` and ``cv`` of LightGBM's kind, on :class:`hedgerow.Training`."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hedgerow
from hedgerow.stepwise import CHANGEABLE

from .basic import Booster, Dataset, flat, has_missing
from .callback import CallbackEnv, EarlyStopException, early_stopping
from .losses import CustomLoss
from .scores import fitting, is_higher_better
from .settings import ALIASES, by_name, metrics_of, objective_of, our_metrics, ours


class Rounds:
    """A training of Hedgerow, asked for in LightGBM's words.

    It begins with the first round: validation rows may be added before.
    """

    def __init__(
        self,
        params: dict[str, Any],
        train_set: Dataset,
        valid: dict[str, Dataset],
        init_model: Any,
    ) -> None:
        self.given = by_name({**train_set.params, **params})
        self.params = params
        self.train_set = train_set
        self.valid = dict(valid)
        self.init_model = init_model
        self.custom: CustomLoss | None = None
        self._training: Any = None
        self._changes: dict[str, Any] = {}
        self._scores: dict[str, dict[str, float]] = {}
        self._seen: hedgerow.Booster | None = None
        self.metrics = our_metrics(metrics_of(self.given, objective_of(self.given)))
        self.n_first = 0 if init_model is None else init_model.num_rounds

    def add(self, name: str, data: Dataset) -> None:
        self.valid[name] = data

    @property
    def n_done(self) -> int:
        return self.n_first if self._training is None else self._training.num_rounds

    def _begin(self) -> None:
        said = ours(self._harmless())
        self.custom = None
        own = self.given.get("objective")
        if callable(own) or objective_of(self.given) == "custom":
            n_class = int(self.given.get("num_class", 1))
            self.custom = CustomLoss(own if callable(own) else None, self.train_set, n_class)
            said["objective"] = self.custom
        columns = self.given.get("categorical_feature")
        columns = [columns] if isinstance(columns, int) else columns
        self.binary = said.get("objective") == "logistic"
        rows = self.train_set.rows(columns=columns, binary=self.binary)
        sets = {}
        for name, data in self.valid.items():
            same = data is self.train_set
            sets["train" if same else name] = (
                rows if same else data.rows(self.train_set, binary=self.binary)
            )
        self.measures = dict(zip(self.metrics, self._measures(said), strict=True))
        if self.metrics and sets:
            said["eval_metric"] = list(self.measures.values())
        elif self.custom is not None or not self.metrics:
            sets = {}
        self._sets = sets
        self._training = hedgerow.Training(said, rows, sets or None, init_model=self.init_model)

    def _harmless(self) -> dict[str, Any]:
        """Return parameters without those that change nothing for these rows."""
        given = dict(self.given)
        if given.get("use_missing") is False and not has_missing(self.train_set.data):
            del given["use_missing"]
        return given

    def _measures(self, said: dict[str, Any]) -> list[Any]:
        """Return metrics of ours, made to fit the kind of prediction."""
        objective = str(said.get("objective", "squared_error"))
        return [fitting(name, ours_, objective) for name, ours_ in self.metrics.items()]

    def reset(self, params: dict[str, Any]) -> None:
        said = ours(by_name({**self.params, **params}))
        settings = ours(by_name(params))
        base = ours({})
        changed = {
            name: said[name]
            for name in said
            if name in CHANGEABLE
            and name in settings
            and settings.get(name) != base.get(name, object())
        }
        names = by_name(params)
        if "learning_rate" in names:
            changed["learning_rate"] = float(names["learning_rate"])
        self._changes |= changed
        self.params = {**self.params, **params}

    def update(self, fobj: Any = None) -> None:
        if self._training is None:
            self._begin()
        if fobj is not None and self.custom is not None:
            self.custom.function = fobj
        if self._changes:
            self._training.set_params(**self._changes)
            self._changes = {}
        self._seen = None
        self._scores = self._training.update()

    def booster(self) -> hedgerow.Booster:
        if self._training is None:
            if self.init_model is not None:
                return self.init_model
            self._begin()
        if self._seen is None:
            self._seen = self._training.booster()
        return self._seen

    def close(self) -> None:
        if self._training is not None:
            self._training.close()

    # -- scores ----------------------------------------------------------------------

    def scores_of(self, name: str | None, feval: Any) -> list[Any]:
        """Return scores of the training rows, or of all validation sets."""
        if name is not None:
            return self.score(self.train_set, name, feval)
        found: list[Any] = []
        for label, data in self.valid.items():
            found += self.known(label, data) + self.own(label, data, feval)
        return found

    def known(self, label: str, data: Dataset) -> list[Any]:
        """Return scores that the training has computed."""
        said = self._scores.get("train" if data is self.train_set else label, {})
        return [
            (label, theirs, score, is_higher_better(theirs))
            for theirs, score in zip(self.measures, said.values(), strict=False)
        ]

    def score(self, data: Dataset, name: str, feval: Any) -> list[Any]:
        """Return scores of any rows."""
        found: list[Any] = []
        if self.metrics:
            self.booster()
            said = self.booster().eval(
                data.rows(self.train_set, binary=self.binary), list(self.measures.values())
            )
            for theirs, value in zip(self.measures, said.values(), strict=True):
                found.append((name, theirs, value, is_higher_better(theirs)))
        return found + self.own(name, data, feval)

    def own(self, name: str, data: Dataset, feval: Any) -> list[Any]:
        """Return scores by functions of the user's."""
        functions = feval if isinstance(feval, list) else [feval] if feval is not None else []
        if not functions:
            return []
        start = data.init_score
        model = Booster.of(self.booster())
        custom = self.custom is not None
        preds = model.predict(data.data, raw_score=custom or start is not None)
        found: list[Any] = []
        for function in functions:
            reported = function(preds, data)
            for metric, value, higher in reported if isinstance(reported, list) else [reported]:
                found.append((name, metric, value, higher))
        return found


def _rounds_of(params: dict[str, Any], num_boost_round: int) -> int:
    given = by_name(params).get("num_iterations")
    counts = {params[alias] for alias in ALIASES["num_iterations"] if alias in params}
    if len(counts) > 1 and not {*params} & {"n_estimators"}:
        warnings.warn(
            f"Found conflicting parameters. LightGBM will perform up to {given} boosting rounds.",
            UserWarning,
            stacklevel=3,
        )
    return int(num_boost_round if given is None else given)


def _stopping_of(params: dict[str, Any], callbacks: list[Any]) -> list[Any]:
    given = by_name(params)
    rounds = given.get("early_stopping_round")
    if rounds is None:
        return callbacks
    if isinstance(rounds, str):
        raise TypeError("early_stopping_round should be an integer. Got 'str'")
    if rounds <= 0:
        return callbacks
    stop = early_stopping(
        int(rounds),
        bool(given.get("first_metric_only", False)),
        min_delta=float(given.get("early_stopping_min_delta", 0.0)),
    )
    return [*callbacks, stop]


def _start(init_model: Any) -> Any:
    if isinstance(init_model, str | Path):
        return Booster(model_file=init_model).ours
    return init_model.ours if isinstance(init_model, Booster) else init_model


def _ordered(callbacks: Any) -> tuple[list[Any], list[Any]]:
    listed = sorted(callbacks, key=lambda each: getattr(each, "order", 100))
    before = [each for each in listed if getattr(each, "before_iteration", False)]
    return before, [each for each in listed if each not in before]


def _check_train(params: Any, train_set: Any, num_boost_round: int) -> None:
    if not isinstance(train_set, Dataset):
        kind = type(train_set).__name__
        raise TypeError(f"train() only accepts Dataset object, train_set has type '{kind}'.")
    if num_boost_round <= 0:
        raise ValueError(
            f"Number of boosting rounds must be greater than 0. Got {num_boost_round}."
        )


def train(
    params: dict[str, Any],
    train_set: Dataset,
    num_boost_round: int = 100,
    valid_sets: Any = None,
    valid_names: Any = None,
    feval: Any = None,
    init_model: Any = None,
    keep_training_booster: bool = False,
    callbacks: Any = None,
) -> Booster:
    """Train a model."""
    own = params.get("objective")
    params = {name: copy.deepcopy(value) for name, value in params.items() if value is not own}
    if own is not None:
        params["objective"] = own
    num_boost_round = _rounds_of(params, num_boost_round)
    _check_train(params, train_set, num_boost_round)
    sets = [] if valid_sets is None else valid_sets
    sets = [sets] if isinstance(sets, Dataset) else list(sets)
    for place, data in enumerate(sets):
        if not isinstance(data, Dataset):
            raise TypeError(
                "Every item in valid_sets must be a Dataset object. Item "
                f"{place} has type '{type(data).__name__}'."
            )
    names = [valid_names] if isinstance(valid_names, str) else valid_names
    shown = {name: value for name, value in params.items() if value is not None}
    booster = Booster.of(None, shown | ({"objective": "none"} if callable(own) else {}))
    booster.train_set = train_set
    booster.pandas_categorical = train_set.pandas_categorical
    train_set.levels = None
    valid: dict[str, Dataset] = {}
    for number, data in enumerate(sets):
        default = "training" if data is train_set else f"valid_{number}"
        name = names[number] if names is not None and len(names) > number else default
        if data is train_set:
            booster.train_data_name = name
        valid[name] = data
    start = _start(init_model)
    rounds = Rounds(params, train_set, valid, start)
    booster._training = rounds
    listed = _stopping_of(params, list(callbacks or []))
    _run(booster, rounds, num_boost_round, listed, feval)
    if not keep_training_booster:
        booster.freeze()
    return booster


def _run(booster: Booster, rounds: Rounds, count: int, callbacks: list[Any], feval: Any) -> None:
    before, after = _ordered(callbacks)
    begin = rounds.n_first
    end = begin + count
    reported: list[Any] = []
    for number in range(begin, end):
        for each in before:
            each(CallbackEnv(booster, rounds.params, number, begin, end, None))
        rounds.update()
        reported = rounds.scores_of(None, feval)
        try:
            for each in after:
                each(CallbackEnv(booster, rounds.params, number, begin, end, reported))
        except EarlyStopException as stop:
            booster.best_iteration = stop.best_iteration + 1
            reported = stop.best_score
            break
    for rows, metric, score, *_ in reported or ():
        booster.best_score.setdefault(rows, {})[metric] = score


class CVBooster:
    """The models of all folds."""

    def __init__(self, model_file: Any = None) -> None:
        self.boosters: list[Booster] = []
        self.best_iteration = -1
        if model_file is not None:
            self.model_from_string(Path(model_file).read_text(encoding="utf-8"))

    def model_to_string(self, **more: Any) -> str:
        texts = [each.model_to_string() for each in self.boosters]
        return json.dumps({"best": self.best_iteration, "boosters": texts})

    def model_from_string(self, text: str) -> CVBooster:
        known = json.loads(text)
        self.best_iteration = known["best"]
        self.boosters = [Booster(model_str=each) for each in known["boosters"]]
        return self

    def save_model(self, filename: Any, **more: Any) -> CVBooster:
        Path(filename).write_text(self.model_to_string(), encoding="utf-8")
        return self

    def __getattr__(self, name: str) -> Callable[..., list[Any]]:
        if name.startswith("_"):
            raise AttributeError(name)

        def each(*args: Any, **kwargs: Any) -> list[Any]:
            return [getattr(booster, name)(*args, **kwargs) for booster in self.boosters]

        return each

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def _folds(
    data: Dataset, folds: Any, nfold: int, stratified: bool, shuffle: bool, seed: int
) -> list[Any]:
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

    n_rows = data.num_data()
    query = data.queries()
    if folds is not None:
        if hasattr(folds, "split"):
            groups = np.zeros(n_rows) if query is None else query
            return list(folds.split(np.empty(n_rows), flat(data.label), groups))
        return list(folds)
    if query is not None:
        return list(GroupKFold(nfold).split(np.empty(n_rows), groups=query))
    kind = StratifiedKFold if stratified else KFold
    drawn = seed if shuffle else None
    splitter = kind(nfold, shuffle=shuffle, random_state=drawn)
    return list(splitter.split(np.empty(n_rows), flat(data.label)))


def cv(
    params: dict[str, Any],
    train_set: Dataset,
    num_boost_round: int = 100,
    folds: Any = None,
    nfold: int = 5,
    stratified: bool = True,
    shuffle: bool = True,
    metrics: Any = None,
    feval: Any = None,
    init_model: Any = None,
    fpreproc: Any = None,
    seed: int = 0,
    callbacks: Any = None,
    eval_train_metric: bool = False,
    return_cvbooster: bool = False,
) -> dict[str, Any]:
    """Learning curves of folds, which are grown abreast."""
    params = dict(params)
    num_boost_round = _rounds_of(params, num_boost_round)
    if not isinstance(train_set, Dataset):
        kind = type(train_set).__name__
        raise TypeError(f"cv() only accepts Dataset object, train_set has type '{kind}'.")
    if metrics is not None:
        params.pop("metric", None)
        params["metric"] = metrics
    given = by_name({**train_set.params, **params})
    if objective_of(given) in ("regression", "custom") or "objective" not in given:
        stratified = stratified and "objective" in given and objective_of(given) not in (
            "regression", "custom")  # fmt: skip
    start = _start(init_model)
    models = CVBooster()
    for train_rows, test_rows in _folds(train_set, folds, nfold, stratified, shuffle, seed):
        part, test = train_set.subset(train_rows), train_set.subset(test_rows)
        settings = dict(params)
        if fpreproc is not None:
            part, test, settings = fpreproc(part, test, dict(params))
        custom = {"objective": "none"} if callable(settings.get("objective")) else {}
        booster = Booster.of(None, settings | custom)
        sets = {"train": part, "valid": test} if eval_train_metric else {"valid": test}
        booster._training = Rounds({**train_set.params, **settings}, part, sets, start)
        models.boosters.append(booster)
    listed = _stopping_of(params, list(callbacks or []))
    found = _run_folds(models, num_boost_round, listed, feval, params)
    for booster in models.boosters:
        booster.freeze()
    if return_cvbooster:
        found["cvbooster"] = models
    return found


def _run_folds(
    models: CVBooster, count: int, callbacks: list[Any], feval: Any, params: dict[str, Any]
) -> dict[str, Any]:
    before, after = _ordered(callbacks)
    curves: dict[str, list[float]] = {}
    begin = models.boosters[0]._training.n_first
    for number in range(begin, begin + count):
        for each in before:
            each(CallbackEnv(models, params, number, begin, begin + count, None))
        scores: dict[tuple[str, bool], list[float]] = {}
        for booster in models.boosters:
            booster._training.update()
            for rows, metric, value, higher in booster._training.scores_of(None, feval):
                scores.setdefault((f"{rows} {metric}", higher), []).append(value)
        reported = [
            ("cv_agg", name, float(np.mean(values)), higher, float(np.std(values)))
            for (name, higher), values in scores.items()
        ]
        for _, name, mean, _, deviation in reported:
            curves.setdefault(f"{name}-mean", []).append(mean)
            curves.setdefault(f"{name}-stdv", []).append(deviation)
        try:
            for each in after:
                each(CallbackEnv(models, params, number, begin, begin + count, reported))
        except EarlyStopException as stop:
            models.best_iteration = stop.best_iteration + 1
            for booster in models.boosters:
                booster.best_iteration = models.best_iteration
            return {name: curve[: models.best_iteration] for name, curve in curves.items()}
    return dict(curves)


__all__ = ["CVBooster", "cv", "train"]
