"""Partial dependence of all columns in one pass over the trees."""
