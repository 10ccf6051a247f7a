"""Histograms of nodes, and the division of the rows of a node."""
