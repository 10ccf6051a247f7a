"""Import and export of models of other libraries.

``readers``   LightGBM, XGBoost and CatBoost to a Hedgerow model
``writers``   a Hedgerow model to LightGBM, XGBoost, ONNX, Python and JSON
``settings``  parameters with the names of other libraries

This folder has the parts that both directions share: trees (:mod:`hedgerow.convert.trees`), sets
of categories (:mod:`hedgerow.convert.categories`), cuts (:mod:`hedgerow.convert.thresholds`).
"""
