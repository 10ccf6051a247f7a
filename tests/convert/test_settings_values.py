"""Values of parameters of LightGBM, XGBoost and CatBoost: text, options of losses and metrics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hedgerow import (
    ParameterError,
    from_catboost_params,
    from_lightgbm_params,
    from_xgboost_params,
)
from hedgerow.convert.settings.catboost import CATBOOST
from hedgerow.convert.settings.lightgbm import LIGHTGBM
from hedgerow.convert.settings.xgboost import XGBOOST

DOCS = Path(__file__).resolve().parents[2] / "docs"


def _named(value: object) -> str:
    """Return the text of an argument, the same in every process."""
    return str(getattr(value, "__name__", value))


# -- text ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "given", "ours"),
    [
        (from_lightgbm_params, {"linear_tree": "false"}, {"linear_leaves": False}),
        (from_lightgbm_params, {"extra_trees": "-"}, {"extra_trees": False}),
        (from_lightgbm_params, {"extra_trees": "+"}, {"extra_trees": True}),
        (from_lightgbm_params, {"zero_as_missing": "TRUE"}, {"zero_as_missing": True}),
        (from_lightgbm_params, {"enable_bundle": "false"}, {"bundle_features": False}),
        (from_lightgbm_params, {"num_leaves": "31"}, {"max_leaves": 31}),
        (from_lightgbm_params, {"eta": "0.1"}, {"learning_rate": 0.1}),
        (from_lightgbm_params, {"boost_from_average": "true", "sigmoid": "1"}, {}),
        (from_lightgbm_params, {"is_unbalance": "-", "reg_sqrt": "false"}, {}),
        (from_lightgbm_params, {"categorical_feature": "0,2"}, {"categorical_features": [0, 2]}),
        (
            from_lightgbm_params,
            {"categorical_feature": "name:a,b"},
            {"categorical_features": ["a", "b"]},
        ),
        (
            from_xgboost_params,
            {"max_depth": "3", "eta": "0.5"},
            {"max_depth": 3, "learning_rate": 0.5},
        ),
        (from_xgboost_params, {"scale_pos_weight": "1", "one_drop": "false"}, {}),
        (from_xgboost_params, {"feature_weights": "0.5,1"}, {"feature_weights": [0.5, 1.0]}),
        (from_xgboost_params, {"missing": "nan"}, {}),
        (from_xgboost_params, {"missing": 0}, {"zero_as_missing": True}),
        (
            from_xgboost_params,
            {"objective": "reg:quantileerror", "quantile_alpha": "[0.1,0.9]"},
            {"objective": "quantile", "quantile": [0.1, 0.9]},
        ),
        (from_catboost_params, {"depth": "4", "langevin": "false"}, {"max_depth": 4}),
        (from_catboost_params, {"class_weights": [1, 5]}, {"class_weight": {0: 1, 1: 5}}),
        (from_catboost_params, {"class_weights": {"a": 5}}, {"class_weight": {"a": 5}}),
        (from_lightgbm_params, {"class_weight": "balanced"}, {"class_weight": "balanced"}),
        (from_lightgbm_params, {"feature_contri": np.array([]), "alpha": "0.5"}, {}),
        (
            from_catboost_params,
            {"monotone_constraints": "(1,0,0,-1)"},
            {"monotone_constraints": [1, 0, 0, -1]},
        ),
        (
            from_catboost_params,
            {"monotone_constraints": "0:1,age:-1"},
            {"monotone_constraints": {0: 1, "age": -1}},
        ),
        (
            from_lightgbm_params,
            {"objective": "binary", "min_child_samples": 5, "feature_fraction": 0.5, "seed": 1},
            {
                "objective": "logistic",
                "min_samples_leaf": 5,
                "colsample_bytree": 0.5,
                "random_state": 1,
            },
        ),
        (
            from_lightgbm_params,
            {"early_stopping_round": 3, "max_depth": -1, "metric": "auc,binary_logloss"},
            {
                "early_stopping": True,
                "patience": 3,
                "max_depth": None,
                "eval_metric": ["auc", "logloss"],
            },
        ),
        (from_lightgbm_params, {"ms_penalty": 2.0}, {"monotone_penalty": 2.0}),
        (
            from_lightgbm_params,
            {"objective": "fair", "fair_c": 2.0},
            {"objective": "fair", "delta": 2.0},
        ),
        (from_lightgbm_params, {"path_smooth": 1.0}, {"path_smooth": 1.0}),
        (from_lightgbm_params, {"fs": "cuts.json"}, {"forced_splits": "cuts.json"}),
        (
            from_xgboost_params,
            {"objective": "reg:tweedie", "tweedie_variance_power": 1.3, "lambda": 2.0},
            {"objective": "tweedie", "tweedie_power": 1.3, "reg_lambda": 2.0},
        ),
        (
            from_catboost_params,
            {"iterations": 3, "l2_leaf_reg": 2, "random_seed": 0, "logging_level": "Silent"},
            {"n_estimators": 3, "reg_lambda": 2, "random_state": 0},
        ),
    ],
    ids=_named,
)
def test_text_has_the_meaning_that_it_has_in_the_library(function, given, ours) -> None:
    assert dict(function(given, defaults=False).params) == ours


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (from_lightgbm_params, {"linear_tree": "yes"}),
        (from_lightgbm_params, {"extra_trees": 2}),
        (from_lightgbm_params, {"num_leaves": "many"}),
        (from_lightgbm_params, {"min_data_in_leaf": "2.5"}),
        (from_lightgbm_params, {"boost_from_average": "false"}),
        (from_lightgbm_params, {"label_gain": "0,one"}),
        (from_lightgbm_params, {"categorical_feature": "a,b"}),
        (from_lightgbm_params, {"max_bin": [3]}),
        (from_lightgbm_params, {"feature_contri": np.ones(2)}),
        (from_lightgbm_params, {"tree_learner": "voting"}),
        (from_xgboost_params, {"lambdarank_normalization": "yes"}),
        (from_xgboost_params, {"gamma": "small"}),
        (from_xgboost_params, {"gamma": [1]}),
        (from_xgboost_params, {"missing": -999}),
        (from_xgboost_params, {"multi_strategy": "some"}),
        (from_xgboost_params, {"monotone_constraints": "0:up"}),
        (from_catboost_params, {"early_stopping_rounds": "soon"}),
        (from_catboost_params, {"bootstrap_type": "Bayesian"}),
        (from_catboost_params, {"sampling_unit": "Group"}),
        (from_catboost_params, {"sampling_frequency": "PerTreeLevel"}),
        (from_catboost_params, {"has_time": True}),
        (from_catboost_params, {"approx_on_full_history": True}),
        (from_catboost_params, {"fold_len_multiplier": 3.0}),
        (from_catboost_params, {"fold_permutation_block": 10}),
        (from_catboost_params, {"penalties_coefficient": 3.0}),
        (from_catboost_params, {"per_float_feature_quantization": "0:border_count=2"}),
    ],
    ids=_named,
)
def test_values_without_a_counterpart_are_refused_by_name(function, given) -> None:
    (name,) = given
    with pytest.raises(ParameterError, match=name):
        function(given)


# -- options of losses and metrics -----------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "ours"),
    [
        ("MultiQuantile:alpha=0.1,0.5,0.9", {"objective": "quantile", "quantile": [0.1, 0.5, 0.9]}),
        ("Quantile:alpha=0.9;delta=1e-6", {"objective": "quantile", "quantile": 0.9}),
        (
            "Focal:focal_alpha=0.25;focal_gamma=3",
            {"objective": "focal", "focal_alpha": 0.25, "focal_gamma": 3},
        ),
        ("Logloss:border=0.5", {"objective": "logistic"}),
        ("RMSE:use_weights=true;hints=skip_train~true", {"objective": "squared_error"}),
        ("YetiRank:mode=MAP;top=5", {"objective": "rank_map", "truncation_level": 5}),
        ("YetiRank:permutations=20", {"objective": "lambdarank"}),
        (
            "LambdaMart:metric=NDCG;sigma=2;norm=false",
            {"objective": "lambdarank", "sigmoid": 2, "normalize_pairs": False},
        ),
    ],
)
def test_options_of_catboost_losses(loss, ours) -> None:
    assert dict(from_catboost_params({"loss_function": loss}, defaults=False).params) == ours


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("loss_function", "Quantile:alpha=0.9;delta=0.1", "delta"),
        ("loss_function", "Logloss:border=0.3", "border"),
        ("loss_function", "RMSE:use_weights=false", "use_weights"),
        ("loss_function", "YetiRank:mode=ERR", "mode"),
        ("loss_function", "Quantile:0.9", "option=value"),
        ("loss_function", "Huber:delta=big", "number"),
        ("eval_metric", "AUC:type=Ranking", "Ranking"),
        ("eval_metric", "RMSE:use_weights=false", "weights"),
        ("eval_metric", "F1:beta=2", "beta"),
        ("eval_metric", "PrecisionAt", "top"),
    ],
)
def test_other_options_of_catboost_are_refused(name, text, words) -> None:
    with pytest.raises(ParameterError, match=rf"{name}[\s\S]*{words}"):
        from_catboost_params({name: text})


@pytest.mark.parametrize(
    ("function", "given", "ours"),
    [
        (from_catboost_params, {"eval_metric": "NDCG:top=5;type=Exp"}, "ndcg@5"),
        (from_catboost_params, {"eval_metric": "Quantile:alpha=0.9"}, "pinball@0.9"),
        (from_catboost_params, {"eval_metric": "PrecisionAt:top=3"}, "precision@3"),
        (from_catboost_params, {"eval_metric": "Precision"}, "precision"),
        (from_catboost_params, {"eval_metric": "MAP:top=3"}, "map@3-"),
        (from_catboost_params, {"eval_metric": "MAP"}, "map-"),
        (from_catboost_params, {"eval_metric": "AUC:type=Mu;hints=skip_train~false"}, "auc_mu"),
        (from_xgboost_params, {"eval_metric": "error@0.7"}, "error_at@0.7"),
        (from_xgboost_params, {"eval_metric": "ndcg@5-"}, "ndcg@5-"),
        (from_xgboost_params, {"eval_metric": "tweedie-nloglik@1.4"}, "tweedie_nloglik@1.4"),
        (from_xgboost_params, {"eval_metric": ["mae", "rmse"]}, ["rmse", "mae"]),
        (from_lightgbm_params, {"metric": "ndcg@3"}, "ndcg@3"),
        (from_lightgbm_params, {"metric": "ndcg", "eval_at": [3]}, "ndcg@3"),
        (from_lightgbm_params, {"metric": "map"}, [f"map@{k}" for k in range(1, 6)]),
        (from_lightgbm_params, {"metric": "quantile", "alpha": 0.7}, "pinball@0.7"),
        (from_lightgbm_params, {"metric": "quantile", "objective": "quantile"}, "pinball"),
        (from_lightgbm_params, {"metric": "tweedie"}, "tweedie_nloglik"),
    ],
    ids=_named,
)
def test_options_of_metrics(function, given, ours) -> None:
    assert function(given).params["eval_metric"] == ours


def test_metrics_with_options_that_do_not_exist_are_refused() -> None:
    for function, given in (
        (from_xgboost_params, {"eval_metric": "auc@3"}),
        (from_lightgbm_params, {"metric": "auc@3"}),
    ):
        with pytest.raises(ParameterError, match="auc@3"):
            function(given)


@pytest.mark.parametrize(
    ("function", "given", "words"),
    [
        (from_catboost_params, {"loss_function": "QueryRMSE"}, "no squared error within a query"),
        (from_catboost_params, {"loss_function": "QueryCrossEntropy"}, "no cross-entropy"),
        (from_catboost_params, {"loss_function": "YetiRank"}, "LambdaRank"),
        (from_catboost_params, {"loss_function": "PairLogit"}, "pairs of all rows"),
        (from_catboost_params, {"loss_function": "Logloss"}, "best constant"),
        (from_catboost_params, {"loss_function": "MAPE"}, "max(1, |y|)"),
        (from_catboost_params, {"loss_function": "MultiClass"}, "Bayesian"),
        (from_catboost_params, {"eval_metric": "NDCG"}, "gains"),
        (from_catboost_params, {"eval_metric": "RecallAt:top=3"}, "without relevant rows is 1"),
        (from_catboost_params, {"eval_metric": "ERR"}, "are the labels"),
        (from_catboost_params, {"score_function": "L2"}, "Newton"),
        (from_catboost_params, {"model_size_reg": 5}, "no penalty"),
        (from_catboost_params, {"leaf_estimation_backtracking": "No"}, "one Newton step"),
        (from_catboost_params, {"border_count": 500}, "254 borders"),
        (from_catboost_params, {"min_data_in_leaf": 5}, "no effect on symmetric trees"),
        (from_xgboost_params, {"seed_per_iteration": True}, "random numbers differ"),
        (from_xgboost_params, {"max_bin": 1000}, "255 bins"),
        (from_xgboost_params, {"max_bin": 64, "tree_method": "approx"}, "sketch_eps"),
        (from_xgboost_params, {"max_cat_threshold": 300}, "at most 254"),
        (from_xgboost_params, {"max_leaves": 9}, "last level"),
        (from_xgboost_params, {"interaction_constraints": [[0, 1]]}, "in no list"),
        (from_lightgbm_params, {"interaction_constraints": [[0, 1]]}, "in no list"),
        (from_lightgbm_params, {"bagging_fraction": 0.5}, "without bagging_freq"),
        (from_lightgbm_params, {"max_bin": 1000}, "255 bins"),
        (
            from_lightgbm_params,
            {"metric": "l1,l2", "early_stopping_round": 5},
            "any metric",
        ),
    ],
    ids=_named,
)
def test_differences_are_reported(function, given, words) -> None:
    assert any(words in line for line in function(given).differences)


@pytest.mark.skipif(not DOCS.exists(), reason="runs in a checkout only")
@pytest.mark.parametrize("library", [LIGHTGBM, XGBOOST, CATBOOST], ids=lambda each: each.name)
def test_the_page_has_every_parameter_with_a_counterpart_and_its_remark(library) -> None:
    lines = (DOCS / f"from-{library.name.lower()}.md").read_text("utf-8").splitlines()
    table = [line for line in lines if line.startswith("| `")]
    for name, rule in library.rules.items():
        rows = [line for line in table if f"`{name}`" in line and rule.note in line]
        has_counterpart = rule.ours or rule.convert
        assert rows or not has_counterpart, (name, rule.note)


@pytest.mark.parametrize(
    ("function", "library"),
    [
        (from_lightgbm_params, LIGHTGBM),
        (from_xgboost_params, XGBOOST),
        (from_catboost_params, CATBOOST),
    ],
    ids=["LightGBM", "XGBoost", "CatBoost"],
)
def test_a_parameter_without_a_counterpart_says_what_to_use(function, library) -> None:
    without = {
        name: rule.note for name, rule in library.rules.items() if not (rule.ours or rule.convert)
    }
    assert len(without) > 20
    for name, note in without.items():
        try:
            said = function({name: 12_345}, defaults=False).differences
        except ParameterError as error:
            said = (str(error),)
        assert any(name in line and note in line for line in said), (name, note, said)
