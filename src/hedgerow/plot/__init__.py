"""Trees as text and pictures."""

from hedgerow.plot.divisions import Division
from hedgerow.plot.dot import tree_dot
from hedgerow.plot.labels import Labelled
from hedgerow.plot.picture import plot_tree
from hedgerow.plot.text import forest_frame, tree_rules, tree_text

__all__ = [
    "Division",
    "Labelled",
    "forest_frame",
    "plot_tree",
    "tree_dot",
    "tree_rules",
    "tree_text",
]
