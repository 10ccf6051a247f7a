"""A model over HTTP: ``hedgerow serve``, and loaders for other servers.

::

    app         socket, routes, limits, metrics     needs hedgerow[serve]
        records, tensors     bodies to answers: the JSON route, Open Inference Protocol v2
        requests             JSON, work, errors of clients
        slot                 the model in service, and its successor
        openapi              the description of the routes
    mlflow_model             a flavour for MLflow   needs mlflow
"""
