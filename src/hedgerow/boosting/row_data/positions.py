"""Positions at which rows were shown: parsing, and their use in a fit."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.loop.sample import Positions, check_length, one_axis, values_of_rows
from hedgerow.boosting.row_data.factorize import refuse_missing
from hedgerow.comm.base import Communicator
from hedgerow.errors import DataTypeError, ParameterError, brief
from hedgerow.metrics import scored_as
from hedgerow.model.model import Model
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams
from hedgerow.schedules import rate_at

if TYPE_CHECKING:
    from hedgerow.boosting.resume.continuing import Start
    from hedgerow.objectives.ranking.positions import PositionBias


def read_position(position: Any, n_rows: int) -> Positions | None:
    """Parse the position at which each row was shown.

    Raise ``DataError`` or ``DataTypeError`` if the length differs, values are missing, or
    the type is neither integer nor text.

    Parameters
    ----------
    position : array-like of shape (n_rows,), or None
        Integers or text; each different value is one position.

    Examples
    --------
    >>> found = read_position(["top", "side", "top"], 3)
    >>> found.labels, found.codes.tolist()
    (('side', 'top'), [1, 0, 1])
    """
    if position is None:
        return None
    values = one_axis(values_of_rows(position, "position"), "position")
    check_length(len(values), n_rows, "position")
    refuse_missing(values, "position")
    if values.dtype.kind == "O":
        texts = all(isinstance(value, str) for value in values.tolist())
        integers = all(isinstance(value, int | np.integer) for value in values.tolist())
        if not texts and not integers:
            raise DataTypeError("position must hold whole numbers or text.")
        values = values.astype(str if texts else np.int64)
    if values.dtype.kind == "f" and (values == np.floor(values)).all():
        values = values.astype(np.int64)
    if values.dtype.kind not in "iuUT":
        raise DataTypeError(f"position must hold whole numbers or text, got {values.dtype}.")
    labels, codes = np.unique(values, return_inverse=True)
    return Positions(codes.reshape(-1).astype(np.int64), tuple(labels.tolist()))


def joined_positions(parts: Sequence[Positions], others: Communicator) -> Positions:
    """Return the positions of the rows of all parts, with the labels of all ranks.

    Raise ``DataTypeError`` if some parts have text and others whole numbers.

    Examples
    --------
    >>> from hedgerow.comm.base import Alone
    >>> parts = [read_position(["top"], 1), read_position(["side", "top"], 2)]
    >>> found = joined_positions([part for part in parts if part is not None], Alone())
    >>> found.labels, found.codes.tolist()
    (('side', 'top'), [1, 0, 1])
    """
    own = list(dict.fromkeys(label for part in parts for label in part.labels))
    messages = others.allgather(json.dumps(own).encode())
    known = {label for message in messages for label in json.loads(message)}
    if len({isinstance(label, str) for label in known}) > 1:
        raise DataTypeError("position must hold whole numbers or text; it has both.")
    labels = sorted(known)
    code_of = {label: code for code, label in enumerate(labels)}
    codes = [
        np.array([code_of[label] for label in part.labels], dtype=np.int64)[part.codes]
        for part in parts
    ]
    return Positions(np.concatenate([np.zeros(0, np.int64), *codes]), tuple(labels))


def check_positions(position: Positions | None, objective: Objective, params: BoostParams) -> None:
    """Raise ``ParameterError`` for positions without effect, or their parameter without them."""
    if position is None:
        requested = getattr(objective, "position_bias_regularization", None)
        if requested is not None:
            raise ParameterError(
                f"position_bias_regularization={brief(requested)} has no effect without position, "
                "the position at which each row was shown: give it to fit, or leave it at None."
            )
        return
    if scored_as(objective) != "ranking":
        raise ParameterError(
            f"position has no effect with objective {objective.name!r}: use 'lambdarank' or "
            "another objective of rankings, or leave it out."
        )
    if params.boosting == "rf":
        raise ParameterError(
            "position biases are learned with trees that are added up, but boosting='rf' averages "
            "independent trees: use boosting='gbdt' or 'dart'."
        )


def with_positions(
    objective: Objective,
    position: Positions | None,
    params: BoostParams,
    start: Start | None = None,
) -> Objective:
    """Return the objective with position biases to learn, if the rows have positions."""
    if position is None:
        return objective
    from hedgerow.objectives.ranking.losses import RankingLoss
    from hedgerow.objectives.ranking.positions import PositionBias

    if not isinstance(objective, RankingLoss):
        return objective
    penalty = objective.position_bias_regularization or 0.0
    n_first = 0 if start is None else start.forest.n_rounds

    def rate(number: int) -> float:
        return rate_at(params.learning_rate, number, n_first)

    learned = None if start is None else _biases_of(start.model, position.labels)
    return objective.with_positions(
        PositionBias(position.codes, position.labels, penalty, rate, learned)
    )


def _biases_of(model: Model, labels: Sequence[Any]) -> FloatArray | None:
    """Return the bias that a model learned for each position, or None if it learned none.

    The biases are centred at 0, because the loss compares the rows of a query; a new position
    starts at the mean of the known ones.
    """
    record = model.training.get("position_bias")
    if record is None or not record["positions"]:
        return None
    mean = math.fsum(record["bias"]) / len(record["bias"])
    known = dict(zip(record["positions"], record["bias"], strict=True))
    return np.array([known.get(label, mean) - mean for label in labels])


def bias_record(objective: Objective, n_rounds: int) -> dict[str, Any]:
    """Return the entry of the training record on positions, after ``n_rounds`` rounds."""
    positions: PositionBias | None = getattr(objective, "positions", None)
    return {} if positions is None else {"position_bias": positions.record(n_rounds)}
