"""Conformal prediction for any estimator."""
