"""Trees as text and pictures, and plots of a model's columns.

Functions that draw need matplotlib, and raise ``ImportError`` where it is not installed.
"""

from typing import TYPE_CHECKING

from hedgerow.once import imported_once

if TYPE_CHECKING:
    from hedgerow.plot.classifier import plot_calibration
    from hedgerow.plot.curves import plot_history
    from hedgerow.plot.effects import plot_partial_dependence
    from hedgerow.plot.explained import plot_beeswarm, plot_waterfall
    from hedgerow.plot.importance import plot_importance
    from hedgerow.plot.labels import Division, Labelled
    from hedgerow.plot.picture import plot_tree
    from hedgerow.plot.text import forest_frame, tree_rules, tree_text

__all__ = [
    "Division",
    "Labelled",
    "forest_frame",
    "plot_beeswarm",
    "plot_calibration",
    "plot_history",
    "plot_importance",
    "plot_partial_dependence",
    "plot_tree",
    "plot_waterfall",
    "tree_rules",
    "tree_text",
]

__getattr__ = imported_once(
    __name__,
    {
        "classifier": ("plot_calibration",),
        "curves": ("plot_history",),
        "effects": ("plot_partial_dependence",),
        "explained": ("plot_beeswarm", "plot_waterfall"),
        "importance": ("plot_importance",),
        "labels": ("Division", "Labelled"),
        "picture": ("plot_tree",),
        "text": ("forest_frame", "tree_rules", "tree_text"),
    },
)
