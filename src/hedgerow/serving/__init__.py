"""A model behind HTTP: ``hedgerow serve``, and what other servers need to load one.

::

    server      socket, signals, uvicorn            needs hedgerow[serve]
      app       routes, token, limits, metrics      needs hedgerow[serve]
        records, tensors     a body -> a body: the JSON route, Open Inference Protocol v2
        slot                 the model that is served now, and its successor
    mlflow_model             a flavour for MLflow   needs mlflow
"""
