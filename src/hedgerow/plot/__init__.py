"""Trees as text and pictures.

A booster knows of its views (:mod:`hedgerow.plot.views`) but seldom draws one, so what
draws is loaded on first use, as in the package itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.plot.curves import plot_history
    from hedgerow.plot.divisions import Division
    from hedgerow.plot.dot import tree_dot
    from hedgerow.plot.labels import Labelled
    from hedgerow.plot.picture import plot_tree
    from hedgerow.plot.text import forest_frame, tree_rules, tree_text

__all__ = [
    "Division",
    "Labelled",
    "forest_frame",
    "plot_history",
    "plot_tree",
    "tree_dot",
    "tree_rules",
    "tree_text",
]

_HOME_OF = {
    "Division": "divisions",
    "Labelled": "labels",
    "forest_frame": "text",
    "plot_history": "curves",
    "plot_tree": "picture",
    "tree_dot": "dot",
    "tree_rules": "text",
    "tree_text": "text",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"hedgerow.plot.{_HOME_OF[name]}"), name)
