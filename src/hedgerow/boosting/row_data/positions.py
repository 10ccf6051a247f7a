"""Positions at which rows were shown: parsing, and their use in a fit."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.row_data.checks import check_length, one_axis, refuse_missing, values_of_rows
from hedgerow.comm.base import Communicator, gather_numbers
from hedgerow.errors import DataTypeError, ParameterError, brief
from hedgerow.metrics import scored_as
from hedgerow.model.model import Model
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams
from hedgerow.schedules import rate_at

if TYPE_CHECKING:
    from hedgerow.boosting.resume.continuing import Start
    from hedgerow.objectives.ranking.positions import PositionBias


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """Positions at which rows were shown: int64 codes, indices into the ascending labels."""

    codes: IntArray
    labels: tuple[Any, ...]

    def __getitem__(self, rows: Any) -> Positions:
        """Return the positions of some of the rows."""
        return Positions(self.codes[rows], self.labels)


def read_position(position: Any, n_rows: int, name: str = "position") -> Positions:
    """Read positions at which rows were shown: integers or text, each value is one position.

    Examples
    --------
    >>> found = read_position(["top", "side", "top"], 3)
    >>> found.labels, found.codes.tolist()
    (('side', 'top'), [1, 0, 1])
    """
    values = one_axis(values_of_rows(position, name), name)
    check_length(len(values), n_rows, name)
    refuse_missing(values, name)
    if values.dtype.kind == "O":
        texts = all(isinstance(value, str) for value in values.tolist())
        integers = all(isinstance(value, int | np.integer) for value in values.tolist())
        if not texts and not integers:
            raise DataTypeError(f"{name} must hold whole numbers or text.")
        values = values.astype(str if texts else np.int64)
    if values.dtype.kind == "f" and (values == np.floor(values)).all():
        values = values.astype(np.int64)
    if values.dtype.kind not in "iuUT":
        raise DataTypeError(f"{name} must hold whole numbers or text, got {values.dtype}.")
    labels, codes = np.unique(values, return_inverse=True)
    return Positions(codes.reshape(-1).astype(np.int64), tuple(labels.tolist()))


def joined_positions(parts: Sequence[Positions], others: Communicator) -> Positions:
    """Return the positions of the rows of all parts, with the labels of all ranks.

    Examples
    --------
    >>> from hedgerow.comm.base import Alone
    >>> parts = [read_position(["top"], 1), read_position(["side", "top"], 2)]
    >>> found = joined_positions(parts, Alone())
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


def positions_of_all(own: Positions | None, others: Communicator) -> Positions | None:
    """Return the positions of the rows of all ranks; None without positions."""
    return None if own is None else Positions(gather_numbers(own.codes, others), own.labels)


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
