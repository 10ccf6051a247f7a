"""A model over HTTP: ``hedgerow serve``.

::

    app         socket, routes, limits, metrics     needs hedgerow[serve]
        records, tensors     bodies to answers: the JSON route, Open Inference Protocol v2
        requests             JSON, work, errors of clients
        slot                 the model in service, and its successor
"""
