"""Losses of times to an event."""
