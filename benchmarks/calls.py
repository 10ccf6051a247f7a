"""Measure the call of a compiled tree and the tree itself: ``python benchmarks/calls.py``.

The figures are microseconds of one thread for 500 rows of 20 columns, the best of several runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from hedgerow.compile import entry_of
from hedgerow.data import fit_bins, read_table
from hedgerow.data.binning.matrix import bin_table
from hedgerow.growing.core.grow import ORDER_GROW, ORDER_STOP, work
from hedgerow.growing.core.grower import TreeGrower, make_state
from hedgerow.growing.core.setup import Fit
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams


def microseconds(call: Callable[[], object], times: int = 1000, runs: int = 7) -> float:
    """Return the microseconds of one call."""
    call()
    found = []
    for _ in range(runs):
        start = time.thread_time()
        for _ in range(times):
            call()
        found.append((time.thread_time() - start) / times)
    return 1e6 * min(found)


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 20))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=500) > 0).astype(np.float64)
    table = read_table(X)
    matrix = bin_table(table, fit_bins(table, 63, None, 0, 1), 1)
    params = BoostParams(max_leaves=8, leaf_estimation="newton")
    objective, raw = make_objective("logistic"), np.zeros((1, 500))
    state = make_state(matrix, Fit(y, None, raw, objective, params, 1))
    entry = entry_of(work, 0, state, ORDER_STOP)
    print(f"kernel, nothing to do  {microseconds(lambda: work(0, state, ORDER_STOP)):6.1f}")
    print(f"entry, nothing to do   {microseconds(lambda: entry(0, state, ORDER_STOP)):6.1f}")
    print(f"kernel, a tree         {microseconds(lambda: work(0, state, ORDER_GROW)):6.1f}")
    print(f"entry, a tree          {microseconds(lambda: entry(0, state, ORDER_GROW)):6.1f}")
    grower = TreeGrower(matrix, Fit(y, None, raw, objective, params, 1))
    print(f"a tree, and its copy   {microseconds(lambda: grower.grow(0, 0)):6.1f}")
    print(f"all fields of a tree   {microseconds(lambda: grower.grow(0, 0).gain):6.1f}")
    grower.close()


if __name__ == "__main__":
    main()
