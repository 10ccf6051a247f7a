"""Prediction side: the forest, its schema, and the walk from rows to raw scores."""
