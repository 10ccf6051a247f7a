"""Losses that learn a distribution for each row."""
