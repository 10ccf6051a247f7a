"""Limits of the user: constraints and pruning."""
