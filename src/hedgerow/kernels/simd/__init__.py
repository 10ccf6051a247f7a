"""Vectors of the processor, and the logic of many rows as bits."""
