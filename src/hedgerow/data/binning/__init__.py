"""Cuts between the bins of columns, bundles, and the binned matrix."""
