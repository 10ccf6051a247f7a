"""Writer for treelite, through its builder; the file is a treelite checkpoint.

Thresholds and leaves are float64.  Categories are codes, the positions of the levels.  A split
lists the codes of one side, and unknown categories go to the other side.
"""

from __future__ import annotations

from typing import Any

from hedgerow.arrays import FloatArray
from hedgerow.convert.writers.plain import PlainModel, PlainTree, refuse

_TARGET = "treelite"
_POSTPROCESSORS = {
    "identity": "identity",
    "log": "exponential",
    "logit": "sigmoid",
    "softmax": "softmax",
    "logit_each": "multiclass_ova",
    "shares": "identity_multiclass",
}


def write_treelite(plain: PlainModel, approximate: bool, notes: list[str]) -> bytes:
    """Return the content of a checkpoint."""
    if plain.schema.zero_missing:
        raise refuse("zero_as_missing", _TARGET)
    builder = _builder(plain)
    for tree in plain.trees():
        builder.start_tree()
        for node in range(tree.n_nodes):
            builder.start_node(node)
            if tree.column[node] < 0:
                builder.leaf(float(tree.value[node]))
            else:
                _add_split(plain, tree, node, builder)
            builder.end_node()
        builder.end_tree()
    model: Any = builder.commit()
    if plain.schema.has_categories:
        notes.append("categories are codes: positions among the levels of the model, ascending.")
    return bytes(model.serialize_bytes())


def _builder(plain: PlainModel) -> Any:
    from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

    k, n_trees = plain.n_outputs, plain.forest.n_trees
    classes = plain.link in ("softmax", "logit_each", "shares")
    task = "kMultiClf" if classes else "kBinaryClf" if plain.link == "logit" else "kRegressor"
    of_output = [number % k for number in range(n_trees)]
    none = [0] * n_trees
    return ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=Metadata(
            num_feature=plain.schema.n_features,
            task_type=task,
            average_tree_output=False,
            num_target=1 if classes else k,
            num_class=[k] if classes else [1] * k,
            leaf_vector_shape=(1, 1),
        ),
        tree_annotation=TreeAnnotation(
            num_tree=n_trees,
            target_id=none if classes else of_output,
            class_id=of_output if classes else none,
        ),
        postprocessor=PostProcessorFunc(name=_POSTPROCESSORS.get(plain.link or "", "identity")),
        base_scores=plain.forest.base_score.tolist(),
    )


def _add_split(plain: PlainModel, tree: PlainTree, node: int, builder: Any) -> None:
    column = int(tree.column[node])
    left, right = int(tree.left[node]), int(tree.right[node])
    if node not in tree.members:
        builder.numerical_test(
            feature_id=column,
            threshold=float(tree.threshold[node]),
            default_left=bool(tree.missing_left[node]),
            opname="<=",
            left_child_key=left,
            right_child_key=right,
        )
        return
    to_right = tree.unknown_left[node]  # unknown codes are never listed
    builder.categorical_test(
        feature_id=column,
        default_left=bool(tree.missing_left[node]),
        category_list=plain.known_side(tree, node, to_right).tolist(),
        category_list_right_child=to_right,
        left_child_key=left,
        right_child_key=right,
    )


def predict_treelite(data: bytes, plain: PlainModel, matrix: FloatArray) -> Any:
    """Predict raw scores with treelite's own interpreter."""
    import treelite

    model = treelite.Model.deserialize_bytes(data)
    return treelite.gtil.predict(model, matrix, pred_margin=True)
