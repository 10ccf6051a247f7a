"""Fits of samples, as the driver has them after it has read the rows."""

from __future__ import annotations

from typing import Any

from hedgerow.boosting.loop.driver import FitOptions
from hedgerow.boosting.loop.fit import fit
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.job import FitSpec
from hedgerow.model.model import Model
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams


def fit_sample(
    train: Sample,
    objective: Objective,
    params: BoostParams,
    options: FitOptions | None = None,
    **more: Any,
) -> Model:
    """Train on rows; ``more`` are further attributes of their :class:`FitSpec`."""
    return fit(FitSpec(train, objective, **more), params, options)
