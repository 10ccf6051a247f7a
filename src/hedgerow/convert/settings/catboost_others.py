"""CatBoost's parameters without a counterpart, and their replacements."""

from __future__ import annotations

from hedgerow.convert.settings.rules import SPEED, Rule

_ONE_KIND = Rule(note="Hedgerow has one kind of target statistic.")
_NOT_PLAIN = "it concerns boosting_type='Ordered', which Hedgerow does not have."
_TEXTS = Rule(harmless=(None, [], {}), note="turn texts into numbers first.")
_PENALTIES = Rule(harmless=(None, "", [], {}), note="use feature_penalties.")

OTHERS: dict[str, Rule] = {
    "score_function": Rule(
        note="gains are those of Newton steps, CatBoost's 'NewtonL2'; its default is 'Cosine'."
    ),
    "random_score_type": Rule(note="gains get no noise."),
    "sampling_unit": Rule(harmless=("Object",), note="sampling draws rows, not groups."),
    "sampling_frequency": Rule(harmless=("PerTree",), note="rows are drawn once for each tree."),
    "mvs_reg": Rule(harmless=(None,), note="MVS finds its regularisation from the gradients."),
    "model_size_reg": Rule(note="target statistics of many levels have no penalty."),
    "has_time": Rule(harmless=(False,), note="target statistics use a random order of the rows."),
    "approx_on_full_history": Rule(harmless=(False,), note=_NOT_PLAIN),
    "fold_len_multiplier": Rule(harmless=(2,), note=_NOT_PLAIN),
    "fold_permutation_block": Rule(
        harmless=(0, 1), note="target statistics use an order of single rows, not of blocks."
    ),
    "penalties_coefficient": Rule(harmless=(1,), note="use feature_penalties."),
    **dict.fromkeys(("first_feature_use_penalties", "per_object_feature_penalties"), _PENALTIES),
    "leaf_estimation_backtracking": Rule(
        note="leaf values take one Newton step, or a line search."
    ),
    "per_float_feature_quantization": Rule(
        harmless=(None, "", [], {}), note="use max_bins_by_feature or forced_bins."
    ),
    **dict.fromkeys(
        ("input_borders", "fixed_binary_splits"),
        Rule(harmless=(None, "", []), note="use forced_bins."),
    ),
    "sparse_features_conflict_fraction": Rule(
        harmless=(0,), note="use bundle_features and max_conflict_rate."
    ),
    "ignored_features": Rule(harmless=(None, []), note="leave these columns out of the data."),
    "class_names": Rule(note="the names of the classes come from y."),
    "target_border": Rule(harmless=(None,), note="make two classes of y first."),
    "allow_const_label": Rule(note="a constant target is allowed."),
    "od_pval": Rule(harmless=(0,), note="use early_stopping_rounds, a number of rounds."),
    "best_model_min_trees": Rule(harmless=(1,), note="a model may end at any round."),
    "eval_fraction": Rule(
        harmless=(0,), note="use early_stopping=True, which holds out validation_fraction."
    ),
    "model_shrink_mode": Rule(note="Hedgerow does not shrink earlier trees."),
    "diffusion_temperature": Rule(note="it concerns langevin, which Hedgerow does not have."),
    **dict.fromkeys(
        (
            *("counter_calc_method", "ctr_leaf_count_limit", "store_all_simple_ctr"),
            *("per_feature_ctr", "ctr_description", "ctr_target_border_count"),
            *("final_ctr_computation_mode", "ctr_history_unit"),
        ),
        _ONE_KIND,
    ),
    **dict.fromkeys(("tokenizers", "dictionaries", "feature_calcers", "text_processing"), _TEXTS),
    "callback": Rule(harmless=(None,), note="callbacks receive a Round (training-control.md)."),
    **dict.fromkeys(
        ("custom_metric", "custom_loss"), Rule(note="give all metrics in eval_metric.")
    ),
    **dict.fromkeys(
        (
            *("verbose", "logging_level", "devices", "device_config", "allow_writing_files"),
            *("train_dir", "metric_period", "used_ram_limit", "gpu_ram_part", "save_snapshot"),
            *("snapshot_file", "snapshot_interval", "name", "metadata", "output_borders"),
            *("pinned_memory_size", "gpu_cat_features_storage", "data_partition"),
            *("dev_score_calc_obj_block_size", "dev_efb_max_buckets"),
        ),
        Rule(note=SPEED),
    ),
}
