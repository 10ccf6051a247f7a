"""The division of work between workers: by rows, or by features.

=============  =============================  ====================================
               ``"data"``                     ``"features"``
=============  =============================  ====================================
each worker    its own rows                   all rows
sent per tree  histograms of the built nodes  splits
repeated       nothing                        gradients, partition of rows, scores
=============  =============================  ====================================

``"auto"`` chooses ``"features"`` if all of these hold::

    traffic  = nodes * n_features * (max_bins + 1) * cell  * (W - 1) / W
    repeated = n_rows * (levels + outputs - 1)     * 8 bytes * (W - 1) / W
    traffic > repeated      the histograms of a tree exceed the repeated work
    2 * n_rows * n_features + 40 * n_rows * outputs <= a quarter of the memory of a worker

``nodes`` is the number of leaves minus one, and ``levels`` the base-2 logarithm of the number
of leaves.  ``traffic`` counts half of all nodes, because only one of two siblings is sent.  A
``cell``, the sums of a bin, has 16 bytes.  In trees with vector leaves it has 8 bytes for the
number of rows, and 64 for each 8 ``outputs`` of a leaf.
"""

from __future__ import annotations

import logging
import math
from typing import Literal, get_args

from hedgerow.argument_types import is_one_of
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.kernels.histograms.vector_histogram import width_of
from hedgerow.params import BoostParams

logger = logging.getLogger("hedgerow")

Parallelism = Literal["auto", "data", "features"]

_CELL_BYTES = 16
_ROW_BYTES = 8
_WORK_BYTES = 40
_MEMORY_SHARE = 0.25
_MOST_LEAVES = 1 << 16


def check_parallelism(value: object) -> None:
    """Raise ``ParameterError`` for an unknown division of work."""
    if not is_one_of(value, get_args(Parallelism)):
        known = ", ".join(map(repr, get_args(Parallelism)))
        raise ParameterError(
            f"parallelism must be one of {known}; got {brief(value)}."
            f"{did_you_mean(value, get_args(Parallelism))}"
        )


def choose_mode(
    requested: Parallelism,
    params: BoostParams,
    n_rows: int,
    n_features: int,
    n_workers: int,
    memory: int | None,
    n_outputs: int = 1,
) -> GrowMode:
    """Choose the division of work, and log the reason; ``memory`` is of the smallest worker.

    Examples
    --------
    >>> choose_mode("auto", BoostParams(), 1_000_000, 50, 4, 8 * 10**9)
    'data'
    >>> choose_mode("auto", BoostParams(), 2_000, 5_000, 4, 8 * 10**9)
    'features'
    >>> choose_mode("auto", BoostParams(), 200_000, 50, 4, 8 * 10**9)
    'data'
    >>> choose_mode("auto", BoostParams(), 200_000, 50, 4, 8 * 10**9, n_outputs=8)
    'features'
    """
    if requested != "auto":
        return requested
    leaves = params.max_leaves or (2**params.max_depth if params.max_depth else _MOST_LEAVES)
    leaves = max(2, min(leaves, _MOST_LEAVES, n_rows // params.min_samples_leaf + 1))
    traffic = (leaves - 1) * n_features * (params.max_bins + 1) * _cell_bytes(n_outputs)
    repeated = n_rows * (math.log2(leaves) + n_outputs - 1) * _ROW_BYTES
    needed = 2 * n_rows * n_features + _WORK_BYTES * n_rows * n_outputs
    fits = memory is None or needed <= _MEMORY_SHARE * memory
    mode: GrowMode = "features" if n_workers > 1 and traffic > repeated and fits else "data"
    logger.info(
        "parallelism='auto': %r (histograms of a tree %.3g MB, repeated work %.3g MB; all "
        "rows take %.3g MB of a worker's %s)",
        mode,
        traffic / 1e6,
        repeated / 1e6,
        needed / 1e6,
        "memory" if memory is None else f"{memory / 1e6:.3g} MB",
    )
    return mode


def _cell_bytes(n_outputs: int) -> int:
    """Return the bytes of a bin in a message, for trees of ``n_outputs`` outputs."""
    if n_outputs == 1:
        return _CELL_BYTES
    return 8 + 4 * width_of(n_outputs, constant=False)
