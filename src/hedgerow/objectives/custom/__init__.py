"""Losses written by the user."""
