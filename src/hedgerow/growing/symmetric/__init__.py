"""Symmetric trees: one cut for a whole level."""
