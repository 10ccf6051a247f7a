"""Training one round at a time: :class:`Training`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any, NoReturn, Self

from hedgerow.booster import Booster
from hedgerow.boosting.loop.driver import FitOptions, make_ready
from hedgerow.boosting.loop.fit import plan_of, with_rows_aside
from hedgerow.boosting.loop.rounds import BoostState, rounds
from hedgerow.boosting.loop.setup.job import Job
from hedgerow.boosting.loop.setup.resolved import resolved
from hedgerow.boosting.row_data.dataset import Dataset, ValidRows, named_valid
from hedgerow.boosting.row_data.statistics import constraints_of_inputs
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.errors import DataTypeError, ParameterError, brief, did_you_mean
from hedgerow.metrics import MetricChoice
from hedgerow.params import PARAMETERS
from hedgerow.schedules import is_number, rate_at
from hedgerow.training import (
    check_datasets,
    loss_of,
    read_settings,
    start_from,
    trees_of,
    without_training,
)

_MOST_ROUNDS = 10_000_000
"""The largest ``n_estimators``."""

CHANGEABLE = tuple(name for name, row in PARAMETERS.items() if row.set_per == "round")
"""Parameters that may change between rounds."""

_STOPPING = ("early_stopping", "patience", "min_delta", "validation_fraction", "time_budget")


class Training:
    """Train one round at a time, with changes of parameters between rounds.

    Training starts without a tree.  Each :meth:`update` adds a round, and :meth:`booster`
    returns the current model.  The same rounds give the same model as
    :func:`hedgerow.train`, whatever methods are called between them.  Threads may stay alive
    between rounds: use the object in a ``with`` statement, or :meth:`close` it.

    Parameters
    ----------
    params : mapping or None
        Parameters of :func:`hedgerow.train`, without ``n_estimators`` and the parameters of
        early stopping: the caller decides when to stop.  ``learning_rate`` is a number or a
        function of the round.
    dataset : Dataset
        Training rows with ``y``, in memory or in files.
    valid : Dataset, or mapping from str to Dataset, optional
        Rows to score after each round, by the parameter ``eval_metric`` or by the loss.
        The training Dataset may be among them, as ``"train"``.
    init_model : Booster, fitted estimator, or path of a model file, optional
        Model to continue.

    Raises
    ------
    ParameterError, DataError, DataTypeError
        As for :func:`hedgerow.train`.

    Examples
    --------
    >>> from hedgerow import Dataset, Training
    >>> from hedgerow.datasets import load_pima
    >>> X, y, names, _ = load_pima()
    >>> data, test = Dataset(X[:600], y[:600]), Dataset(X[600:], y[600:])
    >>> with Training({"objective": "logistic", "learning_rate": 0.3}, data, test) as training:
    ...     for number in range(30):
    ...         scores = training.update()
    ...         if number == 9:
    ...             training.set_params(learning_rate=0.1, max_leaves=7)
    ...     booster = training.booster()
    >>> booster.num_rounds, sorted(scores["validation"])
    (30, ['loss'])
    >>> booster.eval(test)["loss"] == scores["validation"]["loss"]
    True
    """

    def __init__(
        self,
        params: Mapping[str, Any] | None,
        dataset: Dataset,
        valid: ValidRows = None,
        *,
        init_model: Any = None,
    ) -> None:
        settings = read_settings(params)
        valid, settings = without_training(dataset, valid, settings)
        check_datasets(dataset, valid)
        _check(settings)
        trees = replace(trees_of(settings), n_estimators=_MOST_ROUNDS)
        job = Job(dataset, named_valid(valid), start_from(init_model))
        options = FitOptions(
            StoppingParams(False, train_scores=settings.get("train_scores", False)),
            settings.get("eval_metric"),
            n_jobs=settings.get("n_jobs"),
        )
        with ExitStack() as stack:
            own = stack.enter_context(job.opened())
            spec = own.read(loss_of(settings).read, trees, options)
            plan, given = plan_of(spec, trees, options)
            plan, rows = with_rows_aside(plan, given)
            self._ready = make_ready(plan, plan.prepared(rows))
            self._spec, self._rows = spec, stack.pop_all()  # until this object is closed
        self._params = self._ready.plan.params
        self._rates: list[float] = []
        self._state: BoostState | None = None
        self._closed = False
        self._rounds = rounds(self._ready.state)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getstate__(self) -> NoReturn:
        raise DataTypeError(
            "a Training cannot be copied or pickled: its threads and buffers are in use. "
            "booster() returns the completed rounds, which Training(..., init_model=booster) "
            "continues."
        )

    def __repr__(self) -> str:
        state, objective = ", closed" if self._closed else "", self._spec.objective
        return f"<Training: {self.num_rounds} rounds, objective {objective.name!r}{state}>"

    @property
    def num_rounds(self) -> int:
        """Number of completed rounds, including those of ``init_model``."""
        return self._ready.watch.n_done

    def update(self) -> dict[str, dict[str, float]]:
        """Add a round.

        Returns
        -------
        dict of dicts
            Scores after the round, by name of the rows and metric, as in
            ``scores["validation"]["loss"]``; empty if nothing is scored.

        Raises
        ------
        ParameterError
            If the training is closed.
        LossError
            If the loss or a metric returns a value that is not a finite number.
        """
        if self._closed:
            raise ParameterError(
                "this training is closed, or a round has failed: booster() returns the completed "
                "rounds; continue them with Training(..., init_model=booster)."
            )
        watch, number = self._ready.watch, self.num_rounds
        try:
            self._state = next(self._rounds)
            watch.after_round(self._state)
        except BaseException:
            watch.keep_complete_rounds()
            self.close()
            raise
        n_first = self._state.n_first
        self._rates.append(rate_at(self._params.learning_rate, number, n_first))
        return {
            rows: {name: scores[-1] for name, scores in curves.items()}
            for rows, curves in watch.history.items()
        }

    def set_params(self, **params: Any) -> None:
        """Change parameters for the following rounds.

        Parameters
        ----------
        **params
            Parameters of tree growing: ``learning_rate``, ``max_leaves``, ``max_depth``,
            ``min_samples_leaf``, ``min_child_weight``, penalties (``reg_lambda``,
            ``reg_alpha``, ``gamma``, ``linear_lambda``, ``feature_penalties``),
            ``max_delta_step``, ``path_smooth``, ``extra_trees``, sampling of rows and columns,
            and splits of categories.  Bins, constraints and the loss cannot change.

        Raises
        ------
        ParameterError
            If a parameter cannot be changed or is out of range.  No parameter is changed
            in this case.
        """
        for name in params:
            if name not in CHANGEABLE:
                raise ParameterError(
                    f"{brief(name)} cannot be changed between rounds; those that can: "
                    f"{', '.join(CHANGEABLE)}.{did_you_mean(name, CHANGEABLE)}"
                )
        rate = params.get("learning_rate")
        if rate is not None and not is_number(rate) and not callable(rate):
            raise ParameterError(
                f"learning_rate must be a number or a function; got {brief(rate)}."
            )
        objective, schema = self._spec.objective, self._spec.train.table.schema
        changed = resolved(replace(self._params, **params), objective, schema)
        self._params = changed
        self._ready.state.set_params(constraints_of_inputs(changed, self._ready.rows.inputs))

    def booster(self) -> Booster:
        """Return the model of the completed rounds.

        Returns
        -------
        Booster
            An independent model, which later rounds do not change.  Its training record has
            the parameters of the last round and the learning rates of all rounds.

        Raises
        ------
        ParameterError
            If no round is complete.
        """
        if self._state is None:
            raise ParameterError("no round is complete yet: call update() first.")
        model = self._ready.assemble(self._state.freeze(self._ready.watch.n_done))
        same = len(set(self._rates)) <= 1
        rates: Any = self._rates[0] if same and self._rates else list(self._rates)
        start = self._ready.plan.start
        if start is not None:
            rates = start.rates_and(rates, model.forest.n_rounds)
        plain = asdict(replace(self._params, learning_rate=1.0))
        plain |= {"n_estimators": len(self._rates), "learning_rate": rates}
        known = model.training["parameters"]
        parameters = {name: plain[name] for name in known if name in plain}
        return Booster(replace(model, training={**model.training, "parameters": parameters}))

    def eval(self, dataset: Dataset, metric: MetricChoice = None) -> dict[str, float]:
        """Score the current model on any rows; see :meth:`hedgerow.Booster.eval`."""
        return self.booster().eval(dataset, metric)

    def close(self) -> None:
        """Stop the threads.  :meth:`booster` still works, but :meth:`update` does not."""
        self._closed = True
        self._rounds.close()
        self._rows.close()


def _check(settings: Mapping[str, Any]) -> None:
    """Raise for parameters that determine the end of training."""
    if "n_estimators" in settings:
        raise ParameterError("n_estimators has no effect here: each update() adds a round.")
    for name in _STOPPING:
        if name in settings and not (name == "early_stopping" and settings[name] is False):
            raise ParameterError(
                f"{name} has no effect here, because the caller decides when to stop: leave it out."
            )
    rate = settings.get("learning_rate", 0.1)
    if isinstance(rate, list | tuple):
        raise ParameterError(
            "learning_rate must be a number or a function here, because the number of rounds is "
            "not known: change it with set_params."
        )
