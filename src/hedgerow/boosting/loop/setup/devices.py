"""Choice of the device that grows trees: the processor, or a GPU (:mod:`hedgerow.growing.cuda`).

The trees are the same, bit for bit, so a part of a fit may run on one and another part on the
other: the folds of a fit, for example, may also try trees that only the processor grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hedgerow.boosting.loop.setup.strategy import asks_for_bundles
from hedgerow.data.sparse import AnyTable, SparseTable
from hedgerow.errors import DeviceError, ParameterError
from hedgerow.params import BoostParams

LEAST_ROWS = 200_000
"""Below this many rows, ``device="auto"`` is the processor, and for sparse tables, which a GPU
keeps as dense bins."""

_OF_GPU: Mapping[str, Any] = {"tree_method": "hist"}


def obstacle_to_gpu(params: BoostParams) -> str | None:
    """Return the first setting whose trees a GPU does not grow, or None."""
    return params.first_unlike(_OF_GPU) or asks_for_bundles(params)


def on_gpu(params: BoostParams) -> bool:
    """Return whether trees of these parameters are grown on a GPU; ``params`` are resolved."""
    return params.device == "cuda" and obstacle_to_gpu(params) is None


def resolve_device(params: BoostParams, table: AnyTable) -> BoostParams:
    """Resolve ``device="auto"``, and check that a GPU supports the fit."""
    if params.device == "cpu":
        return params
    obstacle = obstacle_to_gpu(params)
    if params.device == "auto":
        suits = obstacle is None and table.n_rows >= LEAST_ROWS
        suits = suits and not isinstance(table, SparseTable) and _missing() is None
        return replace(params, device="cuda" if suits else "cpu")
    if obstacle is not None:
        raise ParameterError(
            f"device='cuda' does not go with {obstacle}: use device='cpu', which gives the same "
            "model, or change that."
        )
    why = _missing()
    if why is not None:
        raise DeviceError(f"device='cuda': {why} Use device='cpu', which gives the same model.")
    return params


def _missing() -> str | None:
    # Imported here: few fits use a GPU.
    from hedgerow.cuda.device import missing_gpu

    return missing_gpu()
