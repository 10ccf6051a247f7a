"""Where trees are grown: on the processor, or on a GPU (:mod:`hedgerow.growing.cuda`).

The trees are the same, bit for bit, so a part of a fit may run on one and another part on the
other: the folds of a fit, for example, may also try trees that only the processor grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hedgerow.boosting.loop.strategy import asks_for_bundles, holds_vectors
from hedgerow.data.sparse import AnyTable, SparseTable
from hedgerow.errors import DeviceError, ParameterError
from hedgerow.params import BoostParams, Device

LEAST_ROWS = 200_000
"""Below this many rows, ``device="auto"`` is the processor."""

_OF_GPU: Mapping[str, Any] = {"tree_method": "hist"}


def obstacle_to_gpu(params: BoostParams) -> str | None:
    """Return the first setting whose trees a GPU does not grow, or None."""
    if holds_vectors(params):
        return "multi_strategy='multi_output_tree' (the default for several targets)"
    return params.first_unlike(_OF_GPU) or asks_for_bundles(params)


def on_gpu(params: BoostParams) -> bool:
    """Return whether trees of these parameters are grown on a GPU; ``params`` are resolved."""
    return params.device == "cuda" and obstacle_to_gpu(params) is None


def resolve_device(params: BoostParams, table: AnyTable) -> BoostParams:
    """Resolve ``device="auto"``, and check that a GPU can do what is asked of it.

    Parameters
    ----------
    params : BoostParams
        Resolved in all other respects.
    table : Table or SparseTable
        The training rows.

    Raises
    ------
    ParameterError
        If ``device="cuda"`` does not go with another setting, or with a sparse table.
    DeviceError
        If ``device="cuda"`` and there is no GPU.
    """
    if params.device == "cpu":
        return params
    obstacle = obstacle_to_gpu(params)
    if obstacle is None and isinstance(table, SparseTable):
        obstacle = "a sparse X"
    if params.device == "auto":
        return replace(params, device=_choice(obstacle, table.n_rows))
    if obstacle is not None:
        raise ParameterError(
            f"device='cuda' does not go with {obstacle}: use device='cpu', which gives the same "
            "model, or change that."
        )
    why = _missing()
    if why is not None:
        raise DeviceError(f"device='cuda': {why} Use device='cpu', which gives the same model.")
    return params


def _choice(obstacle: str | None, n_rows: int) -> Device:
    """Return the device of ``device="auto"``."""
    fits = obstacle is None and n_rows >= LEAST_ROWS and _missing() is None
    return "cuda" if fits else "cpu"


def _missing() -> str | None:
    # Imported here: few fits use a GPU.
    from hedgerow.cuda.device import missing_gpu

    return missing_gpu()
