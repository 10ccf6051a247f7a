"""Limits of the user: constraints, forced splits and pruning."""
