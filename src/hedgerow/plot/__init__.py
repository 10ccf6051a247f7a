"""Trees as text and pictures, and plots of a model's columns.

A booster imports its views (:mod:`hedgerow.plot.views`) but seldom draws, so drawing modules are
imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.plot.classifier import plot_calibration, plot_confusion
    from hedgerow.plot.curves import plot_history
    from hedgerow.plot.dependence import plot_dependence
    from hedgerow.plot.divisions import Division
    from hedgerow.plot.dot import tree_dot
    from hedgerow.plot.effects import plot_curves, plot_joint_dependence, plot_partial_dependence
    from hedgerow.plot.explained import (
        plot_beeswarm,
        plot_waterfall,
    )
    from hedgerow.plot.importance import plot_importance
    from hedgerow.plot.labels import Labelled
    from hedgerow.plot.pairs import plot_interactions
    from hedgerow.plot.picture import plot_tree
    from hedgerow.plot.text import forest_frame, tree_rules, tree_text

__all__ = [
    "Division",
    "Labelled",
    "forest_frame",
    "plot_beeswarm",
    "plot_calibration",
    "plot_confusion",
    "plot_curves",
    "plot_dependence",
    "plot_history",
    "plot_importance",
    "plot_interactions",
    "plot_joint_dependence",
    "plot_partial_dependence",
    "plot_tree",
    "plot_waterfall",
    "tree_dot",
    "tree_rules",
    "tree_text",
]

_HOME_OF = {
    "Division": "divisions",
    "Labelled": "labels",
    "forest_frame": "text",
    "plot_history": "curves",
    "plot_importance": "importance",
    "plot_waterfall": "explained",
    "plot_interactions": "pairs",
    "plot_dependence": "dependence",
    "plot_beeswarm": "explained",
    "plot_partial_dependence": "effects",
    "plot_joint_dependence": "effects",
    "plot_curves": "effects",
    "plot_confusion": "classifier",
    "plot_calibration": "classifier",
    "plot_tree": "picture",
    "tree_dot": "dot",
    "tree_rules": "text",
    "tree_text": "text",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"hedgerow.plot.{_HOME_OF[name]}"), name)
