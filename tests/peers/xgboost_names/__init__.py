"""XGBoost's Python, with a ``DMatrix`` and a ``Booster`` that are Hedgerow's.

``train``, ``cv``, callbacks and estimators of XGBoost are Python that calls these two; so they
stay, and all that reads data, grows, scores and predicts is Hedgerow.
"""

from __future__ import annotations

import sys


def install() -> None:
    """Put our classes in the place of XGBoost's, wherever its modules name them."""
    import xgboost.core
    import xgboost.training

    from hedgerow import HedgerowError

    from .booster import Booster
    from .data import DMatrix, QuantileDMatrix

    ours = {
        "Booster": Booster,
        "DMatrix": DMatrix,
        "QuantileDMatrix": QuantileDMatrix,
        "XGBoostError": HedgerowError,
    }
    theirs = {name: getattr(xgboost.core, name) for name in ours}
    modules = [
        module for name, module in sys.modules.items() if name.partition(".")[0] == "xgboost"
    ]
    for module in modules:
        for name, kind in theirs.items():
            if getattr(module, name, None) is kind:
                setattr(module, name, ours[name])
    assert xgboost.training.Booster is Booster
