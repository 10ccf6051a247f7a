"""Inspection of models and fits: split tables, memory, distributions, single rows."""
