"""Evaluation metrics by name."""
