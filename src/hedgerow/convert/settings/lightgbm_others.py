"""LightGBM's parameters without a counterpart, and their replacements."""

from __future__ import annotations

from hedgerow.convert.settings.rules import Rule
from hedgerow.convert.settings.values import flag

_OF_FILES = Rule(note="it concerns files: use Dataset.from_files or the command line.")
_OF_MODELS = Rule(note="it concerns model files: use save and load.")
_OF_PREDICTIONS = Rule(note="it is an argument of predict.")
_OF_NETWORKS = Rule(note="it concerns a cluster: see docs/distributed.md.")
_OF_DEVICES = Rule(note="it affects only speed or memory, so it has no counterpart.")
_QUANTIZED = Rule(note="gradients are always quantised to integers.")

OTHERS: dict[str, Rule] = {
    "lambdarank_norm": Rule("normalize_pairs", convert=flag),
    "lambdarank_position_bias_regularization": Rule("position_bias_regularization"),
    "is_provide_training_metric": Rule("train_scores", convert=flag),
    "eval_at": Rule(note="the names of 'ndcg' and 'map' have it: eval_metric='ndcg@5'."),
    "multi_error_top_k": Rule(harmless=(1,), note="use eval_metric='top_k_error@2'."),
    "auc_mu_weights": Rule(harmless=(None, "", [], ()), note="pairs of classes weigh the same."),
    "bagging_by_query": Rule(harmless=(False,), note="sampling draws rows, not queries."),
    "pos_bagging_fraction": Rule(harmless=(1, 1.0), note="sampling treats all classes alike."),
    "neg_bagging_fraction": Rule(harmless=(1, 1.0), note="sampling treats all classes alike."),
    "cegb_tradeoff": Rule(harmless=(1, 1.0), note="use gamma and feature_penalties."),
    **dict.fromkeys(
        ("cegb_penalty_feature_lazy", "cegb_penalty_feature_coupled"),
        Rule(harmless=(None, "", [], ()), note="use feature_penalties."),
    ),
    "poisson_max_delta_step": Rule(
        note="second derivatives of 'poisson' are not enlarged; use a smaller learning_rate."
    ),
    "forcedbins_filename": Rule(harmless=(None, ""), note="use forced_bins."),
    "uniform_drop": Rule(note="trees are dropped uniformly."),
    "xgboost_dart_mode": Rule(harmless=(False,), note="dropped trees are scaled as in DART."),
    "refit_decay_rate": Rule(note="it is an argument of refit."),
    "snapshot_freq": Rule(harmless=(-1, 0, None), note="use checkpoint."),
    "metric_freq": Rule(note="every round is evaluated."),
    **dict.fromkeys(
        (
            *("predict_raw_score", "predict_leaf_index", "predict_contrib"),
            "predict_disable_shape_check",
            *("start_iteration_predict", "num_iteration_predict"),
        ),
        _OF_PREDICTIONS,
    ),
    **dict.fromkeys(
        (
            *("config", "data", "valid", "header", "label_column", "weight_column"),
            *("group_column", "ignore_column", "pre_partition", "precise_float_parser"),
            *("parser_config_file", "save_binary", "output_result"),
        ),
        _OF_FILES,
    ),
    **dict.fromkeys(
        (
            *("input_model", "output_model", "convert_model", "convert_model_language"),
            "saved_feature_importance_type",
        ),
        _OF_MODELS,
    ),
    **dict.fromkeys(
        ("machines", "machine_list_filename", "local_listen_port", "time_out"), _OF_NETWORKS
    ),
    "num_machines": Rule(harmless=(1,), note="see docs/distributed.md."),
    **dict.fromkeys(
        ("gpu_device_id", "gpu_device_id_list", "gpu_platform_id", "gpu_use_dp", "num_gpu"),
        _OF_DEVICES,
    ),
    "top_k": _OF_DEVICES,
    **dict.fromkeys(
        ("num_grad_quant_bins", "quant_train_renew_leaf", "stochastic_rounding"), _QUANTIZED
    ),
}

OTHER_ALIASES: dict[str, tuple[str, ...]] = {
    "config": ("config_file",),
    "task": ("task_type",),
    "data": ("train", "train_data", "train_data_file", "data_filename"),
    "valid": (
        *("test", "valid_data", "valid_data_file", "test_data", "test_data_file"),
        "valid_filenames",
    ),
    "tree_learner": ("tree", "tree_type", "tree_learner_type"),
    "histogram_pool_size": ("hist_pool_size",),
    "pos_bagging_fraction": ("pos_sub_row", "pos_subsample", "pos_bagging"),
    "neg_bagging_fraction": ("neg_sub_row", "neg_subsample", "neg_bagging"),
    "bagging_seed": ("bagging_fraction_seed",),
    "extra_trees": ("extra_tree",),
    "top_k": ("topk",),
    "monotone_constraints_method": ("monotone_constraining_method", "mc_method"),
    "monotone_penalty": ("monotone_splits_penalty", "ms_penalty", "mc_penalty"),
    "feature_contri": ("feature_contrib", "fc", "fp", "feature_penalty"),
    "forcedsplits_filename": (
        *("fs", "forced_splits_filename", "forced_splits_file", "forced_splits"),
    ),
    "input_model": ("model_input", "model_in"),
    "output_model": ("model_output", "model_out"),
    "snapshot_freq": ("save_period",),
    "data_random_seed": ("data_seed",),
    "is_enable_sparse": ("is_sparse", "enable_sparse", "sparse"),
    "pre_partition": ("is_pre_partition",),
    "two_round": ("two_round_loading", "use_two_round_loading"),
    "header": ("has_header",),
    "label_column": ("label",),
    "weight_column": ("weight",),
    "group_column": ("group", "group_id", "query_column", "query", "query_id"),
    "ignore_column": ("ignore_feature", "blacklist"),
    "save_binary": ("is_save_binary", "is_save_binary_file"),
    "predict_raw_score": ("is_predict_raw_score", "predict_rawscore", "raw_score"),
    "predict_leaf_index": ("is_predict_leaf_index", "leaf_index"),
    "predict_contrib": ("is_predict_contrib", "contrib"),
    "output_result": (
        *("predict_result", "prediction_result", "predict_name", "prediction_name"),
        *("pred_name", "name_pred"),
    ),
    "convert_model": ("convert_model_file",),
    "metric_freq": ("output_freq",),
    "is_provide_training_metric": ("training_metric", "is_training_metric", "train_metric"),
    "eval_at": ("ndcg_eval_at", "ndcg_at", "map_eval_at", "map_at"),
    "num_machines": ("num_machine",),
    "local_listen_port": ("local_port", "port"),
    "machine_list_filename": ("machine_list_file", "machine_list", "mlist"),
    "machines": ("workers", "nodes"),
}
