"""Models of other libraries in and out.

``readers``   LightGBM, XGBoost, CatBoost and scikit-learn to a model of ours
``writers``   a model of ours to LightGBM, XGBoost, ONNX, treelite, Python and JSON
``settings``  parameters by the names of other libraries

What both directions share stands here: trees (:mod:`hedgerow.convert.trees`), sets of
categories (:mod:`hedgerow.convert.sets`), cuts (:mod:`hedgerow.convert.thresholds`).
"""
