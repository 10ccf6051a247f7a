"""The test suites of scikit-learn's trees and boosting, run against Hedgerow.

The names that the tests import stand for Hedgerow: thin adapters say the parameters, methods
and attributes of scikit-learn in ours.  No test is copied: a suite is that of the
installed package, or of a checkout::

    python -m tests.peers.run --suite sklearn-hgb

What does not pass is listed in ``explained/``, each with its reason; a failure that is not
listed fails the run.
"""
