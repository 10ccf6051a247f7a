"""Readers of models of other libraries, one file for each format."""
