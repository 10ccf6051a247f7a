"""Automatic parameters: values that depend on the size and the kind of the data."""
