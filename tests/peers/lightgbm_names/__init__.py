"""What tests import as ``lightgbm``, on Hedgerow."""

from __future__ import annotations

import sys
import types


def install() -> None:
    """Let ``import lightgbm`` find these names."""
    from . import basic, callback, compat, engine, estimators

    module = types.ModuleType("lightgbm")
    parts = {
        "basic": basic,
        "callback": callback,
        "compat": compat,
        "engine": engine,
        "sklearn": estimators,
    }
    for name, part in parts.items():
        setattr(module, name, part)
        sys.modules[f"lightgbm.{name}"] = part
    for part in parts.values():
        for name in part.__all__:
            setattr(module, name, getattr(part, name))
    module.__version__ = "4.6.0"
    sys.modules["lightgbm"] = module
