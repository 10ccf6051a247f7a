"""Rows and columns that a tree is grown on."""
