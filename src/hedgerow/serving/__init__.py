"""A model over HTTP: ``hedgerow serve``, and loaders for other servers.

::

    server      socket, signals, uvicorn            needs hedgerow[serve]
      app       routes, token, limits, metrics      needs hedgerow[serve]
        records, tensors     bodies to answers: the JSON route, Open Inference Protocol v2
        requests             JSON, work, errors of clients
        slot                 the model in service, and its successor
        openapi              the description of the routes
    mlflow_model             a flavour for MLflow   needs mlflow
"""
