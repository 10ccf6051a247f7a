"""Checkpoints, fits that go on, and leaf values for new rows."""
