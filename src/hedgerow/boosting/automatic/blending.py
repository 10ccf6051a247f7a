"""The blend: one model that adds the raw scores of several kinds of trees.

The folds compare kinds of trees, whose errors differ, so a weighted mean of their raw scores is
often better than the best of them.  The tested rows of the folds determine the weights.  Each
member is trained on all rows, and the model is one forest, whose leaf values are multiplied by the
weights.  `docs/defaults-experiments.md` has the measurements.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from hedgerow.boosting.automatic.evidence import TestedRows
from hedgerow.boosting.automatic.recipe import AUTOMATIC
from hedgerow.boosting.loop.driver import FitPlan, grow_forest, make_ready
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.validation.cross import GrownFold
from hedgerow.data.inputs import Inputs
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.model.forest import Forest, blended_forests
from hedgerow.params import BoostParams

Blend: TypeAlias = "bool | int | Literal['auto'] | Sequence[Mapping[str, Any]]"

MOST_MEMBERS, _MOST_ASKED_FOR = 3, 10
_STEPS = 10
_LEAST = 0.3
"""Smallest weight of a member over the largest: all take the same time in predictions."""

OF_MEMBER = (
    *(name for name in AUTOMATIC if name not in ("early_stopping", "patience", "multi_strategy")),
    "max_depth",
)
"""Parameters in which the members of a blend may differ."""
_RECORDED = tuple(name for name in OF_MEMBER if name != "n_estimators")


@dataclass(frozen=True, slots=True)
class Member:
    """A kind of trees in the model, of ``params.n_estimators`` rounds; the first is the best."""

    params: BoostParams
    weight: float


def most_members(blend: Blend) -> int:
    """Return the largest number of members that ``blend`` allows."""
    if isinstance(blend, bool | np.bool_) or not isinstance(blend, int | np.integer):
        return MOST_MEMBERS if blend else 1
    return int(blend)


def asks_for_several(blend: Blend) -> bool:
    """Return whether several kinds of trees are asked for, by a number or a list."""
    return not isinstance(blend, str) and most_members(blend) > 1


def check_blend(blend: object) -> None:
    """Raise ``ParameterError`` for an invalid ``blend``, except for values in a list."""
    if isinstance(blend, bool | np.bool_) or (isinstance(blend, str) and blend == "auto"):
        return
    if isinstance(blend, int | np.integer) and 1 <= blend <= _MOST_ASKED_FOR:
        return
    if not isinstance(blend, list | tuple) or not blend:
        raise ParameterError(
            "blend must be True, False, 'auto', a number of kinds of trees from 1 to "
            f"{_MOST_ASKED_FOR}, or a list of the parameters of each; got {brief(blend)}."
        )
    for given in blend:
        if not isinstance(given, Mapping) or "weight" not in given:
            raise ParameterError(
                "blend: each item of the list must be a mapping of parameters with a 'weight', "
                f"such as {{'weight': 0.5, 'max_leaves': 4}}; got {brief(given)}."
            )
        for name in given:
            if name not in ("weight", *OF_MEMBER):
                raise ParameterError(
                    f"blend: {brief(name)} is not a parameter in which kinds of trees may differ: "
                    f"these are {', '.join(OF_MEMBER)}.{did_you_mean(name, OF_MEMBER)}"
                )
    weights = [given["weight"] for given in blend]
    valid = all(isinstance(w, numbers.Real) and 0.0 < float(w) <= 1.0 for w in weights)
    if not valid or abs(sum(weights) - 1.0) > 1e-6:
        raise ParameterError(
            f"blend: weights must be above 0, and their sum must be 1; got {brief(weights)}."
        )


def members_of(blend: Sequence[Mapping[str, Any]], params: BoostParams) -> tuple[Member, ...]:
    """Return the members of an explicit blend; ``params`` hold unless an item changes them."""
    found = []
    for given in blend:
        values = {name: value for name, value in given.items() if name != "weight"}
        if values.get("feature_crosses"):
            values["feature_crosses"] = tuple(tuple(each) for each in values["feature_crosses"])
        found.append(Member(replace(params, **values), float(given["weight"])))
    return tuple(found)


def weights_of(
    tested: TestedRows, kinds: Sequence[Sequence[GrownFold]], best: int, most: int
) -> list[float]:
    """Return the weight of each kind, of which at most ``most`` are above 0."""
    counts = np.zeros(len(kinds), dtype=np.int64)
    counts[best] = 1
    total = [fold.raw.copy() for fold in kinds[best]]

    def loss(kind: Sequence[GrownFold]) -> float:
        n = counts.sum() + 1
        mean = [(before + fold.raw) / n for before, fold in zip(total, kind, strict=True)]
        return tested.mean(tested.losses(kinds[best], mean))

    # Add the kind (again) that most lowers the loss of the mean of all added (Caruana et al. 2004).
    while counts.sum() < _STEPS:
        open_to_all = np.count_nonzero(counts) < most
        allowed = [k for k in np.argsort(-counts, kind="stable") if open_to_all or counts[k] > 0]
        found = [loss(kinds[k]) for k in allowed]
        chosen = allowed[int(np.argmin(found))]  # of equal ones, that of the largest weight
        counts[chosen] += 1
        for before, fold in zip(total, kinds[chosen], strict=True):
            before += fold.raw
    is_small = counts < _LEAST * counts.max()
    is_small[best] = False
    counts[is_small] = 0
    return (counts / counts.sum()).tolist()


def joined_members(
    first: Forest, inputs: Inputs | None, plan: FitPlan, members: Sequence[Member], train: Sample
) -> tuple[Forest, Inputs | None, list[dict[str, Any]]] | None:
    """Train the other members on all rows, and join their forests with the ``first`` one."""
    grown, kept = [(first, inputs)], [members[0]]
    for member in members[1:]:
        own = replace(
            plan, params=member.params, callbacks=(), metrics=(), is_scored=False, limits=None
        )
        ready = make_ready(own, own.prepared((train, ())), may_run_ahead=True)
        ready.watch.subject = "a kind of trees of the blend, which the model now lacks,"
        forest = grow_forest(ready.state, ready.watch)
        # The blend then has the members that are complete.
        if ready.watch.stopped_by == "interrupt":
            break
        grown.append((forest, ready.rows.inputs))
        kept.append(member)
    if len(kept) == 1:
        return None
    share = 1.0 if len(kept) == len(members) else sum(member.weight for member in kept)
    weights = [member.weight / share for member in kept]
    forest, joined = _joined(grown, weights)
    record = [
        {
            "weight": weight,
            "n_estimators": one.n_rounds,
            **member.params.unlike(kept[0].params, _RECORDED),
        }
        for member, weight, (one, _) in zip(kept, weights, grown, strict=True)
    ]
    return forest, joined, record


def _joined(
    grown: Sequence[tuple[Forest, Inputs | None]], weights: Sequence[float]
) -> tuple[Forest, Inputs | None]:
    """Join forests whose inputs differ at most by crosses, which are the last inputs."""
    width = max(forest.n_features for forest, _ in grown)
    inputs = next(inputs for forest, inputs in grown if forest.n_features == width)
    crosses = () if inputs is None else inputs.crosses
    tables_of_all = [f.categories for f, _ in grown if f.categories is not None]
    wide = []
    for forest, own in grown:
        if own is not None and own.crosses not in ((), crosses):
            raise ParameterError(
                "blend: kinds of trees have different feature_crosses: give all that have crosses "
                "the same."
            )
        tables = forest.categories
        if tables is not None:
            if not np.array_equal(tables.level_bin, tables_of_all[0].level_bin):
                raise ParameterError(
                    "blend: kinds of trees with different max_bins divide categories differently: "
                    "give all the same max_bins."
                )
            starts = tables.level_start
            padded = np.append(starts, np.repeat(starts[-1], width - forest.n_features))
            tables = replace(tables, level_start=padded)
        wide.append(replace(forest, n_features=width, categories=tables))
    return blended_forests(wide, weights), inputs
