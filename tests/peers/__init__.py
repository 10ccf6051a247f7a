"""The test suites of other libraries, run against Hedgerow.

A test of scikit-learn, LightGBM or XGBoost imports its library and checks what it does.
Here the names that it imports stand for Hedgerow: thin adapters say the parameters, methods
and attributes of the other library in ours.  No test is copied: whoever runs a suite names the
folder where its tests lie, in a checkout or an installed package::

    python -m tests.peers.run --suite sklearn-hgb

What does not pass is listed in ``explained/``, each with its reason; a failure that is not
listed fails the run.
"""
