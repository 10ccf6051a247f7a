"""Meaning of ``"auto"``: parameters chosen by the size and the kind of the data.

``"auto"`` means the recipe (:mod:`hedgerow.boosting.automatic.recipe`) if folds or validation rows
may find the number of rounds: the number is ``"auto"`` itself, ``early_stopping`` is ``"auto"`` or
``"cv"``, and trees are boosted on rows in memory, sampled uniformly or not at all.  Explicit values
are kept, and the other values depend on them: an explicit learning rate determines the limit of the
rounds.  In all other cases the number of rounds is fixed, and ``"auto"`` is plain, except for a
rate that depends on the number of rounds, and small leaves on tiny tables.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace

from hedgerow.boosting.automatic.blending import asks_for_several, members_of, most_members
from hedgerow.boosting.automatic.cost import allowance_of, within_time
from hedgerow.boosting.automatic.recipe import (
    AUTOMATIC,
    CLEARLY,
    FEWEST_ROWS,
    HIGHEST_RATE,
    LEAST_PATIENCE,
    MEDIUM,
    DataSize,
    Values,
    candidates_for,
    plain_params,
    recipe,
)
from hedgerow.boosting.loop.setup.resolved import (
    ALL_OUTPUTS,
    asks_for_bundles,
    is_symmetric,
    obstacle_to_levels,
    obstacle_to_slopes,
    obstacle_to_vectors,
    resolve,
)
from hedgerow.boosting.validation.stopping import Candidate, Search, StoppingParams
from hedgerow.errors import ParameterError
from hedgerow.model.model import BLEND
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.params import BoostParams
from hedgerow.schedules import is_number

AUTO = "auto"

ROUNDS = frozenset({"n_estimators", "learning_rate", "early_stopping"})

_OF_TINY = frozenset(
    {"max_leaves", "min_samples_leaf", "reg_lambda", "min_data_per_group", "cat_smooth", "cat_l2"}
)
"""Parameters of the recipe for tiny tables with a fixed number of rounds: leaves must be small."""

_MOST_BLENDED = 100_000
"""From 10,000 rows on with one output, and from these on with several, ``blend="auto"`` means one
kind (`docs/defaults-experiments.md`)."""

_OF_RECIPE: Values = {
    "boosting": "gbdt", "tree_method": "hist", "sampling": "uniform", "oob_score": False,
}  # fmt: skip
_OF_SEARCH = frozenset(field.name for field in fields(Search))


def choose(
    params: BoostParams,
    stopping: StoppingParams,
    automatic: frozenset[str],
    objective: Objective,
    size: DataSize,
    has_validation: bool,
    is_recorded: bool = False,
    goes_on: bool = False,
) -> tuple[BoostParams, StoppingParams]:
    """Return the parameters with a value for each automatic parameter."""
    listed = stopping.blend if isinstance(stopping.blend, list | tuple) else None
    if listed is not None:
        _check_members(params, stopping, automatic, has_validation, goes_on)
    rowwise = objective.rowwise
    judged = rowwise or hasattr(objective, "shared_losses")
    suits = judged and params.first_unlike(_OF_RECIPE) is None
    if not suits or goes_on or not _finds_rounds(params, stopping, automatic):
        # With a loss that compares rows, a row of weight 2 is not two rows in leaves of one row.
        if rowwise and suits and size.n_rows < FEWEST_ROWS and params.max_depth is None:
            few = _OF_TINY & automatic - ({"max_leaves"} if is_symmetric(params) else set())
            params = replace(params, **_only(few, recipe(size)))
        _refuse_blend(stopping)
        if listed is not None:
            members = members_of(listed, params)
            return members[0].params, replace(stopping, members=members)
        return params, stopping
    size = _but_for_obstacles(size, params, automatic, objective)
    seconds, values = stopping.time_budget, recipe(size)
    # Another run may continue the trees of a recorded fit, so they may not depend on the clock.
    one_kind = is_recorded and seconds is not None
    if one_kind:
        values["easy_rounds"] = None
    elif seconds is not None:
        values = within_time(values, size, seconds, stopping.began, has_validation)
    lead = values.pop("lead", None)
    if "patience" not in automatic:
        values["least_patience"] = None
    if "learning_rate" not in automatic:
        times = values["learning_rate"] / params.learning_rate
        values |= {
            "n_estimators": math.ceil(values["n_estimators"] * times),
            "patience": max(math.ceil(values["patience"] * times), LEAST_PATIENCE),
            "stride": max(1.0, min(values["stride"], HIGHEST_RATE / params.learning_rate)),
            "easy_rounds": None,
        }
    several = isinstance(objective, SeveralTargets)
    if several or size.n_outputs == 1 or obstacle_to_vectors(params) is not None:
        del values["multi_strategy"]  # "auto" has a meaning of its own here
    free = automatic if params.max_depth is not None else automatic | {"max_depth"}
    if is_symmetric(params):
        values |= {"max_leaves": None, "max_depth": None}  # the defaults of symmetric trees
    search = Search(**_only(_OF_SEARCH, values), is_cautious=True)
    chosen = _only(free, values)
    patience, way = chosen.pop("patience", stopping.patience), chosen.pop("early_stopping", "cv")
    if has_validation and "early_stopping" in automatic:
        way = "auto"
    if is_symmetric(params):
        free -= {"max_leaves"}
    params = replace(params, **chosen)
    blends = way == "cv" and rowwise and seconds is None
    if not blends:
        _refuse_blend(stopping)
    if way == "cv" and not one_kind:
        gains = size.n_rows < (MEDIUM if size.n_outputs == 1 else _MOST_BLENDED)
        blends = blends and (gains or stopping.blend != "auto")
        allowance = allowance_of(size, resolve(params, objective), search.folds[1])
        search = replace(
            search,
            candidates=_candidates(params, size, free, lead),
            tries_crosses="feature_crosses" in automatic
            and size.by_crosses
            and not size.by_lists
            and FEWEST_ROWS <= size.n_rows < MEDIUM,
            most_members=most_members(stopping.blend) if blends else 1,
            allowance=allowance if "learning_rate" in automatic else None,
        )
    return params, replace(stopping, early_stopping=way, patience=patience, search=search)


def _candidates(
    params: BoostParams, size: DataSize, free: frozenset[str], lead: float | None
) -> tuple[Candidate, ...]:
    """Return the candidates that change only parameters in ``free``."""
    found = []
    for changes in candidates_for(size, params):
        own_lead = changes.pop("lead", lead)
        if free.issuperset(changes):
            found.append(Candidate(replace(params, **changes), own_lead))
    if (plain := plain_params(params, free, size)) is not None:
        found.append(Candidate(plain, CLEARLY, is_sieved=True))
    return tuple(found)


def _refuse_blend(stopping: StoppingParams) -> None:
    """Raise if several kinds of trees are asked for where folds compare none."""
    blend = stopping.blend
    if asks_for_several(blend) and not isinstance(blend, list | tuple):
        raise ParameterError(
            f"blend={blend} has no effect here: kinds of trees are blended if folds compare them, "
            "so without n_estimators, time_budget, validation rows, a model to continue, or "
            "settings that need plain trees, and not for rankings and 'cox': use blend='auto', or "
            "a list of the parameters of each kind."
        )


def _check_members(
    params: BoostParams,
    stopping: StoppingParams,
    automatic: frozenset[str],
    has_validation: bool,
    goes_on: bool,
) -> None:
    """Raise ``ParameterError`` unless the members of an explicit blend can be trained."""
    obstacles = {
        "n_estimators must be a number": "n_estimators" in automatic,
        "learning_rate must be a number, not a schedule": not is_number(params.learning_rate),
        "boosting must be 'gbdt'": params.boosting != "gbdt",
        "early_stopping must be False, or 'auto' without validation rows": stopping.is_on(
            has_validation
        ),
        "validation rows have no effect, so leave them out": has_validation,
        "time_budget must be None": stopping.time_budget is not None,
        "the fit must start without a model": goes_on,
    }
    for text, is_met in obstacles.items():
        if is_met:
            raise ParameterError(
                "blend: with a list, each kind of trees has its own number of rounds and all are "
                f"trained from the first round on: {text}."
            )


def _finds_rounds(params: BoostParams, stopping: StoppingParams, automatic: frozenset[str]) -> bool:
    """Return whether folds or validation rows find the number of rounds."""
    if automatic >= ROUNDS:
        return True
    is_requested = "early_stopping" in automatic or stopping.by_folds
    is_free = "n_estimators" in automatic and is_number(params.learning_rate)
    return is_free and is_requested and stopping.time_budget is None


def _only(names: frozenset[str], values: Values) -> Values:
    """Return the values with these names."""
    return {name: value for name, value in values.items() if name in names}


def _but_for_obstacles(
    size: DataSize, params: BoostParams, automatic: frozenset[str], objective: Objective
) -> DataSize:
    """Return the size without the kinds of trees that explicit parameters exclude."""
    resolved = resolve(params, objective)
    shape_is_open = automatic >= {"max_leaves", "grow_policy"} and params.max_depth is None
    shared = params.multi_strategy == ALL_OUTPUTS  # with vectors in their leaves
    is_dense = not asks_for_bundles(resolved)  # judged by the parameters only
    fits = is_dense and not obstacle_to_levels(resolved) and not resolved.constrained
    if not shape_is_open or shared or not fits:
        size = replace(size, by_levels=False)
    if shared or obstacle_to_slopes(resolved) or resolved.monotone_constraints is not None:
        size = replace(size, by_lines=False)
    if resolved.zero_as_missing or resolved.constrained:
        size = replace(size, by_crosses=False)
    return size


def chosen_names(automatic: frozenset[str], found: Values) -> list[str]:
    """Return the names of the values that a fit reports in ``chosen_params_``."""
    names = sorted(automatic, key=AUTOMATIC.index)
    if "grow_policy" in automatic and found.get("grow_policy") == "symmetric":
        names.append("max_depth")
    return [*names, "folds", "rounds_factor", "stride", "tried", BLEND]
