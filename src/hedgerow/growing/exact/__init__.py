"""Splits at every value instead of histograms, in memory and from files."""
