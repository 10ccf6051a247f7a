"""Validation rows, folds, early stopping and the time budget."""
