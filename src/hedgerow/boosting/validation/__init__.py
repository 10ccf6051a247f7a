"""Held-out rows, folds, and when a fit stops."""
