"""Compiled stages of a pass over chunks, and the team of threads that runs them."""
