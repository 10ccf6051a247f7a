"""Checkpoints, continued fits, and refitted leaf values."""
