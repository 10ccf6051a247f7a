"""Trees of a model as methods: frames, text, rules, pictures."""

from __future__ import annotations

from typing import Any

from hedgerow.arrays import FloatArray
from hedgerow.data.reading.frames import FrameLibrary, make_frame
from hedgerow.model.booster_part import BoosterPart
from hedgerow.model.model import ImportanceKind, feature_importance
from hedgerow.notebook import Viewed, most_used
from hedgerow.peers import OF_IMPORTANCE, advised
from hedgerow.plot import picture, text


class TreeViews(BoosterPart, Viewed):
    """Mixin of the booster: its trees as tables, and the functions for text and pictures of one."""

    def _facts(self) -> dict[str, object]:
        return {
            "objective": self.model.objective,
            "rounds": f"{self.model.forest.n_rounds:,}",
            "trees": f"{self.model.forest.n_trees:,}",
            "columns": f"{self._schema.n_features:,}",
            "most used": most_used(self._schema.names, feature_importance(self.model, "split")),
        }

    def to_frame(self, backend: FrameLibrary = "pandas") -> Any:
        """Return all nodes of all trees as a data frame, one row for each node.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default="pandas"
            Library of the frame, which must be installed; None for a dict of
            lists.

        Returns
        -------
        data frame
            Columns of :func:`hedgerow.plot.forest_frame`; levels of mixed types are text in
            libraries with typed columns.
        """
        columns = {
            name: column if isinstance(column, list) else column.tolist()
            for name, column in text.forest_frame(self.model).items()
        }
        return make_frame(columns, backend)

    to_text = text.tree_text
    to_rules = text.tree_rules
    to_dot = text.tree_dot
    plot_tree = picture.plot_tree

    @advised(OF_IMPORTANCE)
    def feature_importance(self, kind: ImportanceKind = "gain") -> FloatArray:
        """Return the importance of each feature, summed over all splits.

        The importance of a target statistic of two columns is divided equally between them.

        Parameters
        ----------
        kind : {"gain", "split", "cover"}, default="gain"
            ``"gain"``: loss reduction.  ``"split"``: number of splits.  ``"cover"``: sum of
            hessians of the rows in the split nodes.

        Returns
        -------
        float64, shape (n_features,)
        """
        return feature_importance(self.model, kind)
