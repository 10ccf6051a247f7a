"""Shapley values of the columns of rows."""
