"""Inspection of models and fits: scores, split tables, memory, distributions, single rows."""
