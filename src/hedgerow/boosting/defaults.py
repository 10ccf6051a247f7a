"""What ``"auto"`` means: parameters chosen by the size and the kind of the data.

Glossary
--------
recipe     values of all automatic parameters, which go together: a small learning rate
           needs many rounds, and a way to tell when they are enough
plain      the values of :class:`hedgerow.params.BoostParams`, which are those of the
           C++ libraries: 100 rounds at a rate of 0.1, and no sampling

The recipe is taken if nothing is asked for that it would contradict: number of rounds,
learning rate and early stopping are all ``"auto"``, and trees are boosted on rows in
memory, sampled uniformly if at all.  Then the other ``"auto"`` values are the recipe's
as well; an explicit value always stays.  In all other cases they are plain.

Rounds end when the loss of rows that were not trained on has stopped to fall.  Small
tables ask the rows of every fold, larger ones those of one fold; then all rows are
trained on.  `benchmarks/quality` has the evidence, `docs/defaults.md` the figures.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

from hedgerow.boosting.stopping import StoppingParams
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams

Values: TypeAlias = "dict[str, Any]"

AUTO = "auto"

AUTOMATIC = (
    "n_estimators",
    "learning_rate",
    "max_leaves",
    "min_samples_leaf",
    "reg_lambda",
    "subsample",
    "colsample_bynode",
    "early_stopping",
    "patience",
)
"""Parameters of the estimators that may be ``"auto"``."""

_DECISIVE = frozenset({"n_estimators", "learning_rate", "early_stopping"})

_TINY = 200
_SMALL = 3_000
_MEDIUM = 30_000


@dataclass(frozen=True, slots=True)
class DataSize:
    """What the choice depends on.

    Attributes
    ----------
    n_rows : int
        Of positive weight.
    n_outputs : int
        Trees of a round.
    """

    n_rows: int
    n_outputs: int = 1


def plain_values() -> Values:
    """The value of each automatic parameter without a recipe."""
    values = {f.name: f.default for f in (*fields(BoostParams), *fields(StoppingParams))}
    return {name: values[name] for name in AUTOMATIC}


def recipe(size: DataSize) -> Values:
    """The value of each automatic parameter for data of this size, and the folds.

    Examples
    --------
    >>> recipe(DataSize(1_000))["max_leaves"], recipe(DataSize(100_000))["max_leaves"]
    (8, 31)
    """
    several = size.n_outputs > 1
    if size.n_rows < _SMALL:
        # Trees of few leaves on half of the rows each, one as unlike the other as may be.
        tiny = size.n_rows < _TINY
        return {
            "n_estimators": 1000,
            "learning_rate": 0.08,
            "max_leaves": 8,
            # Without sampling a row may be repeated or have a weight, with the same model.
            "min_samples_leaf": 1 if tiny else 3,
            "subsample": 1.0 if tiny else 0.7,
            "reg_lambda": 1.0,
            "colsample_bynode": 0.5,
            "early_stopping": "cv",
            "patience": 40,
            "folds": (5, 5),
        }
    return {
        "n_estimators": 300 if several else 2000,
        "learning_rate": 0.1 if several else 0.06,
        "max_leaves": 31,
        "min_samples_leaf": 10,
        "subsample": 0.7,
        "reg_lambda": 1.0,
        "colsample_bynode": 0.7,
        "early_stopping": "cv",
        "patience": 20 if several else 40,
        "folds": (10, 2 if size.n_rows < _MEDIUM else 1),
    }


def suits_recipe(params: BoostParams) -> bool:
    """Whether a recipe contradicts nothing that is asked of the trees."""
    return (
        params.boosting == "gbdt"
        and params.tree_method == "hist"
        and params.sampling == "uniform"
        and not params.oob_score
    )


def choose(
    params: BoostParams,
    stopping: StoppingParams,
    automatic: frozenset[str],
    objective: Objective,
    n_rows: int,
    has_validation: bool,
) -> tuple[BoostParams, StoppingParams]:
    """Give every automatic parameter its value.

    Parameters
    ----------
    params, stopping
        With plain values in the place of ``"auto"``.
    automatic : frozenset of str
        Parameters that are ``"auto"``.
    objective : Objective
    n_rows : int
        Of positive weight.
    has_validation : bool
        Whether the user has given validation rows, which then tell when to stop.

    Returns
    -------
    tuple of BoostParams and StoppingParams
    """
    judged = getattr(objective, "rowwise", True)  # by losses of single rows
    if not (automatic >= _DECISIVE and suits_recipe(params) and judged):
        return params, stopping
    values = recipe(DataSize(n_rows, objective.n_outputs))
    folds = values.pop("folds")
    chosen = {name: value for name, value in values.items() if name in automatic}
    stopping = replace(
        stopping,
        early_stopping="auto" if has_validation else chosen.pop("early_stopping"),
        patience=chosen.pop("patience", stopping.patience),
        folds=folds,
        is_cautious=True,
    )
    chosen.pop("early_stopping", None)
    return replace(params, **chosen), stopping


__all__ = ["AUTO", "AUTOMATIC", "DataSize", "choose", "plain_values", "recipe"]
